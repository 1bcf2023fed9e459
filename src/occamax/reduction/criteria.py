"""Which weights go: from what is believed of them to a mask.

Score, decision and schedule are three things. Scores order the weights; criteria decide; `schedule.py` says when.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..errors import ArgumentError
from ..inference.schedules import passed
from ..structure.layout import PRODUCTS, Block, Layout
from .counting import share_of
from .ranking import lowest


class Beliefs(NamedTuple):
    """What a criterion may look at, (weights,) each. ŵ has a standard normal prior.

    **delta_f** the evidence gained by removing this weight alone, in nats; **mean** and **std** of ŵ; **weight** the
    weight itself, at the posterior mean; **mask** True for what is still there; **reducible** True for what may go;
    **progress** the share of the run that is over; **key** for criteria that draw.

    Examples:
        >>> every = jnp.ones(3, bool)
        >>> beliefs = ox.criteria.Beliefs(
        ...     jnp.array([1.0, -2.0, 0.5]), jnp.zeros(3), jnp.ones(3), jnp.array([0.1, 2.0, -0.3]),
        ...     every, every, jnp.float32(0.5), jax.random.key(0))
        >>> decision = ox.criteria.Evidence().decide(fitted.model.layout, beliefs)
        >>> decision.keep.tolist()  # only the second is worth more than it costs
        [False, True, False]
    """

    delta_f: Float[Array, "weights"]
    mean: Float[Array, "weights"]
    std: Float[Array, "weights"]
    weight: Float[Array, "weights"]
    mask: Bool[Array, "weights"]
    reducible: Bool[Array, "weights"]
    progress: Float[Array, ""]
    key: PRNGKeyArray


class Decision(NamedTuple):
    """What a criterion says: **keep** (weights,), True keeps, and the **threshold** (layers,) of the score that it came
    to.

    Examples:
        >>> decision = ox.criteria.Decision(jnp.array([True, False]), jnp.zeros(1))
        >>> int(decision.keep.sum())
        1
    """

    keep: Bool[Array, "weights"]
    threshold: Float[Array, "blocks"]


class Criterion(ABC):
    """Base of all criteria: from what is believed of each weight to a mask. What was removed before, and what may not
    be removed, is seen to by the caller.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Tiny(ox.criteria.Criterion):
        ...     below: float = 0.01
        ...     def decide(self, layout, beliefs):
        ...         keep = jnp.abs(beliefs.weight) >= self.below
        ...         return ox.criteria.Decision(keep, jnp.full(len(layout.blocks), self.below))
        >>> method = ox.BMR(reduction=ox.Reduction(Tiny(0.02)))
    """

    @property
    def needs_evidence(self) -> bool:
        """Whether it looks at ΔF or the posterior's deviations, which a point estimate has not."""
        return True

    @abstractmethod
    def decide(self, layout: Layout, beliefs: Beliefs) -> Decision:
        """What stays, and the threshold by layer. Traced by jax: no Python `if` on what is believed."""


@dataclass(frozen=True)
class SpikeAndSlab(Criterion):
    """The paper's criterion: each layer learns how much of it is spike (section 2.7). From α = α0, β = β0, each round

        ζ = ψ(α) − ψ(β)      q = sigmoid(ζ − ΔF)      α = α0 + Σ q      β = β0 + Σ (1 − q)

    and a weight goes when its q of the last round is under ½. Weights removed earlier stay in the sums: their posterior
    is the prior, ΔF = 0, so they count as sigmoid(ζ), neither way. (Counted as q = 0 they drive ζ to −∞ and every
    weight goes.)

    **alpha0**, **beta0** of the Beta prior of a layer's share of useful weights, **rounds** of the iteration.

    Raises:
        ArgumentError: a number that is not positive.

    Examples:
        >>> ox.PaperBMR(reduction=ox.Reduction(ox.criteria.SpikeAndSlab(rounds=8))).reduction.criterion.rounds
        8
    """

    alpha0: float = 1.0
    beta0: float = 1.0
    rounds: int = 4

    def __post_init__(self):
        for name in ("alpha0", "beta0", "rounds"):
            if not getattr(self, name) > 0:
                raise ArgumentError(f"{name}: {getattr(self, name)!r} given; it must be positive")

    def decide(self, layout, beliefs):
        sizes = jnp.asarray(np.array(layout.sizes), beliefs.delta_f.dtype)
        alpha = jnp.full(len(layout.blocks), self.alpha0, beliefs.delta_f.dtype)
        beta = jnp.full(len(layout.blocks), self.beta0, beliefs.delta_f.dtype)
        zeta = digamma(alpha) - digamma(beta)
        for _ in range(self.rounds):
            zeta = digamma(alpha) - digamma(beta)
            kept = layout.totals(jax.nn.sigmoid(layout.blocks_to_weights(zeta) - beliefs.delta_f))
            alpha, beta = self.alpha0 + kept, self.beta0 + sizes - kept
        return Decision(beliefs.delta_f <= layout.blocks_to_weights(zeta), zeta)  # q >= ½


@dataclass(frozen=True)
class Evidence(Criterion):
    """A weight goes when the evidence gained is more than **threshold** nats.

    Examples:
        >>> careful = ox.Reduction(ox.criteria.Evidence(threshold=1.0))  # only what the evidence is sure of
        >>> method = ox.BMR(reduction=careful)
    """

    threshold: float = 0.0

    def decide(self, layout, beliefs):
        return Decision(beliefs.delta_f <= self.threshold, jnp.full(len(layout.blocks), self.threshold))


class Score(ABC):
    """Base of all scores: one number a weight, the lowest go first.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Squares(ox.criteria.Score):
        ...     def __call__(self, beliefs):
        ...         return beliefs.weight**2
        >>> ox.criteria.TargetSparsity(0.9, Squares()).score
        Squares()
    """

    needs_evidence: ClassVar[bool] = True

    @abstractmethod
    def __call__(self, beliefs: Beliefs) -> Float[Array, "weights"]: ...


@dataclass(frozen=True)
class KeepingEvidence(Score):
    """−ΔF: what removing the weight would cost in evidence.

    Examples:
        >>> ox.criteria.TargetSparsity(0.9).score  # unless another is given
        KeepingEvidence()
    """

    def __call__(self, beliefs):
        return -beliefs.delta_f


@dataclass(frozen=True)
class Magnitude(Score):
    """|w|, the baseline of every pruning paper.

    Examples:
        >>> by_size = ox.criteria.TargetSparsity(0.9, ox.criteria.Magnitude())
        >>> method = ox.Plain(reduction=ox.Reduction(by_size))
    """

    needs_evidence = False

    def __call__(self, beliefs):
        return jnp.abs(beliefs.weight)


@dataclass(frozen=True)
class SignalToNoise(Score):
    """|mean| / std of the posterior.

    Examples:
        >>> ox.criteria.TargetSparsity(0.9, ox.criteria.SignalToNoise()).needs_evidence
        True
    """

    def __call__(self, beliefs):
        return jnp.abs(beliefs.mean) / beliefs.std


@dataclass(frozen=True)
class Chance(Score):
    """A random order, the floor of any comparison.

    Examples:
        >>> ox.criteria.TargetSparsity(0.9, ox.criteria.Chance()).needs_evidence
        False
    """

    needs_evidence = False

    def __call__(self, beliefs):
        return jax.random.uniform(beliefs.key, beliefs.delta_f.shape)


class Told(Criterion):
    """Base of criteria that are told how many go: a score says which, the lowest first. The first go after `begin`, a
    share of the run, and by `reach` all are gone."""

    score: Score
    reach: float
    begin: float
    power: float

    @property
    def needs_evidence(self):
        return self.score.needs_evidence

    def refuse_way(self) -> None:
        if not 0.0 <= self.reach < 1.0:
            raise ArgumentError(f"reach: {self.reach!r} given; it must lie between 0 and 1")
        if not (self.begin == 0.0 or 0.0 < self.begin < self.reach):
            raise ArgumentError(f"begin: {self.begin!r} given; it must lie between 0 and reach, {self.reach!r}")
        if not self.power > 0:
            raise ArgumentError(f"power: {self.power!r} given; it must be positive, 1 for a straight line")

    def on_the_way(self, progress: Float[Array, ""]) -> Float[Array, ""] | float:
        """Which share of what is wanted should be gone by now."""
        if not self.reach:
            return 1.0
        return 1.0 - (1.0 - passed(progress, self.begin, self.reach)) ** self.power

    def scores(self, beliefs: Beliefs) -> Float[Array, "weights"]:
        """What is gone already is the lowest."""
        return jnp.where(beliefs.mask, self.score(beliefs), -jnp.inf)


@dataclass(frozen=True)
class TargetSparsity(Told):
    """Removes exactly `sparsity` of the reducible weights, the lowest scores first, ties in the order of the vector.

    **per_layer** takes the same share of every layer; otherwise the network as a whole is counted. **reach** is the
    share of the run by which the target is met; from **begin** until then it is approached along 1 − (1 − t)³, with t
    the share of that time that is over; another **power** than 3 takes a straighter way (1) or more at first.

    **score** says which go first.

    Raises:
        ArgumentError: a share outside 0 to 1.

    Examples:
        >>> same_share = ox.criteria.TargetSparsity(0.9, per_layer=True, reach=0.5)
        >>> method = ox.BMR(reduction=ox.Reduction(same_share))
    """

    sparsity: float
    score: Score = KeepingEvidence()
    per_layer: bool = False
    reach: float = 0.0
    begin: float = 0.0
    power: float = 3.0

    def __post_init__(self):
        if not 0.0 <= self.sparsity <= 1.0:
            raise ArgumentError(f"sparsity: {self.sparsity!r} given; it must lie between 0 and 1")
        self.refuse_way()

    def decide(self, layout, beliefs):
        def most(counted: Array) -> Array:
            """How many go: of a share that is known to float32 on the way to the target, then as it was given."""
            last = share_of(jnp.sum(counted), float(self.sparsity))
            if not self.reach:
                return last
            on_the_way = self.sparsity * self.on_the_way(beliefs.progress)
            return jnp.where(beliefs.progress >= self.reach, last, share_of(jnp.sum(counted), on_the_way))

        score = self.scores(beliefs)
        score = jnp.where(beliefs.reducible, score, jnp.inf)
        if not self.per_layer:
            keep, cut = _drop_lowest(score, most(beliefs.reducible))
            return Decision(keep, jnp.full(len(layout.blocks), cut))
        pairs = zip(layout.split(score), layout.split(beliefs.reducible), strict=True)
        parts = [_drop_lowest(scores, most(counted)) for scores, counted in pairs]
        return Decision(jnp.concatenate([keep for keep, _ in parts]), jnp.stack([cut for _, cut in parts]))


@dataclass(frozen=True)
class Pattern(Told):
    """Of every `of` weights beside each other along a layer's inputs, `keep` stay: those with the highest score. 2 of 4
    is what NVIDIA's sparse tensor cores and TensorRT multiply by; neither jax nor onnxruntime gains any speed from it.

    Inputs are a matrix's columns and a kernel's channels, at each of its places. Gains and biases stay. **reach**,
    **begin** and **power** as in `TargetSparsity`: until then fewer of each group are gone.

    **score** says which stay.

    Raises:
        ArgumentError: more to keep than there are, or a share outside 0 to 1.

    Examples:
        >>> ox.BMR().in_pattern(2, 4, epochs=10).reduction.criterion.keep
        2
    """

    keep: int = 2
    of: int = 4
    score: Score = KeepingEvidence()
    reach: float = 0.0
    begin: float = 0.0
    power: float = 3.0

    def __post_init__(self):
        if not 0 < self.keep < self.of:
            raise ArgumentError(f"keep: {self.keep!r} of {self.of!r} given; it must lie between 0 and that, as 2 of 4")
        self.refuse_way()

    def decide(self, layout, beliefs):
        score = self.scores(beliefs)
        gone = (self.of - self.keep) * self.on_the_way(beliefs.progress)
        dropped = jnp.floor(gone + 1e-4).astype(jnp.int32)  # in each group
        scores = layout.split(score)
        parts = [self._kept(block, own, dropped) for block, own in zip(layout.blocks, scores, strict=True)]
        cuts = [jnp.min(jnp.where(keep, own, jnp.inf)) for keep, own in zip(parts, scores, strict=True)]
        return Decision(jnp.concatenate(parts), jnp.stack(cuts))

    def _kept(self, block: Block, score: Array, dropped: Int[Array, ""]) -> Bool[Array, "weights"]:
        inputs = [axis for axis in range(len(block.weight_shape)) if axis not in block.output_axes]
        if block.kind not in PRODUCTS or not inputs:
            return jnp.ones(block.size, bool)
        weight, bias = score[: block.piece_sizes[0]], score[block.piece_sizes[0] :]
        last = jnp.moveaxis(weight.reshape(block.weight_shape), inputs[0], -1)
        rest = -last.shape[-1] % self.of  # a group that is not full may be kept as far as a full one
        padded = jnp.pad(last, [(0, 0)] * (last.ndim - 1) + [(0, rest)], constant_values=-jnp.inf)
        groups = padded.reshape(*last.shape[:-1], -1, self.of)
        kept = jnp.argsort(jnp.argsort(groups, stable=True), stable=True) >= dropped
        kept = kept.reshape(padded.shape)[..., : last.shape[-1]]
        return jnp.concatenate([jnp.moveaxis(kept, -1, inputs[0]).ravel(), jnp.ones(bias.shape, bool)])


def _drop_lowest(score: Array, count: Int[Array, ""]) -> tuple[Array, Array]:
    """Keeps all but the `count` lowest; also the lowest score kept."""
    drop = lowest(score, count)
    return ~drop, jnp.min(jnp.where(drop, jnp.inf, score))
