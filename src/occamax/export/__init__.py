"""Networks that are really smaller: compaction, and files that run elsewhere."""

from .card import Card as Card
from .chain import Chain as Chain
from .compact import Kept as Kept
from .compact import compact as compact
from .compact import count as count
from .convert import to_chain as to_chain
from .exporting import Measured as Measured
from .exporting import export as export
