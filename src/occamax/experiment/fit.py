"""`occamax.fit`: any Equinox module, any arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..data import Dataset, Stream
from ..errors import ArgumentError
from ..evaluation import Predictive, predict
from ..inference.likelihoods import Likelihood
from ..inference.model import Model
from ..inference.training import Budget, State
from ..methods import BMR, Method
from .loop import Epoch
from .loop import epochs as _epochs
from .program import Program, on_device

STREAMED_BYTES = 2**27  # of examples read ahead in one lap


@dataclass(frozen=True)
class Fit:
    """A trained network: the model, its posterior and mask, and what happened on the way."""

    model: Model
    method: Method
    state: State
    history: list[dict[str, float | int]]  # one item an epoch

    @property
    def network(self) -> Any:
        """The network at the posterior mean, pruned: an ordinary Equinox module. It takes preprocessed inputs."""
        return self.model.bind(self.state.posterior.point, self.state.mask)

    @property
    def masks(self) -> dict[str, np.ndarray]:
        """What was kept, by layer: True keeps. Outputs by inputs, the bias as the last column."""
        layout = self.model.layout
        return {
            name: np.asarray(mask) for name, mask in zip(layout.names, layout.matrices(self.state.mask), strict=True)
        }

    @property
    def sparsity(self) -> float:
        """Removed / all weights, the output layer counted too."""
        return float(1.0 - np.asarray(self.state.mask).mean())

    def predict(self, inputs: Any, samples: int = 100, seed: int = 0) -> Float[np.ndarray, "n out"]:
        """Class probabilities (or the expected target) of each input, averaged over `samples` draws of the weights."""
        return np.asarray(self.predictive(inputs, samples, seed).expectation)

    def predictive(self, inputs: Any, samples: int = 100, seed: int = 0) -> Predictive:
        """The whole posterior predictive, enough to tell doubt about the weights from noise in the data."""
        key = jax.random.key(seed)
        return _predict(self.model, self.state.posterior, self.state.mask, key, jnp.asarray(inputs), None, samples)


_predict = eqx.filter_jit(predict)


def fit(
    network: Any,
    train: Dataset | Stream | tuple[Any, Any],
    method: Method | None = None,
    *,
    test: tuple[Any, Any] | None = None,
    likelihood: Likelihood | None = None,
    select: Callable[[Any], Any] | None = None,
    preprocess: Callable[[Array], Array] | None = None,
    epochs: int = 20,
    steps: int = 500,
    batch: int = 128,
    seed: int = 0,
    samples: int = 100,
    compute_dtype: Any = jnp.float32,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Fit:
    """Trains a network and prunes it while it trains.

    **network** any Equinox module that maps one example to a vector of outputs. Its present weights are not used.
    **train** inputs and targets, the first axis the examples; or a `Dataset`, which is standardised and tested too; or
    a `Stream` (`ox.open_arrays(folder)`), of which only the batches are read.
    **method** `BMR()` unless given. **likelihood** `Categorical()` unless given.
    **select** which weights are random, all layers unless given; the last is the output layer, which is never pruned.
    **preprocess** one raw example → what the network takes. **compute_dtype** `jnp.bfloat16` for mixed precision.
    **on_epoch** is called after every epoch, say to print.
    """
    method = BMR() if method is None else method
    if not isinstance(method, Method):
        raise ArgumentError(f"method: {method!r} given; it must be a Method object, such as occamax.BMR()")
    if isinstance(train, Dataset):
        preprocess = preprocess or train.standardise()
        train, test = (train.train.inputs, train.train.targets), test or (train.test.inputs, train.test.targets)
    model = Model(network, method.prior, likelihood, select, preprocess or jnp.asarray, compute_dtype)
    if isinstance(train, Stream):
        first = train.take(np.arange(min(batch, len(train))))
        model.check_data(first[0], train.targets[: len(first[0])])
        longest_lap = max(1, STREAMED_BYTES // (batch * train.bytes_each))
    else:
        model.check_data(*map(np.asarray, train))
        longest_lap = None
    if test is not None:
        model.check_data(*map(np.asarray, test))
    program = Program(model, method, Budget(epochs, steps, batch), (seed,), longest_lap=longest_lap)
    history, state = [], program.start()
    tested = None if test is None else on_device(test)
    data = train if isinstance(train, Stream) else on_device(train)
    for epoch in _epochs(program, state, data, tested, samples=samples):
        state = epoch.state
        history.extend(epoch.metrics)
        if on_epoch is not None:
            on_epoch(epoch)
    return Fit(model, method, state, history)
