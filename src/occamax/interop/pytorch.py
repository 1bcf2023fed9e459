"""PyTorch modules, run by jax through torchax: `from_torch`, and back, `to_torch`."""

import importlib.util
from typing import Any

from ..errors import ArgumentError
from .adapted import adapt, give_back

AGREEMENT = 1e-4  # largest relative difference of an output, float32 in another order of summation


def from_torch(module: Any, example: Any) -> Any:
    """A PyTorch module as a network for `ox.fit`, or the pair of a network and its state where the module has
    BatchNorm; it begins with the module's weights and running statistics. The module itself is not changed.

    **module** maps a batch, the first axis the examples, to a vector of outputs for each, in float32, all of it on one
    device. Parameters that do not require a gradient, and buffers, stay as they are. **example** one example of its
    input, *without* the batch axis: an array or a tensor.

    Layers that cannot be run, or that say something else here than in PyTorch, are refused by name.

    Raises:
        ArgumentError: torch or torchax is not installed, or a layer that cannot be run, by its name.

    Examples:
        >>> import torch
        >>> module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
        >>> network = ox.from_torch(module, x[0])  # then ox.fit(network, (x, y), start=ox.Trained())
    """
    _need_torch()
    from .torch_checks import check_agreement, check_module, example_of
    from .torch_program import TorchProgram

    check_module(module)
    program = TorchProgram(module)
    network = adapt(program, program.first_arrays(), program.first_statistics())
    check_agreement(module, program, network, example_of(example), AGREEMENT)
    return network


def to_torch(fitted: Any, masks: bool = False) -> Any:
    """The module that `from_torch` was given, as a new one in inference mode: pruned weights are zero, running
    statistics are those of the training. With **masks** they also stand as `torch.nn.utils.prune` masks.

    **fitted** a `Fit`, or a network (with its state, if it has one) that began in `from_torch`. Outputs are those of
    the network at the posterior mean for preprocessed inputs.

    Raises:
        ArgumentError: a network that did not begin in `from_torch`.

    Examples:
        >>> import torch
        >>> module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
        >>> again = ox.to_torch(ox.from_torch(module, x[0]))  # of a fit: fitted.to_torch()
        >>> again(torch.from_numpy(x[:3])).shape
        torch.Size([3, 2])
    """
    _need_torch()
    from .torch_program import TorchProgram, with_masks

    module = give_back(fitted, TorchProgram, "PyTorch")
    return with_masks(module) if masks else module


def _need_torch() -> None:
    missing = [name for name in ("torch", "torchax") if importlib.util.find_spec(name) is None]
    if missing:
        raise ArgumentError(f"module: {' and '.join(missing)} not installed; pip install 'occamax[torch]'")
