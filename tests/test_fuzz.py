"""A few hundred of the damaged inputs that `benchmarks/fuzz.py` makes by the thousand."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import fuzz


def test_bad_input_ends_in_an_error_of_ours(tmp_path):
    said = []
    outcomes = fuzz.fuzz(fuzz.prepare(tmp_path), range(300), said.append)
    assert not said
    assert set(outcomes) == set(fuzz.FINE)
    assert outcomes["refused"] > 100
