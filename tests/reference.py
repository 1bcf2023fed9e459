"""What the reference describes: every public name, and the examples in its docstring."""

import ast
import doctest
import inspect
import re
import types
from pathlib import Path

import occamax as ox

ROOT = Path(__file__).parents[1]
OTHERS = {"from_torch", "to_torch", "named_from_vector", "from_flax", "to_flax", "from_haiku", "to_haiku"}


def public_names():
    """Every name that users may write → what it is."""
    found = {f"ox.{name}": getattr(ox, name) for name in dir(ox) if name != "__version__"}
    for space, module in list(found.items()):
        if isinstance(module, types.ModuleType):
            names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
            members = {name: getattr(module, name) for name in names}
            members = {name: thing for name, thing in members.items() if callable(thing)}
            found |= {f"{space}.{name}": thing for name, thing in members.items() if thing not in _values(found)}
    return found


def _values(found):
    return [thing for thing in found.values() if not isinstance(thing, types.ModuleType)]


def words_of(thing):
    """Its own docstring, not that of a base."""
    words = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    return inspect.cleandoc(words or "")


def examples_of(name, thing):
    return doctest.DocTestParser().get_doctest(words_of(thing), {}, name, None, None)


def arguments_of(thing):
    """Of its signature; none where it is made by others."""
    if isinstance(thing, types.ModuleType) or (inspect.isclass(thing) and issubclass(thing, Exception)):
        return []
    return [name for name in inspect.signature(thing).parameters if name != "self"]


def errors_raised_by(thing):
    """The names of our errors that its own source raises."""
    tree = ast.parse(inspect.getsource(thing))
    raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None]
    names = {call.func.id for call in raised if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}
    return {name for name in names if hasattr(ox, name)}


def set_up():
    """What the reference says that its examples begin with."""
    page = (ROOT / "docs" / "reference" / "index.md").read_text()
    block = re.search(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert block is not None
    return block[1]


def run(name, space):
    """The examples of one name, as a user would type them after those lines; what went wrong, in words."""
    test = examples_of(name, public_names()[name])
    test.globs = dict(space)
    wrong = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=wrong.append)
    return "".join(wrong)
