"""A source with its weights as its file should hold them: rounded, and as few of them as a size takes."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..errors import ExportError
from ..structure.compaction import compact
from ..structure.graph import Graph
from .c_file import constants_of
from .evidence import rounded
from .moving import MOST_LOST, refitted
from .posterior_file import pack
from .predictor import HEADER
from .rounding import Rounded, Rounding
from .source import Exportable, arrays_in_file
from .writing import write

FIGURES = 120  # bytes by which a file's own figures lengthen its card


def rounded_source(
    source: Exportable, program: Graph, rounding: Rounding, form: str, with_posterior: bool = False
) -> tuple[Exportable, list[Rounded]]:
    """The source with its weights as the file should hold them, and what each network lost by that. Of several, each
    has an equal part of the bytes."""

    def size_of(weights: np.ndarray) -> int:
        small, _ = compact(program.bind(arrays_in_file(replace(source, others=(), rounded=weights))))
        with TemporaryDirectory() as place:
            file = Path(place) / f"small.{form}"
            packed = pack(source.model, source.believed, program, weights) if with_posterior else None
            write(file, small, source.card, packed, int8=rounding.int8)
            return bytes_of(form, file.read_bytes()) + (0 if form == HEADER else FIGURES)

    count = max(len(source.drawn), 1 + len(source.others))
    part = rounding if rounding.max_bytes is None else replace(rounding, max_bytes=rounding.max_bytes // count)

    def round_off(one: Exportable, rounding: Rounding, drawn: np.ndarray | None = None) -> Rounded | None:
        return rounded(one.model, one.believed, one.kl_weight, rounding, form, size_of, drawn)

    if part.max_bytes is not None and source.training is not None and not source.drawn:
        source, found = refitted(source, round_off, part)
    else:
        found = [round_off(source, part, drawn) for drawn in source.drawn or (None,)]
    losses = [each for each in found if each is not None]
    others = [(other, rounded_source(*other, part, form)) for other in source.others]
    source = replace(source, others=tuple(other._replace(source=one) for other, (one, _) in others))
    if losses and source.drawn:
        source = replace(source, drawn=tuple(each.weights for each in losses))
    elif losses:
        source = replace(source, rounded=losses[0].weights)
    return source, [*losses, *(each for _, (_, more) in others for each in more)]


def bytes_of(form: str, content: bytes) -> int:
    """How large a file is; of a C header what its constants take, which is what a microcontroller keeps."""
    return constants_of(content.decode()) if form == HEADER else len(content)


def of_rounding(losses: list[Rounded]) -> dict[str, Any]:
    """What rounding did. Of draws the loss is the mean one."""
    if not losses:
        return {}
    loss, removed = (sum(getattr(each, name) for each in losses) for name in ("loss", "removed"))
    examples = losses[0].examples
    return {"loss": loss / len(losses), "levels": losses[0].levels, "removed": removed, "loss_examples": examples}


def refuse_ruin(source: Exportable, found: dict[str, Any], rounding: Rounding) -> None:
    """Refuses what a size cost, told by test examples where no training examples said it before (`moving.py`), as they
    do of one network that is not drawn."""
    is_one = not (source.drawn or source.others)
    is_told = rounding.max_loss is not None or (source.training is not None and is_one)
    if rounding.max_bytes is None or is_told or source.test is None or not source.is_classes:
        return
    nothing = source.model.likelihood.baseline(np.asarray(source.test[1]))
    before, after = found["figures_before"]["nll"], found["figures"]["nll"]
    if after - before > MOST_LOST * (nothing - before) > 0:
        moving = "Pass training examples, by which what is left is moved (`training=(inputs, targets)`), train"
        raise ExportError(
            f"--bytes: {rounding.max_bytes:,} would cost {after - before:.3g} nats a test example, more than "
            f"{MOST_LOST:g} of what the network has learnt. {moving if is_one else 'Ask for more bytes, train'} with "
            "--sparsity, or say with --max-loss how many nats may be lost"
        )
