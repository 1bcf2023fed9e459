"""The named data sets: where their files come from, how they are checked, how they are read."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ._dataset import Dataset, Split
from ._decode import check_labels, read_idx, read_records
from ._packages import Package
from ._prints import file_print
from ._sorted import unsort_images
from ._text import TextEncoder, read_rated

EMBEDDED = Path(__file__).parent / "embedded"

FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
DIGITS = tuple("0123456789")
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# fmt: off
CIFAR100 = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy",
    "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock",
    "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish", "forest",
    "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion", "lizard",
    "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange", "orchid",
    "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine", "possum",
    "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper",
    "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank", "telephone",
    "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf",
    "woman", "worm",
)
# fmt: on


@dataclass(frozen=True)
class Download:
    """One file of the official address, and its MD5 as its authors publish it."""

    url: str
    md5: str


class Source(ABC):
    """Base of all sources. `folder` is the name its files' folder has in a data folder."""

    name: str
    folder: str
    class_names: tuple[str, ...]
    downloads: tuple[Download, ...]
    package: Package | None = None  # that carries it, in place of an address
    is_archive: bool = False  # one archive that unpacks to `folder`, instead of single files
    system_folder: Path | None = None  # where a distribution's package installs it

    @property
    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """The names of the files that make up the set."""

    @abstractmethod
    def read(self, folder: Path) -> Dataset: ...

    def read_again(self, folder: Path, origin: dict[str, Any]) -> Dataset:
        """As it was read when it had this origin."""
        return self.read(folder)

    def is_in(self, folder: Path) -> bool:
        return all((folder / file).is_file() for file in self.files)


@dataclass(frozen=True)
class IdxSource(Source):
    """MNIST and its kin: four idx files."""

    name: str
    folder: str
    class_names: tuple[str, ...]
    downloads: tuple[Download, ...] = ()
    counts: tuple[int, int] = (60000, 10000)
    side: int = 28
    suffix: str = ".gz"
    system_folder: Path | None = None

    @property
    def files(self):
        return tuple(
            f"{part}-{kind}-ubyte{self.suffix}" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
        )

    def read(self, folder):
        paths = [folder / file for file in self.files]
        train, test = (self._read_split(paths[2 * i], paths[2 * i + 1], count) for i, count in enumerate(self.counts))
        return Dataset(self.name, train, test, self.class_names)

    def _read_split(self, images: Path, labels: Path, count: int) -> Split:
        pixels = self._read_images(images, count)[:, None]
        return Split(pixels, check_labels(read_idx(labels, (count,)), len(self.class_names), labels))

    def _read_images(self, path: Path, count: int) -> np.ndarray:
        return read_idx(path, (count, self.side, self.side))


@dataclass(frozen=True)
class SortedIdxSource(IdxSource):
    """The same, packed, with the pixels of the images in the order of `sort_images`."""

    suffix: str = ".xz"

    @property
    def files(self):
        return tuple(name.replace("idx3-ubyte", "idx3-ubyte.sorted") for name in super().files)

    def _read_images(self, path, count):
        return unsort_images(super()._read_images(path, count))


@dataclass(frozen=True)
class CifarSource(Source):
    """CIFAR's binary version: each record is `label_bytes` labels, the last one the class, then planes R, G, B."""

    name: str
    folder: str
    class_names: tuple[str, ...]
    label_bytes: int
    train_files: tuple[str, ...]
    test_file: str
    downloads: tuple[Download, ...] = ()
    records: int = 10000  # in the test file; the training files share five times as many
    side: int = 32
    is_archive: bool = True

    @property
    def files(self):
        return (*self.train_files, self.test_file)

    def read(self, folder):
        per_file = 5 * self.records // len(self.train_files)
        train = [self._read_file(folder / file, per_file) for file in self.train_files]
        test = self._read_file(folder / self.test_file, self.records)
        joined = Split(
            np.concatenate([part.inputs for part in train]), np.concatenate([part.targets for part in train])
        )
        return Dataset(self.name, joined, test, self.class_names)

    def _read_file(self, path: Path, count: int) -> Split:
        records = read_records(path, count, self.label_bytes + 3 * self.side**2)
        labels = check_labels(records[:, self.label_bytes - 1], len(self.class_names), path)
        return Split(records[:, self.label_bytes :].reshape(count, 3, self.side, self.side), labels)


@dataclass(frozen=True)
class RatedTexts(Source):
    """One file of rated texts as two classes, below zero and above; what is rated within `least` of zero is left out.
    The last `tested` of the shuffled texts are the test set; the words are those of the others."""

    name: str
    folder: str
    class_names: tuple[str, ...]
    file: str
    package: Package | None = None
    sha256: str | None = None  # of the file
    least: float = 0.5
    tested: int = 2000
    words: int = 4096
    downloads: tuple[Download, ...] = ()

    @property
    def files(self):
        return (self.file,)

    def read(self, folder):
        return self._read(folder, None)

    def read_again(self, folder, origin):
        return self._read(folder, TextEncoder.from_dict(origin["encoder"]))

    def _read(self, folder: Path, encoder: TextEncoder | None) -> Dataset:
        path = folder / self.file
        if self.sha256 is not None and file_print(path)["digest"] != self.sha256:
            raise DataError(f"{path}: is not the published file. Delete it, and it is fetched again.")
        rated = read_rated(path)
        clear = [i for i, rating in enumerate(rated.ratings) if abs(rating) > self.least]
        if not self.tested < len(clear):
            raise DataError(f"{path}: holds {len(clear)} texts of clear rating; more than {self.tested} are needed")
        order = np.random.default_rng(0).permutation(clear)
        train, test = order[: -self.tested], order[-self.tested :]
        known = encoder or TextEncoder.learnt([rated.texts[i] for i in train], self.words)

        def split(rows: np.ndarray) -> Split:
            targets = np.array([rated.ratings[i] > 0 for i in rows], np.int32)
            return Split(known.encode([rated.texts[i] for i in rows]), targets)

        return Dataset(self.name, split(train), split(test), self.class_names, {"encoder": known.as_dict()})


def _idx_downloads(address: str, *md5: str) -> tuple[Download, ...]:
    names = IdxSource("", "", ()).files
    return tuple(Download(f"{address}/{name}", digest) for name, digest in zip(names, md5, strict=True))


SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        SortedIdxSource("fashion_mini", "fashion_mini", FASHION, counts=(10000, 2000), system_folder=EMBEDDED),
        IdxSource(
            "fashion_mnist",
            "fashion-mnist",
            FASHION,
            _idx_downloads(
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "25c81989df183df01b3e8a0aad5dffbe",
                "bef4ecab320f06d8554ea6380940ec79",
                "bb300cfdad3c16e7a12a480ee83cd310",
            ),
            system_folder=Path("/usr/share/datasets/fashion-mnist"),
        ),
        IdxSource(
            "mnist",
            "mnist",
            DIGITS,
            _idx_downloads(
                "https://ossci-datasets.s3.amazonaws.com/mnist",
                "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "d53e105ee54ea40749a09fcbcd1e9432",
                "9fb629c4189551a2d022fa330f9573f3",
                "ec29112dd5afa0611ce80d1b7f02629c",
            ),
        ),
        CifarSource(
            "cifar10",
            "cifar-10-batches-bin",
            CIFAR10,
            1,
            tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
            "test_batch.bin",
            (Download("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),),
        ),
        CifarSource(
            "cifar100",
            "cifar-100-binary",
            CIFAR100,
            2,
            ("train.bin",),
            "test.bin",
            (Download("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),),
        ),
        RatedTexts(  # film reviews of Rotten Tomatoes, rated by twenty people each (Hutto and Gilbert 2014)
            "film_snippets",
            "film-snippets",
            ("negative", "positive"),
            "movieReviewSnippets_GroundTruth.txt",
            Package(
                "vaderSentiment",
                "3.3.2",
                "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
                ("hutto_ICWSM_2014.tar.gz",),
            ),
            "c8293b0d942e90e223ea2c0955d969040d1a1be514a978b9af0698940bd13350",
        ),
    )
}
