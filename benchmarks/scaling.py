"""Time and memory of a step against devices, weights and batch: a model on paper, fitted to what was measured.

    python benchmarks/scaling.py --measure results/scaling.json      # one and two processes here, a core each
    python benchmarks/scaling.py results/scaling.json                # fit, test, and what it says of more devices

A step of an MLP with W weights on b examples a device takes, on one device,

    t = t0 + cw W + cx b √W + cp b W

(kernels; bytes of posterior, optimiser and draw; activations; products), all coefficients not negative, fitted to
relative errors. n devices add an all-reduce of both gradients, 8 bytes a weight, and with sharded weights a gather of
mean and deviation, 8 more:

    + 2 (n − 1)/n · 8 W / B + L,      sharded + (n − 1)/n · 8 W / B

at B bytes a second between neighbours and a latency L; both are fitted for two processes here and assumed for GPUs (see
`LINKS`). Here a process has one core, which moves its bytes too, and other work may share it: times are those of the
processor, by the process, the median of ten; the wall's shortest is kept beside. Memory is m0 + kw W + kx b √W; of kw,
the 24 bytes of means, deviations and optimiser are shared out where weights are. Rows marked `held_out` are not fitted:
the model is tested on them.
"""

import argparse
import functools
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

HERE = Path(__file__).parent
GROWTH = HERE.parent / "results" / "speed" / "h200-growth.json"
HELD_OUT_H200 = {(10_004_950, 128), (1_003_690, 512)}  # weights and batch; between others that are fitted
# network, width, examples a process; the last of two processes are held out
ALONE = [("mlp", 104, 64), ("mlp", 104, 256), ("mlp", 340, 128), ("mlp", 680, 64), ("mlp", 680, 256), ("resnet", 0, 8)]
TOGETHER = [("mlp", 104, 64), ("mlp", 680, 64), ("mlp", 680, 256), ("mlp", 340, 128), ("resnet", 0, 8)]
HELD_OUT_HERE = {("mlp", 340), ("resnet", 0)}
STATE = 24  # bytes a weight: mean, deviation, and two moments of each
LINKS = {  # bytes a second of an all-reduce's ring, and seconds of a collective: assumed, from the makers' figures
    8: (0.7 * 450e9, 30e-6),  # NVLink 4, 900 GB/s both ways (NVIDIA H200 data sheet); 70 % of one way
    64: (0.7 * 400e9, 60e-6),  # machines of 8, whose rings share 8 ConnectX-7 of 400 Gb/s (NVIDIA DGX H200 user guide)
    1000: (0.7 * 400e9, 100e-6),
}


def features(weights: Any, batch: Any) -> np.ndarray:
    weights, batch = np.asarray(weights, float), np.asarray(batch, float)
    return np.stack([np.ones_like(weights), weights, batch * np.sqrt(weights), batch * weights], -1)


def fitted(columns: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Coefficients, none negative, of the least squares of relative errors."""
    return nnls(columns / measured[:, None], np.ones(len(measured)))[0]


def reduce_bytes(weights: float, devices: int, is_sharded: bool = False) -> float:
    """That pass a device's link in a step."""
    share = (devices - 1) / devices
    return (2 + is_sharded) * share * 8 * weights


def child(devices: int, number: int, port: str) -> None:
    """One process: times each network and prints a line for it."""
    import jax
    from contenders import METHODS

    import occamax as ox
    from occamax.experiment.devices import Devices
    from occamax.experiment.hosts import join_hosts
    from occamax.experiment.problem import build_model, read_data
    from occamax.experiment.program import Program, Task
    from occamax.inference.calibration import held_out_of
    from occamax.networks import NETWORKS

    if devices > 1:
        join_hosts(f"127.0.0.1:{port}", devices, number)
    dataset, where, method = ox.load_data("fashion_mini"), Devices.of(None), METHODS["bmr-paper"]()
    for name, width, own in ALONE if devices == 1 else TOGETHER:
        network = NETWORKS["resnet20"]
        if name == "mlp":
            network = ox.MLP(dataset.shape, dataset.classes, (width, width), key=jax.random.key(0))
        data = read_data(dataset, image_size=getattr(network, "image_size", None))
        model = build_model(network, data, method, None, None, "float32", where)
        steps = 2
        held_out = held_out_of(method.calibration, len(data))
        program = Program(Task(model, method, ox.Budget(50, steps, own * devices), held_out), where)
        state, examples = program.start(), where.put(data.train)
        compiled = program.train_chunk[steps].lower(state, examples).compile()  # type: ignore
        memory, times, walls = compiled.memory_analysis(), [], []
        for _ in range(10):
            began, begun = time.process_time(), time.perf_counter()
            state, info = compiled(state, examples)
            jax.block_until_ready(info)
            times.append((time.process_time() - began) / steps)
            walls.append((time.perf_counter() - begun) / steps)
        line = {
            "network": name, "width": width, "weights": model.layout.size, "devices": devices, "batch": own,
            "ms": 1e3 * float(np.median(times)), "wall_ms": 1e3 * min(walls),
            "mb": 1e-6 * (memory.temp_size_in_bytes + memory.argument_size_in_bytes),
            "held_out": devices > 1 and (name, width) in HELD_OUT_HERE,
        }  # fmt: skip
        if number == 0:
            print(json.dumps(line), flush=True)


def measure(out: Path) -> None:
    from occamax.experiment.environment import environment

    rows = []
    for devices in (1, 2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        both = []
        for i in range(devices):
            words = [sys.executable, str(Path(__file__).resolve()), "--child", str(devices), str(i), port]
            core = {sorted(os.sched_getaffinity(0))[i % len(os.sched_getaffinity(0))]}
            pinned = functools.partial(os.sched_setaffinity, 0, core)
            both.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=pinned, cwd=HERE))
        said = [process.communicate()[0] for process in both]
        assert [process.returncode for process in both] == [0] * devices
        rows += [json.loads(line) for line in said[0].splitlines() if line.startswith("{")]
        print(f"{devices} measured", flush=True)
    made = {"command": "python benchmarks/scaling.py --measure", "load": os.getloadavg()}
    out.write_text(json.dumps({**environment(), **made, "rows": rows}, indent=2) + "\n")


def h200() -> tuple[np.ndarray, np.ndarray, list[dict[str, Any]]]:
    """Coefficients of time (ms) and of memory (MB) on one H200, and each row with what they say of it."""
    found = json.loads(GROWTH.read_text())
    rows = {(row["weights"], row["batch"]): row for part in ("weights", "batch") for row in found[part]}
    known = [key for key in rows if key not in HELD_OUT_H200]
    times = fitted(features(*np.transpose(known)), np.array([rows[key]["bmr_ms"] for key in known]))
    columns = features(*np.transpose(known))[:, :3]
    memory = fitted(columns, np.array([rows[key]["bmr_mb"] for key in known]))
    said = []
    for (weights, batch), row in rows.items():
        column = features(weights, batch)
        what = {"weights": weights, "batch": batch, "held_out": (weights, batch) in HELD_OUT_H200}
        told = {"ms": row["bmr_ms"], "says_ms": column @ times, "mb": row["bmr_mb"], "says_mb": column[:3] @ memory}
        said.append(what | told)
    return times, memory, said


def here(path: Path) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """What a link between two processes does, and each row of two with what is said of it: the time of one process at
    the same examples each, as measured, and the all-reduce."""
    rows = json.loads(path.read_text())["rows"]
    alone = {(row["network"], row["width"], row["batch"]): row["ms"] for row in rows if row["devices"] == 1}
    both = [row for row in rows if row["devices"] == 2]
    known = [row for row in both if not row["held_out"]]
    columns = np.array([[1.0, reduce_bytes(row["weights"], 2)] for row in known])
    ms = np.array([row["ms"] for row in known])
    added = ms - [alone[row["network"], row["width"], row["batch"]] for row in known]
    latency, per_byte = nnls(columns / ms[:, None], added / ms)[0]
    for row in both:
        one = alone[row["network"], row["width"], row["batch"]]
        row["alone_ms"] = one
        row["says_ms"] = one + latency + per_byte * reduce_bytes(row["weights"], 2)
    rate = 1e-6 / per_byte if per_byte else float("inf")
    return {"latency_ms": float(latency), "gb_s": float(rate)}, both


def predicted(weights: float, batch: int, devices: int, is_sharded: bool) -> dict[str, float]:
    """Of H200s, `batch` examples each."""
    times, memory, _ = h200()
    column = features(weights, batch)
    rate, latency = LINKS[devices]
    link = 1e3 * (reduce_bytes(weights, devices, is_sharded) / rate + latency)
    own = float(column @ times)
    saved = STATE * weights * (1 - 1 / devices) * 1e-6 if is_sharded else 0.0
    return {"alone_ms": own, "ms": own + link, "mb": float(column[:3] @ memory) - saved}


def report(path: Path | None) -> str:
    """Markdown of the tests and of what the model says."""
    lines = [
        "| measured | weights | batch a device | fitted | ms | the model | off by |",
        "|---|---|---|---|---|---|---|",
    ]

    def line(where: str, row: dict[str, Any], unit: str = "ms") -> str:
        off = row[f"says_{unit}"] / row[unit] - 1
        figures = f"{row[unit]:.3g} | {row[f'says_{unit}']:.3g} | {off:+.0%}"
        return f"| {where} | {row['weights']:,} | {row['batch']} | {'no' if row['held_out'] else 'yes'} | {figures} |"

    _, _, rows = h200()
    lines += [line("one H200", row) for row in rows]
    if path is not None:
        _, both = here(path)
        lines += [line(f"two processes, {row['network']}", row) for row in both]
    return "\n".join(lines)


def table(path: Path) -> str:
    """The page's: tests on what was not fitted."""
    text = report(path).splitlines()
    return "\n".join([*text[:2], *(row for row in text[2:] if "| no |" in row)])


def outlook(_: Path | None = None) -> str:
    """The page's: what the model says of more devices."""
    head = "| H200s | weights | weights are | ms a step | share of it on the links | GB a device |"
    lines = [head, "|---|---|---|---|---|---|"]
    for weights in (100e6, 1e9):
        for devices in LINKS:
            for is_sharded in (False, True):
                found = predicted(weights, 128, devices, is_sharded)
                share = 1 - found["alone_ms"] / found["ms"]
                words = "shared out" if is_sharded else "on each"
                figures = f"{found['ms']:.0f} | {share:.0%} | {found['mb'] / 1e3:.0f}"
                lines.append(f"| {devices:,} | {weights:.0e} | {words} | {figures} |".replace("e+0", "e"))
    return "\n".join(lines)


def main() -> None:
    if "--child" in sys.argv:
        return child(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, nargs="?")
    parser.add_argument("--measure", type=Path)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure)
    path = options.measure or options.path
    times, memory, _ = h200()
    print(f"one H200, ms: {np.array2string(times, precision=3)}; MB: {np.array2string(memory, precision=3)}")
    if path is not None:
        print(f"two processes here: {here(path)[0]}")
    print(report(path), outlook(), sep="\n\n")


if __name__ == "__main__":
    main()
