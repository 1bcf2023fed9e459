"""A network of your own: any Equinox module. Here with a bare array, and a rule to be found in noise.

python examples/own_network.py [EPOCHS [STEPS]]
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import occamax as ox


class Gated(eqx.Module):
    """Two layers, with a learned gate on each hidden unit that is no layer of Equinox's."""

    hidden: eqx.nn.Linear
    gate: jax.Array
    head: eqx.nn.Linear

    def __init__(self, inputs: int, width: int, classes: int, *, key: jax.Array):
        first, second = jax.random.split(key)
        self.hidden = eqx.nn.Linear(inputs, width, key=first)
        self.gate = jnp.ones(width)
        self.head = eqx.nn.Linear(width, classes, key=second)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.head(self.gate * jnp.tanh(self.hidden(x)))


def main(epochs: int = 12, steps: int = 300) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 20)).astype(np.float32)
    labels = (np.abs(x[:, 0]) + x[:, 1] > 0.7).astype(int)  # inputs 2 to 19 say nothing

    fitted = ox.fit(
        Gated(20, 16, 2, key=jax.random.key(0)),
        (x[:3000], labels[:3000]),
        # few weights and many examples: the evidence itself decides, and weights may be large
        method=ox.BMR(prior=ox.FlatPrior(base_std=1.0, gain_center=1.0), kl_weight=1.0),
        test=(x[3000:], labels[3000:]),
        epochs=epochs,
        steps_per_epoch=steps,
    )
    kept = fitted.masks["hidden"][:, :-1].sum(0)
    print(f"{fitted.sparsity:.0%} of the weights pruned; weights kept by input: {kept.tolist()}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
