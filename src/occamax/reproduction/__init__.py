"""The paper's experiments as one grid: run it, keep a small file for each cell, compare with what was published."""

from .cells import read_cells as read_cells
from .grid import METHODS as METHODS
from .grid import Cell as Cell
from .grid import Grid as Grid
from .grid import Outcome as Outcome
from .grid import run as run
from .page import write_results as write_results
