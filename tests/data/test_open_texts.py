"""Texts that are cut into tokens when a batch needs them are those that are read into memory."""

import json

import numpy as np
import pytest

import occamax as ox
from occamax.data import _text_stream as text_stream
from occamax.data import reopen
from occamax.data._text import TextEncoder
from occamax.errors import ArgumentError, DataError

pytest.importorskip("tokenizers", reason="texts need tokenizers: pip install 'occamax[text]'")


def lines(count=60):
    rng = np.random.default_rng(0)
    words = {"gut": ("schöner Film", "great fun", "gern wieder"), "bad": ("dull film", "poor, poor fun", "")}
    labels = [str(rng.choice(list(words))) for _ in range(count)]
    return [(label, f"{rng.choice(words[label])} {number}".strip()) for number, label in enumerate(labels)]


@pytest.fixture
def path(tmp_path):
    """With a mark at the beginning, empty lines, and both ends of lines; the last line has none."""
    pairs = [f"{label}\t{text}" for label, text in lines()]
    content = "\r\n".join(pairs[:30]) + "\n\n" + "\n".join(pairs[30:])
    (tmp_path / "films.txt").write_bytes(b"\xef\xbb\xbf" + content.encode())
    return tmp_path / "films.txt"


def test_the_texts_are_those_of_the_file(path):
    stream, pairs = ox.open_texts(path, words=80), lines()
    assert stream.class_names == ("bad", "gut")
    assert len(stream) + len(stream.test) == 60
    found = {}
    for part in (stream, stream.test):
        own = part.inputs[0].texts(np.arange(len(part)))
        found |= {text: stream.class_names[target] for text, target in zip(own, part.targets, strict=True)}
    assert found == {text: label for label, text in pairs}
    encoder = TextEncoder.from_dict(stream.origin["encoder"])
    assert encoder == TextEncoder.learnt(stream.inputs[0].texts(np.arange(len(stream))), 80)
    rows = np.random.default_rng(1).integers(0, len(stream), (2, 3, 9))
    inputs, targets = stream.take(rows)
    wanted = encoder.encode(stream.inputs[0].texts(rows.ravel()))
    assert np.array_equal(inputs, wanted.reshape(*rows.shape, encoder.length))
    assert np.array_equal(targets, stream.targets[rows])


def test_many_texts_are_sampled_to_learn_words_from(path, monkeypatch):
    monkeypatch.setattr(text_stream, "SAMPLED", (10, 2**20))
    learnt = []
    monkeypatch.setattr(
        TextEncoder, "learnt", lambda texts, words: learnt.extend(texts) or TextEncoder(("[PAD]", "[UNK]"), 4)
    )
    stream = ox.open_texts(path)
    own = stream.inputs[0].texts(np.arange(len(stream)))
    assert len(learnt) == 10
    assert (learnt[0], learnt[-1]) == (own[0], own[-1])


def test_a_test_file_is_the_test_set(path):
    path.rename(path.parent / "train.txt")
    (path.parent / "test.txt").write_text("gut\tFilm\n")
    stream = ox.open_texts(path.parent)
    assert (len(stream), len(stream.test), stream.test.targets.tolist()) == (60, 1, [1])
    (path.parent / "test.txt").write_text("fine\tFilm\n")
    with pytest.raises(DataError, match="holds the label 'fine'"):
        ox.open_texts(path.parent)


def test_it_is_opened_again_with_the_words_of_then(path, monkeypatch):
    stream = ox.open_texts(path)
    with monkeypatch.context() as patch:
        patch.setattr(TextEncoder, "learnt", lambda *_: pytest.fail("learnt again"))
        again = reopen(json.loads(json.dumps(stream.origin)))
    assert np.array_equal(again.take(np.arange(9))[0], stream.take(np.arange(9))[0])
    path.write_bytes(path.read_bytes().replace(b"great", b"grand"))  # as long as it was
    with pytest.raises(DataError, match="other contents"):
        reopen(stream.origin)
    path.write_bytes(path.read_bytes() + b"\ngut\tmore")
    with pytest.raises(DataError, match="longer or shorter"):
        stream.take(np.arange(9))
    with pytest.raises(DataError, match=r"films.txt held \d+ bytes, now \d+"):
        reopen(stream.origin)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"good\tfilm\nfilm\n", "line 2: must be a label and a text"),
        (b"good\tfilm\n\tfilm\n", "line 2: must be a label and a text"),
        (b"good\tfilm\nbad\t\xff\n", "line 2: is no text in UTF-8"),
        (b"\n \n", "holds no texts"),
        (b"good\tfilm\ngood\tother\n", "has one label, good"),
    ],
)
def test_what_is_no_file_of_texts_is_refused(content, says, tmp_path):
    (tmp_path / "films.txt").write_bytes(content)
    with pytest.raises(DataError, match=says):
        ox.open_texts(tmp_path / "films.txt")
    with pytest.raises(DataError, match="No such file"):
        ox.open_texts(tmp_path / "none.txt")
    with pytest.raises(ArgumentError, match="words: 2 given"):
        ox.open_texts(tmp_path / "films.txt", words=2)
