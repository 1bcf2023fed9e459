"""The check of types while the tests run, quick where it can be."""

import dataclasses
import functools
import inspect
import typing

import jaxtyping
from beartype.roar import BeartypeCallHintParamViolation, BeartypeCallHintReturnViolation

full = jaxtyping.jaxtyped


def jaxtyped(given=None, *, typechecker):
    """In place of jaxtyping's, which binds the arguments of every call to a signature, to know the sizes that they
    name. Where none are named the type checker alone says the same; some graphs are walked a million times."""
    if given is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if type(given) is type and dataclasses.is_dataclass(given):
        if not hasattr(given.__init__, "__wrapped__"):
            given.__init__ = jaxtyped(given.__init__, typechecker=typechecker)
        return given
    if not inspect.isfunction(given) or inspect.isgeneratorfunction(given) or _may_name_sizes(given):
        return full(given, typechecker=typechecker)
    checked = typechecker(given)

    @functools.wraps(given)
    def wrapped(*arguments, **options):
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return given(*arguments, **options)
        try:
            return checked(*arguments, **options)
        except BeartypeCallHintParamViolation:
            return full(given, typechecker=typechecker)(*arguments, **options)  # refuses it too, in its own words
        except BeartypeCallHintReturnViolation as error:
            raise jaxtyping.TypeCheckError(str(error)) from error

    return wrapped


def _may_name_sizes(function):
    """An annotation does, or is not yet known, or something in its module does."""
    shaped = any(_is_shaped(value) for value in function.__globals__.values() if value is not jaxtyping)
    return shaped or any(isinstance(kind, str) or _is_shaped(kind) for kind in function.__annotations__.values())


def _is_shaped(kind):
    if isinstance(kind, type):
        return (kind.__module__ or "").startswith("jaxtyping") or type(kind).__module__.startswith("jaxtyping")
    return any(_is_shaped(part) for part in typing.get_args(kind))
