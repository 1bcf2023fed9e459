"""What a network of PyTorch costs to train here, beside the same network written in Equinox.

    python benchmarks/adapters.py [--networks mlp resnet] [--steps 20] [--rounds 5] [--out adapters.jsonl]

Prints milliseconds per step of `ox.BMR()` in a compiled loop (the median of interleaved rounds), of both, and their
ratio in the same run. Needs occamax[torch].
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from page_tables import adapter_steps
from torch import nn  # pyright: ignore[reportMissingImports]
from trials import command

import occamax as ox
from occamax.experiment.environment import environment
from occamax.inference.model import Model

METHOD = ox.BMR(normalised=None)
KEYS = jax.random.split(jax.random.key(0), 8)


class TorchResidual(nn.Module):
    """A stream of channels with one block on it, BatchNorm and pooling."""

    def __init__(self, width: int = 16):
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(1, width, 3, 2, padding=1, bias=False), nn.BatchNorm2d(width)
        self.first, self.first_norm = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.second, self.second_norm = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.stem_norm(self.stem(x)))
        y = torch.relu(self.first_norm(self.first(x)))
        return self.head(torch.relu(x + self.second_norm(self.second(y))).mean((2, 3)))


class EquinoxResidual(eqx.Module):
    convolutions: tuple[eqx.nn.Conv2d, ...]
    norms: tuple[eqx.nn.BatchNorm, ...]
    head: eqx.nn.Linear

    def __init__(self, width: int = 16):
        conv = lambda inputs, stride, key: eqx.nn.Conv2d(  # noqa: E731
            inputs, width, 3, stride, padding=1, use_bias=False, key=key
        )
        self.convolutions = conv(1, 2, KEYS[0]), conv(width, 1, KEYS[1]), conv(width, 1, KEYS[2])
        self.norms = tuple(eqx.nn.BatchNorm(width, "batch", mode="batch") for _ in range(3))
        self.head = eqx.nn.Linear(width, 10, key=KEYS[3])

    def __call__(self, x: Any, state: Any) -> Any:
        x, state = self.norms[0](self.convolutions[0](x), state)
        x = jax.nn.relu(x)
        y, state = self.norms[1](self.convolutions[1](x), state)
        y, state = self.norms[2](self.convolutions[2](jax.nn.relu(y)), state)
        return self.head(jax.nn.relu(x + y).mean((1, 2))), state


def torch_mlp() -> Any:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10)
    )


def equinox_mlp() -> Any:
    sizes = ((784, 300), (300, 100), (100, 10))
    first, second, third = (eqx.nn.Linear(*size, key=key) for size, key in zip(sizes, KEYS, strict=False))
    relu = eqx.nn.Lambda(jax.nn.relu)
    return eqx.nn.Sequential([eqx.nn.Lambda(jnp.ravel), first, relu, second, relu, third])


NETWORKS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "mlp": (torch_mlp, equinox_mlp),
    "resnet": (TorchResidual, lambda: eqx.nn.make_with_state(EquinoxResidual)()),
}


def stepper(network: Any, batch: tuple[Any, Any], steps: int) -> Callable[[], None]:
    """`steps` gradients of the bound in one compiled loop, each followed by a step along it."""
    model = Model(network, jax.ShapeDtypeStruct(batch[0].shape[1:], batch[0].dtype), METHOD.prior)
    first = METHOD.posterior.start(METHOD.init(model, jax.random.key(0)))
    mask = jnp.ones(model.layout.size, bool)

    def cost(posterior: Any, buffers: Any, key: Any) -> Any:
        found, after = model.expected_log_likelihood(posterior, METHOD.estimator, mask, batch, key, buffers)
        return -found.mean(), after

    def step(carried: Any, key: Any) -> Any:
        gradient, after = jax.grad(cost, has_aux=True)(*carried, key)
        return (jax.tree.map(lambda old, slope: old - 1e-3 * slope, carried[0], gradient), after), None

    loop = jax.jit(lambda carried, key: jax.lax.scan(step, carried, jax.random.split(key, steps))[0])
    return lambda: jax.block_until_ready(loop((first, model.buffers), jax.random.key(1))) and None


def measure(name: str, steps: int, rounds: int) -> dict[str, Any]:
    data = ox.load_data("fashion_mini")
    images = (data.train.inputs[:128].astype(np.float32) - 73) / 90
    batch = jnp.asarray(images), jnp.asarray(data.train.targets[:128])
    make_torch, make_equinox = NETWORKS[name]
    contenders = {
        "torch": stepper(ox.from_torch(make_torch(), images[0]), batch, steps),
        "equinox": stepper(make_equinox(), batch, steps),
    }
    for run in contenders.values():
        run()
    times: dict[str, list[float]] = {own: [] for own in contenders}
    for _ in range(rounds):
        for own, run in contenders.items():
            begin = time.perf_counter()
            run()
            times[own].append(1000 * (time.perf_counter() - begin) / steps)
    found = {f"{own}_ms": statistics.median(values) for own, values in times.items()}
    return {"network": name, **found, "ratio": found["torch_ms"] / found["equinox_ms"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--steps", type=int, default=20, help="steps in one timed loop")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = [measure(name, options.steps, options.rounds) for name in options.networks]
    print(adapter_steps(lines))
    if options.out is not None:
        known = {"settings": {"method": METHOD.as_data()}, "steps": options.steps, "rounds": options.rounds}
        known |= {"command": command(), **environment()}
        options.out.write_text("".join(json.dumps({**line, **known}) + "\n" for line in lines))


if __name__ == "__main__":
    main()
