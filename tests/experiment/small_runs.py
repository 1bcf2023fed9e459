"""Small runs that many tests share. There is one set of shapes, so that what one test compiles the others find."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import occamax as ox
from occamax.fitting import fit  # at once: tests change what is inside of its modules

BUDGET = {"epochs": 4, "steps_per_epoch": 6, "batch_size": 16, "num_samples": 2}
CHUNK = 2  # steps between two looks at whether to stop


class Normed(eqx.Module):
    """Everything that a step must keep track of: a convolution, BatchNorm with its state, dropout with its key."""

    conv: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    dropout: eqx.nn.Dropout
    output: eqx.nn.Linear

    def __init__(self, outputs=3, width=3, *, key):
        one, two = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(1, width, 3, key=one)
        self.norm = eqx.nn.BatchNorm(width, axis_name="batch", mode="batch")
        self.dropout = eqx.nn.Dropout(0.1)
        self.output = eqx.nn.Linear(width * 16, outputs, key=two)

    def __call__(self, x, state, *, key=None):
        x, state = self.norm(self.conv(x), state)
        return self.output(self.dropout(jax.nn.relu(x).ravel(), key=key)), state


class Small(eqx.Module):
    """6 × 6 pixels → 5 → classes, without a state."""

    first: eqx.nn.Linear
    output: eqx.nn.Linear

    def __init__(self, shape=(1, 6, 6), outputs=3, *, key):
        one, two = jax.random.split(key)
        self.first = eqx.nn.Linear(int(np.prod(shape)), 5, key=one)
        self.output = eqx.nn.Linear(5, outputs, key=two)

    def __call__(self, x):
        return self.output(jnp.tanh(self.first(x.ravel())))


def build_small(shape, outputs, *, key):
    """For the command line: `tests.experiment.small_runs:build_small`."""
    return Small(shape, outputs, key=key)


def build_normed(shape, outputs, *, key):
    return eqx.nn.make_with_state(Normed)(outputs, key=key)


def numbered(tree):
    """A module with numbers that numpy draws in place of its arrays."""
    rng = np.random.default_rng(0)

    def fill(leaf):
        is_shape = isinstance(leaf, jax.ShapeDtypeStruct)
        return jnp.asarray(rng.normal(size=leaf.shape).astype(leaf.dtype)) if is_shape else leaf

    return jax.tree.map(fill, tree)


def normed(width=3):
    return eqx.nn.make_with_state(Normed)(3, width, key=jax.random.key(0))


def small():
    return numbered(eqx.filter_eval_shape(Small, key=jax.random.key(0)))


def pixels(count=150, seed=0):
    """Bytes of three classes: the brightest third of an image says which. Four fifths are for training."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, count)
    images = rng.integers(0, 120, (count, 1, 6, 6))
    for place, name in enumerate(classes):
        images[place, 0, :, 2 * name : 2 * name + 2] += 120
    return images.astype(np.uint8), classes.astype(np.int32)


def dataset():
    images, classes = pixels()
    return ox.dataset_of((images[:120], classes[:120]), (images[120:], classes[120:]), class_names=("a", "b", "c"))


def save_npz(path):
    """The data set as a file, for the command line."""
    parts = {"train": dataset().train, "test": dataset().test}
    arrays = {f"{name}_{what}": getattr(part, what) for name, part in parts.items() for what in ("inputs", "targets")}
    np.savez(path, **arrays)
    return path


AUGMENT = (ox.RandomCrop(1), ox.HorizontalFlip())


def fit_normed(out=None, method=None, **options):
    """Buffers, dropout, augmentation, a guard and held-out examples, all at once."""
    given = {"augment": AUGMENT, "progress": False, **BUDGET, **options}
    return fit(normed(), dataset(), ox.BMR() if method is None else method, out=out, **given)


def streamed(folder):
    """The training examples as a stream of two files."""
    images, classes = dataset().train.inputs, dataset().train.targets
    for part, rows in enumerate((slice(0, 50), slice(50, None))):
        np.save(folder / f"inputs-{part}.npy", images[rows])
        np.save(folder / f"targets-{part}.npy", classes[rows])
    return ox.open_arrays(folder)


def fit_streamed(folder, out=None, **options):
    """The same as `fit_normed`, from files."""
    test = dataset().test.inputs, dataset().test.targets
    given = {"augment": AUGMENT, "preprocess": dataset().standardise(), "test": test, "progress": False, **BUDGET}
    return fit(normed(), streamed(folder), ox.BMR(), out=out, **given | options)


def fit_small(out=None, method=None, **options):
    """The paper's method on a network without any of that."""
    given = {"progress": False, **BUDGET, **options}
    return fit(small(), dataset(), ox.PaperBMR() if method is None else method, out=out, **given)


FITS = {"bmr": fit_normed, "bmr-paper": fit_small}
