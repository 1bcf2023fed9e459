"""Runs: what is trained is named here, trained in one visible loop, and kept in a folder."""

from .cache import keep_compiled_programs as keep_compiled_programs
from .config import METHODS as METHODS
from .config import NETWORKS as NETWORKS
from .config import Config as Config
from .config import Experiment as Experiment
from .fit import Fit as Fit
from .fit import fit as fit
from .folder import RunFolder as RunFolder
from .run import evaluate as evaluate
from .run import restore as restore
from .run import train as train
