"""Two network namespaces on one machine (root, Linux), and a link between them that can be taken down or lose packets.

`namespaces()` joins them by a pair of virtual Ethernet devices. `lossy_link()` joins them by a pair of tunnels, whose
packets a thread here carries from one to the other or drops by chance, in each direction as often as it is told: the
kernels' TCP sees what a bad line does. (Linux's own way, `tc … netem`, is a module that not every kernel has.)
"""

import fcntl
import os
import random
import select
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ADDRESSES = ("10.213.7.1", "10.213.7.2")
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
LONGEST = 65536  # bytes of a packet
Prefixes = list[list[str]]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Lossy:
    """Carries packets between two tunnels. **loss**: the share that is dropped of those that the first host sends, and
    of those that the second sends; it may be set at any time. **sent**, **dropped** count them."""

    def __init__(self, tunnels: list[int], seed: int):
        self.tunnels, self.chance = tunnels, random.Random(seed)
        self.loss, self.sent, self.dropped = [0.0, 0.0], [0, 0], [0, 0]
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._carry, daemon=True)
        self.thread.start()

    def _carry(self) -> None:
        while not self.is_over.is_set():
            for tunnel in select.select(self.tunnels, [], [], 0.2)[0]:
                sender = self.tunnels.index(tunnel)
                try:
                    packet = os.read(tunnel, LONGEST)
                    self.sent[sender] += 1
                    if self.chance.random() < self.loss[sender]:
                        self.dropped[sender] += 1
                    else:
                        os.write(self.tunnels[1 - sender], packet)
                except OSError:  # the device is gone, at the end
                    return

    def close(self) -> None:
        self.is_over.set()
        self.thread.join()
        for tunnel in self.tunnels:
            os.close(tunnel)


@contextmanager
def _two() -> Iterator[tuple[list[str], Prefixes]]:
    """The namespaces' names, and how to run something in each."""
    names = [f"occamax{os.getpid()}{i}" for i in range(2)]
    hosts = "127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for a, n in zip(ADDRESSES, names, strict=True))
    with ExitStack() as held:
        for name in names:
            ip("netns", "add", name)
            held.callback(ip, "netns", "del", name)
            known = Path("/etc/netns") / name
            known.mkdir(parents=True)
            held.callback(known.rmdir)
            (known / "hosts").write_text(hosts)
            held.callback((known / "hosts").unlink)
        named = 'hostname "$0" && exec "$@"'  # by which gloo finds a host's own address
        yield names, [["ip", "netns", "exec", n, "unshare", "--uts", "sh", "-c", named, n] for n in names]


def _settle(names: list[str], links: list[str]) -> None:
    """Gives each end of a link to its namespace, an address, and sets it up."""
    for name, link, address in zip(names, links, ADDRESSES, strict=True):
        ip("link", "set", link, "netns", name)
        ip("-n", name, "addr", "add", f"{address}/24", "dev", link)
        ip("-n", name, "link", "set", link, "up")
        ip("-n", name, "link", "set", "lo", "up")


@contextmanager
def namespaces() -> Iterator[tuple[Prefixes, list[str], list[str]]]:
    """How to run something in each, their names, and those of the link's ends."""
    links = [f"ox{os.getpid()}{i}"[-15:] for i in range(2)]
    with _two() as (names, prefixes):
        ip("link", "add", links[0], "type", "veth", "peer", "name", links[1])
        _settle(names, links)
        yield prefixes, names, links


@contextmanager
def lossy_link(seed: int) -> Iterator[tuple[Prefixes, Lossy]]:
    """How to run something in each, and the link."""
    links = [f"ox{os.getpid()}{i}"[-15:] for i in range(2)]
    with _two() as (names, prefixes):
        tunnels = [os.open("/dev/net/tun", os.O_RDWR) for _ in links]
        for tunnel, link in zip(tunnels, links, strict=True):
            fcntl.ioctl(tunnel, TUNSETIFF, struct.pack("16sH", link.encode(), IFF_TUN | IFF_NO_PI))
        _settle(names, links)
        link = Lossy(tunnels, seed)
        try:
            yield prefixes, link
        finally:
            link.close()
