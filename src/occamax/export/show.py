"""Answers about images, as a table or as JSON lines."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from .card import Card
from .predictor import Predict


@dataclass(frozen=True)
class Answer:
    """`uncertainty` is the entropy of the probabilities, in nats. `error` is None where the image was answered."""

    image: str
    label: str | None = None
    probability: float | None = None
    uncertainty: float | None = None
    error: str | None = None


def answers(
    ask: Predict, card: Card, images: Iterable[tuple[str, np.ndarray | str]], batch: int = 128
) -> Iterator[Answer]:
    """In the order of the images, some at a time."""
    images = iter(images)
    while some := list(islice(images, batch)):
        readable = [pixels for _, pixels in some if isinstance(pixels, np.ndarray)]
        found = iter(ask(np.stack(readable)) if readable else ())
        for name, pixels in some:
            if isinstance(pixels, str):
                yield Answer(name, error=pixels)
                continue
            shares = np.asarray(next(found), np.float64)
            entropy = float(-np.sum(shares[shares > 0] * np.log(shares[shares > 0])))
            yield Answer(name, card.class_names[int(shares.argmax())], float(shares.max()), entropy)


def print_answers(found: Iterable[Answer], json_lines: bool) -> int:
    """Prints them; how many images could not be answered."""
    failed = 0
    table = Table("image", "class", "probability", "uncertainty", box=SIMPLE_HEAD)
    for answer in found:
        failed += answer.error is not None
        if json_lines:
            print(json.dumps({name: value for name, value in asdict(answer).items() if value is not None}))
        elif answer.error is not None:
            table.add_row(escape(answer.image), Text(answer.error, "red"), "", "")
        else:
            table.add_row(escape(answer.image), answer.label, f"{answer.probability:.3f}", f"{answer.uncertainty:.3f}")
    if not json_lines:
        Console(highlight=False).print(table)
    return failed
