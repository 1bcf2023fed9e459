"""Answers about images, as a table or as JSON lines."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice, repeat
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from .card import Card
from .exporting import Measured
from .posterior_file import Draw, mutual_information
from .predictor import Predict

Ask = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray | None]]  # pixels → probabilities, mutual information


def of_mean(predict: Predict) -> Ask:
    """Asks the one network at the posterior mean."""
    return lambda pixels: (predict(pixels), None)


def of_draws(draw: Draw) -> Ask:
    """Asks many networks drawn from the posterior."""

    def ask(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = draw(pixels)
        return np.asarray(found.expectation), mutual_information(found)

    return ask


@dataclass(frozen=True)
class Answer:
    """`uncertainty` is the entropy of the probabilities, in nats; `mutual_information` the part of it that is doubt
    about the weights, where networks were drawn. `error` is None where the image was answered."""

    image: str
    label: str | None = None
    probability: float | None = None
    uncertainty: float | None = None
    mutual_information: float | None = None
    error: str | None = None


def answers(ask: Ask, card: Card, images: Iterable[tuple[str, np.ndarray | str]], batch: int = 128) -> Iterator[Answer]:
    """In the order of the images, some at a time."""
    images = iter(images)
    while some := list(islice(images, batch)):
        readable = [pixels for _, pixels in some if isinstance(pixels, np.ndarray)]
        probabilities, information = ask(np.stack(readable)) if readable else ((), None)
        found = iter(zip(probabilities, information if information is not None else repeat(None), strict=False))
        for name, pixels in some:
            if isinstance(pixels, str):
                yield Answer(name, error=pixels)
                continue
            own, doubt = next(found)
            shares = np.asarray(own, np.float64)
            entropy = float(-np.sum(shares[shares > 0] * np.log(shares[shares > 0])))
            label = card.class_names[int(shares.argmax())]
            yield Answer(name, label, float(shares.max()), entropy, None if doubt is None else float(doubt))


def print_answers(found: Iterable[Answer], json_lines: bool, with_information: bool = False) -> int:
    """Prints them; how many images could not be answered."""
    failed = 0
    last = ("of the weights",) if with_information else ()
    table = Table("image", "class", "probability", "uncertainty", *last, box=SIMPLE_HEAD)
    for answer in found:
        failed += answer.error is not None
        if json_lines:
            print(json.dumps({name: value for name, value in asdict(answer).items() if value is not None}))
        elif answer.error is not None:
            table.add_row(escape(answer.image), Text(answer.error, "red"), "", "")
        else:
            numbers = [answer.probability, answer.uncertainty]
            numbers += [answer.mutual_information] if with_information else []
            table.add_row(escape(answer.image), answer.label, *(f"{number:.3f}" for number in numbers))
    if not json_lines:
        Console(highlight=False).print(table)
    return failed


def print_measured(found: Measured, path: Path) -> None:
    """The exported network beside the dense one."""
    table = Table("", "dense", "exported", "ratio", title=str(path), title_justify="left", box=SIMPLE_HEAD)
    for column in table.columns[1:]:
        column.justify = "right"
    rows = {"numbers": found.numbers, "not zero": found.nonzero, "bytes": found.bytes, "bytes, gzipped": found.zipped}
    for name, (before, after) in rows.items():
        table.add_row(name, f"{before:,}", f"{after:,}", f"{before / after:.1f} ×")
    for batch, (before, after) in found.milliseconds.items():
        table.add_row(f"ms at batch {batch}", f"{before:.3f}", f"{after:.3f}", f"{before / after:.1f} ×")
    table.add_row(f"accuracy, {found.compared:,} images", *(f"{number:.4f}" for number in found.accuracy), "")
    table.add_row("accuracy, whole test set", "", f"{found.test_accuracy:.4f}", "")
    console = Console(highlight=False)
    console.print(table)
    units = Table("units", "before", "after", "", box=SIMPLE_HEAD)
    for kept in found.units:
        units.add_row(kept.where, str(kept.before), str(kept.after), kept.why)
    console.print(units)
    console.print(
        f"largest difference of a probability: {found.difference:.1e}, on {found.compared:,} images", soft_wrap=True
    )
