"""What a user would do instead: the dense ONNX file, quantised to int8 by onnxruntime itself."""

import gzip
import logging
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..structure.graph import Graph
from .card import Card
from .predictor import Predict
from .writing import write

MOST_SAID = 300  # characters of why it cannot be had


class Instead(NamedTuple):
    """onnxruntime's own int8 form of the dense network, beside which a file is measured."""

    bytes: int
    zipped: int
    milliseconds: dict[int, float]  # by batch size, timed in turn with the others
    figures: dict[str, float]  # on the same test examples, or the first of them; none without a test set
    tested: int = 0  # on so many


def quantised(graph: Graph, card: Card, dense: Path, out: Path, one: np.ndarray) -> Predict | str:
    """Writes a dense network as an ONNX file, unless that is there, and the int8 form of that; and says how the latter
    is asked, on one core. Where that cannot be had, or cannot answer about `one` input, why."""
    root = logging.getLogger()
    level = root.level
    try:
        import onnxruntime
        from onnxruntime.quantization import QuantType, quantize_dynamic

        if not dense.exists():
            write(dense, graph, card, as_usual=True)
        root.setLevel(logging.ERROR)  # it advises a pre-processing step through the root logger
        quantize_dynamic(dense, out, weight_type=QuantType.QInt8)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads, settings.log_severity_level = 1, 3
        session = onnxruntime.InferenceSession(out.read_bytes(), settings, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        session.run(None, {name: one})
    except Exception as error:  # it is somebody else's program on any network: without it the export goes on
        return " ".join(f"{type(error).__name__}: {error}".split())[:MOST_SAID]
    finally:
        root.setLevel(level)
    return lambda inputs: np.asarray(session.run(None, {name: inputs})[0])


def sizes_of(file: Path) -> tuple[int, int]:
    content = file.read_bytes()
    return len(content), len(gzip.compress(content, 6))
