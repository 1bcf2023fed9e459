"""The shape of the code: stages in order without cycles, short functions, declared imports, light readers."""

import ast
import json
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "occamax"
STAGES = (
    "errors", "names", "storage", "data", "networks", "structure", "inference", "reduction", "evaluation", "methods",
    "experiment", "export", "report", "interop", "fitting", "pruning", "reproduction", "command_words", "cli",
)  # fmt: skip
DOORS = ("__init__", "__main__")  # of the package: they may know all stages
LINES, ARGUMENTS = 40, 8


def module_name(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


@cache
def tree_of(name):
    return ast.parse(MODULES[name].read_text())


def stage_of(name):
    return name.split(".")[1] if "." in name else "__init__"


def is_package(name):
    return MODULES[name].name == "__init__.py"


def absolute(name, node):
    """Full names of what an import names: modules, or names in modules."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        parts = name.split(".")
        parts = parts if is_package(name) else parts[:-1]
        base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
    return [f"{base}.{alias.name}" for alias in node.names]


def known(target):
    """The module of ours that this is, or is a name of; None where it is another's."""
    parts = target.split(".")
    if parts[0] != "occamax":
        return None
    for length in range(len(parts), 0, -1):
        found = ".".join(parts[:length])
        if found in MODULES:
            return found
    return "occamax"


def imports(name, everywhere):
    """Our own modules that one imports; `everywhere` also inside of functions and for type checkers."""
    nodes = ast.walk(tree_of(name)) if everywhere else top_level(tree_of(name).body)
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for target in absolute(name, node):
                module = known(target)
                if module is not None and module != name:
                    yield module, node.lineno


def top_level(body):
    """What runs when a module is imported."""
    for node in body:
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        yield node
        for part in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from top_level(getattr(node, part, []))


def test_every_module_belongs_to_a_stage():
    strange = {name for name in MODULES if stage_of(name) not in (*STAGES, *DOORS)}
    assert not strange
    assert {stage_of(name) for name in MODULES} >= set(STAGES)


def test_a_stage_imports_only_stages_before_it():
    wrong = []
    for name in MODULES:
        if stage_of(name) in DOORS:
            continue
        for module, line in imports(name, everywhere=True):
            if module == "occamax":  # its version
                continue
            if STAGES.index(stage_of(module)) > STAGES.index(stage_of(name)):
                wrong.append(f"{MODULES[name].relative_to(ROOT)}:{line} imports {module}")
    assert not wrong


def test_no_module_imports_one_that_imports_it():
    """Inside of a stage too, when modules are imported."""
    graph = {name: {module for module, _ in imports(name, everywhere=False)} for name in MODULES}
    for package in (
        name for name in MODULES if is_package(name)
    ):  # a package and its modules are one, seen from outside
        graph[package] = {module for module in graph[package] if not module.startswith(f"{package}.")}
    graph["occamax"] = set()  # loads nothing until it is asked
    done: set[str] = set()

    def visit(name, path):
        assert name not in path, f"a cycle: {' → '.join([*path[path.index(name) :], name])}"
        if name not in done:
            for module in sorted(graph[name]):
                visit(module, [*path, name])
            done.add(name)

    for name in MODULES:
        visit(name, [])


def functions():
    for name in MODULES:
        for node in ast.walk(tree_of(name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield name, node


def length(node):
    """Its lines without those that say what it raises and show an example."""
    words = (ast.get_docstring(node) or "").replace("Raises:\n", "Examples:\n", 1)
    return node.end_lineno - node.lineno - words.partition("Examples:\n")[2].count("\n")


def arguments(node):
    given = node.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def has_reason(name, node):
    """A comment on the lines of the signature, or on the line before or after it."""
    lines = MODULES[name].read_text().splitlines()
    begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    near = lines[begin - 2 : node.body[0].lineno]
    comments = [line.partition("#")[2].strip() for line in near if "#" in line]
    return any(c and not c.startswith(("fmt:", "noqa", "type:", "pyright:")) for c in comments)


def test_long_functions_give_a_reason():
    offenders = [
        f"{MODULES[name].relative_to(ROOT)}:{node.lineno} {node.name}: {length(node)} lines, {arguments(node)} options"
        for name, node in functions()
        if (length(node) > LINES or arguments(node) > ARGUMENTS) and not has_reason(name, node)
    ]
    assert not offenders, "\n".join(offenders)


INSTALLED_AS = {"PIL": "pillow", "beartype": "beartype", "haiku": "dm-haiku", "orbax": "orbax-checkpoint"}


def test_every_import_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    declared = {line.split("[")[0].split(">")[0].split("=")[0].split("<")[0].strip().lower() for line in lines}
    missing = {}
    for name in MODULES:
        for node in ast.walk(tree_of(name)):
            if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
                targets = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
                for top in (str(target).split(".")[0] for target in targets):
                    package = INSTALLED_AS.get(top, top).lower()
                    if top not in sys.stdlib_module_names and top != "occamax" and package not in declared:
                        missing.setdefault(top, str(MODULES[name].relative_to(ROOT)))
    assert not missing


def test_the_types_are_shipped():
    assert (SOURCE / "py.typed").is_file()
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["src/occamax"]  # whole, with all files in it


@pytest.fixture(scope="module")
def loaded():
    """What each of some modules loads when it is imported, from one process."""
    code = """
import importlib, json, sys
light = json.loads(sys.argv[1])
HEAVY = "jax", "equinox", "optax", "scipy", "occamax.fitting", "torch", "torchax", "flax", "haiku"
found = {}
for name in light:
    importlib.import_module(name)
    found[name] = [heavy for heavy in HEAVY if heavy in sys.modules]
print(json.dumps(found))
"""
    light = ["occamax", "occamax.cli", "occamax.storage", "occamax.data", "occamax.experiment.folder",
             "occamax.experiment.config", "occamax.report", "occamax.export.predictor", "occamax.export.images",
             "occamax.export.show"]  # fmt: skip
    command = [sys.executable, "-c", code, json.dumps(light)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_whoever_reads_a_file_does_not_load_the_trainer(loaded):
    assert {name: heavy for name, heavy in loaded.items() if heavy} == {}
