"""Mutants: do the tests notice a fault? The faults of `faults.py` are put into a copy of the package, one at a time.

    python benchmarks/mutants.py [--jobs 2] [--only NAME …] [--from N] [--out results/mutants.jsonl]

For each fault the tests that should see it run in a process of their own, up to the first that fails: then the fault is
*killed*. One that they pass *survives*, and a test is missing. A run that hangs is killed as well, and says so. Tests
that do not pass without any fault, or that are not there, are an error: they would kill whatever is planted.

A line for each is added to `--out` as it is done; a second call goes on where the first was interrupted, with those
that are not in the file, whose text or tests have changed, or that survived. `--only` runs what it names whatever the
file says. Exits with 1 if any survived.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

from faults import FAULTS, Fault
from trials import command

from occamax.experiment.environment import environment as circumstances

ROOT = Path(__file__).parents[1]
SECONDS = 240  # that the tests of one fault may take
PASSED, FAILED = 0, 1  # what pytest's exit status says; anything else is no answer


class PlantingError(Exception):
    """The table, or the tests it names, are not as it says."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--from", dest="first", type=int, default=1, metavar="N", help="the number of the first")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "mutants.jsonl")
    options = parser.parse_args()
    for fault in FAULTS:
        check(fault)
    known = read(options.out)
    wanted = choose(options.only, options.first, known)
    print(f"{len(wanted)} of {len(FAULTS)} faults to plant", flush=True)
    with workshop(options.jobs) as (copies, environment):
        for number, line in enumerate(results(wanted, copies, environment, options.jobs), 1):
            with open(options.out, "a") as file:
                file.write(json.dumps(line) + "\n")
            said = f"by {line['by']}" if line["by"] else line["why"]
            print(f"{number:3} {line['outcome']:9} {line['name']} ({line['seconds']:.0f} s) {said}", flush=True)
    sys.exit(1 if summarise(options.out) else 0)


def choose(only: Sequence[str], first: int, known: dict[str, dict[str, Any]]) -> list[Fault]:
    """The faults to plant: those named, or all from a number on that the file does not answer for."""
    names = {fault.name for fault in FAULTS}
    strange = sorted(set(only) - names)
    if strange:
        raise SystemExit(f"--only: {', '.join(strange)} not known; choose from {', '.join(sorted(names))}")
    if only:
        return [fault for fault in FAULTS if fault.name in only]
    return [fault for fault in FAULTS[first - 1 :] if not is_answered(fault, known.get(fault.name))]


def is_answered(fault: Fault, line: dict[str, Any] | None) -> bool:
    return line is not None and line["digest"] == digest(fault) and line["outcome"] != "survived"


def digest(fault: Fault) -> str:
    """Of all that decides what is run."""
    return hashlib.blake2b(repr((fault.file, fault.old, fault.new, fault.tests)).encode(), digest_size=6).hexdigest()


def check(fault: Fault, source: Path = ROOT / "src" / "occamax") -> str:
    """The text of the fault's file, in which what it replaces stands exactly once; else an error that names it."""
    text = (source / fault.file).read_text()
    found = text.count(fault.old)
    if found != 1:
        raise PlantingError(f"{fault.name}: its text is found {found} times in {fault.file}, not once:\n{fault.old}")
    if fault.new == fault.old:
        raise PlantingError(f"{fault.name}: changes nothing")
    return text


@contextmanager
def workshop(jobs: int) -> Iterator[tuple[Queue, dict[str, str]]]:
    """A copy of the package for each job, and the environment of their tests: programs that are not changed by a fault
    are compiled once for all."""
    with tempfile.TemporaryDirectory(prefix="occamax-mutants-") as name:
        copies: Queue = Queue()
        for job in range(jobs):
            copy = Path(name) / f"copy{job}"
            shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
            copies.put(copy)
        yield copies, {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(Path(name) / "programs")}


def results(faults: list[Fault], copies: Queue, environment: dict[str, str], jobs: int) -> Iterator[dict[str, Any]]:
    """The line of each fault as it is done. First the tests pass without any."""
    made = {**circumstances(), "command": command()}
    real = [fault for fault in faults if not fault.equivalent]
    prove_sound(real, copies, environment)
    for fault in (fault for fault in faults if fault.equivalent):
        yield line_of(fault, "equivalent", why=fault.equivalent) | made
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(plant, fault, copies, environment): fault for fault in real}
        for future in as_completed(futures):
            yield line_of(futures[future], **future.result()) | made


def line_of(fault: Fault, outcome: str, by: str = "", why: str = "", seconds: float = 0.0) -> dict[str, Any]:
    described = {"name": fault.name, "file": fault.file, "outcome": outcome, "by": by, "why": why}
    return {**described, "seconds": round(seconds, 1), "digest": digest(fault)}


def prove_sound(faults: list[Fault], copies: Queue, environment: dict[str, str]) -> None:
    """All tests that are named pass while nothing is planted. This also fills the cache of programs."""
    tests = sorted({test for fault in faults for test in fault.tests})
    if not tests:
        return
    copy, began = copies.get(), time.perf_counter()
    done = run_tests(tests, copy, environment, seconds=30 * 60)
    copies.put(copy)
    if done is None or done.returncode != PASSED:
        said = "it took too long" if done is None else done.stdout[-3000:]
        raise PlantingError(f"the tests do not pass without any fault: {said}")
    print(f"without any fault their {len(tests)} tests pass ({time.perf_counter() - began:.0f} s)", flush=True)


def plant(fault: Fault, copies: Queue, environment: dict[str, str]) -> dict[str, Any]:
    """What became of one fault: it is put into a copy, tested, and taken out again."""
    copy, began = copies.get(), time.perf_counter()
    file = copy / "occamax" / fault.file
    text = check(fault, copy / "occamax")
    try:
        rewrite(file, text.replace(fault.old, fault.new))
        done = run_tests(fault.tests, copy, environment)
    finally:
        rewrite(file, text)
        copies.put(copy)
    seconds = time.perf_counter() - began
    if done is None:
        return {"outcome": "killed", "why": f"the tests did not end within {SECONDS} s", "seconds": seconds}
    if done.returncode == PASSED:
        return {"outcome": "survived", "why": fault.why, "seconds": seconds}
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if done.returncode != FAILED or not failed:
        raise PlantingError(f"{fault.name}: pytest gave no answer ({done.returncode}):\n{done.stdout[-3000:]}")
    return {"outcome": "killed", "by": failed[0], "seconds": seconds}


def rewrite(file: Path, text: str) -> None:
    """The file, and no compiled form of what it was: those are told apart by size and second alone."""
    file.write_text(text)
    for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
        compiled.unlink()


def run_tests(
    tests: Iterable[str], copy: Path, environment: dict[str, str], seconds: float = SECONDS
) -> subprocess.CompletedProcess | None:
    """The tests, run on a copy of the package; None where they take too long."""
    words = ["-o", "addopts=", "-q", "-x", "-p", "no:cacheprovider", "-W", "error", "--tb=line", "-rfE"]
    command = [sys.executable, "-m", "pytest", *words, *(f"tests/{test}" for test in tests)]
    try:
        return subprocess.run(
            command,
            cwd=ROOT,
            env={**environment, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return None


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The last line of each fault, by name."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {line["name"]: line for line in map(json.loads, lines)}


def summarise(path: Path) -> list[str]:
    """Says what became of all, and leaves one line a fault in the file, in the order of the table; the survivors."""
    known = read(path)
    lines = [known[fault.name] for fault in FAULTS if fault.name in known]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    count = {outcome: [line for line in lines if line["outcome"] == outcome] for outcome in OUTCOMES}
    tried = len(count["killed"]) + len(count["survived"])
    print(f"{len(count['killed'])} of {tried} killed; {len(FAULTS) - len(lines)} not planted yet")
    for outcome in ("equivalent", "survived"):
        for line in count[outcome]:
            print(f"{outcome}: {line['name']} ({line['file']}) {line['why'] or 'a test is missing'}")
    return [line["name"] for line in count["survived"]]


OUTCOMES = "killed", "survived", "equivalent"

if __name__ == "__main__":
    main()
