"""Arrays of few values in ONNX: small integers in bytes, unfolded by plain operations from constants alone. onnxruntime
does that once, when it loads the file; what then runs is float32, at its full speed.

    words → Cast → Div → Mod → Reshape (→ Slice)      small integers: the digits of a word in some base
    Gather(book, codes)                               values
    CumSum(steps) → ScatterElements                   where they stand, unless every place has a code
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .packing import coded_steps

OVERHEAD = 350  # bytes of the nodes of one array
MOST = 255  # values beside zero

Store = Callable[[np.ndarray], str]  # an array → the name of a constant
Early = Callable[..., str]  # an operation on constants → the name of its result


class Base(NamedTuple):
    """Small integers below `base`, several in a word of that type."""

    base: int
    dtype: str

    @property
    def each(self) -> int:
        """How many digits a word has."""
        return int(np.dtype(self.dtype).itemsize * 8 / math.log2(self.base) + 1e-9)

    def nbytes(self, count: int) -> int:
        return -(-count // self.each) * np.dtype(self.dtype).itemsize


# 8, 5, 4, 3 digits in a byte, 5 in two, 2 in one, 3 in two, 1 in one: 1, 1.6, 2, 2.7, 3.2, 4, 5.3 and 8 bits
BASES = tuple(
    Base(base, dtype)
    for base, dtype in ((2, "u1"), (3, "u1"), (4, "u1"), (6, "u1"), (9, "u2"), (16, "u1"), (40, "u2"), (256, "u1"))
)


class Form(NamedTuple):
    """An array as small integers. Without steps every place has a code; code 0 is zero."""

    shape: tuple[int, ...]
    book: np.ndarray  # float32, from 0 on
    codes: np.ndarray
    code_base: Base
    steps: np.ndarray | None = None
    step_base: Base = BASES[-1]

    @property
    def nbytes(self) -> int:
        steps = 0 if self.steps is None else self.step_base.nbytes(len(self.steps))
        return self.book.nbytes + self.code_base.nbytes(len(self.codes)) + steps + OVERHEAD


def smallest_form(array: np.ndarray) -> Form | None:
    """The fewest bytes; None where it has too many different values, or is smaller as it is."""
    flat = array.ravel()
    values = np.unique(flat[flat != 0])
    if not len(values) or len(values) > MOST:
        return None
    book = np.concatenate([np.zeros(1, np.float32), values])
    base = base_for(len(values))
    dense = np.where(flat != 0, np.searchsorted(values, flat) + 1, 0).astype(np.uint8)
    forms = [Form(array.shape, book, dense, base)]
    for step_base in BASES[2:]:
        steps, codes = coded_steps(flat, values, step_base.base - 1)
        forms.append(Form(array.shape, book, codes, base, steps, step_base))
    best = min(forms, key=lambda form: form.nbytes)
    return best if best.nbytes < array.nbytes else None


def base_for(most: int) -> Base:
    """That of whole numbers from 0 to so many, in the fewest bits."""
    return next(base for base in BASES if most < base.base)


def in_words(numbers: np.ndarray, base: Base) -> np.ndarray:
    """Small integers, several in a word, the lowest digits first; a row each word."""
    filled = np.concatenate([numbers, np.zeros(-len(numbers) % base.each, np.uint8)]).reshape(-1, base.each)
    return (filled.astype(np.int64) * base.base ** np.arange(base.each)).sum(1).astype(base.dtype)[:, None]


def unfold(form: Form, store: Store, early: Early) -> str:
    """The nodes that make the array again; the name of their result."""
    values = early("Gather", store(form.book), _integers(form.codes, form.code_base, store, early))
    if form.steps is not None:
        steps = _integers(form.steps, form.step_base, store, early)
        empty = early("ConstantOfShape", store(np.array([np.prod(form.shape)], np.int64)))
        values = early("ScatterElements", empty, _summed(steps, store, early), values, axis=0)
    return early("Reshape", values, store(np.array(form.shape, np.int64)))


def rising(numbers: np.ndarray, store: Store, early: Early) -> str | None:
    """A vector of whole numbers from 0 up, each more than the one before, as its steps; None where it is none."""
    if numbers.ndim != 1 or len(numbers) < 40 or numbers.dtype != np.int64:
        return None
    steps = np.diff(numbers, prepend=-1)
    if steps.min() < 1 or steps.max() >= BASES[-1].base:
        return None
    return _summed(_integers(steps.astype(np.uint8), base_for(int(steps.max())), store, early), store, early)


def _summed(steps: str, store: Store, early: Early) -> str:
    """Where one comes to with these steps, from before the first place on."""
    wide = early("Cast", steps, to=7)  # int64
    return early("Add", early("CumSum", wide, store(np.array(0, np.int64))), store(np.array([-1], np.int64)))


def _integers(numbers: np.ndarray, base: Base, store: Store, early: Early) -> str:
    """A vector of int32."""
    words = in_words(numbers, base)
    wide = early("Cast", store(words.ravel() if base.each == 1 else words), to=6)  # int32
    if base.each == 1:
        return wide
    pieces = early("Div", wide, store(np.array([base.base**i for i in range(base.each)], np.int32)))
    small = early("Mod", pieces, store(np.array(base.base, np.int32)))
    flat = early("Reshape", small, store(np.array([-1], np.int64)))
    if len(numbers) % base.each:
        ends = store(np.zeros(1, np.int64)), store(np.array([len(numbers)], np.int64))
        return early("Slice", flat, *ends)
    return flat
