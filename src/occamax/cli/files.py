"""Networks as files: `occamax export` writes one, `predict` asks it."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ArgumentError
from ..names import choose, milliseconds, whole_number
from .options import Checkpoint, DataDir, OwnNetwork, load_run


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
    from ..export.show import print_measured
    from ..fitting import Ensemble

    format = "h" if choose("--format", format, ("onnx", "safetensors", "c", "h")) == "c" else format
    path = run / f"network.{format}" if out is None else out
    if path.suffix != f".{format}":
        raise ArgumentError(f"--out: {path} should end in .{format}, so that `occamax predict` knows what it is")
    options = {"bits": bits, "max_loss": max_loss, "max_bytes": whole_number("--bytes", max_bytes), "draws": draws}
    options |= {"int8": int8, "latency": milliseconds("--latency", latency), "batch": batch}
    if batch != 1 and latency is None:
        raise ArgumentError(
            f"--batch: {batch} given without --latency, whose calls it is of; every export times 1 and 128"
        )
    found = load_run(run, network, checkpoint)
    if isinstance(found, Ensemble):
        options = _for_ensemble(options | {"posterior": posterior})
        print_measured(found.export(path, data_dir=data_dir, **options), path)
    else:
        print_measured(found.export(path, posterior, data_dir=data_dir, **options), path)


def _for_ensemble(options: dict[str, Any]) -> dict[str, Any]:
    """Those of one network are refused."""
    for name in ("posterior", "draws", "latency"):
        if options.pop(name):
            raise ArgumentError(f"--{name}: it is of one network, and this folder holds an ensemble; export one member")
    del options["batch"]
    return options


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
    from ..export.images import read_images
    from ..export.predictor import open_export, open_posterior
    from ..export.show import answers, of_draws, of_mean, print_answers

    if samples is None:
        predict, card = open_export(file)
        ask = of_mean(predict)
    else:
        draw, card = open_posterior(file, samples)
        ask = of_draws(draw)
    failed = print_answers(answers(ask, card, read_images(images, card)), json_lines, samples is not None)
    sys.exit(1 if failed else 0)
