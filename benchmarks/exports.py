"""What a run becomes as a file: bytes, latency and accuracy beside the dense network.

    python benchmarks/exports.py RUN... [--formats onnx safetensors npz] [--out exports.jsonl]
    python benchmarks/exports.py --table exports.jsonl
    python benchmarks/exports.py RUN... --joined

Each run is exported by `occamax export`'s own function, which measures what it wrote, on one core for ONNX.
`--joined` says what of it is not due to pruning: how much faster the dense network is with its convolutions and mean
poolings as one.
"""

import argparse
import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import trials

from occamax.experiment import RunFolder, restore
from occamax.export import export
from occamax.export.convert import to_chain
from occamax.export.exporting import describe_run, latencies
from occamax.export.onnx_file import write_onnx
from occamax.export.predictor import FORMATS, open_export


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--formats", nargs="+", default=["onnx"], choices=FORMATS)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--joined", action="store_true", help="only what joined poolings are worth to a dense network")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        print(table(trials.lines_of(options.table)))
        return
    for run in options.runs:
        if options.joined:
            print(f"{run}: {joined(run, options.data_dir):.2f} × as fast with joined poolings, dense, batch 128")
            continue
        for form in options.formats:
            line = measure(run, form, options.data_dir)
            print(json.dumps(line), flush=True)
            if options.out is not None:
                with open(options.out, "a") as file:
                    file.write(json.dumps(line) + "\n")


def measure(run: Path, form: str, data_dir: Path | None) -> dict:
    folder = RunFolder.open(run)
    summary = folder.read_json("summary.json")
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        found = export(run, form, Path(place) / f"file.{form}", data_dir)
        seconds = time.perf_counter() - began
    return {
        "config": folder.config().as_dict(),
        "format": form,
        "seconds": round(seconds, 1),
        "run": {name: summary[name] for name in ("accuracy", "nll", "ece", "sparsity", "commit", "device")},
        **asdict(found),
    }


def joined(run: Path, data_dir: Path | None) -> float:
    """How many times as fast the dense network is in the form that exports have."""
    folder = RunFolder.open(run)
    experiment, state = restore(folder, data_dir)
    chain, card = to_chain(experiment.model.bind(state.posterior.point, state.mask)), describe_run(folder, experiment)
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place) / "usual.onnx", Path(place) / "joined.onnx"]
        for file, is_joined in zip(files, (False, True), strict=True):
            file.write_bytes(write_onnx(chain, card, sparse=False, joined=is_joined))
        usual, ours = (open_export(file, threads=1)[0] for file in files)
    before, after = latencies(usual, ours, experiment.dataset.test.inputs[:128], seconds=5)
    return before / after


def table(lines: list[dict]) -> str:
    """The run's figures are of 100 draws; the file is the network at the posterior mean."""
    rows = []
    for line in lines:
        config, run, price = line["config"], line["run"], line["config"]["unit_price"]
        ratios = [before / after for before, after in (line["bytes"], *line["milliseconds"].values())]
        rows.append(
            [
                f"{config['network']}, {config['data']}",
                config["method"] + (f" --unit-price {price:g}" if price is not None else ""),
                f"{config['epochs']} × {config['steps']}",
                " / ".join(trials.short(run[name]) for name in ("accuracy", "nll", "ece", "sparsity")),
                trials.short(line["test_accuracy"]),
                line["format"],
                f"{line['bytes'][1]:,}",
                *(f"{ratio:.1f} ×" for ratio in ratios),
                f"{line['seconds']:.0f} s",
            ]
        )
    heads = ["network", "method", "steps", "accuracy / NLL / ECE / pruned", "accuracy of the file"]
    heads += ["format", "bytes", "smaller"]
    return trials.markdown([*heads, "faster, batch 1", "faster, batch 128", "export took"], rows)


if __name__ == "__main__":
    main()
