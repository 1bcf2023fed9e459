"""How much of a network is gone. The one definition of sparsity."""

from typing import Any

import numpy as np

from ..methods import Method
from ..structure.layout import Layout


def counted(layout: Layout, method: Method) -> int:
    """How many leading weights of the vector the sparsity counts: all but the output layer's, if that is kept."""
    keeps_output = method.reduction is None or method.reduction.keep_output
    return layout.size - (layout.sizes[-1] if keeps_output and len(layout.sizes) > 1 else 0)


def sparsity(mask: np.ndarray, count: int) -> float:
    """Removed / counted weights."""
    return 1.0 - float(mask[:count].sum()) / count


def sizes_of(layout: Layout, method: Method, mask: np.ndarray) -> dict[str, Any]:
    """What is left of a network, whole and by layer."""
    layers = [
        {"name": name, "weights": size, "remaining": int(mask[start:stop].sum())}
        for name, size, (start, stop) in zip(layout.names, layout.sizes, layout.bounds, strict=True)
    ]
    return {
        "weights": layout.size,
        "counted": counted(layout, method),
        "remaining": int(mask.sum()),
        "sparsity_of_all": sparsity(mask, layout.size),
        "layers": layers,
    }
