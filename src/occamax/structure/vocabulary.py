"""The operations of a graph: what each takes, which attributes it has.

Elementwise operations broadcast as numpy does and have no attributes, unless said otherwise. A negative number in an
attribute called `shape`, `stops` or `sizes` stands for the batch, as in shapes.

`dot` left, right. `contract` (axes of left, axes of right), `batch` (the same). The result has the batch axes, then
    left's other axes, then right's. Where one side depends on the input and the other does not, that side is left.
`conv` image (N, C, …), kernel (O, C/groups, …) → (N, O, …). `strides`, `padding` ((low, high), …), `dilations`,
    `input_dilations`, `groups`.
`add sub mul div max min pow rem atan2 eq ne lt le gt ge and or xor` two.
`neg exp exp2 expm1 log log1p tanh logistic erf erfc erf_inv sqrt rsqrt cbrt abs sign square floor ceil sin cos tan
    asin acos atan sinh cosh asinh acosh atanh is_finite not` one.
`integer_pow` one. `exponent`. `round` one. `ties`: even or away. `cast` one. `dtype`.
`clamp` low, value, high. `select` predicate, where true, where false.
`relu silu` one. `gelu` one. `tanh`: True for the tanh form, False for the exact one.
`softmax log_softmax` one. `axis`.
`reshape` one. `shape`. `transpose` one. `axes`. `broadcast` one, aligned at the last axis. `shape`.
`slice` one. `starts`, `stops`, `steps`, a number for each axis. `reverse` one. `axes`.
`concat` many. `axis`. `pad` value, filling (a scalar). `padding` ((low, high, interior), …), negative cuts off.
`take` table, indices. `axis`, `mode` (clip or fill). The indices' axes stand where the axis was, as in `numpy.take`.
`gather` operand, indices: XLA's. `offset`, `collapsed`, `map`, `operand_batch`, `indices_batch`, `sizes`, `mode`.
`dynamic_slice` value, a start for each axis. `sizes`. `dynamic_update` value, update, a start for each axis.
`reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or` one. `axes`, which vanish.
`argmax argmin` one. `axis`, which vanishes. `cumsum cumprod cummax cummin` one. `axis`, `reverse`.
`window_sum window_max window_min` one. For each axis `window`, `strides`, `padding` ((low, high), …), `dilations`,
    `input_dilations`.
`scan` constants, carries, stacks to run along → carries, stacks. `body`: a graph of constants, carries, slices →
    carries, slices. `constants`, `carries`: how many. `length`, `reverse`.
`cond` which (an integer), operands. `branches`: a tuple of graphs.
`while` constants of the condition, constants of the body, carries → carries. `condition`, `body`: graphs of their
    constants and the carries. `condition_constants`, `body_constants`: how many.
`unknown` any. `primitive`: its name in jax, `reason`. Only in a graph traced with `allow_unknown`.
"""


def _words(line: str) -> frozenset[str]:
    return frozenset(line.split())


UNARY = _words("neg exp exp2 expm1 log log1p tanh logistic erf erfc erf_inv sqrt rsqrt cbrt abs sign square floor ceil")
UNARY |= _words("sin cos tan asin acos atan sinh cosh asinh acosh atanh is_finite not")
BINARY = _words("add sub mul div max min pow rem atan2 eq ne lt le gt ge and or xor")
ACTIVATIONS = _words("relu silu gelu")
ELEMENTWISE = UNARY | BINARY | ACTIVATIONS | _words("integer_pow round cast clamp select")
LAYOUT = _words("reshape transpose broadcast slice reverse")
"""Operations that only move or copy what their one input holds."""
REDUCTIONS = _words("reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or")
WINDOWS = _words("window_sum window_max window_min")
CUMULATIVE = _words("cumsum cumprod cummax cummin")
CONTROL = _words("scan cond while")
OPERATIONS = ELEMENTWISE | LAYOUT | REDUCTIONS | WINDOWS | CUMULATIVE | CONTROL
OPERATIONS |= _words("dot conv softmax log_softmax concat pad take gather dynamic_slice dynamic_update argmax argmin")
