"""How long a newcomer waits: from `pip install` of the built wheel to a pruned, exported, reported network.

    python benchmarks/newcomer.py --out results/newcomer.jsonl

Builds the wheel, makes an empty environment and runs the commands of the README there, as they are written, one after
the other: the first installs the wheel in place of the clone, without pip's cache. Prints the seconds of each, and the
seconds of processors that it took: where other work shares the machine the first are longer than they need be.
"""

import argparse
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from trials import command

from occamax.experiment.environment import environment

ROOT = Path(__file__).parents[1]


def commands() -> list[str]:
    """Those of the README's first two shell blocks: install; train, export, report."""
    blocks = re.findall(r"^```bash\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    return [line for block in blocks[:2] for line in block.splitlines() if line]


def built(place: Path) -> Path:
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(ROOT)]
    subprocess.run(words, check=True)
    return next(place.glob("*.whl"))


def timed(line: str, place: Path, wheel: Path) -> dict[str, Any]:
    """One command in the empty environment."""
    line = line.replace("'.[onnx]'", f"--no-cache-dir '{wheel}[onnx]'")
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "OCCAMAX_DATA")}
    own["PATH"] = f"{place / 'venv' / 'bin'}{os.pathsep}{own['PATH']}"
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(shlex.split(line), cwd=place, env=own, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{line}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(seconds, 1), "processor_seconds": round(worked, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    made = {"command": command(), **environment()}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        wheel = built(place)
        subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
        steps = []
        for line in commands():
            steps.append({"ran": line, **timed(line, place, wheel)})
            print("{seconds:6.1f} s, {processor_seconds:6.1f} s of processors  {ran}".format(**steps[-1]), flush=True)
        missing = [name for name in ("report.html", "runs/shell/network.onnx") if not (place / name).is_file()]
        assert missing == []
        total = {key: round(sum(step[key] for step in steps), 1) for key in ("seconds", "processor_seconds")}
        size = wheel.stat().st_size
    line = {"commands": len(steps), **total, "steps": steps, "wheel_bytes": size, "processors": os.cpu_count()}
    line |= {"load": round(os.getloadavg()[1], 1), **made}
    print(f"{line['commands']} commands, {line['seconds']:.0f} s; a wheel of {size / 1e6:.1f} MB; load {line['load']}")
    if options.out is not None:
        with open(options.out, "a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
