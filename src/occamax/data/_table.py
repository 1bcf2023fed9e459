"""A user's CSV file → a data set, and the encoder that reads another such file for prediction."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ..errors import ArgumentError, DataError
from ..names import choose
from ._arrays import make_splits
from ._csv import Table, read_csv
from ._dataset import Dataset
from ._options import Options
from ._prints import file_print

MISSING = ("", "na", "n/a", "nan", "null", "?")  # in small letters
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
FEW = 20  # different integers in a target column are classes; different texts in any column are categories
Where = Callable[[int], str]  # a row's number from 0 → its place in words


def _row(row: int) -> str:
    return f"row {row + 1}"


@dataclass(frozen=True)
class TableEncoder:
    """Cells → floats: numbers as they are, text one-hot. `categories` are each column's texts, sorted, or None for a
    column of numbers."""

    columns: tuple[str, ...]
    categories: tuple[tuple[str, ...] | None, ...]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Of what `encode` returns: `size`, `colour=red`, …"""
        both = zip(self.columns, self.categories, strict=True)
        return tuple(n for name, texts in both for n in ([name] if texts is None else [f"{name}={t}" for t in texts]))

    def encode(self, rows: Sequence[Sequence[Any]], where: Where = _row) -> Float[np.ndarray, "n features"]:
        """Rows of cells, texts or numbers, in the order of `columns`."""
        for i, cells in enumerate(rows):
            if isinstance(cells, str) or len(cells) != len(self.columns):
                raise DataError(f"{where(i)}: holds {len(cells)} cells; they must be {', '.join(self.columns)}")
        parts = []
        for i, (name, texts) in enumerate(zip(self.columns, self.categories, strict=True)):
            cells = [row[i] for row in rows]
            parts.append(_numbers(cells, name, where) if texts is None else _one_hot(cells, name, texts, where))
        return np.concatenate(parts, 1)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, from which `from_dict` makes an equal object."""
        categories = [None if texts is None else list(texts) for texts in self.categories]
        return {"columns": list(self.columns), "categories": categories}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TableEncoder":
        try:
            categories = tuple(None if texts is None else tuple(texts) for texts in values["categories"])
            return cls(tuple(values["columns"]), categories)
        except (KeyError, TypeError) as error:
            raise DataError(f"encoder: {values!r} is none; it must hold columns and categories") from error

    @classmethod
    def of(cls, columns: tuple[str, ...], rows: Sequence[Sequence[str]], where: Where = _row) -> "TableEncoder":
        """What these rows need: a column is numbers if all its cells are, text if none is."""
        found = zip(columns, zip(*rows, strict=True), strict=True)
        return cls(columns, tuple(_categories(cells, name, where) for name, cells in found))


def read_table(path: Path | str, encoder: TableEncoder) -> Float[np.ndarray, "n features"]:
    """The inputs in a CSV file for a network that was trained on such a table. Other columns are not looked at."""
    table = read_csv(Path(path))
    return encoder.encode(table.cells(encoder.columns), table.where)


def open_table(path: Path, options: Options) -> Dataset:
    """A CSV file with the column `target` to predict: texts are classes, floats a regression, integers classes if there
    are at most 20 different ones, unless `task` says otherwise."""
    options.refuse("a table", "size")
    table = read_csv(path)
    if options.target is None:
        raise ArgumentError(f"target: none given; name the column of {path} to predict: {', '.join(table.columns)}")
    target = choose("target", options.target, table.columns)
    columns = tuple(name for name in table.columns if name != target)
    if not columns:
        raise DataError(f"{path}: holds only the target {target!r}; there must be columns to predict it from")
    rows = table.cells(columns)
    encoder = TableEncoder.of(columns, rows, table.where)
    targets, class_names, why = _target(table, target, options.task)
    try:
        splits, _ = make_splits((encoder.encode(rows, table.where), targets), None, class_names, options)
    except ArgumentError as error:
        raise DataError(f"{path}: {error}. It was taken for a {why}; pass task='regression' if it is one.") from error
    origin = {"kind": "table", "path": str(path.resolve()), "options": options.as_dict()}
    origin |= {"files": {path.name: file_print(path)}, "encoder": encoder.as_dict(), "task": why}
    return Dataset(path.stem, *splits, class_names, origin, encoder.feature_names, (target,))


def _target(table: Table, name: str, task: str | None) -> tuple[np.ndarray, tuple[str, ...] | None, str]:
    """The targets, the names of the classes (None for regression), and why it is the one or the other."""
    cells = [cell for (cell,) in table.cells((name,))]
    _refuse_missing(cells, name, table.where)
    different = set(cells)
    is_text = any(_number(cell) is None for cell in different)
    is_integer = all(re.fullmatch(r"[+-]?\d+", cell) for cell in different)
    found = "texts" if is_text else "integers" if is_integer else "floats"
    why = f"{found} in the column {name}, {len(different)} different ones"
    chosen = task or ("classification" if is_text or (is_integer and len(different) <= FEW) else "regression")
    reason = why if task is None else "as asked for"
    if chosen == "regression":
        return _numbers(cells, name, table.where)[:, 0], None, f"regression: {reason}"
    if is_text and task is None and _are_too_many(different, cells):
        raise DataError(
            f"{table.path}, column {name!r}: {why} in {len(cells)} rows; pass task='classification' if so meant"
        )
    if len(different) < 2:
        raise DataError(f"{table.path}, column {name!r}: always {cells[0]!r}; there is nothing to predict")
    names = tuple(sorted(different) if is_text else sorted(different, key=lambda cell: (float(cell), cell)))
    number = {cell: i for i, cell in enumerate(names)}
    return (
        np.array([number[cell] for cell in cells], np.int32),
        names,
        f"classification: {reason}",
    )


def _number(cell: Any) -> float | None:
    """The finite or infinite number in a cell, None if it is text."""
    try:
        return None if isinstance(cell, str) and "_" in cell else float(cell)  # Python reads 1_000 as a number
    except (TypeError, ValueError):
        return None


def _refuse_missing(cells: Sequence[Any], name: str, where: Where) -> None:
    for row, cell in enumerate(cells):
        if cell is None or str(cell).strip().lower() in MISSING:
            held = "is empty" if cell is None or not str(cell).strip() else f"holds {str(cell)!r}"
            raise DataError(f"{where(row)}, column {name!r}: {held}, a missing value; fill it in, or remove the row")


def _numbers(cells: Sequence[Any], name: str, where: Where) -> np.ndarray:
    """A column of numbers, (n, 1)."""
    _refuse_missing(cells, name, where)
    values = [_number(cell) for cell in cells]
    largest = float(np.finfo(np.float32).max)
    for row, (cell, value) in enumerate(zip(cells, values, strict=True)):
        if value is None or abs(value) > largest:
            comma = " with a point" if DECIMAL_COMMA.fullmatch(str(cell)) else ""
            remedy = f"no number; write one{comma}" if value is None else "no finite float32; correct it"
            raise DataError(f"{where(row)}, column {name!r}: holds {str(cell)!r}, {remedy}, or remove the row")
    return np.array(values, np.float32).reshape(-1, 1)


def _one_hot(cells: Sequence[Any], name: str, texts: tuple[str, ...], where: Where) -> np.ndarray:
    _refuse_missing(cells, name, where)
    number = {text: i for i, text in enumerate(texts)}
    found = np.zeros((len(cells), len(texts)), np.float32)
    for row, cell in enumerate(cells):
        if str(cell).strip() not in number:
            few = ", ".join(texts[:FEW]) + (", …" if len(texts) > FEW else "")
            raise DataError(
                f"{where(row)}, column {name!r}: holds {str(cell)!r}, which was not there in training: {few}"
            )
        found[row, number[str(cell).strip()]] = 1.0
    return found


def _categories(cells: Sequence[str], name: str, where: Where) -> tuple[str, ...] | None:
    _refuse_missing(cells, name, where)
    texts = [row for row, cell in enumerate(cells) if _number(cell) is None]
    if not texts:
        return None
    comma = next((row for row in texts if DECIMAL_COMMA.fullmatch(cells[row])), None)
    if comma is not None:
        raise DataError(
            f"{where(comma)}, column {name!r}: holds {cells[comma]!r}; write decimals with a point, not a comma"
        )
    if len(texts) < len(cells):
        numbers = len(cells) - len(texts)
        raise DataError(
            f"{where(texts[0])}, column {name!r}: holds {cells[texts[0]]!r}, but {numbers} of {len(cells)} rows hold "
            "numbers; correct it, or, if these are categories, write none of them as a number"
        )
    different = set(cells)
    if _are_too_many(different, cells):
        raise DataError(
            f"{where(0)}, column {name!r}: {len(different)} different texts are no categories; remove the column"
        )
    return tuple(sorted(different))


def _are_too_many(different: set[str], cells: Sequence[str]) -> bool:
    """Names and identifiers: more than a few different texts, and hardly one of them twice."""
    return len(different) > FEW and 2 * len(different) > len(cells)
