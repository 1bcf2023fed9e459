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
from PIL import Image
from typer.testing import CliRunner

import occamax as ox
from occamax import networks
from occamax.cli import app
from occamax.networks.named import NETWORKS, NetworkSource

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


# of what is not at hand: other hosts, Slurm, data that are downloaded; `test_front_door.py` runs the quickstart
ELSEWHERE = ("HOST", "occamax reproduce", "occamax quickstart", "fashion_mnist")
SHORT = ["--epochs", "2", "--steps", "2", "--samples", "2", "--curve-samples", "1", "--batch", "8"]
MORE = {"train": SHORT, "prune": ["--tolerance", "0"]}  # what is trained so little may lose all it has


def narrow(shape, outputs, *, key):
    return networks.MLP(shape, outputs, (8,), key=key)


@pytest.fixture
def at_hand(monkeypatch, tmp_path):
    """An empty folder but for what the pages name as the reader's own; networks are narrow."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(NETWORKS, "mlp", NetworkSource("mlp", narrow))
    monkeypatch.setitem(NETWORKS, "lenet", NetworkSource("lenet", narrow, 32))
    monkeypatch.syspath_prepend(tmp_path)
    rows = [f"{a / 50 - 1},{'red' if a % 3 else 'blue'},{a}" for a in range(100)]
    Path("flowers.csv").write_text("\n".join(["length,colour,price", *rows]))
    Path("mypackage").mkdir()
    Path("mypackage/networks.py").write_text("from tests.test_docs import narrow as build")
    rng = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        Path("pictures", name).mkdir(parents=True)
        for number in range(6):
            pixels = rng.integers(0, 256, (28, 28), np.uint8)
            Image.fromarray(pixels).save(Path("pictures", name, f"{number}.png"))
    shutil.copy("pictures/cats/0.png", "picture.png")


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name_of)
def test_the_commands_of_a_page_run(page, at_hand):
    """In their order, as they are written but for fewer steps."""
    for line in commands(page):
        words = shlex.split(line.split(">")[0].replace("--devices 2", "--devices all"))[1:]
        if any(name in line for name in ELSEWHERE):
            continue
        for run in re.findall(r"(?<!--out )\bruns/\w+", line):
            if not Path(run).exists():  # it is made in Python, or is any run
                typed(["train", "fashion_mini", "mlp", "bmr", "--out", run, *SHORT])
        typed([*words, *MORE.get(words[0], [])])


def typed(words):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, f"{shlex.join(words)}: {done.output} {done.exception!r}"


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
