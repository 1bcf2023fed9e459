"""How exactly a surviving weight must be kept: the posterior says.

A posterior that was trained at KL weight β is the minimum of E[−ln p(data)] + β KL. Near it, moving a weight of
deviation σ by δ costs β δ² / (2 σ²) nats of that bound, over the data set: the data's own curvature is β/σ² less the
prior's share. So a layer's survivors are put into a codebook by k-means weighted with β/σ², and a bit is spent where it
saves the most nats. Numpy alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..errors import ExportError

LOSS_PER_WEIGHT = 0.01  # nats that rounding may cost for each survivor, unless told: a seventh of its deviation
# Values beside zero, and bits of a code that has no entropy coder behind it: digits of words (`onnx_codes.py`)
WIDTHS = (
    (1, 1.0), (2, 1.6), (3, 2.0), (4, 32 / 13), (5, 8 / 3), (6, 32 / 11), (8, 3.2), (10, 32 / 9), (12, 64 / 17),
    (15, 4.0), (22, 32 / 7), (27, 64 / 13), (39, 16 / 3), (51, 64 / 11), (83, 6.4), (127, 64 / 9), (255, 8.0),
)  # fmt: skip
BOOK_BITS = 16.0  # of a value in a codebook
MOST_LEVELS = 255  # one more is zero
FEW_LEVELS = 64  # that are tried first where a code is as long as it is rare
BINS = 300  # into which a layer's weights are put to find a first codebook
STEPS = 12  # of Lloyd's algorithm
SEARCHES = 12  # halvings of the price of a bit
SAMPLE = 2**13  # survivors of a layer by which a price is looked for
NUDGE = 0.95  # by which a price that a sample found changes until all survivors agree
CHUNK = 2**22  # numbers of a table of costs at once
PRICES = 1e-7, 1e3  # nats for a bit


@dataclass(frozen=True)
class Rounding:
    """**bits** of a code, the same in all layers; 32 keeps the weights as they are, None lets the evidence decide.
    **max_loss** nats that rounding may cost, over the data set; with **bits** more is refused.
    **max_bytes** of the file: weights are rounded, and removed, until it fits. **int8** multiplies by whole numbers."""

    bits: int | None = None
    max_loss: float | None = None
    max_bytes: int | None = None
    int8: bool = False

    def __post_init__(self):
        if self.bits is not None and self.bits not in (*range(1, 9), 32):
            raise ExportError(f"--bits: {self.bits} given; it must be 1 to 8, or 32 to keep float32")
        if self.max_loss is not None and not self.max_loss > 0:
            raise ExportError(f"--max-loss: {self.max_loss:g} given; it must be a positive number of nats")
        if self.max_bytes is not None and self.max_bytes < 1:
            raise ExportError(f"--bytes: {self.max_bytes} given; it must be a positive number of bytes")
        if self.bits is not None and self.max_bytes is not None:
            raise ExportError("--bits: fixes the size of every codebook, which --bytes chooses; leave one of them out")

    @property
    def is_untold(self) -> bool:
        """Whether the evidence alone decides."""
        return self.bits is None and self.max_loss is None and self.max_bytes is None

    @property
    def is_exact(self) -> bool:
        return self.bits == 32


class Survivors(NamedTuple):
    """One layer's: **places** in the vector of weights, **values**, **precision** in nats, β/σ²."""

    places: np.ndarray
    values: np.ndarray
    precision: np.ndarray


class Coded(NamedTuple):
    """Survivors of one layer after rounding: what each became (0: removed), the loss in nats, and bits in the file."""

    values: np.ndarray
    loss: float
    bits: float

    @property
    def levels(self) -> int:
        return len(np.unique(self.values[self.values != 0]))

    def times(self, count: int) -> "Coded":
        """What so many such layers would cost, with one codebook."""
        book = 16.0 * self.levels
        return self if count == 1 else Coded(self.values, count * self.loss, count * (self.bits - book) + book)


class Rounded(NamedTuple):
    """**weights** the vector; **loss** nats over the data set, as the posterior predicts, or measured on so many
    **examples**, if any; **bits** of the codes and places; **levels** by layer; **removed** how many survivors became
    zero."""

    weights: np.ndarray
    loss: float
    bits: float
    levels: tuple[int, ...]
    removed: int
    examples: int = 0


def survivors_of(
    weights: np.ndarray, stds: np.ndarray | None, mask: np.ndarray, bounds: Sequence[tuple[int, int]], kl_weight: float
) -> list[Survivors]:
    """By layer. Without deviations (a point estimate) a weight's own size stands for what it may be moved by."""
    found = []
    for start, stop in bounds:
        places = start + np.flatnonzero(mask[start:stop] & (weights[start:stop] != 0))
        values = weights[places].astype(np.float64)
        precision = np.ones(len(places)) if stds is None else kl_weight / np.square(stds[places].astype(np.float64))
        found.append(Survivors(places, values, precision))
    return found


def with_levels(layer: Survivors, levels: int, bits: float) -> Coded:
    """At most so many values, by weighted k-means, of codes that take so many bits."""
    book = _book(layer, levels)
    codes = np.searchsorted((book[1:] + book[:-1]) / 2, layer.values)
    return Coded(book[codes], _loss(layer, book[codes]), bits * len(codes))


def with_bits(layer: Survivors, bits: int) -> Coded:
    """Codes of so many bits, one of which is zero's."""
    return with_levels(layer, 2**bits - 1, bits)


def priced(layer: Survivors, price: float, size: int, book: np.ndarray, can_remove: bool = False) -> Coded:
    """The codebook and codes that cost least where a bit of an entropy-coded file costs `price` nats, from a first
    `book`. A value's code is as long as it is rare. With `can_remove` a weight may become zero, which spares its place
    too; `size` is how many numbers the layer has."""
    count = len(layer.values)
    if not count:
        return Coded(layer.values, 0.0, 0.0)
    lengths, kept = np.full(len(book), np.log2(len(book))), np.ones(count, bool)
    codes = np.zeros(count, int)
    for _ in range(STEPS):
        place = _place_bits(int(kept.sum()), size)
        codes, costs = _cheapest(layer, book, price * lengths)
        if can_remove:
            kept = costs + price * place < 0.5 * layer.precision * layer.values**2
        counts = np.bincount(codes[kept], minlength=len(book))
        if not counts.any():
            break
        sums = np.bincount(codes[kept], layer.precision[kept], len(book))
        means = np.bincount(codes[kept], (layer.precision * layer.values)[kept], len(book))
        used = counts > 0
        book, lengths = _short(means[used] / sums[used]), -np.log2(counts[used] / counts.sum())
    codes, _ = _cheapest(layer, book, price * lengths)
    values = np.where(kept, book[codes], 0.0)
    bits = float(np.sum(lengths[codes[kept]])) + kept.sum() * _place_bits(int(kept.sum()), size) + 16.0 * len(book)
    return Coded(values, _loss(layer, values), bits)


def exactly(layer: Survivors) -> Coded:
    """As they are: where no codebook is good enough."""
    return Coded(layer.values, 0.0, 32.0 * len(layer.values))


def chosen_widths(layers: Sequence[Survivors], max_loss: float) -> list[Coded]:
    """Codes of fixed width: the narrowest, bits given first to the layer where they save the most nats each. What is
    left of the loss then takes back the most bits that it can."""
    ladders = [_ladder(layer) for layer in layers]
    steps = [0] * len(ladders)

    def gain(i: int) -> float:
        here, there = ladders[i][steps[i]], ladders[i][steps[i] + 1]
        return (here.loss - there.loss) / max(there.bits - here.bits, 1.0)

    def loss() -> float:
        return sum(ladder[step].loss for ladder, step in zip(ladders, steps, strict=True))

    while loss() > max_loss:
        steps[max((i for i, step in enumerate(steps) if step < len(ladders[i]) - 1), key=gain)] += 1
    for i in sorted(range(len(layers)), key=lambda i: -len(layers[i].values)):
        while steps[i] and loss() + ladders[i][steps[i] - 1].loss - ladders[i][steps[i]].loss <= max_loss:
            steps[i] -= 1
    return [ladder[step] for ladder, step in zip(ladders, steps, strict=True)]


def _ladder(layer: Survivors) -> list[Coded]:
    """Ever more bits for ever less loss, with those of the codebook; a width that is no better than a narrower one is
    left out."""
    found: list[Coded] = []
    for coded in [*(with_levels(layer, *width) for width in WIDTHS), exactly(layer)]:
        own = coded._replace(bits=coded.bits + BOOK_BITS * coded.levels if coded.loss else coded.bits)
        if not found or own.loss < found[-1].loss:
            found.append(own)
    return found


def at_loss(layers: Sequence[Survivors], sizes: Sequence[int], max_loss: float) -> list[Coded]:
    """Entropy-coded: the highest price of a bit at which all layers together lose no more nats than that."""

    def fits(found: list[Coded]) -> bool:
        return sum(each.loss for each in found) <= max_loss

    for most_levels in (FEW_LEVELS, MOST_LEVELS):
        found = _searched(layers, _pricing(sizes, False, most_levels), fits, cheap_first=False)
        if fits(found):
            return found
    return [exactly(layer) for layer in layers]


def at_bits(
    layers: Sequence[Survivors], sizes: Sequence[int], max_bits: float, most_levels: int = FEW_LEVELS
) -> list[Coded]:
    """The lowest price of a bit at which all layers together take no more bits; weights may go."""
    make = _pricing(sizes, True, most_levels)
    return _searched(layers, make, lambda found: sum(each.bits for each in found) <= max_bits, cheap_first=True)


def joined(layers: Sequence[Survivors], coded: Sequence[Coded], weights: np.ndarray) -> Rounded:
    """The vector of weights with the survivors as they are coded."""
    vector = weights.copy()
    for layer, own in zip(layers, coded, strict=True):
        vector[layer.places] = own.values
    removed = sum(int(np.sum(own.values == 0)) for own in coded)
    totals = sum(own.loss for own in coded), sum(own.bits for own in coded)
    return Rounded(vector, *totals, tuple(own.levels for own in coded), removed)


Make = Callable[[Sequence[Survivors], int], Callable[[float], list[Coded]]]


def _pricing(sizes: Sequence[int], can_remove: bool, most_levels: int) -> Make:
    """Layers, of which at most so many survivors each stand for all → the price of a bit → how they are then coded."""

    def make(layers: Sequence[Survivors], most: int) -> Callable[[float], list[Coded]]:
        every = [-(-len(layer.values) // most) or 1 for layer in layers]
        some = [Survivors(*(each[::step] for each in layer)) for layer, step in zip(layers, every, strict=True)]
        parts = list(zip(some, every, sizes, [_book(layer, most_levels) for layer in some], strict=True))

        def coded(price: float) -> list[Coded]:
            return [priced(own, price, size // step, book, can_remove).times(step) for own, step, size, book in parts]

        return coded

    return make


def _searched(
    layers: Sequence[Survivors], make: Make, fits: Callable[[list[Coded]], bool], cheap_first: bool
) -> list[Coded]:
    """Halves the logarithm of the price until the last one that fits is found, by a sample of each layer; then all
    survivors at that price, or near it. The extreme one where none fits."""
    low, high = np.log(PRICES)
    of_sample, extreme = make(layers, SAMPLE), high if cheap_first else low
    best = extreme
    for _ in range(SEARCHES):
        middle = (low + high) / 2
        fit = fits(of_sample(float(np.exp(middle))))
        best = middle if fit else best
        low, high = (low, middle) if fit == cheap_first else (middle, high)
    of_all = make(layers, max(1, *(len(layer.values) for layer in layers)))
    for _ in range(SEARCHES):
        found = of_all(float(np.exp(best)))
        if fits(found) or best == extreme:
            return found
        best -= np.log(NUDGE) if cheap_first else -np.log(NUDGE)
    return of_all(float(np.exp(extreme)))


def _book(layer: Survivors, levels: int) -> np.ndarray:
    """Weighted k-means on a line, at most so many values: the best cut of the weights in bins, then a few rounds of
    Lloyd's algorithm on the weights themselves, by running sums."""
    if not len(layer.values):
        return np.zeros(0)
    order = np.argsort(layer.values, kind="stable")
    values, precision = layer.values[order], layer.precision[order]
    if len(np.unique(values)) <= levels:
        return np.unique(values)
    powers = (precision, precision * values, precision * values**2)
    sums = [np.concatenate([[0.0], np.cumsum(each)]) for each in powers]
    ends = _bins(values, precision, levels)
    many = ends[np.linspace(0, len(ends) - 1, levels + 1).astype(int)]  # so many that where they start hardly matters
    edges = _best_cuts(ends, sums, levels) if levels <= FEW_LEVELS else np.unique(many)
    for _ in range(2 * STEPS):
        total = np.diff(sums[0][edges])
        book = np.diff(sums[1][edges])[total > 0] / total[total > 0]
        edges = np.concatenate([[0], np.searchsorted(values, (book[1:] + book[:-1]) / 2), [len(values)]])
    return np.unique(_short(book))


def _bins(values: np.ndarray, precision: np.ndarray, levels: int) -> np.ndarray:
    """Places among sorted values where bins end: half of them even in value, half in the cube root of precision."""
    count = max(BINS, 2 * levels)
    share = np.cumsum(np.cbrt(precision))
    even = np.searchsorted(values, np.linspace(values[0], values[-1], count // 2))
    return np.unique([0, *even, *np.searchsorted(share, share[-1] * np.linspace(0, 1, count // 2)), len(values)])


def _best_cuts(ends: np.ndarray, sums: list[np.ndarray], levels: int) -> np.ndarray:
    """The cheapest way to join neighbouring bins to so many: the least cost of the first j bins in k parts is that of
    the first i in k − 1 and of one part from i to j. Gives the places where parts end."""
    weight, first, second = (own[ends] for own in sums)
    weights = weight[None, :] - weight[:, None]
    spread = (
        second[None, :] - second[:, None] - (first[None, :] - first[:, None]) ** 2 / np.where(weights > 0, weights, 1)
    )
    cost = np.where(np.triu(np.ones_like(weights), 1) > 0, spread, np.inf)
    best, came = cost[0].copy(), []
    for _ in range(min(levels, len(ends) - 1) - 1):
        table = best[:, None] + cost
        came.append(table.argmin(0))
        best = table.min(0)
    cuts = [len(ends) - 1]
    for step in reversed(came):
        cuts.append(int(step[cuts[-1]]))
    return ends[np.unique([0, *cuts])]


def _short(book: np.ndarray) -> np.ndarray:
    """The values as float16 holds them, where it does: a codebook is data too. Never zero, which means removed."""
    with np.errstate(over="ignore"):
        short = book.astype(np.float16).astype(np.float64)
    return np.where(np.isfinite(short) & (np.abs(short) > 1e-4), short, book)


def _cheapest(layer: Survivors, book: np.ndarray, prices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The code of each value, and what it costs, in nats."""
    rows = max(1, CHUNK // len(book))
    codes, costs = [], []
    for start in range(0, len(layer.values), rows):
        values, precision = (each[start : start + rows, None] for each in (layer.values, layer.precision))
        table = 0.5 * precision * (values - book) ** 2 + prices
        codes.append(table.argmin(1))
        costs.append(table.min(1))
    return np.concatenate(codes), np.concatenate(costs)


def _loss(layer: Survivors, values: np.ndarray) -> float:
    return float(np.sum(0.5 * layer.precision * (values - layer.values) ** 2))


def _place_bits(count: int, size: int) -> float:
    """Bits to say where one of `count` survivors among `size` stands: the entropy of the mask, shared out."""
    share = np.clip(count / max(size, 1), 1e-9, 1 - 1e-9)
    return float(-np.log2(share) - (1 - share) / share * np.log2(1 - share))
