"""What a user sees of a run, and where else epochs go."""

import io
import json
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from occamax.errors import ArgumentError
from occamax.experiment.callbacks import JsonLines, TensorBoard, WandB, several
from occamax.experiment.loop import Epoch
from occamax.experiment.progress import View, bar, bound_as_text, print_summary, sparkline

MEANS = {"accuracy": 0.5, "nll": 1.25, "neg_elbo": 1234.0, "kl_weight": 0.5, "sparsity": 0.25}


def shown(view, height=40):
    console = Console(file=io.StringIO(), width=100, height=height, color_system=None)
    console.print(view)
    return console.file.getvalue()


def test_the_live_view_shows_where_a_run_is():
    view = View("data · net · BMR · seed 0", epochs=4, done=0)
    assert "epoch 0/4 · compiling …" in shown(view)
    bound = {"−ELBO": "1,234", "KL weight": "0.5"}
    view.take(1, 1234.5, 75.0, MEANS, {"first": 0.0, "second": 0.5}, "", bound)
    view.take(2, 1234.5, 75.0, {**MEANS, "accuracy": 0.75}, {"first": 0.25, "second": 0.5}, "it was undone", bound)
    text = shown(view)
    for words in (
        "data · net · BMR", "epoch 2/4 · 1,234 steps/s · left 1:15", "accuracy   0.750  ▁█",
        "−ELBO      1,234", "KL weight    0.5", "pruned of each layer", "first", "25%", "50%", "it was undone",
    ):  # fmt: skip
        assert words in text


def test_a_long_network_is_cut_short():
    view = View("t", 1, 0)
    view.take(1, 1.0, 0.0, MEANS, {f"layer{i}": 0.5 for i in range(50)}, "", {})
    assert "… and 44 more layers" in shown(view, height=20)


def test_bars_and_sparklines():
    assert bar(0.5, 4) == "██··"
    assert bar(0.0, 2) == "··"
    assert bar(1.0, 2) == "██"
    assert bar(0.3125, 2) == "▋·"
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert sparkline([float("nan")]) == ""
    assert bound_as_text({"neg_elbo": 5.0, "kl_weight": 1.0}) == {"−ELBO": "5"}
    tempered = {"neg_elbo": 2178934.2, "kl_weight": 0.0036749}
    assert bound_as_text(tempered) == {"−ELBO": "2,178,934", "KL weight": "0.0037"}


@pytest.mark.parametrize(
    ("kl_weight", "is_point", "said"), [(0.6, False, True), (1.0, False, False), (0.0, True, False), (0.5, True, False)]
)
def test_the_summary_says_that_a_posterior_is_tempered(kl_weight, is_point, said, tmp_path, capsys):
    sizes = {"layers": [{"name": "first", "weights": 4, "remaining": 1}], "weights": 4, "remaining": 1}
    sizes["sparsity_of_all"] = 0.75
    print_summary(tmp_path, {"sizes": sizes, "nll": 1.25, "kl_weight": kl_weight}, is_point)
    printed = capsys.readouterr().out
    assert "nll 1.2500" in printed
    assert (f"a tempered posterior: KL weight {kl_weight}" in printed) == said
    assert ("tempered" in printed) == said


def epoch(*lines):
    """One without a state."""
    made = object.__new__(Epoch)
    for name, value in {"number": 3, "metrics": list(lines)}.items():
        object.__setattr__(made, name, value)
    return made


def test_json_lines():
    stream = io.StringIO()
    JsonLines(stream)(epoch({"epoch": 3, "nll": 0.5}))
    JsonLines(stream)(epoch({"epoch": 3}, {"epoch": 3}))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines == [{"epoch": 3, "nll": 0.5}, {"run": 0, "epoch": 3}, {"run": 1, "epoch": 3}]


def test_weights_and_biases_through_a_run_of_ones_own():
    logged = []
    run = SimpleNamespace(log=lambda values, step: logged.append((step, values)))
    several(WandB(run), WandB(run))(epoch({"epoch": 3, "nll": 0.5, "undone": False}))
    assert logged == [(3, {"nll": 0.5, "undone": 0.0})] * 2
    WandB(run)(epoch({"nll": 1.0}, {"nll": 2.0}))
    assert logged[-1] == (3, {"run0/nll": 1.0, "run1/nll": 2.0})


def test_tensorboard_gets_every_number(monkeypatch):
    written = []

    class Writer:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, *values):
            written.append((self.folder, *values))

        def flush(self):
            written.append("flushed")

    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=Writer))
    TensorBoard("board")(epoch({"epoch": 3, "nll": 0.5, "word": "no"}))
    assert written == [("board", "nll", 0.5, 3), "flushed"]


@pytest.mark.parametrize(("module", "make"), [("tensorboardX", lambda: TensorBoard("x")), ("wandb", WandB)])
def test_what_is_not_installed_is_named(module, make, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ArgumentError, match=rf"pip install 'occamax\[{'tensorboard' if module[0] == 't' else module}"):
        make()
