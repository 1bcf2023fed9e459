"""README and documentation: the blocks of a page run one after the other in one empty folder, every command line is
one, every page is found."""

import functools
import inspect
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
from occamax import fitting, networks
from occamax.cli import app
from occamax.data import SOURCES
from occamax.experiment.devices import Devices
from occamax.networks.named import NETWORKS, NetworkSource

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
SMALL = {"epochs": 3, "steps_per_epoch": 2, "batch_size": 8, "num_samples": 2, "progress": False}

# What is not run here, by a part of its line or block → why. Known options are asked of its command lines all the same.
NOT_RUN = {
    "ox.from_": "other libraries have a part in it; tests/interop/test_snippets.py runs it",
    "pip install": "the environment is there; `make wheel` installs the package as a user would",
    "--coordinator": "waits for other hosts; tests/experiment/test_hosts.py joins two",
    "mpirun": "needs Open MPI",
    "#SBATCH": "is a script for Slurm",
    "apiVersion": "is a file for Kubernetes",
    "occamax reproduce": "downloads its data; tests/reproduction runs it",
    "occamax quickstart": "tests/test_front_door.py runs it",
}
OTHERS = ROOT / "docs" / "start" / "pytorch.md"  # all of it is of other libraries
CHANGED = {"--devices 2": "--devices all"}  # there is one here
MORE = {"prune": ["--tolerance", "0"]}  # what is trained so little may lose all it has
OF_THE_READER = {"docs/reference/cli.md": "picture.png"}  # what a page says that the reader brings


def blocks(page):
    """Language, file name if it is to be written to one, and text of each block; without those of other libraries."""
    found = BLOCK.findall(page.read_text())
    return [block for block in found if page != OTHERS and "ox.from_" not in block[2]]


def lines(text):
    """The commands of a shell block."""
    joined = (line.split(" #")[0].strip() for line in text.replace("\\\n", " ").splitlines())
    return [line for line in joined if line and not line.startswith("#")]


def is_run(text):
    return not any(part in text for part in NOT_RUN)


def name_of(page):
    return str(page.relative_to(ROOT))


class Few(type(SOURCES["fashion_mini"])):
    """The embedded images, few of them."""

    def read(self, folder):
        found = everything(folder)
        return replace(found, train=found.train.rows(slice(200)), test=found.test.rows(slice(50)))


everything = functools.cache(SOURCES["fashion_mini"].read)


def narrow(shape, outputs, *, key):
    return networks.MLP(shape, outputs, (8,), key=key)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Runs that pages have in common: what they are → (the fit, its folder)."""
    return tmp_path_factory.mktemp("kept"), {}


@pytest.fixture
def small(monkeypatch, tmp_path, kept):
    """Few steps, few images, narrow networks without a temperature, in an empty folder. The same run again, on another
    page, is a copy, but in a folder that is there already."""
    real_fit, defaults = fitting.fit, inspect.signature(fitting.fit).parameters
    place, known = kept

    def fit(network, data, method=None, *, out=None, **options):
        method = replace(ox.BMR() if method is None else method, calibration=None)
        options |= SMALL
        if options.get("seeds") or options.get("start") or (out is not None and Path(out).exists()):
            return real_fit(network, data, method, out=out, **options)
        own = {name: value for name, value in options.items() if value not in (defaults[name].default, Devices())}
        own.pop("how_to_resume", None)
        what = repr((kind_of(network), kind_of(data), method, sorted(own.items())))
        if what not in known:
            known[what] = real_fit(network, data, method, out=place / str(len(known)), **options)
        if out is None:
            return known[what]
        shutil.copytree(known[what].path, out)
        return replace(known[what], path=Path(out))

    def mlp(shape, outputs, hidden=None, *, key):
        """Widths of one's own stay other ones than those of `mlp`."""
        return networks.MLP(shape, outputs, (8,) if hidden is None else (6,) * len(hidden), key=key)

    monkeypatch.setattr(fitting, "fit", fit)
    lenient = functools.partial(ox.prune, tolerance=None)
    for name, own in {"MLP": mlp, "fit": fit, "prune": lenient}.items():
        monkeypatch.setattr(ox, name, own, raising=False)
    monkeypatch.setitem(NETWORKS, "mlp", NetworkSource("mlp", narrow))
    monkeypatch.setitem(NETWORKS, "lenet", NetworkSource("lenet", narrow, 32))
    mini = SOURCES["fashion_mini"]
    monkeypatch.setitem(SOURCES, "fashion_mini", Few(**{name: getattr(mini, name) for name in mini.__match_args__}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def kind_of(thing):
    if isinstance(thing, NetworkSource):
        return thing.name
    if isinstance(thing, ox.Dataset):
        return thing.name, thing.shape, len(thing.train)
    return jax.tree.structure(thing), jax.tree.map(np.shape, jax.tree.leaves(thing))


def typed(line):
    """As in a shell, a result into a file too."""
    for part, other in CHANGED.items():
        line = line.replace(part, other)
    words, _, result = line.partition(">")
    words = shlex.split(words)[1:]
    done = CliRunner().invoke(app, [*words, *MORE.get(words[0], [])])
    assert done.exit_code == 0, f"{line}: {done.output} {done.exception!r}"
    if result:
        Path(result.strip()).write_text(done.stdout)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_the_blocks_of_a_page_run_one_after_the_other(page, small):
    """In one folder that is empty at first: Python as one program, command lines, and files that are to be written."""
    if name_of(page) in OF_THE_READER:
        Image.fromarray(np.zeros((28, 28), np.uint8)).save(OF_THE_READER[name_of(page)])
    space = {"__name__": "page"}
    for kind, title, text in blocks(page):
        if title:
            Path(title).write_text(text)
        elif kind == "python" and is_run(text):
            exec(compile(text, name_of(page), "exec", dont_inherit=True), space)
        elif kind == "bash" and "#SBATCH" not in text:
            for line in filter(is_run, lines(text)):
                assert line.startswith("occamax "), line
                typed(line)


def test_no_code_is_where_no_test_looks():
    """A block says its language, and is one of those that are run or named above; no code is merely indented."""
    for page in PAGES:
        found = BLOCK.findall(page.read_text())
        assert len(found) * 2 == len(re.findall("^```", page.read_text(), re.MULTILINE)), name_of(page)
        for kind, _, text in found:
            assert kind in ("python", "bash") or not is_run(text), f"{name_of(page)}: {text}"
        rest = BLOCK.sub("", page.read_text())
        code = re.compile(r"^    (?!options: ).*(?:occamax |\box\.|import |apiVersion|#SBATCH)", re.MULTILINE)
        assert not code.search(rest), name_of(page)


def test_a_run_of_the_same_name_is_not_overlooked(small):
    """What stands above would not be worth much if the second of two runs in one folder were let through."""
    data = ox.load_data("fashion_mini")
    network = ox.MLP(data.shape, data.outputs, key=jax.random.key(0))
    ox.fit(network, data, out="runs/mine")
    with pytest.raises(ox.RunError, match="exists"):
        ox.fit(network, data, out="runs/mine")
    assert CliRunner().invoke(app, ["evaluate", "runs/mine"]).exit_code == 0
    ox.fit(ox.MLP(data.shape, data.outputs, hidden=(200,), key=jax.random.key(0)), data, out="runs/own")
    assert CliRunner().invoke(app, ["evaluate", "runs/own"]).exit_code != 0


def test_a_fit_says_what_it_is_in_a_line(small):
    x = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    network = ox.MLP((8,), 2, key=jax.random.key(0))
    words = repr(ox.fit(network, (x, (x[:, 0] > 0).astype(int))))
    assert re.fullmatch(r"<Fit arrays · MLP · bmr: \d+\.\d% pruned, '.*'>", words)


def commands(page):
    """Every line of a shell block that calls occamax, by whatever means."""
    found = [line for kind, _, text in blocks(page) if kind == "bash" for line in lines(text)]
    found = [re.search(r"(?:^|exec |srun |one,two )(occamax .*)", line) for line in found]
    return [re.sub(r"\$\(.*\)", "", line[1]) for line in found if line]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name_of)
def test_every_command_line_is_one(page):
    """Known commands, known options with values of their kind, as many arguments as they take; nothing is run."""
    known = typer.main.get_command(app).commands
    for line in commands(page):
        name, *words = shlex.split(line.split(">")[0])[1:]
        assert name in known, line
        known[name].make_context(name, words)


def test_every_page_is_in_the_navigation_and_links_to_pages_that_are_there():
    docs = ROOT / "docs"
    names = dict(re.findall(r'"([^"]+)" = "([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text()))
    listed = set(names.values())
    for name, page in names.items():  # one name for a page
        assert page == "index.md" or (docs / page).read_text().splitlines()[0] == f"# {name}", page
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
    """Each file of results is named in the lab, of the history's in theirs, cells and figures by their folder; nothing
    is over a megabyte but the images that come with it."""
    lab = (ROOT / "docs" / "lab" / "index.md").read_text()
    for path in (path.relative_to(ROOT / "results") for path in (ROOT / "results").rglob("*")):
        if (ROOT / "results" / path).is_dir() or path.parts[0] == "history":
            continue
        name = f"{path.parent}/" if path.parent.name in ("cells", "figures") else str(path)
        assert f"`{name}`" in lab or f"`results/{name}`" in lab, name
    folders = [ROOT / name for name in ("benchmarks", "docs", "examples", "results", "src", "tests")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    large = [path.name for path in files if path.stat().st_size > 1e6 and not {"runs", "authors"} & set(path.parts)]
    assert large == ["train-images-idx3-ubyte.sorted.xz"]
