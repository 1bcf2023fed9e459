"""Words of the command line made into objects: here strings stop."""

import ast
import dataclasses
import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .data import HorizontalFlip, RandomCrop
from .errors import ArgumentError
from .inference.schedules import as_schedule
from .methods import METHODS, Method, kinds
from .names import choose
from .reduction.costs import Bytes, Latency, UnitCost, Weights
from .reduction.criteria import KeepingEvidence, Magnitude, Score, SignalToNoise

NONE = ("none", "None", "null")
SCHEDULES = ("learning_rate", "kl_weight", "evidence", "least_left")


def method_from_words(name: str, changes: Sequence[str]) -> Method:
    """A method by its name, with some of its values changed: `reduction.tolerance=none`, `prior.gain=2`."""
    make, given = METHODS[choose("METHOD", name, METHODS)], {}
    for change in changes:
        path, equals, words = change.partition("=")
        if not equals or not path:
            raise ArgumentError(f"--set: {change!r} given; it must be like learning_rate=5e-3 or prior.gain=2")
        names = path.strip().split(".")
        changed = _changed(make(**given), names, _value(words.strip(), change), change)
        given[names[0]] = getattr(changed, names[0])  # the method decides what else follows from a change
    return make(**given)


def _changed(target: Any, path: list[str], value: Any, change: str) -> Any:
    """The object with one value inside it changed."""
    if not dataclasses.is_dataclass(target) or isinstance(target, type):
        raise ArgumentError(f"--set: {change!r}: there is nothing to change inside of {target!r}")
    names = [field.name for field in dataclasses.fields(target)]
    name = choose(f"--set: {type(target).__name__}", path[0], names)
    if len(path) > 1:
        value = _changed(getattr(target, name), path[1:], value, change)
    elif name in SCHEDULES and value is not None:
        value = as_schedule(f"--set: {name}", value)
    return replace(target, **{name: value})


def _value(words: str, change: str) -> Any:
    """A number, a word for nothing or for yes and no, or one of our objects: `Evidence(threshold=1.0)`."""
    if words in NONE:
        return None
    if words.lower() in ("true", "false"):
        return words.lower() == "true"
    try:
        return _read(ast.parse(words, mode="eval").body, change)
    except SyntaxError as error:
        raise ArgumentError(
            f"--set: {change!r}: {words!r} is neither a number nor an object such as Cosine(1e-2)"
        ) from error


def _read(node: ast.expr, change: str) -> Any:
    """What an expression of numbers, tuples and our own objects stands for. Nothing is evaluated."""
    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, bool | int | float):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_read(operand, change)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(_read(item, change) for item in items)
        case ast.Name(id=name):
            return _kind(name, change)()
        case ast.Call(func=ast.Name(id=name), args=items, keywords=named):
            values = {str(word.arg): _read(word.value, change) for word in named}
            try:
                return _kind(name, change)(*(_read(item, change) for item in items), **values)
            except TypeError as error:
                raise ArgumentError(f"--set: {change!r}: {error}") from error
    raise ArgumentError(f"--set: {change!r} given; numbers and objects such as Evidence(threshold=1.0) are understood")


def _kind(name: str, change: str) -> type:
    known = kinds()
    return known[choose(f"--set: {change!r}", name, [kind for kind in known if kind != "Method"])]


ORDERS: dict[str, type[Score]] = {
    "signal-to-noise": SignalToNoise,
    "magnitude": Magnitude,
    "delta-f": KeepingEvidence,
}


def order_named(word: str | None) -> Score | None:
    """In which order weights go, by its name; None for none."""
    return None if word is None else ORDERS[choose("--order", word, ORDERS)]()


COSTS: dict[str, type[UnitCost]] = {"weights": Weights, "bytes": Bytes, "latency": Latency}


def cost_named(word: str | None) -> UnitCost | None:
    """What a unit is paid for in, by its name; None for none."""
    return None if word is None else COSTS[choose("--unit-cost", word, COSTS)]()


def augmentations(words: Sequence[str]) -> list[Any]:
    """`crop`, `crop=4`, `flip`, or `package.module:function`, in order."""
    return [_augmentation(word) for word in words]


def _augmentation(word: str) -> Any:
    name, _, value = word.partition("=")
    if ":" in name:
        module, _, function = name.partition(":")
        try:
            return getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:  # no module at all is a ValueError
            raise ArgumentError(f"--augment: {word!r} cannot be found ({error})") from error
    if name == "crop" and (not value or value.isdecimal()):
        return RandomCrop(int(value)) if value else RandomCrop()
    if word == "flip":
        return HorizontalFlip()
    raise ArgumentError(f"--augment: {word!r} given; it must be crop, crop=PIXELS, flip, or package.module:function")
