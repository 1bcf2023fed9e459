"""The paper's four networks and the two classics of pruning, as plain Equinox modules: `network(image) -> logits`."""

from .classic import LeNet300 as LeNet300
from .classic import LeNetCaffe as LeNetCaffe
from .lenet import LeNet as LeNet
from .mixer import Mixer as Mixer
from .mlp import MLP as MLP
from .vit import ViT as ViT
