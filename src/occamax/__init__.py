"""occamax: Bayesian neural networks that prune themselves while they train.

    import occamax as ox
    fitted = ox.fit(network, (images, labels), method=ox.BMR())

Names are loaded when they are first used, so that importing the package, or asking the command line for help, does not
wait for jax and touches no device.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import reduction as criteria  # noqa: F401
    from .data import Dataset as Dataset
    from .data import HorizontalFlip as HorizontalFlip
    from .data import RandomCrop as RandomCrop
    from .data import Split as Split
    from .data import Standardise as Standardise
    from .data import StandardiseColumns as StandardiseColumns
    from .data import Stream as Stream
    from .data import dataset_of as dataset_of
    from .data import load_data as load_data
    from .data import open_arrays as open_arrays
    from .data import open_images as open_images
    from .data import open_texts as open_texts
    from .errors import ArgumentError as ArgumentError
    from .errors import DataError as DataError
    from .errors import DivergedError as DivergedError
    from .errors import ExportError as ExportError
    from .errors import LayoutError as LayoutError
    from .errors import OccamaxError as OccamaxError
    from .errors import RunError as RunError
    from .evaluation import Predictive as Predictive
    from .evaluation import accuracy as accuracy
    from .evaluation import brier as brier
    from .evaluation import calibration_error as calibration_error
    from .evaluation import calibration_floor as calibration_floor
    from .experiment import callbacks as callbacks
    from .experiment.config import Config as Config
    from .experiment.devices import Devices as Devices
    from .experiment.folder import RunFolder as RunFolder
    from .experiment.starting import Moments as Moments
    from .experiment.starting import Trained as Trained
    from .fitting import Ensemble as Ensemble
    from .fitting import Fit as Fit
    from .fitting import ensemble as ensemble
    from .fitting import fit as fit
    from .fitting import load as load
    from .inference import initializers as init  # noqa: F401
    from .inference import schedules as schedules
    from .inference.batches import Passes as Passes
    from .inference.batches import WithReplacement as WithReplacement
    from .inference.calibration import Calibration as Calibration
    from .inference.curvature import EmpiricalFisher as EmpiricalFisher
    from .inference.curvature import GaussNewton as GaussNewton
    from .inference.estimators import Flipout as Flipout
    from .inference.estimators import LocalReparameterisation as LocalReparameterisation
    from .inference.estimators import SharedDraw as SharedDraw
    from .inference.likelihoods import Bernoulli as Bernoulli
    from .inference.likelihoods import Categorical as Categorical
    from .inference.likelihoods import Gaussian as Gaussian
    from .inference.model import Model as Model
    from .inference.optimizers import AdaBelief as AdaBelief
    from .inference.optimizers import AdamW as AdamW
    from .inference.optimizers import Momentum as Momentum
    from .inference.optimizers import NaturalGradient as NaturalGradient
    from .inference.posteriors import IndependentNormals as IndependentNormals
    from .inference.posteriors import MeanField as MeanField
    from .inference.posteriors import Point as Point
    from .inference.posteriors import PointMass as PointMass
    from .inference.priors import FanInPrior as FanInPrior
    from .inference.priors import FlatPrior as FlatPrior
    from .inference.priors import HorseshoePrior as HorseshoePrior
    from .inference.priors import NormalPrior as NormalPrior
    from .inference.priors import TrainedPrior as TrainedPrior
    from .inference.training import Budget as Budget
    from .inference.training import State as State
    from .interop import numpyro as numpyro
    from .interop.flax_nnx import from_flax as from_flax
    from .interop.flax_nnx import to_flax as to_flax
    from .interop.haiku_functions import from_haiku as from_haiku
    from .interop.haiku_functions import to_haiku as to_haiku
    from .interop.moments import named_from_vector as named_from_vector
    from .interop.moments import named_moments as named_moments
    from .interop.pytorch import from_torch as from_torch
    from .interop.pytorch import to_torch as to_torch
    from .methods import BMR as BMR
    from .methods import MAP as MAP
    from .methods import Flat as Flat
    from .methods import HorseshoeBMR as HorseshoeBMR
    from .methods import Method as Method
    from .methods import NaturalBMR as NaturalBMR
    from .methods import PaperBMR as PaperBMR
    from .methods import Plain as Plain
    from .methods import Suited as Suited
    from .methods import Tiered as Tiered
    from .networks import MLP as MLP
    from .networks import LeNet as LeNet
    from .networks import Mixer as Mixer
    from .networks import NetworkSource as NetworkSource
    from .networks import ResNet as ResNet
    from .networks import TextTransformer as TextTransformer
    from .networks import ViT as ViT
    from .networks import network_named as network_named
    from .pruning import prune as prune
    from .reduction import Measuring as Measuring
    from .reduction import Reduction as Reduction
    from .reduction import Repair as Repair
    from .reduction import costs as costs
    from .reduction import delta_f as delta_f
    from .reduction import reduce as reduce
    from .reduction.laplace import dense_laplace as dense_laplace
    from .structure.layout import Block as Block
    from .structure.layout import Layout as Layout

__version__ = "0.2.0"

_MODULES = {
    "callbacks": "experiment.callbacks", "costs": "reduction.costs", "criteria": "reduction",
    "init": "inference.initializers", "numpyro": "interop.numpyro", "schedules": "inference.schedules",
}  # fmt: skip
_HOMES = {
    "data": (
        "Dataset", "HorizontalFlip", "RandomCrop", "Split", "Standardise", "StandardiseColumns", "Stream", "dataset_of",
        "load_data", "open_arrays", "open_images", "open_texts",
    ),
    "errors": (
        "ArgumentError", "DataError", "DivergedError", "ExportError", "LayoutError", "OccamaxError", "RunError",
    ),
    "evaluation": ("Predictive", "accuracy", "brier", "calibration_error", "calibration_floor"),
    "experiment.config": ("Config",),
    "experiment.devices": ("Devices",),
    "experiment.folder": ("RunFolder",),
    "experiment.starting": ("Moments", "Trained"),
    "fitting": ("Ensemble", "Fit", "ensemble", "fit", "load"),
    "inference.batches": ("Passes", "WithReplacement"),
    "inference.calibration": ("Calibration",),
    "inference.curvature": ("EmpiricalFisher", "GaussNewton"),
    "inference.estimators": ("Flipout", "LocalReparameterisation", "SharedDraw"),
    "inference.likelihoods": ("Bernoulli", "Categorical", "Gaussian"),
    "inference.model": ("Model",),
    "inference.optimizers": ("AdaBelief", "AdamW", "Momentum", "NaturalGradient"),
    "inference.posteriors": ("IndependentNormals", "MeanField", "Point", "PointMass"),
    "inference.priors": ("FanInPrior", "FlatPrior", "HorseshoePrior", "NormalPrior", "TrainedPrior"),
    "inference.training": ("Budget", "State"),
    "interop.flax_nnx": ("from_flax", "to_flax"),
    "interop.haiku_functions": ("from_haiku", "to_haiku"),
    "interop.moments": ("named_from_vector", "named_moments"),
    "interop.pytorch": ("from_torch", "to_torch"),
    "methods": ("BMR", "Flat", "HorseshoeBMR", "MAP", "Method", "NaturalBMR", "PaperBMR", "Plain", "Suited", "Tiered"),
    "networks": ("LeNet", "MLP", "Mixer", "NetworkSource", "ResNet", "TextTransformer", "ViT", "network_named"),
    "pruning": ("prune",),
    "reduction": ("Measuring", "Reduction", "Repair", "delta_f", "reduce"),
    "reduction.laplace": ("dense_laplace",),
    "structure.layout": ("Block", "Layout"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"occamax.{_MODULES[name]}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'occamax' has no attribute {name!r}")
    return getattr(importlib.import_module(f"occamax.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*_HOME_OF, *_MODULES, "__version__"]
