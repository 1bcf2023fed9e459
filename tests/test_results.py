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


def name_of(path):
    return str(path.relative_to(RESULTS))


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def unknown(line, names):
    """What a line does not say of how it was made, unless it says that this is not known."""
    missing = [name for name in names if name not in line]
    return missing or [name for name in names if line[name] is None and not line.get("provenance")]


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.jsonl")), ids=name_of)
def test_every_line_says_how_it_was_made(path):
    for number, line in enumerate(lines_of(path), 1):
        assert unknown(line, MADE) == [], number
        if name_of(path) not in WITHOUT_A_METHOD:
            assert "config" in line or unknown(line, ("settings",)) == [], number


@pytest.mark.parametrize("path", sorted((RESULTS / "speed").glob("*.json")), ids=name_of)
def test_every_table_of_speed_says_how_it_was_made(path):
    assert unknown(json.loads(path.read_text()), MADE) == []


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("cells/*.json")), ids=name_of)
def test_every_cell_says_how_it_was_made(path):
    """`occamax reproduce` makes them; `config` is of its options."""
    cell = json.loads(path.read_text())
    assert unknown(cell, ("commit", "config")) == []
    for summary in cell["summaries"]:
        assert unknown(summary, ("commit", "device", "versions")) == []


def test_a_line_that_says_too_little_is_found():
    assert unknown({"commit": "1", "device": "cpu"}, MADE) == ["versions", "command"]
    assert unknown(dict.fromkeys(MADE), MADE) == list(MADE)
    assert unknown({**dict.fromkeys(MADE), "provenance": "not kept"}, MADE) == []


def test_the_figures_of_the_readme_are_of_what_bmr_is_for_such_a_network():
    """Its ΔF is named differently: an evidence of 0 is what none is."""
    for line in lines_of(RESULTS / "study" / "resnet20-on-the-test-set.jsonl"):
        asked = BMR().pruned_to(line["level"], line["epochs"]) if line["level"] else BMR(reduction=None)
        found = asked.suited_to(Layout((), is_normalised=True))
        made = replace(method_from(line["settings"]), name="bmr")
        if made.reduction is not None:
            made = replace(made, reduction=replace(made.reduction, evidence=Constant(0.0)))
        assert made == found
