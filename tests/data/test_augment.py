"""Augmentation keeps shape and type, depends on its key alone, and does what it says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from occamax.data import Augmentations, HorizontalFlip, RandomCrop, as_augmentation, check_augmentation
from occamax.errors import ArgumentError


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 999),
    height=st.integers(1, 6),
    width=st.integers(1, 6),
    padding=st.integers(1, 7),
    dtype=st.sampled_from([np.uint8, np.float32]),
)
def test_a_crop_is_the_image_moved(seed, height, width, padding, dtype):
    image = np.random.default_rng(seed).integers(1, 255, (2, height, width)).astype(dtype)
    found = np.asarray(RandomCrop(padding)(jax.random.key(seed), image))
    padded = np.pad(image, ((0, 0), (padding, padding), (padding, padding)))
    places = [(i, j) for i in range(2 * padding + 1) for j in range(2 * padding + 1)]
    assert any(np.array_equal(padded[:, i : i + height, j : j + width], found) for i, j in places)
    assert found.dtype == dtype


def test_every_crop_is_as_likely_as_another():
    image = np.zeros((1, 3, 3), np.uint8)
    image[0, 1, 1] = 1
    n = 9000
    found = jax.jit(jax.vmap(RandomCrop(1), (0, None)))(jax.random.split(jax.random.key(0), n), image)
    share = np.asarray(found, np.float64).mean(0)[0]
    assert np.allclose(share, 1 / 9, atol=5 * np.sqrt(8 / 81 / n))


def test_a_flip_happens_by_its_chance():
    image = jnp.arange(6, dtype=jnp.uint8).reshape(1, 2, 3)
    keys = jax.random.split(jax.random.key(0), 4000)
    for chance in (0.0, 0.3, 1.0):
        found = jax.jit(jax.vmap(HorizontalFlip(chance), (0, None)))(keys, image)
        flipped = np.asarray((found == image[..., ::-1]).all((1, 2, 3)))
        assert np.all(flipped | np.asarray((found == image).all((1, 2, 3))))
        assert abs(flipped.mean() - chance) <= 5 * np.sqrt(chance * (1 - chance) / len(keys))


def test_parts_follow_one_another_with_a_key_each():
    image = jnp.arange(48, dtype=jnp.float32).reshape(3, 4, 4)
    parts = (RandomCrop(2), HorizontalFlip())
    both = as_augmentation(parts)
    assert both == Augmentations(parts)
    assert hash(both) == hash(Augmentations(parts))
    for seed in range(5):
        keys = jax.random.split(jax.random.key(seed))
        expected = parts[1](keys[1], parts[0](keys[0], image))
        assert jnp.array_equal(jax.jit(both)(jax.random.key(seed), image), expected)
    check_augmentation(both, image)


def test_nothing_and_single_ones_are_taken():
    def own(key, example):
        return example

    assert as_augmentation(None) is None
    assert as_augmentation([]) is None
    assert as_augmentation(own) is own
    assert as_augmentation([own, RandomCrop()]).parts == (own, RandomCrop())


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("flip", "'flip' given"),
        (3, "3 given"),
        ([RandomCrop(), 3], r"augment\[1\]: 3"),
        (RandomCrop, r"call it: RandomCrop\(\)"),
        ([HorizontalFlip], r"augment\[0\]: the class"),
        (lambda example: example, "cannot be called with"),
        ({RandomCrop()}, "given"),
    ],
)
def test_what_is_no_augmentation_is_refused(value, says):
    with pytest.raises(ArgumentError, match=says):
        as_augmentation(value)


def brighten(key, image):
    return image * 1.5


def shrink(key, image):
    return image[:, 1:]


def nothing(key, image):
    return None


def branch(key, image):
    return image if image.sum() > 0 else -image


@pytest.mark.parametrize(
    ("augment", "says"),
    [
        (brighten, r"brighten makes float32\[3, 4, 4\] of uint8\[3, 4, 4\]"),
        (shrink, r"shrink makes uint8\[3, 3, 4\]"),
        (nothing, "nothing makes a NoneType"),
        (branch, "branch fails on .*Bool"),
        (Augmentations((HorizontalFlip(), shrink)), "shrink makes"),
    ],
)
def test_an_augmentation_that_changes_an_example_is_named(augment, says):
    with pytest.raises(ArgumentError, match=says):
        check_augmentation(augment, np.zeros((3, 4, 4), np.uint8))


def test_images_are_asked_for_where_images_are_meant(unchecked):
    for augment in (RandomCrop(), HorizontalFlip()):
        with pytest.raises(ArgumentError, match=r"images \(channels, height, width\)"):
            check_augmentation(augment, np.zeros(7, np.float32))
    for make, bad in ((RandomCrop, 0), (RandomCrop, 1.5), (HorizontalFlip, 1.1), (HorizontalFlip, "often")):
        with pytest.raises(ArgumentError, match="given"):
            make(bad)
