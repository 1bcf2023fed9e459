"""What a user meets first: the import, the help, the names."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import occamax


@pytest.fixture(scope="module")
def said():
    """What a fresh process says of itself, one thing after the other."""
    code = """
import contextlib, io, sys
import occamax
print('jax' in sys.modules)
from occamax.cli import main
sys.argv = ['occamax', '--help']
text = io.StringIO()
with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
    main()
print('train' in text.getvalue(), 'jax' in sys.modules)
occamax.fit, occamax.BMR, occamax.load
from jax._src import xla_bridge
print(xla_bridge._backends)
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()


def test_importing_touches_no_device_and_no_jax(said):
    assert said[0] == "False"


def test_help_does_not_wait_for_jax(said):
    assert said[1] == "True False"


def test_using_a_name_initialises_no_device(said):
    assert said[2] == "{}"


def test_every_public_name_is_there_and_typed():
    """The names that are loaded when used are those that type checkers see."""
    for name in dir(occamax):
        assert getattr(occamax, name) is not None
    tree = ast.parse(Path(occamax.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == set(dir(occamax)) - {"__version__"}
    with pytest.raises(AttributeError, match="no attribute 'Evidence'"):
        occamax.Evidence  # noqa: B018


def test_names_of_one_kind_have_one_home():
    assert occamax.criteria.Evidence
    assert occamax.schedules.Cosine
    assert occamax.init.VarianceScaled


def test_errors_are_one_line_for_the_user():
    result = subprocess.run(
        [sys.executable, "-m", "occamax", "evaluate", "no-such-folder"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stderr.startswith("error: no-such-folder: is no run folder")
    assert "Traceback" not in result.stderr
