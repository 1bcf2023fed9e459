"""Array files read with care: what a file declares is checked before any memory is taken; nothing is unpickled."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

ERRORS = (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError)


def read_npz(path: Path, largest: int) -> dict[str, np.ndarray]:
    """The arrays of an .npz file of at most `largest` bytes in all. Raises one of ERRORS, or OSError."""
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        declared = sum(info.file_size for info in members)
        if declared > largest:
            raise ValueError(f"it declares {declared} bytes")
        return {info.filename.removesuffix(".npy"): _array(archive, info) for info in members}


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(info) as file:
        shape, is_fortran, dtype = _header(file)
        if dtype.hasobject:
            raise ValueError(f"{info.filename} holds Python objects")
        count = 1
        for size in shape:
            count *= size
        if count < 0 or count * dtype.itemsize != info.file_size - file.tell():
            raise ValueError(f"{info.filename} declares shape {shape} but holds {info.file_size - file.tell()} bytes")
        content = file.read(count * dtype.itemsize)
    array = np.frombuffer(content, dtype)
    return array.reshape(shape, order="F" if is_fortran else "C")


def _header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"an array of version {version}")
    return readers[version](file)
