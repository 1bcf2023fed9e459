"""What is kept under `results/`: where and how each line was made stands in the line itself."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from occamax.inference.schedules import Constant
from occamax.methods import BMR, method_from
from occamax.structure.layout import Layout

RESULTS = Path(__file__).parents[1] / "results"
HISTORY = RESULTS / "history"
TABLES = ("scaling.json", "speed/*.json")  # one object a file; cells have tests of their own
MADE = ("commit", "device", "versions", "command")
# nothing is trained, or by the names that are in the line
WITHOUT_A_METHOD = ("mutants.jsonl", "groups.jsonl", "newcomer.jsonl", "history/speed/h200-engine.jsonl")
# what shows figures of a network and no bound, and why; of anything else that was trained a line has `neg_elbo` (of a
# point estimate that is a penalised loss, which bounds nothing: tables show a dash)
WITHOUT_A_BOUND = {
    "exports-full-size.jsonl": "files, which are points. Their runs had a bound; the lines took four figures of a run, "
    "its folder was not kept, and no other line under results or in the history of this repository is of the same run",
    "exports-latency.jsonl": "the same",
    "exports-rounded.jsonl": "the same",
    "means.jsonl": "the same, of two of its runs; the third, of the quickstart at 7fc5988, was printed and not kept",
    "one_shot.jsonl": "a trained point, pruned without training",
    "torch_posteriors.jsonl": "the same, trained in PyTorch",
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


@pytest.mark.parametrize("path", [path for name in TABLES for path in sorted(RESULTS.glob(name))], ids=name_of)
def test_every_table_of_times_says_how_it_was_made(path):
    (table,) = lines_of(path)
    assert unknown(table, MADE) == []


def test_every_file_is_held_to_its_fields():
    tables = {path for name in TABLES for path in RESULTS.glob(name)}
    others = [path for path in files("*.json", of_history=False) if path.parent.name != "cells"]
    assert set(others) == tables


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


@cache
def ancestors() -> set[str] | None:
    """Every commit of this history; None where it is not here in full: an archive, a copy, a shallow clone."""
    if not (RESULTS.parent / ".git").exists():
        return None
    git = ["git", "-C", str(RESULTS.parent)]
    try:
        shallow = subprocess.run(
            [*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True, check=True
        )
        found = subprocess.run([*git, "rev-list", "HEAD"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return set(found.stdout.split()) if shallow.stdout.strip() == "false" else None


def commits_in(values: object) -> Iterator[str]:
    """Those that the line itself names, and the runs and seeds in it."""
    if isinstance(values, dict):
        for name, value in values.items():
            yield from [value] if name == "commit" and isinstance(value, str) else commits_in(value)
    elif isinstance(values, list):
        for value in values:
            yield from commits_in(value)


def lost(line: dict, history: set[str]) -> list[str]:
    """The commits that are not in this history without the line saying so, nor those it names in their place."""

    def is_there(commit: str) -> bool:
        return any(known.startswith(commit) for known in history)

    said = line.get("provenance") or ""
    missing = {commit.removesuffix("-dirty") for commit in commits_in(line)}
    missing = {commit[:7] for commit in missing if not is_there(commit)}
    named = set(re.findall(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b", said))
    unsaid = {commit for commit in missing if not re.search(rf"{commit}\b[^;]* not in this history", said)}
    return sorted(unsaid | {commit for commit in named if commit not in missing and not is_there(commit)})


@pytest.mark.parametrize("path", files("*.json*", of_history=False), ids=name_of)
def test_every_commit_is_in_this_history_or_the_line_says_what_is_nearest(path):
    history = ancestors()
    if history is None:
        pytest.skip("the whole history is not here: no git repository, or a shallow clone")
    for number, line in enumerate(lines_of(path), 1):
        assert lost(line, history) == [], number


def test_a_commit_that_is_lost_is_found():
    here, gone, history = "1" * 40, "2" * 40, {"1" * 40}
    assert lost({"commit": f"{here}-dirty", "seeds": [{"commit": here[:10]}]}, history) == []
    assert lost({"commit": here, "run": {"commit": gone}}, history) == ["2222222"]
    assert lost({"commit": gone, "provenance": "2222222 is known"}, history) == ["2222222"]
    assert lost({"commit": gone, "provenance": "2222222 is not in this history; as 1111111"}, history) == []
    assert lost({"commit": gone, "provenance": "2222222 is not in this history; as 3333333"}, history) == ["3333333"]


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
