"""ResNet-20: its norm by hand, its size, and that both kinds of it train."""

import equinox as eqx
import jax
import numpy as np
import pytest

import occamax as ox
from occamax.networks import NETWORKS, FilterResponseNorm, ResNet, plain_convolutions
from occamax.networks._parts import convolve_padded
from occamax.networks.resnet import batch_norm

from ..toys import filled, normal


def test_a_channel_is_divided_by_its_root_mean_square():
    norm = eqx.tree_at(lambda n: (n.gain, n.shift), FilterResponseNorm(3), (normal(3, 1, 1), normal(3, 1, 1, seed=1)))
    x = normal(3, 4, 5, seed=2)
    found, _ = norm(x)
    root = np.sqrt((np.asarray(x, np.float64) ** 2).mean((1, 2), keepdims=True) + 1e-6)
    assert np.allclose(found, x / root * norm.gain + norm.shift, atol=1e-6)


@pytest.mark.parametrize("name", ["resnet20", "resnet20-bn"])
def test_it_has_as_many_weights_as_the_literature_says(name):
    """.27 million (He et al. 2016), with convolutions where the width changes."""
    network = eqx.filter_eval_shape(NETWORKS[name].network, (3, 32, 32), 10)
    module = network[0] if isinstance(network, tuple) else network
    leaves = jax.tree.leaves(eqx.filter(module, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct)))
    assert sum(np.prod(leaf.shape) for leaf in leaves if leaf.shape) == 272_282


@pytest.mark.parametrize("norm", [FilterResponseNorm, batch_norm])
def test_it_trains_and_is_pruned(norm):
    shape, options = (1, 8, 8), {"widths": (2, 4), "blocks": 1, "norm": norm}
    made, state = eqx.nn.make_with_state(ResNet)(shape, 3, **options, key=jax.random.key(0))
    made = made if norm is FilterResponseNorm else (made, state)
    rng = np.random.default_rng(0)
    data = rng.normal(size=(40, *shape)).astype(np.float32), rng.integers(0, 3, 40)
    fitted = ox.fit(
        made, data, ox.NaturalBMR(), sparsity=0.5, epochs=3, steps_per_epoch=2, batch_size=8, num_samples=2,
        progress=False,
    )  # fmt: skip
    assert fitted.sparsity == pytest.approx(0.5, abs=0.01)
    assert np.isfinite(fitted.predict(data[0][:4], 2)).all()


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "groups"),
    [(3, 1, 1, 1), (3, 2, 1, 1), (1, 2, 0, 1), (5, 2, "SAME", 1), (3, 1, 1, 4), (5, 2, "SAME", 4)],
)
def test_a_convolution_as_a_product_is_the_convolution(kernel, stride, padding, groups):
    layer = filled(eqx.nn.Conv2d, 4, 4, kernel, stride, padding=padding, groups=groups, use_bias=False)
    image = normal(4, 8, 7)
    assert np.allclose(convolve_padded(layer, image), layer(image), atol=1e-5)
    with plain_convolutions():
        assert np.array_equal(convolve_padded(layer, image), layer(image))
