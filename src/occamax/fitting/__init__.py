"""The one way in: `fit` trains a network, `load` brings one back; both give a `Fit`. Several make an `Ensemble`."""

from .ensembles import Ensemble as Ensemble
from .ensembles import ensemble as ensemble
from .fitted import Fit as Fit
from .loading import load as load
from .training import fit as fit
