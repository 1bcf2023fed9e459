"""What is kept under `results/`: where and how each line was made stands in the line itself."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from occamax.inference.schedules import Constant
from occamax.methods import BMR, method_from
from occamax.structure.layout import Layout

RESULTS = Path(__file__).parents[1] / "results"
MADE = ("commit", "device", "versions", "command")
# nothing is trained, or by the names that are in the line
WITHOUT_A_METHOD = ("mutants.jsonl", "newcomer.jsonl", "speed/h200-engine.jsonl")
# what was not kept and could not be found out from the history; `provenance` says why
NOT_KNOWN = {
    "exports.jsonl": ("commit", "versions", "command"),
    "lab/natural.jsonl": ("commit",),
    "means.jsonl": ("settings",),
    "speed/cpu-bench.json": ("commit",),
    "speed/cpu-lenet.json": ("command",),
    "speed/cpu-mlp.json": ("command",),
    "speed/h200-engine.jsonl": ("commit", "command"),
    "speed/h200-growth.json": ("command",),
    "speed/h200-mlp-details.json": ("command",),
    "study/annealing-and-estimators-in-short-runs.jsonl": ("commit", "command"),
    "study/estimators-and-natural-gradients.jsonl": ("commit", "versions"),
    "study/evidence-or-spike-and-slab.jsonl": ("commit", "command", "settings"),
    "study/few-images-earlier-recipe.jsonl": ("commit",),
    "study/few-images-tenth-of-the-steps.jsonl": ("versions",),
    "study/few-images.jsonl": ("versions", "command"),
    "study/how-many-nats.jsonl": ("command",),
    "study/kl-weight-by-nats.jsonl": ("command",),
    "study/kl-weight-by-weights.jsonl": ("command",),
    "study/mnist-classics-by-nats.jsonl": ("command",),
    "study/mnist-classics-earlier-recipe.jsonl": ("commit", "command"),
    "study/rate-of-bmr-paper-on-cifar10.jsonl": ("commit", "versions"),
    "study/target-sparsity-prior-width.jsonl": ("versions", "command", "settings"),
    "study/target-sparsity.jsonl": ("command", "settings"),
    "study/temperature-and-guard.jsonl": ("command",),
    "study/what-each-step-brings.jsonl": ("command",),
}


def name_of(path):
    return str(path.relative_to(RESULTS))


def lines_of(path):
    text = path.read_text()
    return [json.loads(text)] if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]


def unknown(line, names, not_known=()):
    """What a line does not say of how it was made; of what is not known it must say so."""
    excused = not_known if line.get("provenance") else ()
    return [name for name in names if name not in line or (line[name] is None and name not in excused)]


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.jsonl")), ids=name_of)
def test_every_line_says_how_it_was_made(path):
    not_known = NOT_KNOWN.get(name_of(path), ())
    for number, line in enumerate(lines_of(path), 1):
        assert unknown(line, MADE, not_known) == [], number
        if name_of(path) not in WITHOUT_A_METHOD:
            assert "config" in line or unknown(line, ("settings",), not_known) == [], number


@pytest.mark.parametrize("path", sorted((RESULTS / "speed").glob("*.json")), ids=name_of)
def test_every_table_of_speed_says_how_it_was_made(path):
    (table,) = lines_of(path)
    assert unknown(table, MADE, NOT_KNOWN.get(name_of(path), ())) == []


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_what_is_called_not_known_is_not_known(name):
    lines = lines_of(RESULTS / name)
    empty = {field for line in lines for field in (*MADE, "settings") if field in line and line[field] is None}
    assert empty == set(NOT_KNOWN[name])


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("cells/*.json")), ids=name_of)
def test_every_cell_says_how_it_was_made(path):
    """`occamax reproduce` makes them; `config` is of its options."""
    cell = json.loads(path.read_text())
    assert unknown(cell, ("commit", "config")) == []
    for summary in cell["summaries"]:
        assert unknown(summary, ("commit", "device", "versions")) == []


def test_a_line_that_says_too_little_is_found():
    assert unknown({"commit": "1", "device": "cpu"}, MADE) == ["versions", "command"]
    nothing = dict.fromkeys(MADE)
    assert unknown(nothing, MADE, MADE) == list(MADE)
    assert unknown({**nothing, "provenance": "not kept"}, MADE) == list(MADE)
    assert unknown({**nothing, "provenance": "not kept"}, MADE, MADE[1:]) == ["commit"]
    assert unknown({"provenance": "not kept"}, ("command",), ("command",)) == ["command"]


def test_the_figures_of_the_readme_are_of_what_bmr_is_for_such_a_network():
    """Its ΔF is named differently: an evidence of 0 is what none is."""
    for line in lines_of(RESULTS / "study" / "resnet20-on-the-test-set.jsonl"):
        asked = BMR().pruned_to(line["level"], line["epochs"]) if line["level"] else BMR(reduction=None)
        found = asked.suited_to(Layout((), is_normalised=True))
        made = replace(method_from(line["settings"]), name="bmr")
        if made.reduction is not None:
            made = replace(made, reduction=replace(made.reduction, evidence=Constant(0.0)))
        assert made == found
