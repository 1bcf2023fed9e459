"""README and documentation: every block of Python runs, every command line is one, every page is found."""

import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
import typer

import occamax as ox
from occamax.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SMALL = {"epochs": 3, "steps_per_epoch": 2, "batch_size": 8, "num_samples": 2, "progress": False}


OTHERS = ROOT / "docs" / "start" / "pytorch.md"  # `tests/interop/test_snippets.py` runs it, where the libraries are


def blocks(page, *kinds):
    """Those that other libraries have no part in."""
    found = [text for kind, text in BLOCK.findall(page.read_text()) if kind in kinds]
    return [text for text in found if page != OTHERS and "ox.from_" not in text]


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Runs that pages have in common: what they are → (the fit, its folder)."""
    return tmp_path_factory.mktemp("kept"), {}


@pytest.fixture
def small(monkeypatch, tmp_path, kept):
    """Few steps, few and small images, small networks without a temperature, in an empty folder. The same run again, on
    another page, is a copy."""
    real_fit, real_load, real_mlp = ox.fit, ox.load_data, ox.MLP
    place, known = kept

    def fit(network, data, method=None, *, out=None, **options):
        method = replace(ox.BMR() if method is None else method, calibration=None)
        options |= SMALL
        if options.get("resume"):
            return real_fit(network, data, method, out=out, **options)
        shapes = jax.tree.map(np.shape, (network, data if isinstance(data, tuple) else data.shape))
        what = str((jax.tree.leaves(shapes), type(data), method, options))
        if what not in known:
            known[what] = real_fit(network, data, method, out=place / str(len(known)), **options)
        if out is None:
            return known[what]
        shutil.copytree(known[what].path, out, dirs_exist_ok=True)
        return replace(known[what], path=Path(out))

    def mlp(shape, outputs, hidden=(), *, key):
        return real_mlp(shape, outputs, (8,), key=key)

    def load_data(name, *arguments, **options):
        found = real_load(name, *arguments, **options)
        if found.name != "fashion_mini":
            return found
        parts = [ox.Split(part.inputs[:40, :, ::4, ::4], part.targets[:40]) for part in (found.train, found.test)]
        return ox.Dataset(found.name, *parts, found.class_names, found.origin)

    for name, own in {"MLP": mlp, "fit": fit, "load_data": load_data}.items():
        monkeypatch.setattr(ox, name, own, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
def test_every_block_runs(page, small):
    """The blocks of a page follow one another in one program."""
    space = {"__name__": "page"}
    for text in blocks(page, "python"):
        exec(compile(text, name_of(page), "exec", dont_inherit=True), space)


def test_a_fit_says_what_it_is_in_a_line(small):
    x = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    network = ox.MLP((8,), 2, key=jax.random.key(0))
    words = repr(ox.fit(network, (x, (x[:, 0] > 0).astype(int))))
    assert re.fullmatch(r"<Fit arrays · MLP · bmr: \d+\.\d% pruned, '.*'>", words)


def commands(page):
    """Every line of a shell block that calls occamax."""
    lines = "\n".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()
    return [line.split(" #")[0] for line in lines if line.startswith("occamax ")]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name_of)
def test_every_command_line_is_one(page):
    """Known commands, known options with values of their kind, as many arguments as they take; nothing is run."""
    known = typer.main.get_command(app).commands
    for line in commands(page):
        name, *words = shlex.split(line.split(">")[0])[1:]
        assert name in known, line
        known[name].make_context(name, words)


def test_every_page_is_in_the_navigation_and_links_to_pages_that_are_there():
    listed = set(re.findall(r'= "([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text()))
    docs = ROOT / "docs"
    assert listed == {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            assert re.match(r"https?://", link) or (page.parent / link).exists(), f"{name_of(page)}: {link}"


def test_the_readme_is_short_and_shows_a_picture():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert "![" in text
    assert "pip install ." in text


def test_files_of_results_are_described_and_small():
    """Each file of the studies is named in the lab; nothing is over a megabyte but the images that come with it."""
    lab = (ROOT / "docs" / "lab" / "index.md").read_text()
    for path in (ROOT / "results" / "study").iterdir():
        assert f"`study/{path.name}`" in lab, path.name
    folders = [ROOT / name for name in ("benchmarks", "docs", "examples", "results", "src", "tests")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    large = [path.name for path in files if path.stat().st_size > 1e6 and not {"runs", "authors"} & set(path.parts)]
    assert large == ["train-images-idx3-ubyte.xz"]
