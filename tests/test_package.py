"""What a user meets first: the import, the help, the names."""

import ast
import subprocess
import sys
from pathlib import Path

import occamax


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_touches_no_device_and_no_jax():
    assert run("import occamax, sys; print('jax' in sys.modules)").strip() == "False"


def test_help_does_not_wait_for_jax():
    code = "import sys; sys.argv = ['occamax', '--help']\nfrom occamax.cli import main\n"
    output = run(code + "try:\n main()\nexcept SystemExit:\n print('jax' in sys.modules)")
    assert "train" in output
    assert output.strip().endswith("False")


def test_using_a_name_initialises_no_device():
    code = "import occamax; occamax.fit, occamax.BMR; from jax._src import xla_bridge; print(xla_bridge._backends)"
    assert run(code).strip() == "{}"


def test_every_public_name_is_there_and_typed():
    """The names that are loaded when used are those that type checkers see."""
    for name in dir(occamax):
        assert getattr(occamax, name) is not None
    tree = ast.parse(Path(occamax.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == set(dir(occamax)) - {"__version__"}


def test_errors_are_one_line_for_the_user():
    result = subprocess.run(
        [sys.executable, "-m", "occamax", "evaluate", "no-such-folder"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stderr.startswith("error: no-such-folder: is no run folder")
    assert "Traceback" not in result.stderr
