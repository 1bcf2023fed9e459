"""A C header, compiled and called: what checks and measures it here. It runs elsewhere without us."""

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import ExportError
from .c_file import read_card
from .card import Card

COMPILERS = ("cc", "gcc", "clang")
OUTPUTS = re.compile(r"^#define PREDICT_OUTPUTS (\d+)", re.MULTILINE)
FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror")
CALL = """#include "{header}"
void occamax_many(const {kind} *inputs, float *outputs, long count) {{
  long i;
  for (i = 0; i < count; ++i) predict(inputs + i * PREDICT_INPUTS, outputs + i * PREDICT_OUTPUTS);
}}
"""


def compiler() -> str | None:
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


class Compiled:
    """A header as a function of many examples."""

    def __init__(self, path: Path):
        self.card = read_card(path)
        self.dtype = np.dtype(self.card.input_dtype)
        kind = {"uint8": "unsigned char", "float32": "float"}[self.card.input_dtype]
        with tempfile.TemporaryDirectory() as place:  # a library that is loaded needs its file no more
            source, library = Path(place) / "call.c", Path(place) / "call.so"
            source.write_text(CALL.format(header=path.resolve(), kind=kind))
            compile_c([str(source), "-shared", "-fPIC", "-o", str(library), "-lm"])
            self.function = ctypes.CDLL(str(library)).occamax_many
        self.outputs = int(OUTPUTS.findall(path.read_text())[0])

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        own = np.ascontiguousarray(inputs, self.dtype)
        found = np.empty((len(own), self.outputs), np.float32)
        self.function(
            own.ctypes.data_as(ctypes.c_void_p), found.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(len(own))
        )
        return found


def compile_c(arguments: Sequence[str]) -> None:
    """Compiles, every warning an error."""
    name = compiler()
    if name is None:
        raise ExportError(f"a C header is checked by compiling it; none of {', '.join(COMPILERS)} is installed")
    done = subprocess.run([name, *FLAGS, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ExportError(f"the header does not compile: {done.stderr[:500]}")


def open_header(path: Path) -> tuple[Compiled, Card]:
    """What predicts, and what it is."""
    found = Compiled(path)
    return found, found.card
