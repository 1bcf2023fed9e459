"""Streams of images and of texts train as what is read into memory does, and go on where they stopped."""

import jax
import numpy as np
import pytest
from PIL import Image

import occamax as ox
from occamax.data import Stream
from occamax.fitting import fit

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
