"""A graph as a file, in the format that its name ends in."""

from pathlib import Path

from ..storage import write_atomic
from ..structure.graph import Graph
from . import arrays_file
from .arrays_file import Packed
from .c_file import write_c
from .card import Card
from .predictor import HEADER, need


def write(
    path: Path,
    graph: Graph,
    card: Card,
    posterior: Packed | None = None,
    as_usual: bool = False,
    int8: bool = False,
) -> None:
    """A graph in the format that the path ends in. `as_usual` is for comparison: nothing left out, packed or joined, as
    any exporter would write it."""
    if path.suffix == ".onnx":
        need("onnx")
        from .onnx_file import write_onnx

        write_atomic(path, write_onnx(graph, card, as_usual, int8))
    elif path.suffix == f".{HEADER}":
        write_atomic(path, write_c(graph, card, as_usual=as_usual).text.encode())
    else:
        arrays_file.write(path, graph, card, not as_usual, posterior)
