"""`occamax train`: one network by one method, kept in a folder."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ArgumentError
from .options import Batch, Cache, DataDir, Epochs, Precision, Steps, stoppable


def train(
    data: Annotated[
        str,
        typer.Argument(
            help="fashion_mini, fashion_mnist, mnist, cifar10, cifar100, film_snippets; or a path: a folder of class folders of images, an .npz, a .csv; with --stream also a .txt of a label, a tab and a text a line, or a folder of inputs.npy and targets.npy."
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
    epochs: Epochs = 50,
    steps: Steps = 500,
    batch: Batch = 128,
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
    precision: Precision = "float32",
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
    stream: Annotated[
        bool,
        typer.Option("--stream", help="The data are larger than memory: read only the batches, from disk, meanwhile."),
    ] = False,
    data_dir: DataDir = None,
    cache: Cache = True,
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
    from ..command_words import augmentations, cost_named, method_from_words
    from ..data import load_data, open_stream
    from ..experiment.cache import keep_compiled_programs
    from ..experiment.callbacks import JsonLines
    from ..experiment.devices import choose_devices, is_first_host
    from ..experiment.folder import RunFolder
    from ..experiment.hosts import ending_together, join_hosts
    from ..experiment.starting import Trained
    from ..fitting import fit
    from ..networks import network_named

    source, chosen = network_named(network), method_from_words(method, set_ or [])
    changes = augmentations(augment or [])
    if seeds is not None and seeds < 1:
        raise ArgumentError(f"--seeds: {seeds} given; it must be a whole number from 1 up")
    chosen = chosen if sparsity is None else chosen.pruned_to(sparsity, epochs)
    if cache:
        keep_compiled_programs()
    numbers = [seed] if seeds is None else list(range(seeds))
    place = _run_path(data, network, method, out, seed, seeds)
    join_hosts(coordinator, num_processes, process_id)
    with stoppable(), ending_together(_resume_command()):
        where = choose_devices(devices, shard_weights)
        if not resume and not overwrite and is_first_host():  # before data are read, which takes time
            for path in [place] if seeds is None else [place / f"seed{number}" for number in numbers]:
                RunFolder.refuse_existing(path)
        read = open_stream if stream else load_data
        dataset = read(data, data_dir=data_dir, target=target, task=task, test_share=test_share, size=image_size)
        fits = fit(
            source, dataset, chosen, epochs=epochs, steps_per_epoch=steps, batch_size=batch, seed=seed, seeds=seeds,
            micro_batches=micro_batches, recompute_activations=recompute_activations, compute_dtype=precision,
            start=None if start is None else Trained(start), unit_price=unit_price, unit_cost=cost_named(unit_cost),
            augment=changes, fixed=fixed, num_samples=samples, curve_samples=curve_samples, devices=where, out=place,
            resume=resume, overwrite=overwrite, keep_best=keep_best, halvings=halvings,
            progress=not (quiet or json_lines), how_to_resume=_resume_command(),
            on_epoch=JsonLines() if json_lines and is_first_host() else None,
        )  # fmt: skip
        fits = [fitted for fitted in (fits if isinstance(fits, list) else [fits]) if fitted is not None]
        together = _together(fits, dataset, place)
        if not quiet:
            _print_summaries(fits, json_lines)
            _print_together(together, place, json_lines)


def _together(fits: list, dataset: Any, place: Path) -> Any:
    """Several seeds as one, kept beside them; None of fewer. Hosts other than the first have none."""
    from ..fitting import ensemble

    if len(fits) < 2:
        return None
    found = ensemble(fits, dataset)
    found.save(place, overwrite=True)
    return found


def _print_together(found: Any, place: Path, as_json: bool) -> None:
    import json

    from ..names import figures_as_text

    if found is None:
        return
    if as_json:
        print(json.dumps({"ensemble": str(place), "figures": found.figures, "share": found.share}))
        return
    names = ("accuracy", "nll", "ece", "ece_floor", "rmse")
    shown = figures_as_text({name: found.figures[name] for name in names if name in found.figures})
    figures = "".join(f"  {name} {text}" for name, text in shown.items())
    print(
        f"{place}, the {len(found.members)} networks together:{figures}  {found.share:.1%} of one dense network's weights"
    )


def _print_summaries(fits: list, as_json: bool) -> None:
    import json

    from ..experiment.progress import print_summary

    for fitted in fits:
        if as_json:
            print(json.dumps({"run": str(fitted.path), "summary": fitted.summary}))
        else:
            print_summary(fitted.path, fitted.summary, not fitted.method.posterior.has_deviations)


def _resume_command() -> str:
    """What a user types to go on: the same, and --resume."""
    import shlex

    words = [word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")]
    return shlex.join(["occamax", *words, "--resume"])


def _run_path(data: str, network: str, method: str, out: Path | None, seed: int, seeds: int | None) -> Path:
    """Where a run is kept; several seeds have folders in it."""
    if out is not None:
        return out
    name = f"{Path(data).stem}-{network.rpartition(':')[2]}-{method}"
    return Path("runs") / (name if seeds is not None else f"{name}-seed{seed}")
