"""The paper's four networks and the two classics of pruning, as plain Equinox modules: `network(image) -> logits`."""

from ._parts import cut as cut
from ._parts import halve as halve
from ._parts import highest as highest
from .classic import LeNetCaffe as LeNetCaffe
from .classic import lenet_300_100 as lenet_300_100
from .lenet import LeNet as LeNet
from .mixer import Mixer as Mixer
from .mlp import MLP as MLP
from .vit import ViT as ViT
