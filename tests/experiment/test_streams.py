"""Streams of images and of texts train as what is read into memory does, and go on where they stopped."""

import jax
import numpy as np
import pytest
from PIL import Image

import occamax as ox
from occamax.data import Stream
from occamax.data._text import TextEncoder
from occamax.export.predictor import open_export
from occamax.fitting import fit

from ..toys import filled
from .small_runs import BUDGET, pixels, small


def same(one, two):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    return all(np.array_equal(*(np.asarray(leaf) for leaf in pair)) for pair in pairs)


@pytest.fixture
def pictures(tmp_path):
    """A folder for each of three classes, of 150 images in all."""
    for i, (image, label) in enumerate(zip(*pixels(), strict=True)):
        (tmp_path / "pictures" / "abc"[label]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0]).save(tmp_path / "pictures" / "abc"[label] / f"{i}.png")
    return tmp_path / "pictures"


class WorkError(Exception):
    pass


def test_images_train_as_in_memory_and_go_on_bit_for_bit(pictures, tmp_path, monkeypatch):
    memory, taken = ox.load_data(pictures), []
    real = Stream.take

    def take(self, rows):
        found = real(self, rows)
        if rows.ndim == 3:  # seeds × steps × batch
            taken.append((rows, *found))
        return found

    def fails(epoch):
        if epoch.number == 2:
            raise WorkError

    monkeypatch.setattr(Stream, "take", take)
    how = {"progress": False, **BUDGET}
    whole = fit(small(), ox.open_images(pictures), ox.PaperBMR(), out=tmp_path / "whole", **how)
    for rows, inputs, targets in taken:
        assert np.array_equal(inputs, memory.train.inputs[rows])
        assert np.array_equal(targets, memory.train.targets[rows])
    with pytest.raises(WorkError):
        fit(small(), ox.open_images(pictures), ox.PaperBMR(), out=tmp_path / "cut", on_epoch=fails, **how)
    resumed = fit(small(), ox.open_images(pictures), ox.PaperBMR(), out=tmp_path / "cut", resume=True, **how)
    assert same(resumed.state._replace(key=0), whole.state._replace(key=0))
    again = ox.load(whole.path, small())
    assert again.evaluate()["nll"] == pytest.approx(whole.history[-1]["nll"], rel=1e-5)  # its folder is opened again


def test_texts_train_from_a_file_to_an_export_that_knows_their_words(tmp_path):
    pytest.importorskip("tokenizers", reason="texts need tokenizers: pip install 'occamax[text]'")
    words = {"good": ("lovely", "great", "fun"), "bad": ("dull", "poor", "bad")}
    rng = np.random.default_rng(0)
    lines = [(label, f"a {rng.choice(words[label])} film") for label in rng.choice(list(words), 200)]
    (tmp_path / "films.txt").write_text("\n".join(map("\t".join, lines)))
    stream = ox.open_texts(tmp_path / "films.txt", words=60)
    known = stream.origin["encoder"]["words"]
    network = filled(ox.TextTransformer, stream.shape, 2, len(known), depth=1, heads=2, width=8, hidden=16)
    how = {"epochs": 2, "steps_per_epoch": 30, "batch_size": 16, "num_samples": 2, "progress": False}
    fitted = fit(network, stream, ox.Plain(), out=tmp_path / "run", **how)
    assert fitted.history[-1]["accuracy"] > 0.9
    assert fitted.config.origin["example"]["words"] == len(known)
    again = ox.load(tmp_path / "run", network)
    assert again.evaluate()["nll"] == pytest.approx(fitted.history[-1]["nll"], rel=1e-4)
    again.export(tmp_path / "network.safetensors")
    predict, card = open_export(tmp_path / "network.safetensors")
    assert card.encoder["words"] == known
    tokens = TextEncoder.from_dict(card.encoder).encode(["a lovely film", "a dull film"])
    assert [card.class_names[i] for i in predict(tokens).argmax(1)] == ["good", "bad"]
