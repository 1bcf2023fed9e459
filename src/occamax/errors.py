"""Errors a user can act on. Each message names the argument or file, what was found, and the remedy."""


class OccamaxError(Exception):
    """Base of every error this package raises on purpose."""


class ArgumentError(OccamaxError, ValueError):
    """An argument has a value that cannot work."""


class LayoutError(OccamaxError, ValueError):
    """A network cannot be laid out as one vector of random weights."""


class DataError(OccamaxError):
    """A data set is missing, damaged, or not what its name says."""


class RunError(OccamaxError):
    """A run folder or a checkpoint is not what was asked for."""


class DivergedError(OccamaxError):
    """The objective became NaN or infinite, or the network forgot all it had learnt."""


class ExportError(OccamaxError):
    """A network cannot be exported, or a file is no export."""


class StoppedError(KeyboardInterrupt):
    """A signal ended the run; what was reached is saved. No `Exception`: what goes on after errors must not go on."""

    def __init__(self, message: str, signum: int):
        super().__init__(message)
        self.signum = signum
