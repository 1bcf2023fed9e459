"""The faults that `benchmarks/mutants.py` plants are still those of today's source, and their tests are there. Whether
they are seen takes longer to say, and is said there."""

import ast
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import mutants
from faults import FAULTS

ROOT = mutants.ROOT


def test_every_text_is_found_exactly_once():
    for fault in FAULTS:
        mutants.check(fault)
    assert len({fault.name for fault in FAULTS}) == len({(f.file, f.old, f.new) for f in FAULTS}) == len(FAULTS)


def test_a_fault_can_be_planted():
    """What comes out is Python: a fault that is seen because nothing can be imported says nothing of the tests."""
    for fault in FAULTS:
        ast.parse(mutants.check(fault).replace(fault.old, fault.new))


def test_the_tests_that_should_see_them_are_there():
    known = {}
    for name in {test for fault in FAULTS for test in fault.tests}:
        path, _, function = name.partition("::")
        if path not in known:
            tree = ast.parse((ROOT / "tests" / path).read_text())
            known[path] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not function or function.partition("[")[0] in known[path], name
    assert all(fault.tests for fault in FAULTS)


def test_every_fault_was_planted_as_it_is_and_killed():
    """And the pages count them."""
    known = mutants.read(ROOT / "results" / "mutants.jsonl")
    missing = [fault.name for fault in FAULTS if not mutants.is_answered(fault, known.get(fault.name))]
    assert missing == [], "run python benchmarks/mutants.py: it plants those that are new or changed, or survived"
    assert set(known) == {fault.name for fault in FAULTS}
    killed = sum(line["outcome"] == "killed" for line in known.values())
    for page, words in (
        ("benchmarks/README.md", r"All (\d+) are killed"),
        ("docs/lab/index.md", r"All (\d+) of `.*faults"),
    ):
        assert re.findall(words, (ROOT / page).read_text()) == [str(killed)], page


def test_a_text_that_is_gone_is_said():
    gone = FAULTS[0]._replace(old="no such words")
    with pytest.raises(mutants.PlantingError, match="found 0 times"):
        mutants.check(gone)
