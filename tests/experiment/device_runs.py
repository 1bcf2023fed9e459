"""Trains the small run with everything in it on all the devices that there are:

    python -m tests.experiment.device_runs OUT NAME... [--hosts COORDINATOR COUNT NUMBER]

The names: `all` devices share the batch; `sharded` they share the vectors as well.
"""

import sys
from pathlib import Path

from occamax.experiment.devices import Devices, join_hosts

from .small_runs import fit_normed


def main(words):
    words, hosts = (words[: words.index("--hosts")], words[-3:]) if "--hosts" in words else (words, None)
    if hosts is not None:
        join_hosts(hosts[0], int(hosts[1]), int(hosts[2]))
    out = Path(words[0])
    for name in words[1:]:
        fit_normed(out / name, devices=Devices.of(None, shard_weights=name == "sharded"), progress=True)


if __name__ == "__main__":
    main(sys.argv[1:])
