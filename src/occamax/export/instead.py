"""What a user would do instead: the dense ONNX file, quantised to int8 by onnxruntime itself."""

import gzip
import logging
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .predictor import Predict


class Instead(NamedTuple):
    """onnxruntime's own int8 form of the dense network, beside which a file is measured."""

    bytes: int
    zipped: int
    milliseconds: dict[int, float]  # by batch size, timed in turn with the others
    figures: dict[str, float]  # on the same test examples; none without a test set


def quantised(dense: Path, out: Path) -> Predict | None:
    """Writes the int8 form of a dense ONNX file, and says how it is asked, on one core. None where onnxruntime's
    quantiser is not there or cannot do this network."""
    import onnxruntime

    root = logging.getLogger()
    level = root.level
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        root.setLevel(logging.ERROR)  # it advises a pre-processing step through the root logger
        quantize_dynamic(dense, out, weight_type=QuantType.QInt8)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads, settings.log_severity_level = 1, 3
        session = onnxruntime.InferenceSession(out.read_bytes(), settings, providers=["CPUExecutionProvider"])
    except Exception:  # it is somebody else's program on any network: without it the export goes on
        return None
    finally:
        root.setLevel(level)
    name = session.get_inputs()[0].name
    return lambda inputs: np.asarray(session.run(None, {name: inputs})[0])


def sizes_of(file: Path) -> tuple[int, int]:
    content = file.read_bytes()
    return len(content), len(gzip.compress(content, 6))
