"""Data sets: named ones, found on this machine, embedded or downloaded; a user's folder, file or arrays. Checked, and
read into arrays."""

from ._arrays import dataset_of as dataset_of
from ._dataset import Dataset as Dataset
from ._dataset import Split as Split
from ._image_stream import open_images as open_images
from ._locate import data_folders as data_folders
from ._locate import find as find
from ._locate import load as load
from ._open import load_data as load_data
from ._open import open_stream as open_stream
from ._open import reopen as reopen
from ._preprocess import AsIs as AsIs
from ._preprocess import Preprocess as Preprocess
from ._preprocess import Standardise as Standardise
from ._preprocess import StandardiseColumns as StandardiseColumns
from ._preprocess import preprocess_from as preprocess_from
from ._sources import SOURCES as SOURCES
from ._sources import Source as Source
from ._stream import Stream as Stream
from ._stream import open_arrays as open_arrays
from ._table import TableEncoder as TableEncoder
from ._table import read_table as read_table
from ._text_stream import open_texts as open_texts
from .augment import Augmentation as Augmentation
from .augment import Augmentations as Augmentations
from .augment import HorizontalFlip as HorizontalFlip
from .augment import RandomCrop as RandomCrop
from .augment import as_augmentation as as_augmentation
from .augment import check_augmentation as check_augmentation
