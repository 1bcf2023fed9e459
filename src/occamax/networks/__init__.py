"""The paper's four networks, the two classics of pruning, ResNet-20 and a transformer for texts, as plain Equinox
modules: `network(image) -> logits`."""

from ._parts import cut as cut
from ._parts import halve as halve
from ._parts import highest as highest
from ._parts import plain_convolutions as plain_convolutions
from .classic import LeNetCaffe as LeNetCaffe
from .classic import lenet_300_100 as lenet_300_100
from .lenet import LeNet as LeNet
from .mixer import Mixer as Mixer
from .mlp import MLP as MLP
from .named import NETWORKS as NETWORKS
from .named import NetworkSource as NetworkSource
from .named import network_from as network_from
from .named import network_named as network_named
from .named import source_like as source_like
from .resnet import FilterResponseNorm as FilterResponseNorm
from .resnet import ResNet as ResNet
from .text import TextTransformer as TextTransformer
from .vit import ViT as ViT
