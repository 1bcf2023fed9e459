"""The tables of the pages say what their files say."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import pages
import reductions


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: str(page.relative_to(pages.ROOT)))
def test_every_table_is_that_of_its_file(page):
    text, different = pages.renewed(page)
    assert different == []
    assert text == page.read_text()


HISTORY = {pages.ROOT / "docs" / "lab" / "history.md", pages.ROOT / "results" / "history" / "README.md"}


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: str(page.relative_to(pages.ROOT)))
def test_only_the_pages_of_history_rest_on_history(page):
    """By the comments before tables, whatever made them."""
    sources = [table.source for table in pages.tables(page, page.read_text().splitlines())]
    assert page in HISTORY or not any("results/history" in source for source in sources)


# tables without the bound, and why; all others show methods
WITHOUT_THE_BOUND = {
    "of trained points, which have none": ("one-shot", "torch-posteriors"),
    "of files, which are points; what a run of theirs had stands beside its figures where it was kept": (
        "exports-beside",
        "means",
    ),
    "of nothing that was trained to its end: nats of single reductions, times, sizes": (
        "reductions",
        "check-cost",
        "unit-groups",
        "recompute",
        "loading",
        "speed-gpu",
        "growth",
        "large-vectors",
        "scaling",
        "scaling-outlook",
        "floors",
        "groups",
        "hosts",
        "adapters",
    ),
}


@pytest.mark.parametrize(
    "page", sorted(set(pages.pages()) - HISTORY), ids=lambda page: str(page.relative_to(pages.ROOT))
)
def test_tables_of_methods_show_the_bound(page):
    """As they are made, whatever stands on the page; the lines of history have none."""
    excepted = [kind for kinds in WITHOUT_THE_BOUND.values() for kind in kinds]
    for table in pages.tables(page, page.read_text().splitlines()):
        if table.kind == "table" and table.source.split()[0] not in excepted:
            assert "−ELBO" in table.made().splitlines()[0], table.source


def test_a_point_has_no_bound(tmp_path):
    """Whatever its penalised loss is; a posterior's bound has its spread over seeds, those that were run apart too."""
    rest = {"data": "d", "network": "n", "method": "bmr", "changes": [], "augment": [], "precision": "float32"}
    rest |= {
        "level": None,
        "epochs": 1,
        "steps": 2,
        "test": False,
        "accuracy": 0.5,
        "nll": 1.0,
        "ece": 0.1,
        "sparsity": 0.0,
    }
    lines = [
        rest | {"seeds": 1, "settings": {"posterior": {"kind": kind}}, "neg_elbo": nats, "each": {"neg_elbo": [nats]}}
        for kind, nats in (("PointMass", 1_752_054.0), ("MeanField", 1_000.0), ("MeanField", 2_000.0))
    ]
    lines[0]["method"] = "plain"
    for line in lines:
        line["each"] |= {name: [line[name]] for name in ("accuracy", "nll", "ece", "sparsity")}
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    head, _, plain, ours = pages.KINDS["levels"](tmp_path / "lines.jsonl").splitlines()
    assert head.startswith("| method (d, n, 1 × 2, validation, level evidence) |")
    assert [row.split(" | ")[-1] for row in (plain, ours)] == ["– |", "1,500 ± 707 |"]


def test_what_two_ways_came_to_alike_counts_once():
    """A price that takes no unit leaves a run as it is; one that acts does not, and the check is a way of its own."""

    def line(variant, removed, is_checked=True):
        one = {"seed": 0, "epoch": 2, "proposed": 9, "removed": removed, "undone": False}
        settings = {"reduction": {"measuring": {"binding": is_checked}}}
        where = {"network": "n", "data": "d", "epochs": 1, "steps": 2, "test": False}
        return {**where, "variant": variant, "reductions": [one], "settings": settings}

    found = reductions.distinct([line("a", 5), line("b", 5), line("c", 4), line("d", 5, is_checked=False)])
    assert [names for names, _ in found] == [["a", "b"], ["c"], ["d"]]


def test_the_pages_of_the_reproduction_are_those_of_the_cells():
    for page, text in pages.reproduced().items():
        assert page.read_text() == text, page


def test_a_changed_figure_and_a_missing_comment_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setitem(pages.KINDS, "two", lambda path: f"| a |\n| --- |\n| {path.read_text()} |")
    (tmp_path / "file").write_text("1.5")
    page = tmp_path / "page.md"
    page.write_text("<!-- table: two file -->\n\n| a |\n| --- |\n| 1.4 |\n\n| b |\n\n<!-- words -->\n| c |\n")
    text, different = pages.renewed(page)
    assert different == [
        "page.md:3: is not what two file gives",
        "page.md:7: has no comment that says where it is from",
    ]
    assert "| 1.5 |" in text
    page.write_text(text)
    assert pages.renewed(page) == (text, different[1:])
    page.write_text("<!-- table: two file -->\n\nWords.\n")
    assert pages.renewed(page)[1] == ["page.md:1: has no table after it"]
