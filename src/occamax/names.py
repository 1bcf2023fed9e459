"""Names that users type, and what tables call them."""

import difflib
import re
from collections.abc import Iterable, Mapping

from .errors import ArgumentError

# the names the paper gives its methods
LABELS = {
    "plain": "Plain",
    "plain-pruned": "Plain, by magnitude",  # the quickstart's
    "map": "Flat-MAP",
    "flat": "Flat-FF",
    "tiered": "Tiered-FF",
    "bmr-paper": "BMR-S&S",
    "bmr-rhs": "BMR-RHS",
    "bmr": "BMR",
    "bmr-natural": "BMR-N",
}


def label(method: str) -> str:
    """What a table calls a method."""
    return LABELS.get(method, method)


def figures_as_text(figures: Mapping[str, float], form: str = ".4f") -> dict[str, str]:
    """Figures by name, as they are shown: the calibration error beside the one that chance alone makes."""
    found = {name: f"{value:{form}}" for name, value in figures.items() if not name.startswith("ece_floor")}
    if "ece" in found and "ece_floor" in figures:
        found["ece"] += f" (floor {figures['ece_floor']:{form}})"
    return found


def choose(argument: str, name: str, known: Iterable[str]) -> str:
    """The name if it is known; else an error that lists the known ones and the nearest."""
    names = list(known)
    if name in names:
        return name
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise ArgumentError(f"{argument}: {name!r} is not known; known are {', '.join(names)}.{hint}")


def whole_number(option: str, text: str | None) -> int | None:
    """A number such as 50_000 or 50,000; None for none."""
    if text is None:
        return None
    digits = text.replace("_", "").replace(",", "")
    if not digits.isdecimal():
        raise ArgumentError(f"{option}: {text!r} given; it must be a whole number, such as 50_000")
    return int(digits)


def milliseconds(option: str, text: str | None) -> float | None:
    """A time such as 2ms, 500us or 0.1s; None for none."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*(s|ms|us|µs)", text.strip())
    if found is None:
        raise ArgumentError(f"{option}: {text!r} given; it must be a time with its unit, such as 2ms or 500us")
    return float(found[1]) * {"s": 1e3, "ms": 1.0, "us": 1e-3, "µs": 1e-3}[found[2]]
