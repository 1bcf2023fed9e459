"""What a PyTorch module must be to be run by jax; refused in words before any work is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch.nn import SyncBatchNorm  # pyright: ignore[reportMissingImports]
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportMissingImports]
from torch.nn.modules.instancenorm import _InstanceNorm  # pyright: ignore[reportMissingImports]
from torch.nn.parameter import is_lazy  # pyright: ignore[reportMissingImports]

from ..errors import ArgumentError
from ..structure.calling import read_network
from .torch_program import TorchProgram


def check_module(module: Any) -> None:
    """Refuses what can be seen without running it: types, devices, layers that mix examples when they predict."""
    if not isinstance(module, torch.nn.Module):
        raise ArgumentError(f"module: {type(module).__name__} given; it must be a torch.nn.Module")
    tensors = [*module.named_parameters(), *module.named_buffers()]
    for name, tensor in tensors:
        if is_lazy(tensor):
            raise ArgumentError(f"module: {name} has no shape yet; run the module once on a batch")
        if tensor.is_complex():
            raise ArgumentError(f"module: {name} has type {_type(tensor)}; keep real and imaginary parts as two")
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            raise ArgumentError(
                f"module: {name} has type {_type(tensor)}; pass module.float(), and to fit compute_dtype='bfloat16' "
                "for mixed precision"
            )
    places = {str(tensor.device): name for name, tensor in tensors}
    if len(places) > 1:
        where = ", ".join(f"{name} on {device}" for device, name in sorted(places.items()))
        raise ArgumentError(f"module: it lies on several devices ({where}); pass module.cpu()")
    if "meta" in places:
        raise ArgumentError(f"module: {places['meta']} lies on the meta device, without values; load its weights first")
    for name, layer in module.named_modules():
        reason = _reason(layer)
        if reason:
            raise ArgumentError(f"module: {_called(name, layer)}, {reason}")


def _type(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _reason(layer: Any) -> str | None:
    """Why a layer cannot be taken, or None."""
    if isinstance(layer, SyncBatchNorm):
        return "is for several processes; make it a BatchNorm: devices of ox.fit share their statistics anyway"
    if isinstance(layer, _BatchNorm) and not layer.track_running_stats:
        return "keeps no running statistics, so that predictions would depend on the batch; use track_running_stats"
    if isinstance(layer, _InstanceNorm) and layer.track_running_stats:
        return "keeps running statistics, which is not supported; make it with track_running_stats=False"
    if isinstance(layer, torch.jit.ScriptModule):
        return "is TorchScript, which cannot be traced again; pass the module that it was made from"
    return None


def example_of(given: Any) -> np.ndarray:
    array = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else np.asarray(given)
    if array.dtype.kind not in "fiub":
        raise ArgumentError(f"example: type {array.dtype} given; it must be numbers, one example without a batch axis")
    narrow = {"float64": np.float32, "float16": np.float32, "int64": np.int32}
    return array.astype(narrow.get(str(array.dtype), array.dtype))


def check_agreement(module: Any, program: TorchProgram, network: Any, example: np.ndarray, tolerance: float) -> None:
    """Refuses a module that jax cannot run, or that says something else there, or whose outputs for an example depend
    on the others of its batch."""
    batch = np.stack([example, np.roll(example.ravel(), 1).reshape(example.shape)])
    expected = _expected(program, batch)
    found, statistics, calling = read_network(network)
    with _named_in_errors(program.module):
        keys = jax.random.split(jax.random.key(0), len(batch))
        eqx.filter_eval_shape(calling.apply, found, statistics, batch, keys)
        outputs = np.asarray(jax.jit(lambda x: calling.apply(found, statistics, x, None)[0])(batch))
    error = float(np.max(np.abs(outputs - expected)) / max(1.0, float(np.max(np.abs(expected)))))
    if not error <= tolerance:
        raise ArgumentError(
            f"module: {type(module).__name__} differs by {error:.1e} between PyTorch and jax; a layer of it is not "
            "supported. Find it by passing parts of the module"
        )


def _expected(program: TorchProgram, batch: np.ndarray) -> np.ndarray:
    """What PyTorch says of two examples, the same together as each alone."""
    module = program.module.eval()
    tensor = torch.from_numpy(batch)
    with _running(module) as layers:
        try:
            with torch.no_grad():
                together, alone = module(tensor), [module(tensor[i : i + 1]) for i in range(len(batch))]
        except Exception as error:
            where = f"{_called(*layers[-1])}: " if layers and layers[-1][0] else ""
            raise ArgumentError(
                f"example: {type(module).__name__} does not take a batch of shape {tuple(batch.shape)}, type "
                f"{batch.dtype} ({where}{type(error).__name__}: {error}). The example is one, without the batch axis"
            ) from error
    if not isinstance(together, torch.Tensor) or together.ndim != 2 or len(together) != len(batch):
        what = tuple(together.shape) if isinstance(together, torch.Tensor) else f"a {type(together).__name__}"
        raise ArgumentError(
            f"module: puts out {what} for a batch of {len(batch)}; it should be one tensor, examples by outputs. Wrap "
            "it in a module that picks the outputs, or that takes the examples along its first axis"
        )
    apart = torch.cat(alone)
    if not torch.allclose(together, apart, rtol=1e-3, atol=1e-4):
        raise ArgumentError(
            "module: its outputs for an example depend on the others of the batch; examples must be along the first "
            "axis (batch_first=True), each by itself"
        )
    return together.numpy()


@contextmanager
def _named_in_errors(module: Any) -> Iterator[None]:
    """What goes wrong inside is said of the layer that was running."""
    with _running(module) as layers:
        try:
            yield
        except Exception as error:
            where, said = _called(*(layers or [("", module)])[-1]), str(error).splitlines()[0] if str(error) else ""
            raise ArgumentError(f"module: {where}, cannot be run by jax ({type(error).__name__}: {said})") from error


@contextmanager
def _running(module: Any) -> Iterator[list[tuple[str, Any]]]:
    """The layers that are running, by name, the innermost last; after an error those that it came out of."""
    running: list[tuple[str, Any]] = []
    hooks = []
    for name, layer in module.named_modules():
        hooks.append(layer.register_forward_pre_hook(lambda own, _, name=name: running.append((name, own))))
        hooks.append(layer.register_forward_hook(lambda *_: running.pop() and None))
    try:
        yield running
    finally:
        for hook in hooks:
            hook.remove()


def _called(name: str, layer: Any) -> str:
    return f"layer {name or '(the module itself)'}, a {type(layer).__name__}"
