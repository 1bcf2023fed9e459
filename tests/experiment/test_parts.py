"""Checkpoints in parts: what several hosts wrote, each its own, is read by any number of them and by one alone."""

import importlib.util
import json
import shutil

import jax
import numpy as np
import pytest

from occamax.errors import ArgumentError, RunError
from occamax.experiment.checkpoint import load_state, state_arrays
from occamax.experiment.devices import Devices
from occamax.experiment.folder import Place, RunFolder
from occamax.storage import load_arrays
from occamax.storage.parts import Parts, next_name, require_orbax

from .part_runs import FIRST, MIDDLE, pause_of, program_on, record_on, write_record
from .test_devices import begin, coordinator, finish


def hosts(what, out, count):
    where = coordinator()
    return [begin("tests.experiment.part_runs", what, out, where, count, i, devices=5) for i in range(count)]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """By two hosts, which were killed in a third save."""
    if importlib.util.find_spec("orbax") is None:
        pytest.skip("orbax is not installed")
    out = tmp_path_factory.mktemp("parts")
    both = hosts("save", out, 2)
    said = [process.communicate(timeout=120) for process in both]
    assert both[0].returncode == 9, said
    return out


@pytest.fixture
def copy(written, tmp_path):
    return RunFolder(shutil.copytree(written, tmp_path / "run"))


def test_one_host_reads_what_two_wrote_bit_for_bit(written):
    program = program_on(Devices())
    found = RunFolder(written).checkpoints()
    assert list(found) == [MIDDLE, FIRST]
    loaded, wanted = load_state(found[MIDDLE], program.shape_of_one(), MIDDLE), pause_of(program)
    assert loaded.pause is not None
    assert wanted.before is not None
    for own, whole in ((loaded.state, wanted.state), (loaded.pause.before, wanted.before)):
        ours = state_arrays(jax.tree.map(lambda leaf: leaf[None], own))
        theirs = state_arrays(whole)
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_two_hosts_record_of_a_reduction_what_one_does(written, tmp_path):
    """And no vector was gathered for it, nor for the checkpoint in the middle of an epoch that keeps it."""
    program = program_on(Devices())
    write_record(tmp_path, program)
    folders = tmp_path, written / "recorded"
    alone, both = (load_arrays(path / "reductions" / "epoch-0001.safetensors")[0] for path in folders)
    assert alone.keys() == both.keys()
    assert all(np.array_equal(alone[name], both[name]) for name in alone)
    lines = [json.loads((path / "reductions.jsonl").read_text()) for path in folders]
    sums = [line.pop("predicted") for line in lines]  # in another order
    assert np.isclose(*sums, rtol=1e-6)
    assert lines[0] == lines[1]
    paused = load_state(RunFolder(written).checkpoint, program.shape_of_one(), MIDDLE).pause
    assert paused is not None
    assert paused.record is not None
    record = record_on(Devices())
    assert np.array_equal(paused.record.delta_f[: record.delta_f.size], record.delta_f[0])
    assert np.array_equal(paused.record.mask, record.mask[0])


def test_three_hosts_read_their_own_of_what_two_wrote(written):
    """Fifteen devices instead of ten: they fill the vectors up to another length."""
    used = len(load_arrays(RunFolder(written).checkpoint)[0]["posterior.mean"])
    assert -used % 10 != -used % 15
    said = [line.split() for line, _ in finish(*hosts("read", written, 3))]
    third = -(-used // 15) * 5
    assert [words[-2:] for words in said] == [[str(third), str(3 * third)]] * 3


def test_a_killed_save_leaves_the_one_before_and_is_tidied_up(copy):
    spoken_of = {Parts.from_text(_metadata(path), path).name for path in (copy.checkpoint, copy.previous)}
    assert spoken_of == {"000001", "000002"}
    assert (copy.path / "parts" / "000003").is_dir()
    (copy.path / "parts" / "000004.orbax-checkpoint-tmp").mkdir()  # as a kill in the middle of writing leaves it
    assert next_name(copy.path) == "000005"
    copy.save_state(load_arrays(copy.checkpoint)[0], Place(2))  # one host goes on, in one file
    assert {path.name for path in (copy.path / "parts").iterdir()} == {"000002"}
    assert list(copy.checkpoints()) == [Place(2), MIDDLE]


def _metadata(path):
    from occamax.storage import load_metadata

    return load_metadata(path)


def test_damaged_parts_are_noticed_and_named(copy, capsys):
    files = [path for path in (copy.path / "parts" / "000002").rglob("*") if path.is_file()]
    largest = max(files, key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    with pytest.raises(RunError, match=r"does not match its digest\. The one before it"):
        copy.chosen_checkpoint()
    assert list(copy.checkpoints()) == [FIRST]
    assert "Going on from" in capsys.readouterr().err
    largest.unlink()
    with pytest.raises(RunError, match="cannot be read"):
        load_arrays(copy.checkpoint)
    shutil.rmtree(copy.path / "parts")
    with pytest.raises(RunError, match="no checkpoint can be used"):
        copy.checkpoints()


def test_what_another_host_found_counts(copy):
    with pytest.raises(RunError, match="as another host found"):
        copy.checkpoints(0, 2, lambda _: True)


@pytest.mark.parametrize("said", ["{}", "[]", "nothing", '{"name": "../x", "arrays": {}, "used": 1, "files": {}}'])
def test_what_a_file_says_of_its_parts_is_read_with_care(said, tmp_path):
    with pytest.raises(RunError, match="what it says of its parts cannot be read"):
        Parts.from_text({"parts": said}, tmp_path)


def test_without_orbax_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ArgumentError, match=r"pip install 'occamax\[orbax\]'"):
        require_orbax()
