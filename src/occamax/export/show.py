"""Answers about inputs, and what an export measured, as tables or as JSON lines."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from .card import Card

if TYPE_CHECKING:
    from .exporting import Measured
    from .hastening import Hastened
    from .posterior_file import Draw
    from .predictor import Predict


FIGURES = {"nll": "NLL", "ece": "ECE", "ece_floor": "  by chance alone", "rmse": "RMSE"}


class Said(NamedTuple):
    """What a network says of some inputs: expectations, and, where networks were drawn, what is doubt about the
    weights: mutual information in nats (classes), a deviation (a prediction)."""

    expectation: np.ndarray
    mutual_information: np.ndarray | None = None
    std: np.ndarray | None = None


Ask = Callable[[np.ndarray], Said]


def of_mean(predict: "Predict") -> Ask:
    """Asks the one network at the posterior mean."""
    return lambda inputs: Said(predict(inputs))


def of_draws(draw: "Draw") -> Ask:
    """Asks many networks drawn from the posterior."""

    def ask(inputs: np.ndarray) -> Said:
        from .posterior_file import mutual_information

        found = draw(inputs)
        return Said(np.asarray(found.expectation), mutual_information(found), np.asarray(found.std))

    return ask


@dataclass(frozen=True)
class Answer:
    """For classes `label` and its `probability`; `uncertainty` is the entropy of the probabilities, in nats, and
    `mutual_information` the part of it that is doubt about the weights, where networks were drawn. For a regression
    `prediction`, by target, and its `std` over draws. `error` is None where the input was answered."""

    input: str
    label: str | None = None
    probability: float | None = None
    uncertainty: float | None = None
    mutual_information: float | None = None
    prediction: dict[str, float] | None = None
    std: dict[str, float] | None = None
    error: str | None = None


def answers(
    ask: Ask, card: Card, inputs: Iterable[tuple[str, np.ndarray | str]], batch_size: int = 128
) -> Iterator[Answer]:
    """In the order of the inputs, some at a time."""
    inputs = iter(inputs)
    while some := list(islice(inputs, batch_size)):
        readable = [numbers for _, numbers in some if isinstance(numbers, np.ndarray)]
        said = ask(np.stack(readable)) if readable else None
        place = 0
        for name, numbers in some:
            if isinstance(numbers, str) or said is None:
                yield Answer(name, error=str(numbers))
                continue
            yield _answer(name, card, said, place)
            place += 1


def _answer(name: str, card: Card, said: Said, place: int) -> Answer:
    own = np.asarray(said.expectation[place], np.float64)
    if card.class_names is None:
        names = card.target_names or tuple(f"output {i}" for i in range(own.size))
        values = dict(zip(names, own.ravel().tolist(), strict=False))
        std = None if said.std is None else dict(zip(names, np.ravel(said.std[place]).tolist(), strict=False))
        return Answer(name, prediction=values, std=std)
    entropy = float(-np.sum(own[own > 0] * np.log(own[own > 0])))
    doubt = None if said.mutual_information is None else float(said.mutual_information[place])
    return Answer(name, card.class_names[int(own.argmax())], float(own.max()), entropy, doubt)


def print_answers(found: Iterable[Answer], json_lines: bool, with_information: bool = False) -> int:
    """Prints them; how many inputs could not be answered."""
    failed, rows = 0, []
    for answer in found:
        failed += answer.error is not None
        if json_lines:
            print(json.dumps({name: value for name, value in asdict(answer).items() if value is not None}))
        else:
            rows.append(answer)
    if not json_lines:
        Console(highlight=False).print(_table(rows, with_information))
    return failed


def _table(rows: list[Answer], with_information: bool) -> Table:
    targets = next((list(answer.prediction) for answer in rows if answer.prediction is not None), None)
    last = ["of the weights"] if with_information else []
    columns = ["class", "probability", "uncertainty", *last] if targets is None else [*targets, *last]
    table = Table("input", *columns, box=SIMPLE_HEAD)
    for answer in rows:
        if answer.error is not None:
            cells = [Text(answer.error, "red")]
        elif answer.prediction is not None:
            cells = [f"{value:.6g}" for value in answer.prediction.values()]
            cells += [f"± {max(answer.std.values()):.3g}"] if with_information and answer.std else []
        else:
            numbers = [answer.probability, answer.uncertainty, *([answer.mutual_information] if last else [])]
            cells = [answer.label or "", *(f"{number:.3f}" for number in numbers if number is not None)]
        table.add_row(escape(answer.input), *cells)
    return table


def print_measured(found: "Measured", path: Path) -> None:
    """The exported network beside the dense one."""
    console = Console(highlight=False)
    console.print(_comparison(found, path))
    if found.tested:
        fewer = f"; under `dense` on {found.tested_before:,}" if 0 < found.tested_before < found.tested else ""
        console.print(f"on {found.tested:,} test examples{fewer}", soft_wrap=True)
    if about := _about_int8(found):
        console.print(escape(about), soft_wrap=True)
    if found.units:
        units = Table("units", "before", "after", "", box=SIMPLE_HEAD)
        for kept in found.units:
            units.add_row(escape(kept.where), str(kept.before), str(kept.after), kept.why)
        console.print(units)
    console.print(f"the file is {_what_it_is(found)}; the figures are those of the file", soft_wrap=True)
    if found.tempered is not None:
        console.print(f"of a tempered posterior: KL weight {found.tempered:.3g}", soft_wrap=True)
    if found.hastened is not None:
        console.print(_cost_of_latency(found.hastened), soft_wrap=True)
    if found.loss is not None:
        removed = f"; {found.removed:,} more became zero" if found.removed else ""
        levels = ", ".join(map(str, found.levels))
        how = "as the posterior predicts"
        if found.loss_examples:
            how = f"measured on {found.loss_examples:,} training examples after what is left was moved by others"
        console.print(
            f"weights in codebooks of {levels} values, by layer{removed}: {found.loss:,.1f} nats lost over the data "
            f"set, {how}; the figures under `dense` are of the network as it was",
            soft_wrap=True,
        )
    if found.milliseconds_float is not None:
        console.print(_gain_of_int8(found.milliseconds_float), soft_wrap=True)
    console.print(
        f"largest difference {found.difference_of}: {found.difference:.1e}, on {found.compared:,} examples",
        soft_wrap=True,
    )


def _about_int8(found: "Measured") -> str:
    if found.instead is None:
        return found.no_instead and f"onnxruntime's own int8 of the dense network cannot be had: {found.no_instead}"
    fewer = f"; on {found.instead.tested:,} examples" if 0 < found.instead.tested < found.tested else ""
    return f"int8: the dense network quantised by onnxruntime itself, what one would do instead{fewer}"


def _what_it_is(found: "Measured") -> str:
    if found.drawn:
        return f"the average of {found.drawn} networks drawn from the posterior"
    own = "" if found.temperature is None else f", with a temperature of its own: {found.temperature:.3g}"
    several = f"the average of {found.averaged} networks, each at its posterior mean"
    return ("the mean network" if found.averaged == 1 else several) + own


def _comparison(found: "Measured", path: Path) -> Table:
    """Sizes, latencies and figures: a row each, a column a file."""
    rival = found.instead
    table = Table("", "dense", *(() if rival is None else ("int8",)), "exported", "ratio", box=SIMPLE_HEAD)
    table.title, table.title_justify = str(path), "left"
    for column in table.columns[1:]:
        column.justify = "right"

    def row(name: str, before: str, instead: str | None, after: str, ratio: str = "") -> None:
        table.add_row(name, before, *(() if rival is None else (instead or "",)), after, ratio)

    rows = {"numbers": found.numbers, "not zero": found.nonzero, "bytes": found.bytes, "gzipped": found.zipped}
    sizes = {} if rival is None else {"bytes": rival.bytes, "gzipped": rival.zipped}
    for name, (before, after) in rows.items():
        row(name, f"{before:,}", f"{sizes[name]:,}" if name in sizes else "", f"{after:,}", _ratio(before, after))
    row("  with its zeros", f"{found.zipped_masked:,}", "", "", _ratio(found.zipped_masked, found.zipped[1]))
    clock = "thread ms" if found.is_thread_time else "ms"
    for batch, (before, after) in found.milliseconds.items():
        own = "" if rival is None else f"{rival.milliseconds[batch]:.3f}"
        row(f"{clock} at batch {batch}", f"{before:.3f}", own, f"{after:.3f}", _ratio(before, after))
    columns = [found.figures_before or {}, {} if rival is None else rival.figures, found.figures]
    for name in found.figures:
        row(FIGURES.get(name, name), *(f"{own[name]:.4g}" if name in own else "" for own in columns))
    return table


def _cost_of_latency(found: "Hastened") -> str:
    before, after = found.milliseconds
    units = ", ".join(f"{name}: {count:,}" for name, count in found.gone.items())
    if not units:
        return f"{before:.3g} ms at batch {found.batch} without a change: no unit had to go"
    words = f"{before:.3g} → {after:.3g} ms of the computing thread at batch {found.batch}; units went ({units}): "
    if found.measured is None:
        return words + (
            f"{found.loss:,.0f} nats lost over the data set, as the posterior says of each weight by itself; there are "
            "no training examples to move what is left by"
        )
    return words + (
        f"{found.measured:,.0f} nats lost over the data set, measured on {found.examples:,} training examples after "
        "what is left was moved by others"
    )


def _gain_of_int8(milliseconds: dict[int, tuple[float, float]]) -> str:
    times = " and ".join(f"{before / after:.2f} × at batch {size}" for size, (before, after) in milliseconds.items())
    gains = any(before > after for before, after in milliseconds.values())
    word = "an answer depends a little on its batch" if gains else "nothing is gained: leave --int8 out"
    return f"whole numbers in place of float32: {times} the speed of the same network here; {word}"


def _ratio(before: float, after: float) -> str:
    return f"{before / after:.1f} ×" if after else ""
