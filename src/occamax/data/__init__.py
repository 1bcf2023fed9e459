"""Named image sets: found on this machine, embedded, or downloaded; checked; read into arrays."""

from ._dataset import Dataset as Dataset
from ._dataset import Split as Split
from ._dataset import Standardise as Standardise
from ._locate import data_folders as data_folders
from ._locate import find as find
from ._locate import load as load
from ._locate import load_data as load_data
from ._sources import SOURCES as SOURCES
from ._sources import Source as Source
from ._stream import Stream as Stream
from ._stream import open_arrays as open_arrays
