"""Frozen objects as plain data, and back: `{"kind": "Evidence", "threshold": 0.0}`.

What is read back is an equal object or an error; nothing is ever evaluated. An object with a part that is no data, such
as a function, says so when it is read back.
"""

import dataclasses
import importlib
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import ArgumentError
from ..names import choose

OPAQUE = "opaque"  # stands for what has no form as data


def to_data(value: Any) -> Any:
    """JSON-able data of a frozen dataclass, a tuple of them, or a plain value."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
    if isinstance(value, tuple | list):
        return [to_data(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: to_data(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
        return {"kind": _kind(type(value)), **fields}
    name = f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', '')}"
    if callable(value) and "<" not in name and _found(name) is value:
        return {"kind": "function", "name": name}
    return {"kind": OPAQUE, "type": f"{type(value).__module__}.{type(value).__qualname__}"}


def from_data(data: Any, known: Mapping[str, type], argument: str = "method") -> Any:
    """The object whose data this is. `known`: classes by name; another's class must be in a module already imported."""
    if isinstance(data, list):
        return tuple(from_data(item, known, argument) for item in data)
    if not isinstance(data, dict):
        return data
    kind = data.get("kind")
    if kind == "float":
        return float(data["value"])
    if kind == "function":
        return _function(str(data["name"]), argument)
    if kind == OPAQUE:
        raise ArgumentError(
            f"{argument}: a part of it ({data.get('type')}) could not be stored as data. Pass the whole again, as when "
            "it was trained"
        )
    cls = _class(str(kind), known, argument)
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    values = {name: value for name, value in data.items() if name != "kind"}
    for name in values:
        choose(f"{argument}: {cls.__name__}", name, names)
    return cls(**{name: from_data(value, known, f"{argument}.{name}") for name, value in values.items()})


def known_kinds(*modules: Any) -> dict[str, type]:
    """The dataclasses of some modules, by name."""
    found: dict[str, type] = {}
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.__name__:
                found[name] = value
    return found


def _kind(cls: type) -> str:
    return cls.__name__ if cls.__module__.startswith("occamax.") else f"{cls.__module__}:{cls.__qualname__}"


def _class(kind: str, known: Mapping[str, type], argument: str) -> type:
    if ":" not in kind:
        return known[choose(argument, kind, known)]
    cls = _found(kind)
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise ArgumentError(f"{argument}: {kind} is not there; import the module that defines it first")
    return cls


def _found(name: str) -> Any:
    """What a module that was imported already calls by this name."""
    module, _, path = name.partition(":")
    value: Any = sys.modules.get(module)
    for part in path.split("."):
        value = getattr(value, part, None)
    return value


def _function(name: str, argument: str) -> Any:
    """Functions of optax and jax are found; those of the user's only where their module was imported."""
    if name.split(".")[0] in ("optax", "jax"):
        importlib.import_module(name.partition(":")[0])
    value = _found(name)
    if not callable(value):
        raise ArgumentError(f"{argument}: the function {name} is not there; import the module that defines it first")
    return value


def is_whole(data: Any) -> bool:
    """Whether every part of an object had a form as data."""
    if isinstance(data, dict):
        return data.get("kind") != OPAQUE and all(map(is_whole, data.values()))
    return all(map(is_whole, data)) if isinstance(data, list) else True


def differences(before: Any, after: Any, path: str = "") -> Iterable[str]:
    """Where two pieces of data differ, in words."""
    if isinstance(before, dict) and isinstance(after, dict) and before.get("kind") == after.get("kind"):
        for name in [*before, *(name for name in after if name not in before)]:
            yield from differences(before.get(name), after.get(name), f"{path}.{name}" if path else name)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, two) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, two, f"{path}[{place}]")
    elif isinstance(before, list) and isinstance(after, list):
        yield f"{path}: {len(before)} there, {len(after)} here"
    elif before != after:
        yield f"{path}: {before!r} there, {after!r} here"
