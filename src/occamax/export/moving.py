"""What a network said about some training examples: one that lost weights is moved back to it, and judged by others."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from ..errors import ExportError
from ..inference.posteriors import IndependentNormals
from ..reduction.repairing import Examples, Repair, batched, outputs_of_all, repaired
from .evidence import weights_of
from .rounding import Rounded, Rounding
from .source import Exportable

STAGE = 0.75  # of the bytes before that a stage comes down to
ROUNDS = 6  # at most, in which what is left is moved and rounded again
REPAIR = Repair(rounds=2, steps=10, examples=2000)
JUDGED = 2000  # other training examples by which the loss is measured
MOST_LOST = (
    0.1  # of what the network had gained over one that learnt nothing, unless `--max-loss` says what may be lost
)


def without(source: Exportable, gone: np.ndarray) -> Exportable:
    """The source without these weights."""
    believed, flags = source.believed, jnp.asarray(gone)
    smaller = believed._replace(posterior=believed.posterior.forget(flags), mask=believed.mask & ~flags)
    return replace(source, believed=smaller)


@dataclass(frozen=True)
class Repairing:
    """What a network said about some training examples, so that one that lost units can be moved back to it."""

    fitted: Examples
    said: jnp.ndarray
    judged: Examples

    @staticmethod
    def of(source: Exportable) -> "Repairing":
        assert source.training is not None
        parts = source.training.apart(REPAIR.examples, JUDGED)
        size = min(REPAIR.batch_size, *(len(targets) for _, targets in parts))
        fitted, judged = (batched(*pair, size, source.training.count) for pair in parts)
        return Repairing(fitted, _outputs(source, fitted), judged)

    @property
    def count(self) -> int:
        return self.judged.inputs.shape[0] * self.judged.inputs.shape[1]

    def moved(self, source: Exportable) -> Exportable:
        """The source whose means were moved; its deviations stay."""
        model, (posterior, mask, buffers, *_) = source.model, source.believed
        assert isinstance(posterior, IndependentNormals)
        _, scales, log_scales = model.split(posterior.point)
        stds, weights = model.prior.weight_stds(model.layout, scales), model.weights(posterior.point, mask)
        for _ in range(REPAIR.rounds):
            weights = repaired(
                model, weights, mask, buffers or model.buffers, self.said, log_scales, self.fitted, stds**-2,
                REPAIR.steps,
            )  # fmt: skip
        unit = jnp.where(mask, (weights - model.prior.centers(model.layout)) / stds, 0.0)
        moved = IndependentNormals(posterior.mean.at[: model.layout.size].set(unit), posterior.log_std)
        return replace(source, believed=source.believed._replace(posterior=moved))

    def gained(self, source: Exportable) -> float:
        """The nats by which it is better than a network that learnt nothing, over all that it was trained on."""
        targets = np.asarray(self.judged.targets)
        nothing = source.model.likelihood.baseline(targets.reshape(-1, *targets.shape[2:]))
        return max(self.judged.count * nothing - self.nats(source), 0.0)

    def nats(self, source: Exportable) -> float:
        """What the examples that it was not moved by cost, times all that it was trained on."""
        outputs = _outputs(source, self.judged) / (source.temperature or 1.0)
        flat = outputs.reshape(-1, *outputs.shape[2:]), self.judged.targets.reshape(-1, *self.judged.targets.shape[2:])
        log_scales = source.model.split(source.believed.posterior.point)[2]
        return float(-jnp.mean(source.model.likelihood.log_prob(*flat, log_scales))) * self.judged.count


def _outputs(source: Exportable, examples: Examples) -> jnp.ndarray:
    model, believed = source.model, source.believed
    weights = (
        jnp.asarray(weights_of(model, believed.posterior.point, believed.mask))
        if source.rounded is None
        else jnp.asarray(source.rounded)
    )
    return outputs_of_all(model, weights, believed.buffers or model.buffers, examples)


def refitted(
    source: Exportable, round_off: Callable[[Exportable, Rounding], Rounded | None], rounding: Rounding
) -> tuple[Exportable, list[Rounded | None]]:
    """A network whose weights are rounded, and removed, so that its file fits: in stages, after each of which what is
    left is moved so that it says what the network said; then at the size asked for, as long as more weights go by
    rounding them again. Of all that fit, with the one that nothing was done to, the best is kept, judged by other
    training examples. One that lost too much is refused."""
    judge, wanted, now = Repairing.of(source), rounding.max_bytes or 0, source

    def at(limit: int, one: Exportable) -> Rounded | None:
        return round_off(one, replace(rounding, max_bytes=limit, max_loss=None))

    tried = [(source, at(wanted, source))]
    for limit in [*_stages(round_off(source, Rounding()), wanted), *[wanted] * ROUNDS]:
        found = tried[0][1] if now is source and limit == wanted else at(limit, now)
        if found is None:
            return source, [None]
        gone = np.asarray(now.believed.mask) & (found.weights == 0)
        if limit == wanted and now is not source:
            tried.append((now, found))
        if limit == wanted and not gone.any():
            break
        now = judge.moved(without(now, gone))
    judged = [(judge.nats(replace(one, rounded=own.weights)), one, own) for one, own in tried if own is not None]
    nats, best, found = min(judged, key=lambda each: each[0])
    loss = nats - judge.nats(source)
    removed = int(np.sum(np.asarray(source.believed.mask) & (found.weights == 0)))
    may_lose = MOST_LOST * judge.gained(source) if rounding.max_loss is None else rounding.max_loss
    if loss > may_lose:
        raise ExportError(
            f"--bytes: {rounding.max_bytes:,} would cost {loss:,.0f} nats, more than {may_lose:,.0f}, "
            + (f"{MOST_LOST:g} of what the network has learnt" if rounding.max_loss is None else "those of --max-loss")
            + f": {removed:,} weights would go. Train it with --sparsity, so that it learns to do without them"
            + (", or say with --max-loss how many nats may be lost" if rounding.max_loss is None else "")
        )
    return best, [found._replace(loss=loss, removed=removed, examples=judge.count)]


def _stages(found: Rounded | None, wanted: int) -> list[int]:
    """Sizes on the way from that of a network that is rounded as far as it should be to the wanted one."""
    stages, size = [], 0.0 if found is None else STAGE * found.bits / 8
    while size > wanted / STAGE:
        stages.append(int(size))
        size *= STAGE
    return stages
