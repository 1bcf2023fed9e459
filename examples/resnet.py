"""A residual network with BatchNorm, trained with flips and crops: train, save, load, export, report.

python examples/resnet.py [EPOCHS [STEPS]]
"""

import sys

import equinox as eqx
import jax
import numpy as np

import occamax as ox


class Residual(eqx.Module):
    """relu(x + norm(conv(relu(norm(conv(x)))))); the first convolution may halve the image."""

    convolutions: tuple[eqx.nn.Conv2d, eqx.nn.Conv2d]
    norms: tuple[eqx.nn.BatchNorm, eqx.nn.BatchNorm]
    shortcut: eqx.nn.Conv2d | None

    def __init__(self, inputs: int, outputs: int, *, key: jax.Array):
        first, second, third = jax.random.split(key, 3)
        stride = 1 if inputs == outputs else 2
        self.convolutions = (
            eqx.nn.Conv2d(inputs, outputs, 3, stride, padding=1, use_bias=False, key=first),
            eqx.nn.Conv2d(outputs, outputs, 3, padding=1, use_bias=False, key=second),
        )
        self.norms = (
            eqx.nn.BatchNorm(outputs, "batch", mode="batch"),
            eqx.nn.BatchNorm(outputs, "batch", mode="batch"),
        )
        self.shortcut = None if stride == 1 else eqx.nn.Conv2d(inputs, outputs, 1, stride, use_bias=False, key=third)

    def __call__(self, x: jax.Array, state: eqx.nn.State) -> tuple[jax.Array, eqx.nn.State]:
        inner, state = self.norms[0](self.convolutions[0](x), state)
        inner, state = self.norms[1](self.convolutions[1](jax.nn.relu(inner)), state)
        return jax.nn.relu(inner + (x if self.shortcut is None else self.shortcut(x))), state


class ResNet(eqx.Module):
    first: eqx.nn.Conv2d
    blocks: tuple[Residual, ...]
    head: eqx.nn.Linear

    def __init__(self, widths: tuple[int, ...] = (8, 16, 32), *, key: jax.Array):
        keys = jax.random.split(key, len(widths) + 2)
        pairs = zip((widths[0], *widths[:-1]), widths, keys[2:], strict=True)
        self.first = eqx.nn.Conv2d(1, widths[0], 3, 2, padding=1, key=keys[0])
        self.blocks = tuple(Residual(inputs, outputs, key=own) for inputs, outputs, own in pairs)
        self.head = eqx.nn.Linear(widths[-1], 10, key=keys[1])

    def __call__(self, x: jax.Array, state: eqx.nn.State) -> tuple[jax.Array, eqx.nn.State]:
        x = self.first(x)
        for block in self.blocks:
            x, state = block(x, state)
        return self.head(x.mean((1, 2))), state


def main(epochs: int = 8, steps: int = 100, *, out: str = "runs/resnet") -> None:
    data = ox.load_data("fashion_mini")
    network = eqx.nn.make_with_state(ResNet)(key=jax.random.key(0))  # the module and its BatchNorm statistics
    augment = (ox.RandomCrop(2), ox.HorizontalFlip())
    fitted = ox.fit(
        network, data, epochs=epochs, steps_per_epoch=steps, augment=augment, num_samples=20, out=out, overwrite=True
    )
    loaded = ox.load(out, network)
    assert np.array_equal(loaded.predict(data.test.inputs[:9], 5), fitted.predict(data.test.inputs[:9], 5))
    measured = loaded.export(f"{out}/network.onnx")
    print(f"{fitted.sparsity:.0%} pruned; the file differs by {measured.difference:.0e} at most")
    print(f"report: {loaded.report(f'{out}/report.html')}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
