"""The posterior predictive, and figures of merit."""

from .metrics import accuracy as accuracy
from .metrics import brier as brier
from .metrics import calibration_error as calibration_error
from .metrics import calibration_floor as calibration_floor
from .predictive import Believed as Believed
from .predictive import Predictive as Predictive
from .predictive import averaged as averaged
from .predictive import predict as predict
from .predictive import score as score
from .temperature import best_noise as best_noise
from .temperature import best_temperature as best_temperature
from .temperature import is_as_wanted as is_as_wanted
from .temperature import outputs_of_draws as outputs_of_draws
from .temperature import outputs_of_mean as outputs_of_mean
from .temperature import temperature_cost as temperature_cost
from .temperature import with_outputs_divided as with_outputs_divided
