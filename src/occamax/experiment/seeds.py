"""Several seeds at once where memory allows it, else one after the other."""

import sys
from dataclasses import replace

import jax

from .run import Experiment, Keeping, Trained, train

FULL = "RESOURCE_EXHAUSTED"  # how jax's message begins when a device's memory is short


def train_seeds(experiment: Experiment, keeping: Keeping = Keeping()) -> list[Trained]:
    """As `train`. Where the device has no memory for all seeds at once, that is said, and each is trained by itself:
    from its last checkpoint where it has one, with the same result."""
    seeds = experiment.task.seeds
    said = ""
    try:
        return train(experiment, keeping)
    except jax.errors.JaxRuntimeError as error:
        if FULL not in str(error) or len(seeds) == 1 or jax.process_count() > 1:
            raise
        said = str(error).splitlines()[0][:200]
    # outside of the handler: the error held what filled the memory
    print(f"{len(seeds)} seeds at once do not fit ({said}). Training one after the other.", file=sys.stderr, flush=True)
    return [found for i in range(len(seeds)) for found in train(*_alone(experiment, keeping, i))]


def _alone(experiment: Experiment, keeping: Keeping, i: int) -> tuple[Experiment, Keeping]:
    seed = experiment.task.seeds[i]
    own = replace(
        experiment,
        task=replace(experiment.task, seeds=(seed,)),
        config=replace(experiment.config, seed=seed),
    )
    if not keeping.paths:
        return own, keeping
    path = keeping.paths[i]
    is_begun = (path / "checkpoint.safetensors").is_file()
    return own, replace(keeping, paths=[path], resume=is_begun, overwrite=not is_begun)
