"""Tables, figures and pages, from run folders and nothing else."""

from .page import write_report as write_report
from .runs import Group as Group
from .runs import in_order as in_order
from .runs import read_groups as read_groups
from .table import comparison as comparison
from .table import legend as legend
from .table import print_comparison as print_comparison
from .table import winner as winner
