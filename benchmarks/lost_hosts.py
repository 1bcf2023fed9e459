"""Hosts that are lost: two processes train one run together, with the vectors shared out, and one of them is killed,
slowed, or cut off.

    python benchmarks/lost_hosts.py [--kills 20] [--ends 0] [--slow] [--link] [--lossy] [--out results/lost_hosts.jsonl]

Each kill hits one of the two by itself, in a step, a save, an evaluation or at any moment. What is asked: the other
ends with our words, how soon, and both go on afterwards. A run gets several kills; its end is compared bit for bit with
that of a run of the same two hosts that was left alone. `--ends` kills when the last epoch is over: the first host
where it writes what the run leaves, either one where they part. `--slow` stops one host for ten seconds: the run must
go on by itself. `--link` (root, Linux) puts the hosts into two network namespaces and takes the link between them down.
`--lossy` has it drop packets: a twentieth or a fifth of them all the time, which the run must bear; all of one host's
for good, or all for some seconds, upon which it goes on by itself or ends in our words within a minute. Exits with 1 if
anything is lost.
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kills import differences, lines
from links import ADDRESSES, Lossy, lossy_link, namespaces
from trials import keep

from occamax.experiment.environment import environment

HERE = Path(__file__).parent
EPOCHS = 12
PATIENCE, MINUTE = 180, 60  # seconds that hosts may take in all; within which a lost one is spoken of or must have come
MOMENTS = ("step", "save", "evaluation", "any")
ENDS = (("weights", 0, 1), ("parting", 1, 1), ("parting", 0, 1))  # the moment, the host, the how manieth time
WORDS = [
    *f"train fashion_mini kills:network bmr --epochs {EPOCHS} --steps 5 --batch 16 --samples 2".split(),
    "--shard-weights",
]
# shares of the packets of either host that are dropped, and for how many seconds; None: to the end
LOSSES: list[tuple[list[float], float | None]] = [
    ([0.05, 0.05], None), ([0.2, 0.2], None), ([1.0, 0.0], None), ([0.0, 1.0], None), ([1.0, 1.0], 8.0),
    ([1.0, 1.0], 20.0),
]  # fmt: skip
OURS = ("go on with as many hosts as are left", "--resume", "did not find one another", "everything is saved")


def host(moment: str, count: int, words: list[str]) -> None:
    """One host, in a process of its own, that kills itself the `count`-th time that it comes to the moment."""
    from occamax.cli import main
    from occamax.experiment import checkpoint, hosts, run
    from occamax.experiment.program import Program

    def deadly(function: Any) -> Any:
        calls = iter(range(1, 10**9))

        def called(*given: Any, **named: Any) -> Any:
            if next(calls) >= count:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*given, **named)

        return called

    hosts.JOINING = MINUTE  # both are started at once
    if moment == "weights":
        run.save_weights = deadly(run.save_weights)
    if moment == "parting":
        hosts._part = deadly(hosts._part)
    if moment == "save":
        checkpoint.save_parts = deadly(checkpoint.save_parts)
    if moment == "evaluation":
        Program.evaluate = deadly(Program.evaluate)
    if moment == "step":
        first = Program.__init__

        def begin(self: Program, *given: Any, **named: Any) -> None:
            first(self, *given, **named)
            self.train_chunk = {steps: deadly(chunk) for steps, chunk in self.train_chunk.items()}

        Program.__init__ = begin
    sys.argv = ["occamax", *words]
    main()


def begin(path: Path, *more: str, dying: tuple[int, str, int] | None = None, inside: Any = None) -> list:
    """Both hosts. `dying`: which of them kills itself at which moment, the how manieth. `inside`: where they run, by
    number, and the first one's address."""
    prefixes, address = inside or ([[], []], "127.0.0.1")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    both = []
    for number in range(2):
        where = ["--devices", "all", "--coordinator", f"{address}:{port}", "--num-processes", "2"]
        words = [*WORDS, "--out", str(path), *where, "--process-id", str(number), *more]
        fate = dying[1:] if dying is not None and dying[0] == number else ("any", 1)
        command = [*prefixes[number], sys.executable, str(Path(__file__).resolve()), "--host", *map(str, fate), *words]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        both.append(subprocess.Popen(command, cwd=HERE, **pipes))
    return both


def how(path: Path) -> tuple[str, ...]:
    return ("--resume",) if (path / "checkpoint.safetensors").exists() else ("--overwrite",)


def ended(both: list, since: float | None = None, patience: float = PATIENCE) -> tuple[float, list[str]]:
    """Seconds until the last of them ended, and what they said."""
    since = time.perf_counter() if since is None else since
    said = []
    for process in both:
        try:
            said.append(process.communicate(timeout=patience)[1])
        except subprocess.TimeoutExpired:
            process.kill()
            said.append(f"{process.communicate()[1]}\nstill there after {patience:g} s")
    return time.perf_counter() - since, said


def kill_once(path: Path, moment: str, victim: int, count: int, rng: random.Random) -> dict[str, Any]:
    """One kill, of the victim when it comes to the moment the `count`-th time, and how the other host ended."""
    dying = None if moment == "any" else (victim, moment, count)
    both = begin(path, *how(path), dying=dying)
    if moment == "any":
        wanted, instant = lines(path) + rng.choice([0, 1, 2]), time.perf_counter() + rng.uniform(0.5, 12)
        while both[victim].poll() is None and (lines(path) < wanted or time.perf_counter() < instant):
            time.sleep(0.01)
        both[victim].kill()
    while both[victim].poll() is None:
        time.sleep(0.02)
    seconds, said = ended(both)
    other = said[1 - victim]
    is_killed = both[victim].returncode == -signal.SIGKILL
    return {
        "moment": moment, "host": victim, "killed": is_killed, "seconds": round(seconds, 1),
        "in_words": not is_killed or any(word in other for word in OURS) or not both[1 - victim].returncode,
        "said": other.strip().splitlines()[-2:] if is_killed else said[victim].strip().splitlines()[-2:],
        "epochs": lines(path),
    }  # fmt: skip


def finish(path: Path, inside: Any = None) -> str:
    """Goes on to the end; what was said where that failed."""
    both = begin(path, *how(path), inside=inside)
    _, said = ended(both)
    return "" if [process.returncode for process in both] == [0, 0] else " / ".join(text[-300:] for text in said)


def slow(path: Path) -> dict[str, Any]:
    """One host sleeps for ten seconds."""
    both = begin(path, *how(path))
    while both[1].poll() is None and lines(path) < 3:
        time.sleep(0.02)
    both[1].send_signal(signal.SIGSTOP)
    time.sleep(10)
    both[1].send_signal(signal.SIGCONT)
    _, said = ended(both)
    return {"moment": "slow", "ends": [process.returncode for process in both], "said": said[0][-300:]}


def lose(both: list, link: Lossy, loss: list[float], path: Path, seconds: float | None) -> float:
    """When the hosts have trained two epochs, the link loses so much, for so long or for good. Since when."""
    while both[0].poll() is None and lines(path) < 2:
        time.sleep(0.02)
    link.loss, since = loss, time.perf_counter()
    until = since if seconds is None else since + seconds
    while time.perf_counter() < until and None in [process.poll() for process in both]:
        time.sleep(0.02)
    link.loss = loss if seconds is None else [0.0, 0.0]
    return since


def lossy(path: Path, loss: list[float], seconds: float | None, seed: int) -> dict[str, Any]:
    """The link drops that share of the packets of either host: from the beginning where it is not all of them, else
    while they train, and for `seconds` where they are given. Hosts that end go on when the link is whole again."""
    is_total, wrong = 1.0 in loss, ""
    with lossy_link(seed) as (prefixes, link):
        inside = prefixes, ADDRESSES[0]
        link.loss = [0.0, 0.0] if is_total else loss
        since = time.perf_counter()
        both = begin(path, *how(path), inside=inside)
        since = lose(both, link, loss, path, seconds) if is_total else since
        took, said = ended(both, since, 5 * PATIENCE)
        codes, epochs = [process.returncode for process in both], lines(path)
        counts = {"packets": sum(link.sent), "dropped": sum(link.dropped)}
        link.loss = [0.0, 0.0]
        if codes != [0, 0]:
            wrong = finish(path, inside)
    went_on = codes == [0, 0]
    in_words = went_on or (0 not in codes and all(any(word in text for word in OURS) for text in said))
    return {
        "moment": "lossy", "loss": loss, "for": seconds, "seconds": round(took, 1), "ends": codes, "epochs": epochs,
        **counts, "in_words": in_words and (went_on or took <= MINUTE) and (is_total or went_on),
        "said": [text.strip().splitlines()[-3:] for text in said], "not_resumed": wrong,
    }  # fmt: skip


def cut(path: Path, rng: random.Random) -> dict[str, Any]:
    """The link between the hosts goes down while they train; then it is up again and they go on."""
    with namespaces() as (prefixes, names, links):
        inside, name, link = (prefixes, ADDRESSES[0]), names[1], links[1]
        both = begin(path, *how(path), inside=inside)
        while both[0].poll() is None and lines(path) < 2:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.5))
        subprocess.run(["ip", "-n", name, "link", "set", link, "down"], check=True)
        seconds, said = ended(both)
        codes, epochs = [process.returncode for process in both], lines(path)
        subprocess.run(["ip", "-n", name, "link", "set", link, "up"], check=True)
        wrong = finish(path, inside)
    return {
        "moment": "link", "seconds": round(seconds, 1), "ends": codes, "epochs": epochs,
        "in_words": all(any(word in text for word in OURS) for text in said) and 0 not in codes,
        "said": [text.strip().splitlines()[-3:] for text in said], "not_resumed": wrong,
    }  # fmt: skip


def campaign(options: argparse.Namespace, place: Path) -> list[dict[str, Any]]:
    rng, found = random.Random(options.seed), []
    alone = place / "alone"
    assert not finish(alone), "the run that is left alone does not end"

    def note(line: dict[str, Any]) -> None:
        found.append(line)
        print(json.dumps(line), flush=True)

    for done in range(0, options.kills, options.each):
        path = place / f"run{done}"
        for number in range(done, min(done + options.each, options.kills)):
            note(kill_once(path, MOMENTS[number % len(MOMENTS)], rng.randrange(2), rng.randint(1, 3), rng))
        wrong = finish(path)
        note({"run": done, "not_resumed": wrong, "differs": [] if wrong else differences(path, alone)})
    if options.ends:
        for number in range(options.ends):
            note(kill_once(place / "ends", *ENDS[number % len(ENDS)], rng))
        wrong = finish(place / "ends")
        note({"run": "ends", "not_resumed": wrong, "differs": [] if wrong else differences(place / "ends", alone)})
    if options.slow:
        note({**slow(place / "slow"), "differs": differences(place / "slow", alone)})
    if options.link:
        note({**cut(place / "link", rng), "differs": differences(place / "link", alone)})
    for number, (loss, seconds) in enumerate(LOSSES if options.lossy else ()):
        path = place / f"lossy{number}"
        line = lossy(path, loss, seconds, options.seed + number)
        note({**line, "differs": [] if line["not_resumed"] else differences(path, alone)})
    return found


def main() -> None:
    if "--host" in sys.argv[1:2]:
        return host(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--each", type=int, default=5, help="kills a run")
    parser.add_argument("--ends", type=int, default=0, help="kills at the end of one more run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--link", action="store_true")
    parser.add_argument("--lossy", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = campaign(options, Path(name))
    killed = [line for line in found if line.get("killed")]
    bad = [line for line in found if line.get("not_resumed") or line.get("differs") or line.get("in_words") is False]
    asked = f"--kills {options.kills} --each {options.each} --seed {options.seed}"
    asked += f" --ends {options.ends}" * bool(options.ends)
    asked += " --slow" * options.slow + " --link" * options.link + " --lossy" * options.lossy
    beside = {
        line["moment"]: {name: value for name, value in line.items() if name not in ("moment", "said")}
        for line in found
        if line.get("moment") in ("slow", "link")
    }
    losses = [{k: v for k, v in line.items() if k not in ("moment", "said")} for line in found if "loss" in line]
    moments = MOMENTS if not options.ends else (*MOMENTS, "weights", "parting")
    summary = {
        "command": f"python benchmarks/lost_hosts.py {asked}", "settings": " ".join(WORDS),
        "kills": len(killed), "hit": {moment: sum(line["moment"] == moment for line in killed) for moment in moments},
        "runs": sum("run" in line for line in found), "bad": len(bad),
        "longest": max((line["seconds"] for line in killed), default=None), **beside,
        **({"lossy": losses} if losses else {}), **environment(),
    }  # fmt: skip
    print(json.dumps(summary))
    keep(summary, options.out)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
