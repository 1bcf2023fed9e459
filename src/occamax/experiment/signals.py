"""SIGTERM and SIGINT: finish what is under way, save, stop."""

import signal
import sys
import threading
from types import FrameType
from typing import Any

STOPPING = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """While entered, the first signal only asks to stop; the second stops at once. Outside the main thread, where
    signals cannot be caught, it does nothing."""

    def __init__(self):
        self.signum: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            self._before = {signum: signal.signal(signum, self._ask) for signum in STOPPING}
        return self

    def __exit__(self, *_: Any) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _ask(self, signum: int, _: FrameType | None) -> None:
        if self.signum is not None:
            raise KeyboardInterrupt
        self.signum = signum
        name = signal.Signals(signum).name
        print(f"{name}: stopping after the steps under way; once more to stop at once", file=sys.stderr, flush=True)

    def asked(self) -> bool:
        return self.signum is not None
