"""occamax: Bayesian neural networks that prune themselves while they train.

    import occamax as ox
    fitted = ox.fit(network, (images, labels), method=ox.BMR())

Names are loaded when they are first used, so that importing the package, or asking the command line for help, does not
wait for jax and touches no device.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .calibration import Calibration as Calibration
    from .data import Dataset as Dataset
    from .data import Split as Split
    from .data import Standardise as Standardise
    from .data import Stream as Stream
    from .data import load_data as load_data
    from .data import open_arrays as open_arrays
    from .errors import ArgumentError as ArgumentError
    from .errors import DataError as DataError
    from .errors import DivergedError as DivergedError
    from .errors import LayoutError as LayoutError
    from .errors import OccamaxError as OccamaxError
    from .errors import RunError as RunError
    from .estimators import Flipout as Flipout
    from .estimators import LocalReparameterisation as LocalReparameterisation
    from .estimators import SharedDraw as SharedDraw
    from .evaluation import Predictive as Predictive
    from .evaluation import accuracy as accuracy
    from .evaluation import brier as brier
    from .evaluation import calibration_error as calibration_error
    from .experiment import Config as Config
    from .experiment import Experiment as Experiment
    from .experiment import Fit as Fit
    from .experiment import RunFolder as RunFolder
    from .experiment import fit as fit
    from .layout import Block as Block
    from .layout import Layout as Layout
    from .likelihoods import Bernoulli as Bernoulli
    from .likelihoods import Categorical as Categorical
    from .likelihoods import Gaussian as Gaussian
    from .methods import BMR as BMR
    from .methods import MAP as MAP
    from .methods import HorseshoeBMR as HorseshoeBMR
    from .methods import MeanFieldFlat as MeanFieldFlat
    from .methods import MeanFieldTiered as MeanFieldTiered
    from .methods import Method as Method
    from .methods import PaperBMR as PaperBMR
    from .methods import Uniform as Uniform
    from .methods import VarianceScaled as VarianceScaled
    from .model import Model as Model
    from .networks import MLP as MLP
    from .networks import LeNet as LeNet
    from .networks import Mixer as Mixer
    from .networks import ViT as ViT
    from .optimizers import AdaBelief as AdaBelief
    from .optimizers import NaturalGradient as NaturalGradient
    from .posteriors import MeanField as MeanField
    from .posteriors import PointMass as PointMass
    from .priors import FanIn as FanIn
    from .priors import Flat as Flat
    from .priors import Tiered as Tiered
    from .reduction import Between as Between
    from .reduction import Chance as Chance
    from .reduction import Every as Every
    from .reduction import Evidence as Evidence
    from .reduction import Horseshoe as Horseshoe
    from .reduction import KeepingEvidence as KeepingEvidence
    from .reduction import Magnitude as Magnitude
    from .reduction import Reduction as Reduction
    from .reduction import SignalToNoise as SignalToNoise
    from .reduction import SpikeAndSlab as SpikeAndSlab
    from .reduction import TargetSparsity as TargetSparsity
    from .reduction import delta_f as delta_f
    from .reduction import reduce as reduce
    from .schedules import Affordable as Affordable
    from .schedules import Constant as Constant
    from .schedules import Cosine as Cosine
    from .schedules import Geometric as Geometric
    from .schedules import Ramp as Ramp
    from .schedules import Scaled as Scaled
    from .training import Budget as Budget
    from .training import State as State

__version__ = "0.1.0"

_HOMES = {
    "calibration": ("Calibration",),
    "data": ("Dataset", "Split", "Standardise", "Stream", "load_data", "open_arrays"),
    "errors": ("ArgumentError", "DataError", "DivergedError", "LayoutError", "OccamaxError", "RunError"),
    "estimators": ("Flipout", "LocalReparameterisation", "SharedDraw"),
    "evaluation": ("Predictive", "accuracy", "brier", "calibration_error"),
    "experiment": ("Config", "Experiment", "Fit", "RunFolder", "fit"),
    "layout": ("Block", "Layout"),
    "likelihoods": ("Bernoulli", "Categorical", "Gaussian"),
    "methods": (
        "BMR",
        "HorseshoeBMR",
        "MAP",
        "MeanFieldFlat",
        "MeanFieldTiered",
        "Method",
        "PaperBMR",
        "Uniform",
        "VarianceScaled",
    ),
    "model": ("Model",),
    "networks": ("LeNet", "MLP", "Mixer", "ViT"),
    "optimizers": ("AdaBelief", "NaturalGradient"),
    "posteriors": ("MeanField", "PointMass"),
    "priors": ("FanIn", "Flat", "Tiered"),
    "reduction": (
        "Chance",
        "Between",
        "Every",
        "Evidence",
        "Horseshoe",
        "KeepingEvidence",
        "Magnitude",
        "Reduction",
        "SignalToNoise",
        "SpikeAndSlab",
        "TargetSparsity",
        "delta_f",
        "reduce",
    ),
    "schedules": ("Affordable", "Constant", "Cosine", "Geometric", "Ramp", "Scaled"),
    "training": ("Budget", "State"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'occamax' has no attribute {name!r}")
    return getattr(importlib.import_module(f"occamax.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*_HOME_OF, "__version__"]
