"""Runs the grid: every data set with every network and every method. What is finished is skipped, what was interrupted
goes on, what fails is noted and left behind."""

import itertools
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..data import SOURCES, load_data
from ..errors import ArgumentError, RunError
from ..experiment.config import Config
from ..experiment.folder import RunFolder
from ..experiment.progress import clock
from ..fitting import fit
from ..methods import METHODS as KNOWN_METHODS
from ..names import LABELS, choose
from ..networks import NETWORKS as KNOWN_NETWORKS
from ..networks import network_named
from .cells import cell_file, finished_seeds, is_same_cell, write_cell

DATA = ("fashion_mnist", "cifar10", "cifar100")
NETWORKS = ("mlp", "lenet", "mixer", "vit")
METHODS = ("map", "flat", "tiered", "bmr-paper")
KNOWN = SOURCES, KNOWN_NETWORKS, KNOWN_METHODS
COST = {"mlp": 1.0, "lenet": 1.3, "mixer": 5.0, "vit": 6.0}


@dataclass(frozen=True)
class Cell:
    data: str
    network: str
    method: str

    @property
    def name(self) -> str:
        return f"{self.data}-{self.network}-{self.method}"

    @property
    def label(self) -> str:
        return f"{self.data} · {self.network} · {LABELS[self.method]}"

    @property
    def cost(self) -> float:
        """A guess of its seconds over those of an MLP's cell, to deal cells out and to guess the time left."""
        return COST.get(self.network, 1.0)


@dataclass(frozen=True)
class Grid:
    """Which cells, how many seeds, how each is trained (a configuration whose names and seed are replaced)."""

    data: Sequence[str] = DATA
    networks: Sequence[str] = NETWORKS
    methods: Sequence[str] = METHODS
    seeds: int = 1
    like: Config = Config("fashion_mnist", "mlp", "map", curve_samples=10)
    shard: tuple[int, int] = (1, 1)

    def __post_init__(self):
        if self.seeds < 1:
            raise ArgumentError(f"--seeds: {self.seeds} given; it must be a whole number from 1 up")
        if not (self.data and self.networks and self.methods):
            raise ArgumentError("--data, --networks, --methods: one of them names nothing; leave it out for all")
        part, parts = self.shard
        if not 1 <= part <= parts:
            raise ArgumentError(f"--shard: {part}/{parts} given; it must be like 2/5, from 1/5 to 5/5")
        for cell in itertools.product(self.data, self.networks, self.methods):
            for argument, name, known in zip(("--data", "--networks", "--methods"), cell, KNOWN, strict=True):
                choose(argument, name, known)  # before anything runs

    def cells(self) -> list[Cell]:
        """This shard's cells. The dearest come first and are dealt out in turn, so that shards take about as long."""
        every = [Cell(*names) for names in itertools.product(self.data, self.networks, self.methods)]
        part, parts = self.shard
        return sorted(every, key=lambda cell: -cell.cost)[part - 1 :: parts]

    def config(self, cell: Cell) -> Config:
        return replace(self.like, data=cell.data, network=cell.network, method=cell.method, seed=0)


@dataclass(frozen=True)
class Outcome:
    """What became of one cell. `error` is None where it went well."""

    cell: Cell
    seconds: float
    skipped: bool = False
    error: str | None = None


def run(grid: Grid, out: Path, data_dir: Path | None, say: Callable[[str], None]) -> Iterator[Outcome]:
    """Trains cell by cell; yields each outcome when it is known. `say` takes one line of progress at a time."""
    cells = grid.cells()
    pending = [cell for cell in cells if missing_seeds(grid, cell, out)]
    for cell in cells:
        if cell not in pending:
            yield Outcome(cell, 0.0, skipped=True)
    say(f"{len(cells)} cells, {len(cells) - len(pending)} finished before")
    spent, done = 0.0, 0.0
    for number, cell in enumerate(pending, start=1):
        left = sum(later.cost for later in pending[number - 1 :])
        guess = f", about {clock(spent / done * left)} left" if done else ""
        say(f"[{number}/{len(pending)}] {cell.label}{guess}")
        outcome = run_cell(grid, cell, out, data_dir)
        spent, done = spent + outcome.seconds, done + cell.cost
        yield outcome


def missing_seeds(grid: Grid, cell: Cell, out: Path) -> list[int]:
    finished = finished_seeds(cell_file(out, cell.name), grid.config(cell))
    return [seed for seed in range(grid.seeds) if seed not in finished]


def refuse_other(folder: RunFolder, config: Config) -> None:
    """A run of another budget in the place of this one is neither overwritten nor taken for it."""
    if not is_same_cell(folder.config(), config):
        raise RunError(f"{folder.path}: is a run of another budget. Choose another --out, or delete it.")


def train_cell(grid: Grid, cell: Cell, folder: Path, data_dir: Path | None, seeds: list[int], resume: bool) -> None:
    """Some seeds of a cell at once, each in its own folder."""
    like = grid.like
    fit(
        network_named(cell.network), load_data(cell.data, data_dir), KNOWN_METHODS[cell.method](), epochs=like.epochs,
        steps_per_epoch=like.steps_per_epoch, batch_size=like.batch_size, seeds=seeds, num_samples=like.num_samples,
        curve_samples=like.curve_samples, compute_dtype=like.compute_dtype, out=folder, resume=resume,
        overwrite=not resume, how_to_resume="the same command",
    )  # fmt: skip


def run_cell(grid: Grid, cell: Cell, out: Path, data_dir: Path | None) -> Outcome:
    """One cell, from where it stands. Any error is the outcome, not the end of the grid; an interrupt is the end."""
    began = time.perf_counter()
    folder = out / "runs" / cell.data / f"{cell.network}-{cell.method}"
    try:
        seeds = missing_seeds(grid, cell, out)
        paths = {seed: folder / f"seed{seed}" for seed in range(grid.seeds)}
        fresh = [seed for seed in seeds if not RunFolder(paths[seed]).checkpoint.is_file()]
        for seed in set(seeds) - set(fresh):
            refuse_other(RunFolder.open(paths[seed]), grid.config(cell))
        begun = [seed for seed in seeds if seed not in fresh and not (paths[seed] / "summary.json").is_file()]
        for some, resume in ((begun, True), (fresh, False)):
            if some:
                train_cell(grid, cell, folder, data_dir, some, resume)
        write_cell(cell_file(out, cell.name), [path for path in paths.values() if (path / "summary.json").is_file()])
        (folder / "error.txt").unlink(missing_ok=True)
    except Exception as error:  # whatever it is, the other cells are to run
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "error.txt").write_text(traceback.format_exc())
        return Outcome(cell, time.perf_counter() - began, error=f"{type(error).__name__}: {error}")
    return Outcome(cell, time.perf_counter() - began)
