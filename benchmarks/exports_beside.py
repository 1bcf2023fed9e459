"""A run's files beside what a user might do instead, measured in turn: called by `exports.py --beside`. Times are those
of the one thread that computes, so that other work on the machine does not count."""

import gzip
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import trials

from occamax.evaluation.predictive import Believed
from occamax.experiment.environment import environment
from occamax.export.c_library import compiler
from occamax.export.card import Card
from occamax.export.exporting import Exportable, arrays_of, named, trace, write
from occamax.export.measuring import figures_of, in_parts, interleaved, on_all_cores
from occamax.export.predictor import open_export
from occamax.fitting import Fit

NAMES = {
    "dense": "dense, ONNX",
    "int8": "dense, int8 by onnxruntime",
    "float32": "ours, float32, ONNX",
    "onnx": "ours, rounded, ONNX",
    "fast": "ours, rounded, without units for a latency, ONNX",
    "safetensors": "ours, rounded, safetensors",
    "sized": "ours, rounded and pruned to a size, safetensors",
    "h": "ours, rounded, C header",
}
SECONDS = 3.0  # of interleaved calls, for each batch size


def measure(fitted: Fit, options: Any) -> dict[str, Any]:
    """One line: bytes, latency and figures of every file. A C header's bytes are those of its constants."""
    inputs, targets = fitted.test_set(data_dir=options.data_dir)
    with tempfile.TemporaryDirectory() as place:
        files, details = _files(fitted, Path(place), options)
        asks = {
            name: open_export(path, threads=1)[0] if name != "int8" else _int8(path) for name, path in files.items()
        }
        for name, path in files.items():
            many = on_all_cores if path.suffix == ".onnx" else in_parts
            found = figures_of(many(asks[name], inputs), np.asarray(targets), is_classes=True)
            details[name] |= {"figures": found}
            details[name].setdefault("bytes", path.stat().st_size)
            if path.suffix != ".h":
                details[name]["zipped"] = len(gzip.compress(path.read_bytes(), 6))
        timed = {name: ask for name, ask in asks.items() if files[name].suffix != ".safetensors"}  # numpy is for checks
        for size in (1, 128):
            some = np.resize(inputs, (size, *inputs.shape[1:]))
            laps = interleaved(list(timed.values()), some, SECONDS, time.thread_time)  # also right on a busy machine
            for name, lap in zip(timed, laps, strict=True):
                details[name].setdefault("milliseconds", {})[str(size)] = lap
    config = {name: value for name, value in fitted.config.as_dict().items() if name != "layout"}
    names = ("accuracy", "nll", "ece", "ece_floor", "sparsity", "neg_elbo", "commit", "device")
    run = {name: fitted.summary[name] for name in names}
    return {"config": config, "run": run, "files": details, **environment(), "command": trials.command()}


def _files(fitted: Fit, folder: Path, options: Any) -> tuple[dict[str, Path], dict[str, dict[str, Any]]]:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    files = {name: folder / f"{name}.onnx" for name in ("dense", "int8", "float32", "onnx")}
    details: dict[str, dict[str, Any]] = {name: {} for name in NAMES}
    believed = Believed(fitted.state.posterior, fitted.state.mask, fitted.state.buffers)
    card = Card.of(fitted.config.as_dict(), fitted.summary)
    source = Exportable(fitted.model, believed, fitted.example, card, temperature=card.mean_temperature)
    program = trace(source)
    dense = program.bind(arrays_of(fitted.model, source.mean, believed.mask))
    write(files["dense"], dense, named(source, program), as_usual=True)
    quantize_dynamic(files["dense"], files["int8"], weight_type=QuantType.QInt8)
    wanted: list[tuple[str, dict[str, Any]]] = [("float32", {"bits": 32}), ("onnx", {}), ("safetensors", {})]
    wanted += [("fast", {"latency": options.latency, "batch": 128})] if options.latency else []
    wanted += [("sized", {"max_bytes": options.bytes})] if options.bytes else []
    wanted += [("h", {})] if compiler() else []
    for name, given in wanted:
        form = {"float32": "onnx", "fast": "onnx", "sized": "safetensors"}.get(name, name)
        files[name] = folder / f"{name}.{form}"
        began = time.perf_counter()
        found = fitted.export(files[name], data_dir=options.data_dir, **given)
        details[name] = {"bytes": found.bytes[1], "seconds": round(time.perf_counter() - began, 1), "loss": found.loss}
        details[name] |= {"levels": found.levels, "removed": found.removed, "numbers": found.numbers}
        details[name] |= {} if found.hastened is None else {"hastened": found.hastened._asdict()}
    return files, {name: details[name] for name in files}


def _int8(path: Path) -> Any:
    """What onnxruntime made of the dense file; its digest is not that of its bytes any more."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 3
    session: Any = onnxruntime.InferenceSession(path.read_bytes(), settings, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda inputs: session.run(None, {name: inputs})[0]


def table(lines: list[dict[str, Any]]) -> str:
    """A row a file. Times are of the dense file over this one's."""
    rows = []
    for line in lines:
        config, dense = line["config"], line["files"]["dense"]
        reduction = config["settings"]["method"]["reduction"] or {}
        price, criterion = reduction.get("unit_price"), reduction.get("criterion", {})
        words = f" --unit-price {price:g}" if price is not None else ""
        words += " --unit-cost latency" if reduction.get("unit_cost", {}).get("kind") == "Latency" else ""
        words += f" --sparsity {criterion['sparsity']:g}" if "sparsity" in criterion else ""
        run = " / ".join(trials.short(line["run"][figure]) for figure in ("accuracy", "nll", "ece"))
        run += f"; {line['run']['neg_elbo']:,.0f}" if "neg_elbo" in line["run"] else ""
        for name, own in line["files"].items():
            first = name == "dense"
            what = f"{config['network']}, {config['data']}, {config['epochs']} × {config['steps_per_epoch']}{words}"
            faster = [
                f"{dense['milliseconds'][size] / own['milliseconds'][size]:.1f} ×" if "milliseconds" in own else ""
                for size in ("1", "128")
            ]
            figures = " / ".join(trials.short(own["figures"][figure]) for figure in ("accuracy", "nll", "ece"))
            figures += f" (floor {trials.short(own['figures']['ece_floor'])})"
            loss = "" if own.get("loss") is None else f"{own['loss']:,.0f}"
            loss += f" + {own['hastened']['measured']:,.0f} measured" if own.get("hastened") else ""
            zipped = f"{own['zipped']:,}" if "zipped" in own else ""
            sizes = [f"{own['bytes']:,}", zipped, f"{dense['bytes'] / own['bytes']:.1f} ×"]
            rows.append([what if first else "", run if first else "", NAMES[name], *sizes, loss, figures, *faster])
    kept = f"; {trials.BOUND}" if any("neg_elbo" in line["run"] for line in lines) else ""
    heads = ["run", f"accuracy / NLL / ECE of its draws{kept}", "file", "bytes", "gzipped", "smaller", "nats lost"]
    return trials.markdown([*heads, "accuracy / NLL / ECE of the file", "faster, batch 1", "faster, batch 128"], rows)
