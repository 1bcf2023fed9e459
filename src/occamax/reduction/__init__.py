"""Bayesian model reduction: what the evidence says of each weight, who decides, and when."""

from . import delta_f as delta_f
from .criteria import Beliefs as Beliefs
from .criteria import Chance as Chance
from .criteria import Criterion as Criterion
from .criteria import Decision as Decision
from .criteria import Evidence as Evidence
from .criteria import KeepingEvidence as KeepingEvidence
from .criteria import Magnitude as Magnitude
from .criteria import Pattern as Pattern
from .criteria import Score as Score
from .criteria import SignalToNoise as SignalToNoise
from .criteria import SpikeAndSlab as SpikeAndSlab
from .criteria import TargetSparsity as TargetSparsity
from .horseshoe import HorseshoeCriterion as HorseshoeCriterion
from .measuring import Measuring as Measuring
from .reducing import Record as Record
from .reducing import Reduction as Reduction
from .reducing import reduce as reduce
from .repairing import Repair as Repair
from .schedule import Between as Between
from .schedule import Every as Every
from .schedule import ReductionSchedule as ReductionSchedule
