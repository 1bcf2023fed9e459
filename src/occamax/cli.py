"""The command line: parse and call. jax is imported inside the commands, so that --help answers at once."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from .errors import ArgumentError, OccamaxError, StoppedError
from .names import choose, figures_as_text, milliseconds, whole_number


class Commands(TyperGroup):
    """What the system refuses, wherever it was, is an error of ours as well."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # whoever read us has seen enough
            raise
        except OSError as error:
            where = f"{str(error.filename)[:200]}: " if error.filename else ""
            raise OccamaxError(f"{where}{error.strerror or error}") from error


app = typer.Typer(
    cls=Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich"
)
DataDir = Annotated[Path | None, typer.Option(help="Folder with data sets; else $OCCAMAX_DATA, else the user's cache.")]


@app.callback()
def about() -> None:
    """Bayesian neural networks that prune themselves while they train."""


@app.command()
def train(
    data: Annotated[
        str,
        typer.Argument(
            help="fashion_mini, fashion_mnist, mnist, cifar10, cifar100, film_snippets; or a path: a folder of class folders of images, an .npz, a .csv."
        ),
    ],
    network: Annotated[
        str,
        typer.Argument(
            help="mlp, lenet, mixer, vit, lenet-300-100, lenet-caffe, resnet20, resnet20-bn, text; or package.module:function, called with the shape of an input, the number of outputs and a key."
        ),
    ],
    method: Annotated[str, typer.Argument(help="plain, map, flat, tiered, bmr-paper, bmr-rhs, bmr or bmr-natural")],
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/DATA-NETWORK-METHOD-seedN unless given.")] = None,
    epochs: Annotated[int, typer.Option(help="How many epochs.")] = 50,
    steps: Annotated[int, typer.Option(help="Steps in an epoch.")] = 500,
    batch: Annotated[int, typer.Option(help="Examples in a step.")] = 128,
    micro_batches: Annotated[
        int, typer.Option(help="In how many parts, one after the other, a device looks at its batch: less memory.")
    ] = 1,
    recompute_activations: Annotated[
        bool,
        typer.Option(
            "--recompute-activations", help="In the backward pass instead of keeping them all: less memory, more time."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Which random numbers.")] = 0,
    seeds: Annotated[int | None, typer.Option(help="Train seeds 0 to N−1 at once, a run folder each.")] = None,
    samples: Annotated[int, typer.Option(help="Draws of the weights in an evaluation.")] = 100,
    curve_samples: Annotated[int | None, typer.Option(help="Draws in evaluations before the last, if fewer.")] = None,
    precision: Annotated[str, typer.Option(help="float32, or bfloat16 for mixed precision.")] = "float32",
    sparsity: Annotated[
        float | None, typer.Option(help="Remove exactly this share of the weights; the evidence decides unless given.")
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(help="Begin at trained weights: a run folder, or a .safetensors file by the network's names."),
    ] = None,
    unit_price: Annotated[
        float | None,
        typer.Option(help="Also remove units that earn less evidence than this, in nats per weight; say 0.3."),
    ] = None,
    unit_cost: Annotated[
        str | None,
        typer.Option(help="What the price is for: weights; bytes of a file; latency, microseconds at batch 128 here."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any value of the method, such as learning_rate=5e-3, prior.gain=2, reduction.tolerance=none or optimizer=NaturalGradient(momentum=0.95). Several times.",
        ),
    ] = None,
    augment: Annotated[
        list[str] | None,
        typer.Option(help="crop, crop=PIXELS or flip; or package.module:function of (key, example). Several times."),
    ] = None,
    fixed: Annotated[
        list[str] | None, typer.Option(help="An array of the network that is not random, by name. Several times.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Of a .csv: the column to predict.")] = None,
    task: Annotated[
        str | None, typer.Option(help="Of a .csv: classification or regression; by the target's type unless given.")
    ] = None,
    test_share: Annotated[float, typer.Option(help="Of a path without a test set: the share set aside for one.")] = 0.2,
    image_size: Annotated[int | None, typer.Option(help="Of a folder of images: resize them to N × N.")] = None,
    data_dir: DataDir = None,
    cache: Annotated[bool, typer.Option(help="Keep compiled programs, so that the next run starts at once.")] = True,
    halvings: Annotated[
        int,
        typer.Option(help="Times to go back to the last checkpoint, on at half the rate, if the objective diverges."),
    ] = 0,
    keep_best: Annotated[
        bool, typer.Option("--keep-best", help="Also keep the checkpoint of the best objective.")
    ] = False,
    devices: Annotated[
        str | None, typer.Option(help="Share the batch out over this many devices, or over `all` of every host.")
    ] = None,
    shard_weights: Annotated[
        bool, typer.Option("--shard-weights", help="Share out the posterior and the optimiser as well.")
    ] = False,
    coordinator: Annotated[str | None, typer.Option(help="HOST:PORT of the first of several hosts.")] = None,
    num_processes: Annotated[int | None, typer.Option(help="How many hosts there are.")] = None,
    process_id: Annotated[int | None, typer.Option(help="Which of them this is, from 0.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run that exists.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
    json_lines: Annotated[
        bool, typer.Option("--json", help="One JSON object an epoch and seed, then the summaries, in place of words.")
    ] = False,
) -> None:  # an option each
    """Train one network by one method; keep the run in a folder."""
    from .command_words import augmentations, cost_named, method_from_words
    from .data import load_data
    from .experiment.cache import keep_compiled_programs
    from .experiment.callbacks import JsonLines
    from .experiment.devices import choose_devices, is_first_host
    from .experiment.folder import RunFolder
    from .experiment.hosts import join_hosts
    from .experiment.starting import Trained
    from .fitting import fit
    from .networks import network_named

    source, chosen, changes = (
        network_named(network),
        method_from_words(method, set_ or []),
        augmentations(augment or []),
    )
    if seeds is not None and seeds < 1:
        raise ArgumentError(f"--seeds: {seeds} given; it must be a whole number from 1 up")
    chosen = chosen if sparsity is None else chosen.pruned_to(sparsity, epochs)
    if cache:
        keep_compiled_programs()
    numbers = [seed] if seeds is None else list(range(seeds))
    place = _run_path(data, network, method, out, seed, seeds)
    join_hosts(coordinator, num_processes, process_id)
    where = choose_devices(devices, shard_weights)
    if not resume and not overwrite and is_first_host():  # before data are read, which takes time
        for path in [place] if seeds is None else [place / f"seed{number}" for number in numbers]:
            RunFolder.refuse_existing(path)
    dataset = load_data(data, data_dir, target=target, task=task, test_share=test_share, size=image_size)
    with _stoppable():
        fits = fit(
            source, dataset, chosen, epochs=epochs, steps_per_epoch=steps, batch_size=batch, seed=seed, seeds=seeds,
            micro_batches=micro_batches, recompute_activations=recompute_activations, unit_price=unit_price, unit_cost=cost_named(unit_cost), augment=changes, fixed=fixed,
            compute_dtype=precision, num_samples=samples,
            curve_samples=curve_samples, devices=where, out=place, resume=resume, overwrite=overwrite,
            keep_best=keep_best, halvings=halvings, progress=not (quiet or json_lines),
            on_epoch=JsonLines() if json_lines and is_first_host() else None, how_to_resume=_resume_command(),
            start=None if start is None else Trained(start),
        )  # fmt: skip
    if not quiet:
        _print_summaries(fits if isinstance(fits, list) else [fits], json_lines)


def _print_summaries(fits: list, as_json: bool) -> None:
    import json

    from .experiment.progress import print_summary

    for fitted in fits:
        if fitted is None:  # hosts other than the first have nothing to say
            continue
        if as_json:
            print(json.dumps({"run": str(fitted.path), "summary": fitted.summary}))
        else:
            print_summary(fitted.path, fitted.summary)


def _resume_command() -> str:
    """What a user types to go on: the same, and --resume."""
    import shlex

    words = [word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")]
    return shlex.join(["occamax", *words, "--resume"])


@contextmanager
def _stoppable() -> Iterator[None]:
    """A stop by signal is no error: what to type next, and the exit code that shells expect."""
    try:
        yield
    except StoppedError as stopped:
        print(stopped, file=sys.stderr)
        raise typer.Exit(128 + stopped.signum) from None
    except KeyboardInterrupt:
        print("stopped at once; --resume continues from the last checkpoint", file=sys.stderr)
        raise typer.Exit(130) from None


def _run_path(data: str, network: str, method: str, out: Path | None, seed: int, seeds: int | None) -> Path:
    """Where a run is kept; several seeds have folders in it."""
    if out is not None:
        return out
    name = f"{Path(data).stem}-{network.rpartition(':')[2]}-{method}"
    return Path("runs") / (name if seeds is not None else f"{name}-seed{seed}")


Checkpoint = Annotated[str, typer.Option(help="last; or previous, of an epoch before, or best, where that was kept.")]
OwnNetwork = Annotated[
    str | None, typer.Option("--network", help="package.module:function of a network that was passed to fit by hand.")
]


def _load(run: Path, network: str | None, checkpoint: str) -> Any:
    from .fitting import load
    from .networks import network_named

    return load(run, None if network is None else network_named(network), checkpoint=checkpoint)


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    samples: Annotated[int | None, typer.Option(help="Draws of the weights; as in training unless given.")] = None,
    checkpoint: Checkpoint = "last",
    network: OwnNetwork = None,
    data_dir: DataDir = None,
) -> None:
    """Measure a run's last checkpoint on its test set."""
    if samples is not None and samples < 1:
        raise ArgumentError(f"--samples: {samples} given; it must be a whole number from 1 up")
    figures = _load(run, network, checkpoint).evaluate(num_samples=samples, data_dir=data_dir)
    table = Table("figure", "value", box=SIMPLE_HEAD)
    for name, text in figures_as_text(figures).items():
        table.add_row(name, text)
    console = Console(highlight=False)
    console.print(str(run), soft_wrap=True)
    console.print(table)


@app.command()
def prune(
    run: Annotated[Path, typer.Argument(help="A run folder: the network that is pruned.")],
    sparsity: Annotated[
        float | None, typer.Option(help="The share of the weights to remove; as many as nobody notices unless given.")
    ] = None,
    order: Annotated[
        str, typer.Option(help="Which go first: signal-to-noise, magnitude, or delta-f, which is warned of.")
    ] = "signal-to-noise",
    repair: Annotated[bool, typer.Option(help="Move what is left so that the network says what it said.")] = True,
    tolerance: Annotated[
        float, typer.Option(help="How much of what was gained may be lost; 0 lets every sparsity stand.")
    ] = 0.05,
    out: Annotated[Path | None, typer.Option(help="Folder of the pruned network; RUN-pruned unless given.")] = None,
    checkpoint: Checkpoint = "last",
    network: OwnNetwork = None,
    data_dir: DataDir = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a folder that exists.")] = False,
) -> None:  # an option each
    """Prune a trained network in one shot, without training it. Seconds for a million weights."""
    from .command_words import order_named
    from .experiment.folder import RunFolder
    from .experiment.progress import print_summary
    from .pruning import prune_run
    from .reduction import Repair

    place = run.parent / f"{run.name}-pruned" if out is None else out
    if not overwrite:
        RunFolder.refuse_existing(place)
    trained = _load(run, network, checkpoint)
    moved = Repair() if repair else None
    found = prune_run(trained, data_dir, sparsity, order=order_named(order), repair=moved, tolerance=tolerance or None)
    print_summary(found.save(place, overwrite), found.summary)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of run folders.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
) -> None:
    """Compare runs: a table here, and one self-contained HTML page."""
    from .report import print_comparison, write_report

    groups = _groups(runs)
    write_report(groups, out)
    print_comparison(groups)
    Console(highlight=False).print(f"report: {out}", soft_wrap=True)


def _groups(paths: list[Path]) -> list:
    """Runs to compare, from run folders and from results of `reproduce`."""
    from .report import in_order, read_groups
    from .reproduction.cells import read_cells

    kept = [path for path in paths if (path / "cells").is_dir()]
    found = [result.group for path in kept for result in read_cells(path)]
    return in_order(found + read_groups(path for path in paths if path not in kept))


@app.command()
def export(  # an option each
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    format: Annotated[str, typer.Option(help="onnx, safetensors, or c for a C header.")] = "onnx",
    out: Annotated[Path | None, typer.Option(help="The file to write; RUN/network.FORMAT unless given.")] = None,
    posterior: Annotated[
        bool, typer.Option("--posterior", help="Ship deviations too, for `predict --samples`; not in onnx.")
    ] = False,
    bits: Annotated[
        int | None,
        typer.Option(help="Bits of a weight, 1 to 8, or 32 to round nothing; the evidence decides otherwise."),
    ] = None,
    max_loss: Annotated[
        float | None, typer.Option(help="Nats that rounding may cost, over the data set; 0.01 a weight unless given.")
    ] = None,
    max_bytes: Annotated[
        str | None, typer.Option("--bytes", help="Round, and remove, weights until the file has at most so many.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(help="Put so many networks drawn from the posterior into one onnx file or header.")
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Multiply by whole numbers; says whether this machine gains from it.")
    ] = False,
    latency: Annotated[
        str | None, typer.Option(help="Remove units until a call takes at most so long here, on one core: 2ms, 500us.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Examples in a call, for --latency.")] = 1,
    checkpoint: Checkpoint = "last",
    network: OwnNetwork = None,
    data_dir: DataDir = None,
) -> None:
    """Write a run's network as a file without its dead units; say how much smaller and faster it is."""
    from .export.show import print_measured

    format = "h" if choose("--format", format, ("onnx", "safetensors", "c", "h")) == "c" else format
    path = run / f"network.{format}" if out is None else out
    if path.suffix != f".{format}":
        raise ArgumentError(f"--out: {path} should end in .{format}, so that `occamax predict` knows what it is")
    options = {"bits": bits, "max_loss": max_loss, "max_bytes": whole_number("--bytes", max_bytes), "draws": draws}
    options |= {"int8": int8, "latency": milliseconds("--latency", latency), "batch": batch}
    print_measured(_load(run, network, checkpoint).export(path, posterior, data_dir=data_dir, **options), path)


@app.command()
def predict(
    file: Annotated[Path, typer.Argument(help="A file that `occamax export` wrote.")],
    images: Annotated[
        list[Path],
        typer.Argument(help="PNG or JPEG files, folders of them, an .npz, a .csv, or a .txt of a text a line."),
    ],
    json_lines: Annotated[bool, typer.Option("--json", help="One JSON object a line instead of a table.")] = False,
    samples: Annotated[
        int | None, typer.Option(help="Draws of the weights to average, from a file exported with --posterior.")
    ] = None,
) -> None:
    """Classify images with an exported network. What cannot be read is named; the others are still answered."""
    from .export.images import read_images
    from .export.predictor import open_export, open_posterior
    from .export.show import answers, of_draws, of_mean, print_answers

    if samples is None:
        predict, card = open_export(file)
        ask = of_mean(predict)
    else:
        draw, card = open_posterior(file, samples)
        ask = of_draws(draw)
    failed = print_answers(answers(ask, card, read_images(images, card)), json_lines, samples is not None)
    sys.exit(1 if failed else 0)


@app.command()
def reproduce(
    data: Annotated[list[str] | None, typer.Option("--data", help="Data sets; the paper's three unless given.")] = None,
    networks: Annotated[list[str] | None, typer.Option("--networks", help="Networks; all four unless given.")] = None,
    methods: Annotated[list[str] | None, typer.Option("--methods", help="Methods; the paper's unless given.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds 0 to N−1 of every cell, trained at once.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for runs, cells, figures and the page.")] = Path("runs/paper"),
    shard: Annotated[str, typer.Option(help="A part of the grid, such as 2/5: several machines share one folder.")] = (
        "1/1"
    ),
    workers: Annotated[int, typer.Option(help="Processes on this machine; one compiles while another trains.")] = 1,
    epochs: Annotated[int, typer.Option(help="How many epochs.")] = 50,
    steps: Annotated[int, typer.Option(help="Steps in an epoch.")] = 500,
    batch: Annotated[int, typer.Option(help="Examples in a step.")] = 128,
    samples: Annotated[int, typer.Option(help="Draws of the weights in the last evaluation.")] = 100,
    curve_samples: Annotated[int, typer.Option(help="Draws in the evaluations before the last.")] = 10,
    precision: Annotated[str, typer.Option(help="float32, or bfloat16 for mixed precision.")] = "float32",
    submit: Annotated[
        str | None, typer.Option(help="`slurm`: submit --workers jobs instead of running here. `local` tries it out.")
    ] = None,
    minutes: Annotated[int, typer.Option(help="Time of a submitted job.")] = 240,
    slurm: Annotated[
        list[str] | None, typer.Option("--slurm", help="Options of the submitted jobs, such as partition=gpu.")
    ] = None,
    data_dir: DataDir = None,
    cache: Annotated[bool, typer.Option(help="Keep compiled programs, so that the next run starts at once.")] = True,
) -> None:  # an option each
    """Run the paper's grid, draw its figures, compare with what was published. Finished cells are kept; an interrupted
    grid goes on where it stopped when the command is given again. List options take names separated by commas."""
    from .experiment.config import Config
    from .reproduction.command import reproduce as run_grid
    from .reproduction.command import submit_jobs
    from .reproduction.grid import DATA, METHODS, NETWORKS, Grid

    names = [_names(given, default) for given, default in ((data, DATA), (networks, NETWORKS), (methods, METHODS))]
    like = Config("fashion_mnist", "mlp", "map", epochs, steps, batch, 0, samples, curve_samples, precision)
    grid = Grid(names[0], names[1], names[2], seeds, like, _shard(shard))
    if workers < 1:
        raise ArgumentError(f"--workers: {workers} given; it must be a whole number from 1 up")
    if submit is not None:
        submit_jobs(grid, out, data_dir, workers, submit, minutes, _pairs(slurm or []), Console(highlight=False))
        return
    with _stoppable():
        failed = run_grid(grid, out, data_dir, workers, cache, Console(highlight=False))
    sys.exit(1 if failed else 0)


def _names(given: list[str] | None, default: tuple[str, ...]) -> list[str]:
    return list(default) if given is None else [name for item in given for name in item.replace(",", " ").split()]


def _pairs(words: list[str]) -> dict[str, str]:
    for word in words:
        if not word.partition("=")[2]:
            raise ArgumentError(f"--slurm: {word!r} given; it must be like partition=gpu")
    return {word.partition("=")[0].replace("-", "_"): word.partition("=")[2] for word in words}


def _shard(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal()):
        raise ArgumentError(f"--shard: {text!r} given; it must be like 2/5")
    return int(part), int(parts)


@app.command()
def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path("runs/quickstart"),
) -> None:
    """Train and prune a network on the embedded data set, beside plain training: a few minutes on two cores."""
    from dataclasses import replace

    from .data import load_data
    from .experiment.cache import keep_compiled_programs
    from .fitting import fit
    from .methods import BMR, Method, NaturalBMR, Plain
    from .networks import network_named

    keep_compiled_programs()
    dataset, epochs, paths = load_data("fashion_mini"), 15, []

    def trained(method: Method) -> Any:
        paths.append(out / method.name)
        with _stoppable():
            return fit(
                network_named("mlp"), dataset, method, epochs=epochs, steps_per_epoch=100, num_samples=20,
                curve_samples=4, out=paths[-1], overwrite=True, how_to_resume="occamax quickstart",
            )  # fmt: skip

    plain = Plain(dropout=0.2)
    trained(plain)
    ours = trained(BMR())
    trained(replace(plain, name="plain-pruned").pruned_to(ours.sparsity, epochs))  # as small as ours, by magnitude
    trained(NaturalBMR())
    report(paths, out / "report.html")


@app.command()
def data(data_dir: DataDir = None) -> None:
    """List the data sets: which are here, where, and how large."""
    from .data import SOURCES, find

    table = Table("data set", "here", "size", "where", box=SIMPLE_HEAD)
    for source in SOURCES.values():
        folder = find(source, data_dir)
        size = "" if folder is None else f"{sum((folder / file).stat().st_size for file in source.files) / 1e6:.1f} MB"
        where = "downloaded when first used" if folder is None else str(folder)
        table.add_row(source.name, "no" if folder is None else "yes", size, where)
    Console(highlight=False).print(table)


def main() -> None:
    """Entry point: our own errors are one line for the user, not a traceback."""
    sys.path.append(os.getcwd())  # a user's own package.module:function; last, so that it hides nothing
    try:
        app()
    except OccamaxError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        _leave_other_hosts()
        sys.exit(2)


def _leave_other_hosts() -> None:
    """Where hosts work together, an orderly exit would wait minutes for one that is gone."""
    if "jax" in sys.modules and sys.modules["jax"].distributed.is_initialized():
        sys.stdout.flush()
        os._exit(2)
