"""The bottom: files that are whole or not there, arrays with digests, locks, read-backs."""

from .arrays import check_arrays as check_arrays
from .arrays import load_arrays as load_arrays
from .arrays import load_metadata as load_metadata
from .arrays import save_arrays as save_arrays
from .files import copy_atomic as copy_atomic
from .files import write_atomic as write_atomic
from .lock import RunLock as RunLock
