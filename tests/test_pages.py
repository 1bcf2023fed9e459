"""The tables of the pages say what their files say."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import pages


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


@pytest.mark.parametrize(("kind", "path"), [("methods", ""), ("opponents", "opponents")])
def test_tables_of_methods_show_the_bound(kind, path):
    head = pages.KINDS[kind](pages.ROOT / "results" / path).splitlines()[0]
    assert "−ELBO" in head


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
