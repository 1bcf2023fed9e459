"""Each operation of the vocabulary in numpy: `OPERATIONS[op](*arrays, **attributes)`, sizes already put in."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def _special(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """A function of scipy, which is imported when it is first called."""

    def call(x: np.ndarray) -> np.ndarray:
        import scipy.special

        return getattr(scipy.special, {"erf_inv": "erfinv"}.get(name, name))(x)

    return call


def _div(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    if np.issubdtype(left.dtype, np.integer):  # towards zero
        return (np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right))).astype(left.dtype)
    return left / right


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _gelu(x: np.ndarray, tanh: bool) -> np.ndarray:
    if tanh:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * _special("erfc")(-x * math.sqrt(0.5))


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _round(x: np.ndarray, ties: str) -> np.ndarray:
    return np.round(x) if ties == "even" else np.trunc(x + np.copysign(0.5, x))


def _dot(left: np.ndarray, right: np.ndarray, contract: Any, batch: Any) -> np.ndarray:
    frees = []
    sides = []
    for x, contracted, batched, last in ((left, contract[0], batch[0], True), (right, contract[1], batch[1], False)):
        free = [axis for axis in range(x.ndim) if axis not in (*contracted, *batched)]
        order = (*batched, *free, *contracted) if last else (*batched, *contracted, *free)
        inner = math.prod(x.shape[axis] for axis in contracted)
        outer = math.prod(x.shape[axis] for axis in free)
        leading = tuple(x.shape[axis] for axis in batched)
        sides.append(x.transpose(order).reshape(*leading, *((outer, inner) if last else (inner, outer))))
        frees.append(tuple(x.shape[axis] for axis in free))
    leading = tuple(left.shape[axis] for axis in batch[0])
    return np.matmul(*sides).reshape(*leading, *frees[0], *frees[1])


def _pad(x: np.ndarray, filling: np.ndarray, padding: Any) -> np.ndarray:
    """XLA's padding: `interior` between the elements, `low` and `high` around them, cut off where negative."""
    shape = tuple(size + max(size - 1, 0) * interior for size, (_, _, interior) in zip(x.shape, padding, strict=True))
    if shape != x.shape:
        spread = np.full(shape, filling, x.dtype)
        spread[tuple(slice(None, None, interior + 1) for _, _, interior in padding)] = x
        x = spread
    widths = [(max(low, 0), max(high, 0)) for low, high, _ in padding]
    if any(map(any, widths)):
        x = np.pad(x, widths, constant_values=filling)
    return x[tuple(slice(max(-low, 0), x.shape[i] - max(-high, 0)) for i, (low, high, _) in enumerate(padding))]


def _conv(
    image: np.ndarray, kernel: np.ndarray, strides: Any, padding: Any, dilations: Any, input_dilations: Any, groups: int
) -> np.ndarray:
    edges = [(low, high, spread - 1) for (low, high), spread in zip(padding, input_dilations, strict=True)]
    image = _pad(image, np.zeros((), image.dtype), [(0, 0, 0), (0, 0, 0), *edges])
    spatial = kernel.ndim - 2
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel.shape[2:], dilations, strict=True)]
    windows = sliding_window_view(image, reach, tuple(range(2, 2 + spatial)))  # type: ignore[call-overload]
    steps = [slice(None, None, step) for step in (*strides, *dilations)]
    windows = windows[(slice(None), slice(None), *steps)]  # N × C × places × kernel
    inner = (1, *range(2 + spatial, 2 + 2 * spatial))
    results = [
        np.tensordot(part, weight, (inner, range(1, 2 + spatial)))
        for part, weight in zip(np.split(windows, groups, 1), np.split(kernel, groups, 0), strict=True)
    ]
    return np.moveaxis(np.concatenate(results, -1), -1, 1)


def _lowest(dtype: np.dtype) -> Any:
    return np.iinfo(dtype).min if np.issubdtype(dtype, np.integer) else -np.inf


def _highest(dtype: np.dtype) -> Any:
    return np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else np.inf


_IDENTITY: dict[str, Callable[[np.dtype], Any]] = {"sum": lambda dtype: 0, "max": _lowest, "min": _highest}


def _window(name: str, combine: Callable) -> Callable:
    def call(
        x: np.ndarray, window: Any, strides: Any, padding: Any, dilations: Any, input_dilations: Any
    ) -> np.ndarray:
        edges = [(low, high, spread - 1) for (low, high), spread in zip(padding, input_dilations, strict=True)]
        x = _pad(x, np.asarray(_IDENTITY[name](x.dtype), x.dtype), edges)
        places = [
            (size - (wide - 1) * spread - 1) // step + 1
            for size, wide, spread, step in zip(x.shape, window, dilations, strides, strict=True)
        ]
        result = None
        for offset in itertools.product(*map(range, window)):
            starts = [at * spread for at, spread in zip(offset, dilations, strict=True)]
            cuts = zip(starts, places, strides, strict=True)
            part = x[tuple(slice(start, start + (count - 1) * step + 1, step) for start, count, step in cuts)]
            result = part if result is None else combine(result, part)
        return np.asarray(result)

    return call


def _cumulative(ufunc: np.ufunc) -> Callable:
    def call(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
        return np.flip(ufunc.accumulate(np.flip(x, axis), axis), axis) if reverse else ufunc.accumulate(x, axis)

    return call


def _out_of_range(result: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """What jax's `fill` mode gives: NaN for floats, the lowest number for signed integers, the highest for others."""
    dtype = result.dtype
    if np.issubdtype(dtype, np.integer):
        filling = np.iinfo(dtype).min if np.issubdtype(dtype, np.signedinteger) else np.iinfo(dtype).max
    else:
        filling = True if dtype.kind == "b" else np.nan
    return np.where(outside, np.asarray(filling, dtype), result)


def _take(table: np.ndarray, indices: np.ndarray, axis: int, mode: str) -> np.ndarray:
    size = table.shape[axis]
    result = np.take(table, np.clip(indices, 0, size - 1), axis)
    outside = (indices < 0) | (indices >= size)
    if mode == "clip" or not outside.any():
        return result
    return _out_of_range(result, outside.reshape(outside.shape + (1,) * (table.ndim - axis - 1)))


def _gather(  # XLA's own parameters, one each
    operand: np.ndarray,
    indices: np.ndarray,
    *,
    offset: Any,
    collapsed: Any,
    map: Any,
    operand_batch: Any,
    indices_batch: Any,
    sizes: Any,
    mode: str,
) -> np.ndarray:
    """XLA's gather by one advanced index: places × the slice's own axes, then the axes in their order."""
    places = indices.shape[:-1]
    kept = [axis for axis in range(operand.ndim) if axis not in (*collapsed, *operand_batch)]
    rank = len(places) + len(kept)
    outside = np.zeros(places + (1,) * len(kept), bool)
    index = []
    for axis in range(operand.ndim):
        at: Any = np.zeros((1,) * rank, int)
        if axis in map:
            start = indices[..., map.index(axis)].astype(int)
            highest = operand.shape[axis] - sizes[axis]
            outside |= ((start < 0) | (start > highest)).reshape(outside.shape)
            at = np.clip(start, 0, highest).reshape(places + (1,) * len(kept))
        elif axis in operand_batch:
            along = indices_batch[operand_batch.index(axis)]
            at = np.arange(operand.shape[axis]).reshape([-1 if i == along else 1 for i in range(rank)])
        if axis in kept:
            own = len(places) + kept.index(axis)
            at = at + np.arange(sizes[axis]).reshape([-1 if i == own else 1 for i in range(rank)])
        index.append(at)
    result = np.broadcast_to(operand[tuple(index)], places + tuple(sizes[axis] for axis in kept))
    if mode == "fill" and outside.any():
        result = _out_of_range(result, outside)
    others = [axis for axis in range(rank) if axis not in offset]
    return np.moveaxis(result, range(rank), [*others, *offset])


def _starts(x: np.ndarray, starts: Any, sizes: Any) -> tuple[slice, ...]:
    cuts = zip(starts, x.shape, sizes, strict=True)
    return tuple(slice(at, at + size) for at, size in ((int(np.clip(s, 0, n - size)), size) for s, n, size in cuts))


def _dynamic_slice(x: np.ndarray, *starts: np.ndarray, sizes: Any) -> np.ndarray:
    return x[_starts(x, starts, sizes)]


def _dynamic_update(x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    result = x.copy()
    result[_starts(x, starts, update.shape)] = update
    return result


def _named(names: str, pattern: str = "{}") -> dict[str, Callable]:
    """Functions that numpy calls by the same names, or by names like them."""
    return {name: getattr(np, pattern.format(name)) for name in names.split()}


OPERATIONS: dict[str, Callable[..., Any]] = {
    **_named("exp exp2 expm1 log log1p tanh sqrt cbrt abs sign square floor ceil sin cos tan sinh cosh transpose"),
    **{f"a{name}": function for name, function in _named("sin cos tan sinh cosh tanh tan2", "arc{}").items()},
    **{f"reduce_{name}": function for name, function in _named("sum max min prod").items()},
    **{name: _special(name) for name in ("erf", "erfc", "erf_inv")},
    "neg": np.negative,
    "logistic": _logistic,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "is_finite": np.isfinite,
    "not": np.invert,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "max": np.maximum,
    "min": np.minimum,
    "pow": np.power,
    "rem": np.fmod,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "integer_pow": lambda x, exponent: x**exponent,
    "round": _round,
    "cast": lambda x, dtype: x.astype(dtype),
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "select": np.where,
    "relu": lambda x: np.maximum(x, np.zeros((), x.dtype)),
    "silu": lambda x: x * _logistic(x),
    "gelu": _gelu,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "dot": _dot,
    "conv": _conv,
    "reshape": lambda x, shape: x.reshape(shape),
    "broadcast": lambda x, shape: np.broadcast_to(x, shape),
    "slice": lambda x, starts, stops, steps: x[tuple(map(slice, starts, stops, steps))],
    "reverse": np.flip,
    "concat": lambda *parts, axis: np.concatenate(parts, axis),
    "pad": _pad,
    "take": _take,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update": _dynamic_update,
    "reduce_and": np.all,
    "reduce_or": np.any,
    "argmax": np.argmax,
    "argmin": np.argmin,
    "window_sum": _window("sum", np.add),
    "window_max": _window("max", np.maximum),
    "window_min": _window("min", np.minimum),
    "cumsum": _cumulative(np.add),
    "cumprod": _cumulative(np.multiply),
    "cummax": _cumulative(np.maximum),
    "cummin": _cumulative(np.minimum),
}
