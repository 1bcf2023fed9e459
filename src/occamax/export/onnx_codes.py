"""Arrays of few values in ONNX: small integers in bytes, unfolded by plain operations from constants alone. onnxruntime
does that once, when it loads the file; what then runs is float32, at its full speed.

    words → Cast → Div → Mod → Reshape (→ Slice)      small integers: the digits of a word in some base
    Gather(book, codes)                               values
    CumSum(steps) → ScatterElements                   where they stand, unless every place has a code
    Gather(codes, CumSum(steps < largest))            the largest digit is a step to nowhere, which has no code

`Compress` and `NonZero`, which would do the last more simply, are not computed when a file is loaded.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .packing import coded_steps

OVERHEAD = 160  # bytes of the node of one array and its small constants
MOST = 255  # values beside zero
FEW = 20  # values of a codebook that is not worth a conversion

Store = Callable[[np.ndarray], str]  # an array → the name of a constant
Early = Callable[..., str]  # an operation on constants → the name of its result
DOMAIN, DIGITS, DENSE, SPARSE = "occamax", "digits", "dense", "sparse"  # of the file's own functions


class Base(NamedTuple):
    """Small integers below `base`, several in a word of that type."""

    base: int
    dtype: str

    @property
    def each(self) -> int:
        """How many digits a word has; a signed one has a bit less."""
        bits = np.dtype(self.dtype).itemsize * 8 - (np.dtype(self.dtype).kind == "i")
        return int(bits / math.log2(self.base) + 1e-9)

    def nbytes(self, count: int) -> int:
        return -(-count // self.each) * np.dtype(self.dtype).itemsize


# The largest base of which so many digits fit a word, each a little longer than the one before: 1 to 8 bits a digit
BASES = (
    Base(2, "u1"), Base(3, "u1"), Base(4, "u1"), Base(5, "u4"), Base(6, "u1"), Base(7, "u4"), Base(9, "u2"),
    Base(11, "u4"), Base(13, "i8"), Base(16, "u1"), Base(23, "u4"), Base(28, "i8"), Base(40, "u2"), Base(52, "i8"),
    Base(84, "u4"), Base(128, "i8"), Base(256, "u1"),
)  # fmt: skip


class Form(NamedTuple):
    """An array as small integers; code 0 is zero. Without steps every place has a code. With them only what is not zero
    has one, after a first 0; a step is one more than its digit, but the largest digit stands for as long a step as the
    one below, to a place where nothing stands."""

    shape: tuple[int, ...]
    book: np.ndarray  # float32, from 0 on
    codes: np.ndarray
    code_base: Base
    steps: np.ndarray | None = None
    step_base: Base = BASES[-1]

    @property
    def nbytes(self) -> int:
        steps = 0 if self.steps is None else self.step_base.nbytes(len(self.steps))
        return short(self.book).nbytes + self.code_base.nbytes(len(self.codes)) + steps + OVERHEAD


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
    for step_base in BASES[1:]:
        steps, codes = coded_steps(flat, values, step_base.base - 1)
        digits = np.where(codes == 0, step_base.base - 1, steps - 1).astype(np.uint8)
        forms.append(Form(array.shape, book, np.insert(codes[codes > 0], 0, 0), base, digits, step_base))
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
    """The node that makes the array again; the name of its result. What it does is a function of the file's own."""
    codes = _words(form.codes, form.code_base, store)
    book, shape = store(short(form.book)), store(np.array(form.shape, np.int64))
    if form.steps is None:
        return early(DENSE, *codes, book, shape, domain=DOMAIN)
    return early(SPARSE, *codes, *_words(form.steps, form.step_base, store), book, shape, domain=DOMAIN)


def _words(numbers: np.ndarray, base: Base, store: Store) -> list[str]:
    """What the function of digits takes: words, the powers of the base, the base, and how many digits there are."""
    powers = np.array([base.base**i for i in range(base.each)], np.int64)
    arrays = in_words(numbers, base), powers, np.array(base.base, np.int64), np.array([len(numbers)], np.int64)
    return [store(array) for array in arrays]


def short(book: np.ndarray) -> np.ndarray:
    """The values in half the bytes, where they are the same."""
    with np.errstate(over="ignore"):
        half = book.astype(np.float16)
    return half if len(book) > FEW and np.array_equal(half.astype(np.float32), book) else book


def rising(numbers: np.ndarray, store: Store, early: Early) -> str | None:
    """A vector of whole numbers from 0 up, each more than the one before, as its steps; None where it is none."""
    if numbers.ndim != 1 or len(numbers) < 40 or numbers.dtype != np.int64:
        return None
    steps = np.diff(numbers, prepend=-1)
    if steps.min() < 1 or steps.max() >= BASES[-1].base:
        return None
    digits = _integers(steps.astype(np.uint8), base_for(int(steps.max())), store, early)
    return _summed(early("Cast", digits, to=7), store, early)  # int64


def _summed(steps: str, store: Store, early: Early) -> str:
    """Where one comes to with these steps, int64, from before the first place on."""
    return early("Add", early("CumSum", steps, store(np.array(0, np.int64))), store(np.array(-1, np.int64)))


def _integers(numbers: np.ndarray, base: Base, store: Store, early: Early) -> str:
    """A vector of int32, or of int64 where the words are long."""
    words = in_words(numbers, base)
    whole, kind = (np.int32, 6) if np.dtype(base.dtype).itemsize < 4 else (np.int64, 7)
    held = store(words.ravel() if base.each == 1 else words)
    wide = held if words.dtype == whole else early("Cast", held, to=kind)
    if base.each == 1:
        return wide
    pieces = early("Div", wide, store(np.array([base.base**i for i in range(base.each)], whole)))
    small = early("Mod", pieces, store(np.array(base.base, whole)))
    flat = early("Reshape", small, store(np.array([-1], np.int64)))
    if len(numbers) % base.each:
        ends = store(np.zeros(1, np.int64)), store(np.array([len(numbers)], np.int64))
        return early("Slice", flat, *ends)
    return flat
