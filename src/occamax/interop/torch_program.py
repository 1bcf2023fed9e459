"""A PyTorch module as a pure function of its parameters: torchax gives each of its operations to jax."""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from jaxtyping import Array
from torch.nn import functional  # pyright: ignore[reportMissingImports]
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportMissingImports]
from torch.nn.utils import prune  # pyright: ignore[reportMissingImports]
from torchax import device_module  # pyright: ignore[reportMissingImports]
from torchax.tensor import Environment  # pyright: ignore[reportMissingImports]

from .adapted import Arrays, Mode, Program

# torchax tells torch of an accelerator named jax that cannot be asked for its stream, as Adam of torch 2.15 does where
# there is no GPU (pytorch/xla#9730). Nothing of ours lies there, and what came back is to be trained further.
device_module.is_available = lambda: False

_AXES: ContextVar[Any] = ContextVar("the mapped axes that are the batch", default=None)


class TorchProgram(Program):
    """**module** a copy of the user's: nothing here changes theirs."""

    def __init__(self, module: Any):
        self.name = type(module).__name__
        self.module = copy.deepcopy(module).cpu()
        self.environment = _environment()
        moving = _statistics(self.module)
        given = {name: tensor for name, tensor in self.module.named_buffers() if name not in moving}
        given |= {name: tensor for name, tensor in self.module.named_parameters() if not tensor.requires_grad}
        self.constants = {name: _to_jax(tensor) for name, tensor in given.items()}

    def first_arrays(self) -> dict[str, Array]:
        """Each parameter that is trained, once, by its name; one that is tied has its first name."""
        named = self.module.named_parameters()
        return {name: _to_jax(tensor) for name, tensor in named if tensor.requires_grad}

    def first_statistics(self) -> dict[str, Array]:
        return {name: _to_jax(tensor) for name, tensor in _statistics(self.module).items()}

    def run(self, arrays: Arrays, statistics: Arrays, x: Array, mode: Mode) -> tuple[Array, Arrays]:
        environment = self.environment
        key = jax.random.key(0) if mode.key is None else mode.key
        moving = environment.j2t_iso(dict(statistics))
        tensors = environment.j2t_iso({**self.constants, **arrays})
        batch = environment.j2t_iso(x[None])
        self.module.train(mode.trains)
        try:
            with (
                _batch_over(mode.axes),
                _quiet(),
                torch.no_grad(),
                environment,
                environment.override_property(prng=key),
            ):
                outputs = torch.func.functional_call(self.module, {**tensors, **moving}, (batch,), tie_weights=True)
                if not isinstance(outputs, torch.Tensor):
                    raise TypeError(f"puts out a {type(outputs).__name__}, not a tensor")
                outputs = environment.t2j_iso(outputs)
        finally:
            self.module.eval()
        return outputs[0], environment.t2j_iso(moving)

    def restore(self, arrays: Arrays, statistics: Arrays) -> Any:
        module = copy.deepcopy(self.module).eval()
        tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        with torch.no_grad():
            for name, array in {**arrays, **statistics}.items():
                tensors[name].copy_(torch.from_numpy(np.array(array)))
        return module


def with_masks(module: Any) -> Any:
    """The module with a `torch.nn.utils.prune` mask on each parameter that has zeros."""
    for layer in list(module.modules()):
        for name, parameter in list(layer.named_parameters(recurse=False)):
            if bool((parameter == 0).any()):
                prune.custom_from_mask(layer, name, parameter != 0)
    return module


def _statistics(module: Any) -> dict[str, Any]:
    """The buffers that training changes: the running statistics of BatchNorm."""
    found = {}
    for name, layer in module.named_modules():
        if isinstance(layer, _BatchNorm):
            found |= {f"{name}.{own}".lstrip("."): tensor for own, tensor in layer.named_buffers()}
    return found


def _to_jax(tensor: Any) -> Array:
    """A copy: torch may change its own in place."""
    return jnp.asarray(np.array(tensor.detach().cpu().numpy()))


@contextmanager
def _batch_over(axes: Any) -> Iterator[None]:
    token = _AXES.set(axes)
    try:
        yield
    finally:
        _AXES.reset(token)


@contextmanager
def _quiet() -> Iterator[None]:
    """torch's whole numbers have 64 bits; that jax's have 32 is no news."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Explicitly requested dtype")
        yield


def _environment() -> Any:
    environment = Environment()
    environment.override_op_definition(functional.batch_norm, _batch_norm)
    return environment


def _batch_norm(  # the arguments of torch.nn.functional.batch_norm
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Batch normalisation of one example of a batch that jax maps over: means of a batch are means over its axes too.
    Running statistics change in place, as in torch; their variance is the unbiased one."""
    x = input.jax()
    places = tuple(axis for axis in range(x.ndim) if axis != 1)
    if training:
        names = _AXES.get()
        mean = jax.lax.pmean(jnp.mean(x, places), names)
        var = jax.lax.pmean(jnp.mean(jnp.square(x - _spread(mean, x)), places), names)
        count = jax.lax.psum(x.size // x.shape[1], names)
        if running_mean is not None:
            _move(running_mean, mean, momentum)
            _move(running_var, var * (count / jnp.maximum(count - 1, 1)), momentum)
    else:
        mean, var = running_mean.jax(), running_var.jax()
    normed = (x - _spread(mean, x)) * _spread(jax.lax.rsqrt(var + eps), x)
    normed = normed if weight is None else normed * _spread(weight.jax(), x)
    return input._env.j2t_iso(normed if bias is None else normed + _spread(bias.jax(), x))


def _move(tensor: Any, new: Array, momentum: Any) -> None:
    old = tensor.jax()
    rate = momentum.jax() if hasattr(momentum, "jax") else momentum
    tensor.apply_jax_(lambda _: (old + rate * (jax.lax.stop_gradient(new) - old)).astype(old.dtype))


def _spread(channels: Array, like: Array) -> Array:
    return channels.reshape(1, -1, *(1,) * (like.ndim - 2))
