"""What is timed: our methods, NumPyro's SVI on the same model, and the authors' package; each as one compiled loop."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

import occamax as ox
from occamax.data import Dataset
from occamax.experiment.devices import Devices
from occamax.experiment.problem import build_model, read_data
from occamax.experiment.program import Program, Task
from occamax.inference.calibration import held_out_of
from occamax.inference.estimators import Estimator
from occamax.inference.model import Model
from occamax.methods import METHODS, Method
from occamax.networks import NETWORKS

AUTHORS = Path(__file__).parent / "authors"  # pip install --no-deps --target benchmarks/authors bmr4pml==0.1.0
if AUTHORS.is_dir():
    sys.path.insert(0, str(AUTHORS))
BATCH = 128


@dataclass
class Contender:
    """`loop(carry)` runs `steps` steps; `carry` is what it starts from."""

    name: str
    loop: Callable[[Any], Any]
    carry: Any
    steps: int
    seeds: int = 1
    program: Program | None = None  # of ours: for reductions, evaluations and the compiled text


def on_device(part: Any) -> tuple[jax.Array, jax.Array]:
    return jnp.asarray(part.inputs), jnp.asarray(part.targets)


def program_of(
    dataset: Dataset,
    network: Any,
    method: Method,
    steps: int,
    seeds: tuple[int, ...] = (0,),
    dtype: Any = jnp.float32,
    batch: int = BATCH,
    recompute: bool = False,
) -> Program:
    """The compiled parts that `fit` would train with."""
    source = NETWORKS[network] if isinstance(network, str) else network
    data = read_data(dataset, image_size=getattr(source, "image_size", None))
    model = build_model(source, data, method, None, None, str(jnp.dtype(dtype)), Devices(), recompute)
    method = method.suited_to(model.layout)
    return Program(Task(model, method, ox.Budget(50, steps, batch), held_out_of(method.calibration, len(data)), seeds))


def ours(
    dataset: Dataset,
    network: str,
    method: str,
    steps: int,
    seeds: int = 1,
    compute_dtype: Any = jnp.float32,
    estimator: Estimator | None = None,
) -> Contender:
    chosen = METHODS[method]()
    if estimator is not None:
        chosen = replace(chosen, estimator=estimator)
    program = program_of(dataset, network, chosen, steps, tuple(range(seeds)), compute_dtype)
    data = on_device(dataset.train)

    def loop(state: Any) -> Any:
        for chunk in program.chunks:
            state, _ = program.train_chunk[chunk](state, data)
        return state

    name = method + (f" × {seeds} seeds" if seeds > 1 else "") + ("" if compute_dtype == jnp.float32 else " bfloat16")
    name += f" {type(estimator).__name__}" if estimator is not None else ""
    return Contender(name, loop, program.with_kl_weight(program.start()), steps, seeds, program)


class PlainLeNet(eqx.Module):
    """LeNet as a user of Equinox writes it, with Equinox's own convolution and pooling."""

    layers: tuple

    def __init__(self, classes: int, key: jax.Array):
        keys = jax.random.split(key, 5)
        sizes = [(1, 6), (6, 16), (16, 120)]
        convolutions = tuple(eqx.nn.Conv2d(i, o, 5, key=k) for (i, o), k in zip(sizes, keys, strict=False))
        self.layers = (*convolutions, eqx.nn.Linear(120, 84, key=keys[3]), eqx.nn.Linear(84, classes, key=keys[4]))

    def __call__(self, x: jax.Array) -> jax.Array:
        pool = eqx.nn.AvgPool2d(2, 2)
        x = pool(jnp.tanh(self.layers[0](x)))
        x = pool(jnp.tanh(self.layers[1](x)))
        x = jnp.tanh(self.layers[2](x)).ravel()
        return self.layers[4](jnp.tanh(self.layers[3](x)))


def numpyro_svi(dataset: Dataset, network: str, steps: int, plain: bool) -> Contender:
    """NumPyro's SVI with AutoNormal and AdaBelief on the flat model. `plain` takes Equinox's own convolution."""
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal
    from numpyro.optim import optax_to_numpyro

    source = NETWORKS[network]
    use_plain = plain and network == "lenet"
    ours = source.network(dataset.shape, dataset.classes)
    module: Any = PlainLeNet(dataset.classes, jax.random.key(0)) if use_plain else ours
    prepare = dataset.standardise(source.image_size)
    layout = Model(module, dataset.train.inputs[0], ox.FlatPrior(), preprocess=prepare).layout
    inputs, targets = on_device(dataset.train)
    count = len(inputs)

    def model(x, y):
        pieces = []
        for i, block in enumerate(layout.blocks):
            precision = numpyro.sample(f"precision{i}", dist.Gamma(2.0, 2.0))
            unit = numpyro.sample(f"w{i}", dist.Normal(0, 1).expand([block.size]).to_event(1))
            base = 1.0 if i == len(layout.blocks) - 1 else 0.1
            pieces.append(base * unit / jnp.sqrt(precision))
        logits = jax.vmap(layout.bind(module, jnp.concatenate(pieces)))(x)
        observed: Any = dist.Categorical(logits=logits)
        with numpyro.plate("data", count, subsample_size=BATCH):
            numpyro.sample("y", observed, obs=y)

    svi = SVI(model, AutoNormal(model), optax_to_numpyro(optax.adabelief(1e-2)), Trace_ELBO())

    def step(carry, _):
        state, key = carry
        key, draw = jax.random.split(key)
        rows = jax.random.randint(draw, (BATCH,), 0, count)
        state, loss = svi.update(state, jax.vmap(prepare)(inputs[rows]), targets[rows])
        return (state, key), loss

    first = svi.init(jax.random.key(0), jax.vmap(prepare)(inputs[:BATCH]), targets[:BATCH])
    loop = jax.jit(lambda carry: lax.scan(step, carry, length=steps)[0])
    suffix = ", plain convolution" if use_plain else ""
    return Contender(f"NumPyro SVI AutoNormal{suffix}", loop, (first, jax.random.key(1)), steps)


def authors_model(dataset: Dataset, network: str) -> tuple[Any, Any, jax.Array, jax.Array] | None:
    """The authors' BMR of this network: its SVI and first state, and the data; None where it is not installed."""
    if not AUTHORS.is_dir() or network not in ("mlp", "lenet"):
        return None
    from bmr4pml import models  # pyright: ignore[reportMissingImports]
    from bmr4pml.nn import MLP, LeNet  # pyright: ignore[reportMissingImports]
    from numpyro.infer import SVI

    shape = NETWORKS[network].shape(dataset.shape)
    if network == "mlp":
        module = MLP(int(np.prod(shape)), dataset.classes, 400, 5, activation=jax.nn.swish, key=jax.random.PRNGKey(0))
    else:
        module = LeNet(shape, activation=jnp.tanh, key=jax.random.PRNGKey(0))
    regression = models.BMRRegression(module, regtype="multinomial", optim_kwargs={"learning_rate": 1e-2})
    prepare = dataset.standardise(NETWORKS[network].image_size)
    images = jnp.asarray(lax.map(prepare, jnp.asarray(dataset.train.inputs), batch_size=1000))
    labels = jnp.asarray(dataset.train.targets)
    svi = SVI(regression.model, regression.guide, regression.optim, regression.loss)
    return svi, svi.init(jax.random.PRNGKey(0), images, y=labels, batch_size=BATCH), images, labels


def authors_svi(dataset: Dataset, network: str, steps: int) -> Contender | None:
    """The authors' BMR step inside one compiled loop."""
    made = authors_model(dataset, network)
    if made is None:
        return None
    svi, state, x, y = made

    def loop(carry):
        return lax.scan(lambda s, _: svi.update(s, x, y=y, batch_size=BATCH), carry, length=steps)[0]

    return Contender("authors' BMR", jax.jit(loop), state, steps)


def authors_epoch(dataset: Dataset, network: str, steps: int) -> Callable[[], None] | None:
    """One epoch as the authors run it: `SVI.run`, which compiles its loop anew each time."""
    made = authors_model(dataset, network)
    if made is None:
        return None
    svi, state, x, y = made

    def epoch() -> None:
        nonlocal state
        result = svi.run(jax.random.PRNGKey(1), steps, x, y=y, batch_size=BATCH, progress_bar=False, init_state=state)
        state = result.state
        jax.block_until_ready(result.losses)

    return epoch
