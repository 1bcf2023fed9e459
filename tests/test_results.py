"""What is kept under `results/`: where and how each line was made stands in the line itself."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from occamax.inference.schedules import Constant
from occamax.methods import BMR, method_from
from occamax.structure.layout import Layout

RESULTS = Path(__file__).parents[1] / "results"
HISTORY = RESULTS / "history"
MADE = ("commit", "device", "versions", "command")
# nothing is trained, or by the names that are in the line
WITHOUT_A_METHOD = ("mutants.jsonl", "newcomer.jsonl", "history/speed/h200-engine.jsonl")
# what shows figures of a network and no bound, and why; of anything else that was trained a line has `neg_elbo`
WITHOUT_A_BOUND = {
    "exports-full-size.jsonl": "files of one run beside each other: a file holds a point, which has no bound",
    "exports-latency.jsonl": "the same",
    "exports-rounded.jsonl": "the same",
    "means.jsonl": "one run's draws beside its own mean network, a point",
    "one_shot.jsonl": "a trained point, pruned without training",
}
FIGURES = ("accuracy", "each", "draws", "run")  # where a line has those of a network


def name_of(path):
    return str(path.relative_to(RESULTS))


def is_of_history(path):
    return HISTORY in path.parents


def files(pattern, *, of_history):
    return sorted(path for path in RESULTS.rglob(pattern) if is_of_history(path) == of_history)


def lines_of(path):
    text = path.read_text()
    return [json.loads(text)] if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]


def unknown(line, names):
    """What a line does not say of how it was made."""
    return [name for name in names if line.get(name) is None]


def unexplained(line, names):
    """The same of history, which may not know, and must say so."""
    return [name for name in names if name not in line or (line[name] is None and not line.get("provenance"))]


def names_in(line, path):
    has_method = "config" in line or name_of(path) in WITHOUT_A_METHOD
    return MADE if has_method else (*MADE, "settings")


@pytest.mark.parametrize("path", files("*.jsonl", of_history=False), ids=name_of)
def test_every_line_says_how_it_was_made(path):
    for number, line in enumerate(lines_of(path), 1):
        assert unknown(line, names_in(line, path)) == [], number


@pytest.mark.parametrize("path", files("*.jsonl", of_history=False), ids=name_of)
def test_every_line_of_a_trained_method_has_its_bound(path):
    for number, line in enumerate(lines_of(path), 1):
        if any(name in line for name in FIGURES) and name_of(path) not in WITHOUT_A_BOUND:
            assert line.get("neg_elbo") is not None, number


@pytest.mark.parametrize("name", WITHOUT_A_BOUND)
def test_what_is_said_to_have_no_bound_has_none(name):
    assert any("neg_elbo" not in line for line in lines_of(RESULTS / name))


@pytest.mark.parametrize("path", files("speed/*.json", of_history=False), ids=name_of)
def test_every_table_of_speed_says_how_it_was_made(path):
    (table,) = lines_of(path)
    assert unknown(table, MADE) == []


@pytest.mark.parametrize("path", files("*.json*", of_history=True), ids=name_of)
def test_history_says_what_it_does_not_know(path):
    for number, line in enumerate(lines_of(path), 1):
        names = MADE if path.suffix == ".json" else names_in(line, path)
        assert unexplained(line, names) == [], number


def test_every_file_of_history_is_there_for_a_reason_and_has_a_row():
    """Each has a line that does not know where it is from, or one of a trained method without its bound."""
    page = (HISTORY / "README.md").read_text()
    for path in files("*.json*", of_history=True):
        assert f"`{path.relative_to(HISTORY)}`" in page, path.name
        lines = lines_of(path)
        assert any(unknown(line, MADE) or "neg_elbo" not in line for line in lines), path.name


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("cells/*.json")), ids=name_of)
def test_every_cell_says_how_it_was_made(path):
    """`occamax reproduce` makes them; `config` is of its options, `settings` the method as data."""
    cell = json.loads(path.read_text())
    assert unknown(cell, ("commit", "config", "command", "settings")) == []
    assert "kind" in cell["settings"]
    for summary in cell["summaries"]:
        assert unknown(summary, ("commit", "device", "versions")) == []


def test_a_line_that_says_too_little_is_found():
    assert unknown({"commit": "1", "device": "cpu"}, MADE) == ["versions", "command"]
    nothing = dict.fromkeys(MADE)
    assert unknown({**nothing, "provenance": "not kept"}, MADE) == list(MADE)
    assert unexplained(nothing, MADE) == list(MADE)
    assert unexplained({**nothing, "provenance": "not kept"}, MADE) == []
    assert unexplained({"provenance": "not kept"}, ("command",)) == ["command"]


def test_the_figures_of_the_readme_are_of_what_bmr_is_for_such_a_network():
    """Its ΔF is named differently: an evidence of 0 is what none is."""
    for line in lines_of(RESULTS / "study" / "resnet20-on-the-test-set.jsonl"):
        asked = BMR().pruned_to(line["level"], line["epochs"]) if line["level"] else BMR(reduction=None)
        found = asked.begun(is_trained=False).suited_to(Layout((), is_normalised=True))
        made = replace(method_from(line["settings"]), name="bmr")
        if made.reduction is not None:
            made = replace(made, reduction=replace(made.reduction, evidence=Constant(0.0)))
        assert made == found
