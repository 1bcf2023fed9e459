"""Methods: one row of a comparison each. A method is a prior, a posterior, a reduction and an optimiser, as one frozen
object; `BMR()`, `PaperBMR()`, `Flat()`, `Tiered()` and `MAP()` make one."""

from .method import Method, Suited, kinds, method_from
from .named import BMR, LONG_STEPS, MAP, METHODS, Flat, HorseshoeBMR, NaturalBMR, PaperBMR, Plain, Tiered

__all__ = [
    "BMR", "LONG_STEPS", "MAP", "METHODS", "Flat", "HorseshoeBMR", "Method", "NaturalBMR", "PaperBMR", "Plain",
    "Suited", "Tiered", "kinds", "method_from",
]  # fmt: skip
