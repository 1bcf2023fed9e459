"""A CSV file → its cells, as texts, with the line each row stands on."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError
from ..names import choose

DELIMITERS = (",", ";", "\t")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of as many cells as there are columns, stripped of blanks."""

    path: Path
    columns: tuple[str, ...]
    rows: list[list[str]]
    lines: list[int]

    def where(self, row: int) -> str:
        """This row, in words."""
        return f"{self.path}, row {row + 1} (line {self.lines[row]})"

    def cells(self, columns: tuple[str, ...]) -> list[list[str]]:
        """The rows, of these columns only; an unknown column is named with the nearest."""
        numbers = [self.columns.index(choose(f"{self.path}: column", name, self.columns)) for name in columns]
        return [[row[i] for i in numbers] for row in self.rows]


def read_csv(path: Path) -> Table:
    """A CSV file in UTF-8 whose first line names the columns, separated by commas, semicolons or tabs. Blank lines are
    skipped."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: is no text in UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from error
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        found = [([cell.strip() for cell in cells], reader.line_num) for cells in reader if cells]
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: is no CSV ({error}); check its quotation marks") from error
    if len(found) < 2:
        raise DataError(f"{path}: holds {len(found)} lines; it must hold the names of the columns, then rows")
    columns = _columns(path, found[0][0])
    table = Table(path, columns, [cells for cells, _ in found[1:]], [line for _, line in found[1:]])
    for row, cells in enumerate(table.rows):
        if len(cells) != len(columns):
            raise DataError(
                f"{table.where(row)}: holds {len(cells)} cells, but there are {len(columns)} columns; correct it"
            )
    return table


def _delimiter(text: str) -> str:
    """The one that is most often in the first line; the comma if none is."""
    first = text.lstrip("\r\n").split("\n", 1)[0]
    return max(DELIMITERS, key=first.count)


def _columns(path: Path, names: list[str]) -> tuple[str, ...]:
    for i, name in enumerate(names):
        if not name:
            raise DataError(f"{path}: column {i + 1} has no name; name it, or leave it out (pandas: index=False)")
        if name in names[:i]:
            raise DataError(f"{path}: two columns are called {name!r}; rename one")
    if all(_is_number(name) for name in names):
        raise DataError(f"{path}: its first line is {', '.join(names[:5])}; it must name the columns")
    return tuple(names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
