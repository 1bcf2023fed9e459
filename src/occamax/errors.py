"""Errors a user can act on. Each message names the argument or file, what was found, and the remedy."""


class OccamaxError(Exception):
    """Base of every error this package raises on purpose.

    Examples:
        >>> try:
        ...     ox.load("no-such-folder")
        ... except ox.OccamaxError as error:
        ...     print(type(error).__name__)
        RunError
    """


class ArgumentError(OccamaxError, ValueError):
    """An argument has a value that cannot work. Also a `ValueError`.

    Examples:
        >>> ox.MeanField(init_std=0.0)
        Traceback (most recent call last):
        occamax.errors.ArgumentError: init_std: 0.0 given; a deviation must be positive
    """


class LayoutError(OccamaxError, ValueError):
    """A network cannot be laid out as one vector of random weights. Also a `ValueError`.

    Examples:
        >>> fitted.model.layout.bind(network, jnp.zeros(3))
        Traceback (most recent call last):
        occamax.errors.LayoutError: vector: shape (3,), but this layout has 178 weights
    """


class DataError(OccamaxError):
    """A data set is missing, damaged, or not what its name says.

    Examples:
        >>> ox.load_data("mine.csv")
        Traceback (most recent call last):
        occamax.errors.DataError: mine.csv: no such file or folder. Check the path, or pass data_dir.
    """


class RunError(OccamaxError):
    """A run folder or a checkpoint is not what was asked for.

    Examples:
        >>> ox.load("mine")
        Traceback (most recent call last):
        occamax.errors.RunError: mine: is no run folder (it has no config.json). Name a folder that `fit(out=…)` or ...
    """


class DivergedError(OccamaxError):
    """The objective became NaN or infinite, or the network forgot all it had learnt. `fit(…, halvings=2)` goes back and
    halves the rate instead, so often.

    Examples:
        >>> try:
        ...     raise ox.DivergedError("the objective became nan at step 12")  # what `fit` does
        ... except ox.DivergedError as error:
        ...     print("lower the learning rate:", error)
        lower the learning rate: the objective became nan at step 12
    """


class ExportError(OccamaxError):
    """A network cannot be exported, or a file is no export.

    Examples:
        >>> fitted.export("network.doc")
        Traceback (most recent call last):
        occamax.errors.ExportError: ...
    """


class StoppedError(KeyboardInterrupt):
    """A signal ended the run; what was reached is saved. No `Exception`: what goes on after errors must not go on."""

    def __init__(self, message: str, signum: int):
        super().__init__(message)
        self.signum = signum
