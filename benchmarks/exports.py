"""What a run becomes as a file: bytes, latency and accuracy beside the dense network.

    python benchmarks/exports.py RUN... [--formats onnx safetensors] [--out exports.jsonl]
    python benchmarks/exports.py --table exports.jsonl
    python benchmarks/exports.py RUN... --joined
    python benchmarks/exports.py RUN... --beside [--out rounded.jsonl]
    python benchmarks/exports.py --beside --table rounded.jsonl

Each run is exported as `occamax export` does it, which measures what it wrote, on one core for ONNX. `--joined` says
what of it is not due to pruning: how much faster the dense network is in the form that our files have, with what can be
packed and joined as one. `--beside` measures what a user might do instead in one interleaved run: the dense network as
any exporter writes it, the same quantised to int8 by onnxruntime itself, our file with float32 weights, and our file
with weights rounded by the evidence, as ONNX, as safetensors and as a C header.
"""

import argparse
import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import exports_beside
import trials

import occamax as ox
from occamax.evaluation.predictive import Believed
from occamax.experiment.environment import environment
from occamax.export.card import Card
from occamax.export.exporting import Exportable, arrays_of, trace, write
from occamax.export.measuring import latencies
from occamax.export.predictor import FORMATS, open_export
from occamax.fitting import Fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--formats", nargs="+", default=["onnx"], choices=FORMATS)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--joined", action="store_true", help="only what our form is worth to a dense network")
    parser.add_argument("--beside", action="store_true", help="what a user might do instead, interleaved")
    parser.add_argument("--bytes", type=int, help="of the safetensors file, with --beside")
    parser.add_argument("--latency", type=float, help="milliseconds at batch 128 of one more ONNX file, with --beside")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        print((exports_beside.table if options.beside else table)(trials.lines_of(options.table)))
        return
    for run in options.runs:
        fitted = ox.load(run)
        if options.joined:
            print(f"{run}: {joined(fitted, options.data_dir):.2f} × as fast in our form, dense, batch 128")
            continue
        found = (measure(fitted, form, options.data_dir) for form in options.formats)
        for line in [exports_beside.measure(fitted, options)] if options.beside else found:
            print(json.dumps(line), flush=True)
            trials.keep(line, options.out)


def measure(fitted: Fit, form: str, data_dir: Path | None) -> dict:
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        found = fitted.export(Path(place) / f"file.{form}", data_dir=data_dir)
        seconds = time.perf_counter() - began
    config = {name: value for name, value in fitted.config.as_dict().items() if name != "layout"}
    return {
        "config": config,
        "format": form,
        "seconds": round(seconds, 1),
        "run": {name: fitted.summary[name] for name in ("accuracy", "nll", "ece", "sparsity", "commit", "device")},
        **asdict(found),
        **environment(),
        "command": trials.command(),
    }


def joined(fitted: Fit, data_dir: Path | None) -> float:
    """How many times as fast the dense network is in the form that exports have."""
    believed = Believed(fitted.state.posterior, fitted.state.mask, fitted.state.buffers)
    inputs, _ = fitted.test_set(data_dir=data_dir)
    card = Card.of(fitted.config.as_dict(), {})
    source = Exportable(fitted.model, believed, fitted.example, card)
    dense = trace(source).bind(arrays_of(fitted.model, believed.posterior.point, believed.mask))
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place) / "usual.onnx", Path(place) / "joined.onnx"]
        for file, as_usual in zip(files, (True, False), strict=True):
            write(file, dense, card, as_usual=as_usual)
        usual, ours = (open_export(file, threads=1)[0] for file in files)
    before, after = latencies(usual, ours, inputs[:128], seconds=5)
    return before / after


def _price(config: dict[str, Any]) -> float | None:
    """What a unit must earn; 0.1 kept it in another place."""
    reduction = config.get("settings", {}).get("method", {}).get("reduction") or {}
    return reduction.get("unit_price", config.get("unit_price"))


def masked_zipped(line: dict) -> int:
    """Bytes of the dense file with zeros for what was removed, gzipped; 0.1 had them in another place."""
    return line["zipped_masked"] if "zipped_masked" in line else line["zipped"][0]


def table(lines: list[dict]) -> str:
    """The run's figures are of 100 draws; the file is the network at the posterior mean."""
    rows = []
    for line in lines:
        config, run, price = line["config"], line["run"], _price(line["config"])
        accuracy = line["test_accuracy"] if "test_accuracy" in line else line["figures"]["accuracy"]
        ratios = [before / after for before, after in (line["bytes"], *line["milliseconds"].values())]
        rows.append(
            [
                f"{config['network']}, {config['data']}",
                config["method"] + (f" --unit-price {price:g}" if price is not None else ""),
                f"{config['epochs']} × {config.get('steps_per_epoch', config.get('steps'))}",
                " / ".join(trials.short(run[name]) for name in ("accuracy", "nll", "ece", "sparsity")),
                trials.short(accuracy),
                line["format"],
                f"{line['bytes'][1]:,}",
                f"{ratios[0]:.1f} ×",
                f"{masked_zipped(line) / line['zipped'][1]:.1f} ×",
                *(f"{ratio:.1f} ×" for ratio in ratios[1:]),
                f"{line['seconds']:.0f} s",
            ]
        )
    heads = ["network", "method", "steps", "accuracy / NLL / ECE / pruned", "accuracy of the file"]
    heads += ["format", "bytes", "smaller", "smaller than the masked dense file, both gzipped"]
    return trials.markdown([*heads, "faster, batch 1", "faster, batch 128", "export took"], rows)


if __name__ == "__main__":
    main()
