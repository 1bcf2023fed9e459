"""The tables of the pages, made anew from the files that their figures are in.

    python benchmarks/pages.py             # renews every table that has a file
    python benchmarks/pages.py --check     # names the tables that differ from their files; fails if there are any

A comment before each table says where it is from: `<!-- table: KIND FILE... -->`, with a function for each kind in
`page_tables.py`; `<!-- printed by: COMMAND -->` or `<!-- by hand: SOURCE -->` where no file holds the figures in that
form, which the command lists; `<!-- words -->` where there are no figures. `results/README.md` and `results/table.md`
are made as a whole, as `occamax reproduce` makes them; `docs/lab/reproduction.md` is the first on the site.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from page_tables import KINDS

from occamax.reproduction.cells import read_cells
from occamax.reproduction.claims import measured_timings
from occamax.reproduction.comparison import compare
from occamax.reproduction.page import page as reproduction_page
from occamax.reproduction.page import table as reproduction_table

ROOT = Path(__file__).parents[1]
REPRODUCTION = ROOT / "docs" / "lab" / "reproduction.md"  # `results/README.md` on the site
MARK = re.compile(r"<!-- (table|printed by|by hand|words)(?:: (.*))? -->")


def pages() -> list[Path]:
    docs = sorted(set((ROOT / "docs").rglob("*.md")) - {REPRODUCTION})
    return [ROOT / "README.md", *docs, ROOT / "results" / "history" / "README.md"]


@dataclass(frozen=True)
class Table:
    """Where a table stands in the lines of a page, and what the comment before it says."""

    page: Path
    start: int
    stop: int
    kind: str  # table, printed by, by hand, words; empty where no comment is there
    source: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.start + 1}"

    def made(self) -> str:
        """What its files say."""
        kind, *paths = self.source.split()
        return KINDS[kind](*(ROOT / path for path in paths))


def tables(page: Path, lines: list[str]) -> Iterator[Table]:
    """Runs of lines that begin with a bar."""
    start = None
    for number, line in enumerate([*lines, ""]):
        if line.startswith("|") and start is None:
            start = number
        elif not line.startswith("|") and start is not None:
            before = next((text for text in reversed(lines[:start]) if text), "")
            found = MARK.fullmatch(before)
            yield Table(page, start, number, *((found[1], found[2] or "") if found else ("", "")))
            start = None


def lost(lines: list[str]) -> Iterator[int]:
    """The numbers of comments that name files and have no table after them."""
    for number, line in enumerate(lines, 1):
        found = MARK.fullmatch(line)
        after = next((text for text in lines[number:] if text), "")
        if found and found[1] == "table" and not after.startswith("|"):
            yield number


def renewed(page: Path) -> tuple[str, list[str]]:
    """The page with every table as its files have it, and which tables that changes."""
    lines = page.read_text().splitlines()
    different = [f"{page.relative_to(ROOT)}:{number}: has no table after it" for number in lost(lines)]
    for table in reversed(list(tables(page, lines))):
        if table.kind == "table":
            made = table.made().splitlines()
            if made != lines[table.start : table.stop]:
                different.insert(0, f"{table.where}: is not what {table.source} gives")
                lines[table.start : table.stop] = made
        elif not table.kind:
            different.insert(0, f"{table.where}: has no comment that says where it is from")
    return "\n".join(lines) + "\n", different


def reproduced() -> dict[Path, str]:
    """The pages that `occamax reproduce` writes, from the cells and the notes."""
    out = ROOT / "results"
    results = read_cells(out)
    names = [path.stem for path in (out / "figures").glob("*.png")]
    text = (out / "README.md").read_text()
    figures = sorted(names, key=lambda name: text.find(f"figures/{name}.png"))
    notes = (out / "NOTES.md").read_text().strip() + "\n\n"
    page = reproduction_page(results, figures, notes, measured_timings(out / "speed"))
    return {
        out / "README.md": page, out / "table.md": reproduction_table(compare(results)), REPRODUCTION: on_the_site(page)
    }  # fmt: skip


def on_the_site(page: str) -> str:
    """Without the figures, which are not there."""
    title, text = page.partition("## Figures")[0].split("\n", 1)
    text = text.replace("[table.md](table.md)", "`table.md`")
    where = "This is `results/README.md`; files and figures that are named here are in `results/`."
    return f"{title}\n\n{where}\n{text.rstrip()}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail where a table differs")
    options = parser.parse_args()
    problems, texts = [], {}
    for page in pages():
        texts[page], different = renewed(page)
        problems += different
        for table in tables(page, page.read_text().splitlines()):
            if table.kind in ("printed by", "by hand"):
                print(f"{table.where}: {table.kind} {table.source}")
    for page, text in reproduced().items():
        texts[page] = text
        problems += [f"{page.relative_to(ROOT)}: is not what its cells give"] if text != page.read_text() else []
    print("\n".join(problems) or "every table is what its file says")
    if options.check:
        sys.exit(bool(problems))
    for page, text in texts.items():
        page.write_text(text)


if __name__ == "__main__":
    main()
