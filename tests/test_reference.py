"""The reference: every public name is on a page, says what it takes and raises, and has an example that runs."""

import inspect
import re
import sys
import types

import pytest

import occamax as ox

from . import reference

NAMES = reference.public_names()
THINGS = {name: thing for name, thing in NAMES.items() if not isinstance(thing, types.ModuleType)}


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    """What examples begin with, in an empty folder. The same training again, for another callback, is not done again:
    its epochs are told once more."""
    real_fit, known = ox.fit, {}

    def fit(network, data, *, on_epoch=None, out=None, **options):
        what = str((type(network), sorted(options.items(), key=str)))
        if what not in known:
            epochs = []
            fitted = real_fit(network, data, on_epoch=epochs.append, out="runs/reference" if out else None, **options)
            known[what] = fitted, epochs
        fitted, epochs = known[what]
        for epoch in epochs if on_epoch is not None else ():
            on_epoch(epoch)
        return fitted

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("reference"))
        patch.setattr(ox, "fit", fit, raising=False)
        patch.setitem(sys.modules, "tensorboardX", types.SimpleNamespace(SummaryWriter=lambda folder: Board()))
        patch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=lambda **options: Board()))
        found = {"__name__": "reference"}
        exec(compile(reference.set_up(), "reference/index.md", "exec", dont_inherit=True), found)
        yield found


class Board:
    """Stands for what is not installed here."""

    def add_scalar(self, name, value, step): ...
    def log(self, figures, step): ...
    def flush(self): ...


@pytest.mark.parametrize("name", [name for name in THINGS if name.removeprefix("ox.") not in reference.OTHERS])
def test_its_example_runs(name, space):
    wrong = reference.run(name, space)
    assert not wrong, wrong


def test_every_public_name_is_on_a_page_of_the_reference():
    pages = "".join(page.read_text() for page in (reference.ROOT / "docs" / "reference").glob("*.md"))
    listed = re.findall(r"^::: occamax[\w.]*\n    options: \{heading: (ox\.[\w.]+)[,}]", pages, re.MULTILINE)
    assert len(listed) == pages.count("\n::: ")
    assert sorted(listed) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_described(name):
    """In a docstring of its own that names its arguments and the errors that it raises, and has an example."""
    thing, words = NAMES[name], reference.words_of(NAMES[name])
    assert words
    assert not words.startswith(f"{name.rpartition('.')[2]}(")  # a dataclass without one gets its signature
    if isinstance(thing, types.ModuleType):
        return
    assert reference.examples_of(name, thing).examples
    missing = [own for own in reference.arguments_of(thing) if not re.search(rf"[*`]{own}\b", words)]
    assert missing == []
    assert [error for error in reference.errors_raised_by(thing) if error not in words] == []


@pytest.mark.parametrize("name", [name for name, thing in THINGS.items() if inspect.isclass(thing)])
def test_its_methods_are_described(name):
    for own, value in vars(THINGS[name]).items():
        if not own.startswith("_") and (callable(value) or isinstance(value, property | staticmethod)):
            assert inspect.getdoc(getattr(THINGS[name], own)), own


@pytest.mark.parametrize(
    "name", [name for name, value in vars(ox.Fit).items() if inspect.isfunction(value) and name[0] != "_"]
)
def test_what_is_asked_of_a_fit_says_what_it_takes(name):
    words = inspect.getdoc(getattr(ox.Fit, name)) or ""
    given = [own for own in inspect.signature(getattr(ox.Fit, name)).parameters if own != "self"]
    assert [own for own in given if not re.search(rf"[*`]{own}\b", words)] == []
