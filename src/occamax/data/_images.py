"""A user's folder of class folders of images → a data set."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, DataError
from ._dataset import Dataset, Split
from ._decoding import broken_named, decoded, warnings_heeded
from ._options import Options
from ._prints import Prints, folder_print

SUFFIXES = (".png", ".jpg", ".jpeg")
TRAIN, TEST = "train", ("test", "val", "validation", "valid")  # the first that is there is the test set
LAYOUT = "It must hold one folder of PNG or JPEG images per class, or train/ and test/ with such folders in them."


@dataclass(frozen=True, eq=False)
class Picture:
    path: Path
    label: str
    pixels: np.ndarray  # (height, width) or (height, width, 3), bytes
    digest: str  # of the file


def open_folder(path: Path, options: Options) -> Dataset:
    """`path/cat/1.png`, or `path/train/cat/1.png` and `path/test/cat/1.png` (or val, valid, validation). The classes
    are the folders' names, sorted. Grey and colour are kept; if both are there all become colour; transparency is
    dropped. Without a test folder `test_share` of each class is set aside. Training images are shuffled by the seed."""
    options.refuse("a folder of images", "target")
    if options.task == "regression":
        raise ArgumentError(f"task: regression given, but {path} is a folder of images, whose folders are classes")
    found: Counter[str] = Counter()
    parts, unused = parts_of(path)
    folders = {part: class_folders(folder, found) for part, folder in parts.items()}
    class_names = check_classes(path, parts, folders)
    listed = {part: {own.name: images_in(own, found) for own in folders[part]} for part in parts}
    pictures = {part: _read(classes, options.size, found) for part, classes in listed.items()}
    train, test = _splits(pictures, class_names, options)
    origin: dict[str, Any] = {"kind": "folder", "path": str(path.resolve()), "options": options.as_dict()}
    origin |= {"files": _prints(pictures), "ignored": found["ignored"], "unused": unused}
    origin |= {"resized": found["resized"], "colour": colour_of(found), "transparency_dropped": found["transparent"]}
    origin["test"] = parts["test"].name if "test" in parts else "a share of each class"
    return Dataset(path.resolve().name, train, test, class_names, origin)


def parts_of(path: Path) -> tuple[dict[str, Path], list[str]]:
    """The folders that hold class folders, and those left out. A class may be called train: the parts are parts only
    where nothing else is beside them and there are folders in them."""
    folders = {folder.name.lower(): folder for folder in _folders(path)}
    train = folders.get(TRAIN)
    if train is None or not folders.keys() <= {TRAIN, *TEST} or not _folders(train):
        return {"train": path}, []
    test = [folders[name] for name in TEST if name in folders]
    return {"train": train, **({"test": test[0]} if test else {})}, [folder.name for folder in test[1:]]


def _folders(path: Path) -> list[Path]:
    return sorted(item for item in path.iterdir() if item.is_dir() and not item.name.startswith("."))


def class_folders(path: Path, found: Counter[str]) -> list[Path]:
    """The folder of each class, sorted by name."""
    folders = _folders(path)
    if not folders:
        arrays = " Arrays on disk are for occamax.open_arrays, or --stream." if (path / "inputs.npy").exists() else ""
        raise DataError(f"{path}: holds no folders. {LAYOUT}{arrays}")
    found["ignored"] += sum(not item.is_dir() for item in path.iterdir())
    return folders


def check_classes(path: Path, parts: dict[str, Path], folders: dict[str, list[Path]]) -> tuple[str, ...]:
    """The names of the classes: two or more, and none that is tested alone."""
    class_names = tuple(folder.name for folder in folders["train"])
    if len(class_names) < 2:
        raise DataError(
            f"{path}: holds one class folder, {', '.join(class_names)}; there must be two or more. {LAYOUT}"
        )
    if strange := [folder.name for folder in folders.get("test", []) if folder.name not in class_names]:
        raise DataError(f"{parts['test']}: holds class {strange[0]}, which is not among those for training; rename it")
    return class_names


def images_in(folder: Path, found: Counter[str]) -> list[Path]:
    """The image files of one class, sorted by name."""
    items = sorted(folder.iterdir())
    nested = [item for item in items if item.is_dir() and not item.name.startswith(".")]
    if nested:
        raise DataError(f"{nested[0]}: a folder inside a class folder. Move its images up, or it away. {LAYOUT}")
    images = [item for item in items if item.suffix.lower() in SUFFIXES and not item.name.startswith(".")]
    found["ignored"] += len(items) - len(images)
    if not images:
        raise DataError(f"{folder}: a class folder without PNG or JPEG images. Remove it, or put some there.")
    return images


def _read(classes: dict[str, list[Path]], size: tuple[int, int] | None, found: Counter[str]) -> list[Picture]:
    return [_picture(path, label, size, found) for label, paths in classes.items() for path in paths]


def _picture(path: Path, label: str, size: tuple[int, int] | None, found: Counter[str]) -> Picture:
    with warnings_heeded(), broken_named(path):
        content = path.read_bytes()
        image = decoded(content, path)
    found["transparent"] += image.is_transparent
    found["grey" if image.is_grey else "colour"] += 1
    pixels = image.pixels if size is None else image.resized(size)
    found["resized"] += pixels.shape[:2] != image.pixels.shape[:2]
    return Picture(path, label, pixels, hashlib.sha256(content).hexdigest())


def _splits(pictures: dict[str, list[Picture]], class_names: tuple[str, ...], options: Options) -> tuple[Split, Split]:
    everything = [picture for part in pictures.values() for picture in part]
    shape = _one_size(everything)
    channels = 3 if any(picture.pixels.ndim == 3 for picture in everything) else 1
    splits = [_split(part, (channels, *shape), class_names) for part in pictures.values()]
    if len(splits) == 1:
        splits = [splits[0].rows(rows) for rows in options.part(splits[0].targets)]
    order = np.random.default_rng(options.seed).permutation(len(splits[0]))
    return splits[0].rows(order), splits[1]


def _one_size(pictures: list[Picture]) -> tuple[int, ...]:
    first = pictures[0]
    for picture in pictures:
        if picture.pixels.shape[:2] != first.pixels.shape[:2]:
            (height, width), (height1, width1) = picture.pixels.shape[:2], first.pixels.shape[:2]
            raise DataError(
                f"{picture.path}: {height} × {width} pixels, but {first.path} has {height1} × {width1}. Give all one "
                f"size, or pass size=({height1}, {width1}) to have them resized."
            )
    return first.pixels.shape[:2]


def _split(pictures: list[Picture], shape: tuple[int, ...], class_names: tuple[str, ...]) -> Split:
    inputs = np.empty((len(pictures), *shape), np.uint8)
    for image, picture in zip(inputs, pictures, strict=True):
        image[:] = picture.pixels if picture.pixels.ndim == 2 else np.moveaxis(picture.pixels, -1, 0)
    number = {name: i for i, name in enumerate(class_names)}
    return Split(inputs, np.array([number[picture.label] for picture in pictures], np.int32))


def _prints(pictures: dict[str, list[Picture]]) -> Prints:
    """Of each class folder, by its name below the root."""
    files: dict[str, list[tuple[str, str]]] = {}
    for part, found in pictures.items():
        for picture in found:
            name = f"{part}/{picture.label}" if len(pictures) > 1 else picture.label
            files.setdefault(name, []).append((picture.path.name, picture.digest))
    return {name: folder_print(items) for name, items in files.items()}


def colour_of(found: Counter[str]) -> str:
    """What images were found, in words."""
    if not found["grey"] or not found["colour"]:
        return "grey" if found["grey"] else "colour"
    return f"mixed, all made colour: {found['grey']} grey, {found['colour']} colour"
