"""The paper's four networks, as plain Equinox modules: `network(image, key=None) -> logits`."""

from .lenet import LeNet as LeNet
from .mixer import Mixer as Mixer
from .mlp import MLP as MLP
from .vit import ViT as ViT
