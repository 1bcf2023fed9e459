"""Data by name or by path, and again from its origin."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, DataError
from ..names import choose
from ._dataset import Dataset
from ._image_stream import image_stream
from ._images import open_folder
from ._locate import load
from ._npz import open_npz
from ._options import Options
from ._prints import check_unchanged
from ._sources import SOURCES
from ._stream import Stream, is_arrays, open_arrays
from ._table import open_table
from ._text_stream import is_texts, text_stream

READERS: dict[str, Callable[[Path, Options], Dataset]] = {".npz": open_npz, ".csv": open_table, ".tsv": open_table}
# how each kind of stream is opened again
STREAMS: dict[str, Callable[[Path, Options, dict[str, Any] | None], Stream]] = {
    "array files": lambda path, options, origin: open_arrays(path),
    "images": image_stream,
    "texts": text_stream,
}
KINDS = ("named", "folder", "npz", "table", "arrays", "stream", *STREAMS)


def load_data(
    name: Path | str,
    data_dir: Path | str | None = None,
    *,
    target: str | None = None,
    task: str | None = None,
    test_share: float = 0.2,
    size: int | tuple[int, int] | None = None,
    seed: int = 0,
) -> Dataset:
    """A data set by name, or from a path.

    **name** fashion_mini (embedded), fashion_mnist, mnist, cifar10, cifar100, film_snippets (texts); or a path: a
    folder of class folders of images, an .npz, a .csv or .tsv. A folder that has such a name is opened as ./mnist.
    **data_dir** where named sets are kept, and where a path is looked for that is not here. **target** the column of a
    table to predict. **task** classification or regression, if the target's type is not to say. **test_share** of the
    examples that is set aside where there is no test set, by **seed**. **size** (height, width) to which images in a
    folder are resized.

    Raises:
        ArgumentError: an option that does not go with these data.
        DataError: data that are missing, damaged, or not what their name says; the row and the column are named.

    Examples:
        >>> data = ox.load_data("fashion_mini")
        >>> data.train.inputs.shape, data.classes
        ((10000, 1, 28, 28), 10)
    """
    options = Options(target, task, test_share, size, seed)
    folder = None if data_dir is None else Path(data_dir)
    if isinstance(name, str) and name in SOURCES:
        options.refuse("a named data set", "target", "task", "size")
        return load(SOURCES[name], folder)
    return _open(_place(name, folder), options)


def open_stream(path: Path | str, data_dir: Path | str | None = None, **given: Any) -> Stream:
    """A stream from a path: a folder of inputs.npy and targets.npy, as `open_arrays` takes it; a .txt, or a folder with
    train.txt, as `open_texts` does; else a folder of class folders of images, as `open_images` does. The options are
    those of `load_data`."""
    options = Options(**given)
    place = _place(path, None if data_dir is None else Path(data_dir))
    if is_arrays(place):
        options.refuse("arrays on disk", "target", "task", "size")
        return open_arrays(place)
    return text_stream(place, options) if is_texts(place) else image_stream(place, options)


def reopen(origin: dict[str, Any], data_dir: Path | str | None = None) -> Dataset | Stream:
    """The data set, or the stream, that has this origin, again; an error that says what changed if its files did. A
    file that is no longer where it was is looked for in `data_dir`."""
    kind = choose("origin", origin.get("kind", "nothing"), KINDS)
    if kind in ("arrays", "stream"):
        raise DataError(
            f"origin: arrays from memory (digest {str(origin.get('digest'))[:12]}…) cannot be opened again; pass the "
            "same arrays to occamax.dataset_of"
        )
    folder = None if data_dir is None else Path(data_dir)
    try:
        if kind == "named":
            found = load(SOURCES[choose("origin name", origin["name"], SOURCES)], folder, origin)
        else:
            place, options = _place(Path(origin["path"]), folder), Options(**origin["options"])
            found = STREAMS[kind](place, options, origin) if kind in STREAMS else _open(place, options)
            now = found.origin or {}
            check_unchanged(str(now["path"]), origin["files"], now["files"])
        if isinstance(found, Stream):
            return found
        for step in origin.get("steps", []):
            how = {"hold_out": found.hold_out, "first": found.first}[step["step"]]
            found = how(**{name: value for name, value in step.items() if name != "step"})
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"origin: {kind} data, but {error!r}; it is damaged, or of another version of occamax"
        ) from error
    return found


def _open(path: Path, options: Options) -> Dataset:
    if path.is_dir():
        return open_folder(path, options)
    if path.suffix.lower() not in READERS:
        what = path.suffix or "file without suffix"
        raise DataError(
            f"{path}: is a {what}; a folder of images, .npz, .csv or .tsv can be opened; a .txt of texts is for "
            "occamax.open_texts, or --stream"
        )
    return READERS[path.suffix.lower()](path, options)


def _place(path: Path | str, data_dir: Path | None) -> Path:
    """Where this path is; in `data_dir` if not where it says."""
    if not isinstance(path, str | Path) or not str(path):
        raise ArgumentError(f"path: {path!r} given; it must be a path, or one of {', '.join(SOURCES)}")
    place = Path(path).expanduser()
    places = [place] if data_dir is None else [place, data_dir / (place.name if place.is_absolute() else place)]
    for found in places:
        if found.exists():
            return found
    if isinstance(path, str) and len(place.parts) == 1 and not place.suffix:
        choose("name", path, SOURCES)
    raise DataError(f"{' and '.join(map(str, places))}: no such file or folder. Check the path, or pass data_dir.")
