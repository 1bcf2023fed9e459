"""Rounding by evidence, and packing: what is lost is what the posterior says, and packing loses nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from occamax.errors import ExportError
from occamax.export import packing
from occamax.export.onnx_codes import BASES, in_words, smallest_form
from occamax.export.rounding import (
    WIDTHS,
    Rounding,
    Survivors,
    _book,
    at_bits,
    at_loss,
    chosen_widths,
    joined,
    priced,
    survivors_of,
    with_bits,
)


def layer(count=400, seed=0, start=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=count) + 0.3 * np.sign(rng.normal(size=count))
    return Survivors(start + np.arange(count), values, np.exp(rng.normal(4, 1, count)))


def test_the_loss_is_the_exact_one_of_a_linear_regression():
    """Conjugate, orthogonal design, noise of deviation one: the posterior is exact and independent. At KL weight β its
    precision is XᵀX / β + 1, and what moving its mean costs of E[−ln p] + β KL is computed here directly."""
    rng, beta = np.random.default_rng(0), 0.6
    design = np.linalg.qr(rng.normal(size=(50, 4)))[0] * np.array([9.0, 5, 3, 2])
    targets = design @ np.array([1.0, -0.7, 0.5, 0.9]) + rng.normal(size=50)
    gram = np.diag(design.T @ design)
    precision = gram / beta + 1
    mean = (design.T @ targets / beta) / precision

    def bound(means):
        nll = 0.5 * np.sum((targets - design @ means) ** 2) + 0.5 * np.sum(gram / precision)
        return nll + beta * 0.5 * np.sum(means**2 + 1 / precision - 1 + np.log(precision))

    (own,) = survivors_of(mean, precision**-0.5, np.ones(4, bool), [(0, 4)], beta)
    found = with_bits(own, 1)
    assert len(np.unique(found.values)) == 1
    assert found.loss == pytest.approx(bound(found.values) - bound(mean), rel=1e-9)
    assert found.loss > 1


def test_a_codebook_is_the_best_one():
    """Three values for seven weights, against every way to cut the sorted weights in three."""
    rng = np.random.default_rng(3)
    own = Survivors(np.arange(7), np.sort(rng.normal(size=7)), np.exp(rng.normal(size=7)))

    def cost(parts):
        means = [np.average(own.values[p], weights=own.precision[p]) for p in parts]
        return sum(0.5 * np.sum(own.precision[p] * (own.values[p] - m) ** 2) for p, m in zip(parts, means, strict=True))

    cuts = [(i, j) for i in range(1, 6) for j in range(i + 1, 7)]
    best = min(cost([slice(0, i), slice(i, j), slice(j, 7)]) for i, j in cuts)
    assert with_bits(own, 2).loss == pytest.approx(best, rel=1e-3)  # values of float16


def test_exact_weights_are_kept_more_exactly():
    own = layer()
    plain = own._replace(precision=np.ones(400))
    weighted, even = with_bits(own, 3).values, with_bits(plain, 3).values
    loss = lambda values: 0.5 * np.sum(own.precision * (values - own.values) ** 2)  # noqa: E731
    assert loss(weighted) < loss(even)


def test_losses_and_sizes_are_kept_to():
    layers, sizes = [layer(300), layer(200, 1, 300)], (3000, 900)
    for limit in (0.5, 5.0, 60.0):
        for found in (at_loss(layers, sizes, limit), chosen_widths(layers, limit)):
            assert sum(own.loss for own in found) <= limit
    losses = [sum(own.loss for own in at_loss(layers, sizes, limit)) for limit in (1.0, 30.0)]
    assert losses[1] > 10  # what is allowed is used
    for limit in (1000, 3000):
        found = at_bits(layers, sizes, limit)
        assert sum(own.bits for own in found) <= limit
    assert sum(own.bits for own in found) > 2700
    assert any((own.values == 0).any() for own in at_bits(layers, sizes, 1000))


def test_bits_are_those_that_a_coder_takes():
    """The bits of a priced layer are near those of its packed bytes."""
    own = layer(4000)
    found = priced(own, 0.1, 40_000, _book(own, 64))
    array = np.zeros(40_000, np.float32)
    array[np.sort(np.random.default_rng(0).choice(40_000, 4000, replace=False))] = found.values
    size = len(packing.pack({"a": array}, {})) - len(packing.pack({"a": array[:1]}, {}))
    assert size == pytest.approx(found.bits / 8, rel=0.05)
    assert len(found.values[found.values == 0]) == 0


def test_the_vector_is_put_together():
    layers = [layer(30), layer(20, 1, 40)]
    vector = np.full(70, 7.0, np.float32)
    found = joined(layers, [with_bits(own, 2) for own in layers], vector)
    assert found.levels == (3, 3)
    assert (found.weights[30:40] == 7).all()
    assert len(np.unique(found.weights[:30])) == 3
    assert found.removed == 0
    assert found.loss == pytest.approx(sum(with_bits(own, 2).loss for own in layers))


def test_a_point_estimate_has_equal_weights():
    (own,) = survivors_of(np.float32([1, 0, 2, 3]), None, np.array([1, 1, 0, 1], bool), [(0, 4)], 0.5)
    assert own.places.tolist() == [0, 3]
    assert own.precision.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("options", "word"),
    [({"bits": 9}, "--bits"), ({"max_loss": 0.0}, "--max-loss"), ({"max_bytes": 0}, "--bytes"),
     ({"bits": 4, "max_bytes": 1000}, "--bits")],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(options, word):
    with pytest.raises(ExportError, match=word):
        Rounding(**options)


def some_array(shape, levels, share, seed):
    rng = np.random.default_rng(seed)
    book = rng.normal(size=levels).astype(np.float32) if levels else None
    values = rng.normal(size=shape).astype(np.float32) if book is None else rng.choice(book, shape)
    return np.where(rng.random(shape) < share, values, np.float32(0))


@given(
    st.sampled_from([(), (0,), (5,), (1000,), (30, 40), (7, 3, 5, 5)]),
    st.sampled_from([0, 1, 3, 40, 255]),
    st.sampled_from([0.0, 0.002, 0.1, 1.0]),
    st.integers(0, 9),
)
def test_packing_loses_nothing(shape, levels, share, seed):
    arrays = {"a": some_array(shape, levels, share, seed), "i": np.arange(7), "f": np.asfortranarray(np.eye(3))}
    found, text = packing.unpack(packing.pack(arrays, {"x": "ü\n1", "y": ""}))
    assert text == {"x": "ü\n1", "y": ""}
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert np.array_equal(found[name], array)


def test_packing_is_near_the_entropy():
    array = some_array((300, 784), 8, 0.02, 0)
    share, size = np.mean(array != 0), array.size
    entropy = size * (-share * np.log2(share) - (1 - share) * np.log2(1 - share)) + 3 * size * share
    assert len(packing.pack({"a": array}, {})) < 1.03 * entropy / 8 + 200


def test_damaged_blocks_are_named():
    content = packing.pack({"a": some_array((30, 40), 8, 0.1, 0)}, {})
    for bad in (b"", content[:30], content[:-40], b"\1\0\0\0" + content[4:]):
        with pytest.raises(ValueError, match=r"no packed arrays|stream|Expecting|beyond"):
            packing.unpack(bad)


@pytest.mark.parametrize("base", BASES)
def test_digits_come_back(base):
    """As the graph takes a word apart: whole division, remainder."""
    numbers = np.random.default_rng(0).integers(0, base.base, 23).astype(np.uint8)
    words = in_words(numbers, base).astype(np.int64)
    digits = words // base.base ** np.arange(base.each) % base.base
    assert digits.ravel()[:23].tolist() == numbers.tolist()
    assert words.nbytes // 8 * np.dtype(base.dtype).itemsize == base.nbytes(23)
    assert base.base**base.each <= 2 ** (8 * np.dtype(base.dtype).itemsize)


def test_widths_are_those_of_the_bases():
    for (levels, bits), base in zip(WIDTHS, BASES, strict=True):
        assert levels == base.base - 1
        assert bits == pytest.approx(8 * np.dtype(base.dtype).itemsize / base.each)


def test_forms_take_what_is_smallest():
    sparse, dense = some_array((100, 100), 15, 0.02, 0), some_array((100, 100), 3, 1.0, 0)
    assert smallest_form(sparse).steps is not None
    assert smallest_form(dense).steps is None
    assert smallest_form(some_array((100, 100), 0, 1.0, 0)) is None
    assert smallest_form(np.zeros((100, 100), np.float32)) is None


def test_the_words_of_a_card_come_back():
    text = '{"kind":"AdaBelief","other":"é"}' * 3
    short = packing.short_text(text)
    assert short.isascii()
    assert len(short) < len(text)
    assert packing.whole_text(short) == text
    assert packing.whole_text(text) == text
    with pytest.raises(ValueError, match="bad base85"):
        packing.whole_text(short[:6] + '"')


@pytest.mark.parametrize(("share", "levels"), [(0.002, 1), (0.05, 12), (0.1, 30), (0.4, 200), (1.0, 12), (1.0, 60)])
def test_onnxruntime_unfolds_arrays_when_it_loads_them(share, levels, tmp_path):
    """To the bit, with steps to nowhere and without; and nothing of it is left to be computed."""
    import onnx
    import onnxruntime
    from onnx import helper

    from occamax.export.onnx_builder import Builder
    from occamax.export.onnx_functions import functions

    array = some_array((40, 90), levels, share, 3)
    builder = Builder()
    name = builder.constant(array)
    used = {node.op_type for node in builder.first}
    assert used == ({"sparse"} if share < 1 else {"dense"})
    shapes = [helper.make_tensor_value_info(each, onnx.TensorProto.FLOAT, [40, 90]) for each in ("in", "out")]
    nodes = [*builder.first, helper.make_node("Add", ["in", name], ["out"])]
    graph = helper.make_graph(nodes, "g", shapes[:1], shapes[1:], builder.constants)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("occamax", 1)]
    model = helper.make_model(graph, functions=functions(20, used), opset_imports=imports, ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.optimized_model_filepath = 3, str(tmp_path / "loaded.onnx")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(None, {"in": np.zeros((40, 90), np.float32)})[0], array)
    assert [node.op_type for node in onnx.load(tmp_path / "loaded.onnx").graph.node] == ["Add"]
