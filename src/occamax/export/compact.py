"""Dead units go for good: a chain with the same outputs and fewer numbers.

A unit whose incoming weights are all zero puts out a constant: it goes, and the constant is folded into the biases it
fed. A unit whose outgoing weights are all zero goes too. Removing one may empty another, so it is repeated until
nothing changes. Units of a residual stream stay: every normalisation on the stream depends on all of them. But a branch
that puts out the same whatever comes in is no branch: what it adds is a constant.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import chain as c

Weighted = c.Affine | c.Convolution


@dataclass(frozen=True)
class Kept:
    """What became of the units of one place in the network."""

    where: str
    before: int
    after: int
    why: str = ""  # why they could not be removed


def compact(chain: c.Chain) -> tuple[c.Chain, list[Kept]]:
    """The smaller chain, and what was removed where. Computed in the type of the weights."""
    stages, kept = _compact_stages([_on_host(stage) for stage in chain.stages], "")
    stages, dropped = _drop_branches(stages)
    stages, inputs = _drop_inputs(stages)
    return c.Chain(tuple(stages)), inputs + [_without(kept_here, dropped) for kept_here in kept]


def _on_host(stage: Any) -> Any:
    return jax.tree.map(np.asarray, stage)


def _compact_stages(stages: list[Any], path: str) -> tuple[list[Any], list[Kept]]:
    report: list[Kept] = []
    for i, stage in enumerate(stages):  # what is inside first
        name = f"{path}{i}"
        if isinstance(stage, c.Residual | c.OverTokens):
            inner, inside = _compact_stages(list(stage.inner.stages), f"{name}.")
            stages[i] = type(stage)(c.Chain(tuple(inner)))
            report += inside
        elif isinstance(stage, c.Attention):
            stages[i], found = _compact_attention(stage, name)
            report += found
    pairs = [(i, j) for i, stage in enumerate(stages) if isinstance(stage, Weighted) and (j := consumer_of(stages, i))]
    before = {i: len(stages[i].bias) for i, _ in pairs}
    changed = True
    while changed:
        changed = False
        for i, j in pairs:
            removed = _drop_units(stages, i, j)
            changed |= removed
    fed = {i for i, _ in pairs}
    for i, stage in enumerate(stages):
        if i in fed:
            report.append(Kept(f"{path}{i}", before[i], len(stages[i].bias)))
        elif isinstance(stage, Weighted) and consumer_of(stages, i) is None and not _is_output(stages, i, path):
            units = len(stage.bias)
            report.append(
                Kept(f"{path}{i}", units, units, "feeds a residual stream, whose normalisation needs all units")
            )
    return stages, report


def consumer_of(stages: list[Any], i: int) -> int | None:
    """The next stage with weights, if only pointwise stages, pooling and flattening lie between."""
    for j in range(i + 1, len(stages)):
        if isinstance(stages[j], Weighted):
            return j
        if not isinstance(stages[j], c.Activation | c.Pool | c.Flatten):
            return None
    return None


def _is_output(stages: list[Any], i: int, path: str) -> bool:
    """Whether what this stage puts out is what the network puts out, an activation apart."""
    return not path and all(isinstance(stage, c.Activation) for stage in stages[i + 1 :])


def _drop_units(stages: list[Any], i: int, j: int) -> bool:
    """Removes the dead units between two stages, in place; whether there were any."""
    producer, consumer = stages[i], stages[j]
    units = len(producer.bias)
    constant = ~producer.weight.reshape(units, -1).any(1)
    slices = _slices(consumer.weight, units)  # outputs × units × the rest
    unused = ~slices.any((0, 2))
    dead = constant | unused
    if dead.all():
        dead[0] = False  # a layer of no units is no layer
    if not dead.any():
        return False
    values = producer.bias
    for stage in stages[i + 1 : j]:
        if isinstance(stage, c.Activation):
            values = np.asarray(
                stage(jnp.asarray(values)), values.dtype
            )  # pooling and flattening leave a constant as it is
    folded = consumer.bias + slices[:, dead].sum(2) @ values[dead]
    live = ~dead
    stages[i] = type(producer)(producer.weight[live], producer.bias[live])
    shape = consumer.weight.shape
    weight = slices[:, live].reshape(shape[0], -1, *shape[2:])
    stages[j] = type(consumer)(weight, folded.astype(consumer.bias.dtype))
    return True


def _slices(weight: np.ndarray, units: int) -> np.ndarray:
    """A consumer's weights as outputs × units × whatever each unit feeds: kernel places, or pixels of a channel."""
    return weight.reshape(len(weight), units, -1)


def _drop_branches(stages: list[Any]) -> tuple[list[Any], set[str]]:
    """Branches that put out a constant become that constant, in the biases of the branch before where it has some; and
    which went."""
    found: list[Any] = []
    dropped: set[str] = set()
    for i, stage in enumerate(stages):
        value = _constant_of(list(stage.inner.stages)) if isinstance(stage, c.Residual) else None
        if value is None:
            found.append(stage)
            continue
        dropped.add(str(i))
        if found and (shifted := _shifted(found[-1], value)) is not None:
            found[-1] = shifted
        else:
            found.append(c.Shift(value))
    return found, dropped


def _without(kept: Kept, dropped: set[str]) -> Kept:
    """A line of the report, where its branch went as a whole."""
    if kept.where.split(".")[0] not in dropped or "." not in kept.where:
        return kept
    return Kept(kept.where, kept.before, 0, "its branch puts out a constant")


def _constant_of(stages: list[Any]) -> Any:
    """What a chain puts out for every token, whatever comes in; None where that depends on what comes in."""
    if len(stages) == 2 and isinstance(stages[0], c.Norm) and isinstance(stages[1], c.OverTokens):
        value = _constant_of(list(stages[1].inner.stages))  # one number a token
        return None if value is None else value[:, None]
    if not all(isinstance(stage, c.Affine | c.Activation | c.Norm | c.Attention) for stage in stages):
        return None
    value = None
    for stage in stages:
        if isinstance(stage, c.Attention):
            value = stage.out_bias if not stage.out.any() else None
        elif isinstance(stage, c.Affine) and not stage.weight.any():
            value = stage.bias
        elif value is not None:
            value = np.asarray(stage(jnp.asarray(value)), value.dtype)
    return value


def _shifted(stage: Any, value: Any) -> Any:
    """The stage that puts out so much more for every token; None where it has no bias for that."""
    if isinstance(stage, c.Residual) and value.ndim == 1:
        *before, last = stage.inner.stages
        more = _shifted(last, value)
        return None if more is None else c.Residual(c.Chain((*before, more)))
    if isinstance(stage, c.Attention):
        return dataclasses.replace(stage, out_bias=stage.out_bias + value)
    if isinstance(stage, c.Affine) and value.ndim == 1:
        return c.Affine(stage.weight, stage.bias + value)
    if isinstance(stage, c.Shift) and stage.value.shape == value.shape:
        return c.Shift(stage.value + value)
    return None


def _drop_inputs(stages: list[Any]) -> tuple[list[Any], list[Kept]]:
    """Entries of a flattened input that nothing looks at are not taken at all; so are pixels of patches."""
    if len(stages) < 2 or not isinstance(stages[0], c.Flatten | c.Patches) or not isinstance(stages[1], c.Affine):
        return stages, []
    first = stages[1]
    used = first.weight.any(0)
    used[0] |= not used.any()
    kept = Kept("inputs" if isinstance(stages[0], c.Flatten) else "patch inputs", len(used), int(used.sum()))
    if used.all():
        return stages, [kept]
    taken = c.Take(jnp.asarray(np.flatnonzero(used).astype(np.int32)))
    return [stages[0], taken, c.Affine(first.weight[:, used], first.bias), *stages[2:]], [kept]


def _compact_attention(stage: Any, name: str) -> tuple[c.Attention, list[Kept]]:
    """Heads, and depths within heads. What is the same in every token's key changes no share (the softmax does not see
    it): biases of keys go, and depths of constant keys whatever the query. What is the same in every token's value
    passes through any shares: biases of values are folded onward, and constant values with them."""
    silent = ~stage.query.any(2) & (stage.query_bias == 0)  # heads × depth
    indifferent = ~stage.key.any(2)
    depth_alive = ~(silent | indifferent)
    constant, unread = ~stage.value.any(2), ~stage.out.any(1)  # heads × inner
    inner_alive = ~(constant | unread)
    folded = stage.out_bias + np.einsum("hwi,hi->w", stage.out, stage.value_bias)
    heads = inner_alive.any(1)
    report = [
        Kept(f"{name} heads", len(heads), int(heads.sum())),
        Kept(f"{name} query and key", depth_alive.size, int(depth_alive[heads].sum())),
        Kept(f"{name} value", inner_alive.size, int(inner_alive.sum())),
    ]
    heads[0] |= not heads.any()
    pick = np.flatnonzero(heads)
    depth, inner = (max(1, int(alive[pick].sum(1).max())) for alive in (depth_alive, inner_alive))
    query, query_bias, key = (
        _gather(part, depth_alive, pick, depth) for part in (stage.query, stage.query_bias, stage.key)
    )
    value = _gather(stage.value, inner_alive, pick, inner)
    key_bias, value_bias = (np.zeros(part.shape[:2], part.dtype) for part in (key, value))
    out = _gather(stage.out.transpose(0, 2, 1), inner_alive, pick, inner).transpose(0, 2, 1)
    arrays: Any = query, query_bias, key, key_bias, value, value_bias, out, folded.astype(stage.out_bias.dtype)
    return c.Attention(*arrays, scale=stage.scale), report


def _gather(part: np.ndarray, alive: np.ndarray, heads: np.ndarray, most: int) -> np.ndarray:
    """The live depths of some heads, side by side, as many for each head: the rest is zero and does nothing."""
    gathered = np.zeros((len(heads), most, *part.shape[2:]), part.dtype)
    for place, head in enumerate(heads):
        rows = np.flatnonzero(alive[head])
        gathered[place, : len(rows)] = part[head, rows]
    return gathered


def count_nonzero(chain: Any) -> int:
    """How many of its numbers are not zero."""
    return sum(int(np.count_nonzero(leaf)) for leaf in jax.tree.leaves(chain) if _is_real(leaf))


def _is_real(leaf: Any) -> bool:
    return np.issubdtype(np.asarray(leaf).dtype, np.floating)


def count(chain: Any) -> int:
    """How many numbers a chain or network holds."""
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(chain) if _is_real(leaf))
