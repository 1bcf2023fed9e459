"""C headers: compiled with every warning an error, they say what the network says. Draws in one file say their mean."""

import ctypes
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.errors import ExportError
from occamax.evaluation.predictive import predict
from occamax.export import c_library
from occamax.export.c_file import constants_of, write_c
from occamax.export.c_library import compile_c, compiler
from occamax.export.draws import averaged, drawn_weights
from occamax.export.exporting import export_network, named, trained
from occamax.export.predictor import open_export, open_posterior
from occamax.export.rounding import Rounding
from occamax.structure.compaction import compact
from occamax.structure.interpreter import evaluate

from ..tolerances import SINGLE
from .samples import exportable, inputs_for
from .test_onnx import bound

needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler: none of cc, gcc, clang is installed")
NETWORKS = ("lenet", "grouped", "pooled", "table", "vit", "stacked")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """All networks as headers in one program, compiled once; each beside its sources."""
    folder, found, lines = tmp_path_factory.mktemp("headers"), {}, []
    for i, name in enumerate(NETWORKS):
        source = exportable(name)
        graph = compact(bound(source))[0]
        header = write_c(graph, named(source, graph), f"net{i}")
        (folder / f"net{i}.h").write_text(header.text)
        kind = "float" if source.card.input_dtype == "float32" else "unsigned char"
        lines += [f'#include "net{i}.h"', f"void call{i}(const {kind} *x, float *y) {{ net{i}(x, y); }}"]
        found[name] = i, source, graph, header
    (folder / "all.c").write_text("\n".join(lines) + "\n")
    compile_c([str(folder / "all.c"), "-shared", "-fPIC", "-o", str(folder / "all.so"), "-lm"])
    return ctypes.CDLL(str(folder / "all.so")), found


@needs_compiler
@pytest.mark.parametrize("name", NETWORKS)
def test_a_header_says_what_the_network_says(library, name):
    functions, found = library
    number, _, graph, header = found[name]
    inputs = np.ascontiguousarray(inputs_for(name, 3))
    (expected,) = evaluate(graph, [inputs])
    for x, y in zip(inputs, expected, strict=True):
        answer = np.empty(y.size, np.float32)
        pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (x, answer))
        getattr(functions, f"call{number}")(*pointers)
        assert np.allclose(answer, y.ravel(), atol=1e-4)
    assert header.constants == constants_of(header.text)
    assert "malloc" not in header.text


@needs_compiler
def test_a_header_is_exported_measured_and_read(tmp_path):
    source, path = exportable("lenet", keep=0.2), tmp_path / "x.h"
    found = export_network(source, path, "h", rounding=Rounding(bits=3))
    assert 0 < max(found.levels) <= 7
    assert found.difference < 1e-4
    assert found.bytes[1] < found.bytes[0] / 8
    ask, card = open_export(path)
    assert ask(inputs_for("lenet", 4)).shape == (4, 5)
    assert card.class_names == source.card.class_names


def test_what_has_no_form_in_c_is_named(tmp_path, monkeypatch):
    source = exportable("lstm")
    graph = bound(source)
    with pytest.raises(ExportError, match="has no form in C"):
        write_c(graph, named(source, graph))
    monkeypatch.setattr(c_library, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(ExportError, match="no-such-compiler"):
        compile_c([])


def test_draws_in_one_file_say_what_the_posterior_says(tmp_path):
    """The same networks that the model itself draws; no more than four here."""
    source, path = exportable("mlp"), tmp_path / "x.onnx"
    found = export_network(source, path, "onnx", draws=4)
    inputs = inputs_for("mlp", 7)
    expected = jax.jit(lambda x: predict(source.model, source.believed, jax.random.key(0), x, None, 4))(
        jnp.asarray(inputs)
    )
    assert np.allclose(open_export(path)[0](inputs), expected.expectation, atol=SINGLE)
    assert not np.allclose(trained(source)(inputs), expected.expectation, atol=1e-2)
    assert found.difference < SINGLE
    assert [kept.where for kept in found.units] == ["inputs", "layers.0", "layers.1", "layers.2"]
    for words, options in (("--draws: 0", {"draws": 0}), ("--posterior", {"with_posterior": True})):
        with pytest.raises(ExportError, match=words):
            export_network(source, path, "onnx", **options)
    with pytest.raises(ExportError, match="--draws"):
        export_network(source, tmp_path / "x.safetensors", "safetensors", draws=2)
    with pytest.raises(ExportError, match="--draws"):
        open_posterior(path, 3)


def test_an_average_of_graphs_is_theirs():
    source = exportable("lenet")
    graphs = [bound(source), compact(bound(source))[0], compact(bound(exportable("lenet", seed=3)))[0]]
    inputs = inputs_for("lenet", 3)
    expected = np.mean([evaluate(graph, [inputs])[0] for graph in graphs], 0)
    assert np.allclose(evaluate(averaged(graphs), [inputs])[0], expected, atol=1e-6)
    assert len(drawn_weights(source.model, source.believed, 2)) == 2


@pytest.mark.parametrize("form", ["onnx", "safetensors"])
def test_rounded_files_are_smaller_and_say_what_they_lost(tmp_path, form):
    """The file is the rounded network, exactly; what rounding did to the answers is beside it."""
    source = exportable("lenet", keep=0.3)
    plain, path = tmp_path / f"plain.{form}", tmp_path / f"x.{form}"
    before = export_network(source, plain, form)
    found = export_network(source, path, form, rounding=Rounding())
    alive = int(np.sum(source.believed.mask))
    assert 0 < found.loss <= 0.01 * alive
    assert found.difference < SINGLE
    assert found.figures_before == pytest.approx(before.figures, abs=1e-5)
    assert path.stat().st_size < plain.stat().st_size - 250
    gap = np.abs(open_export(path)[0](inputs_for("lenet", 9)) - trained(source)(inputs_for("lenet", 9))).max()
    assert 0 < gap < 0.1


def test_a_size_is_kept_to_or_refused(tmp_path):
    source, path = exportable("lenet", keep=0.3), tmp_path / "x.safetensors"
    whole = export_network(source, path, "safetensors", rounding=Rounding()).bytes[1]
    found = export_network(source, path, "safetensors", rounding=Rounding(max_bytes=whole - 150))
    assert path.stat().st_size == found.bytes[1] <= whole - 150
    with pytest.raises(ExportError, match="--sparsity"):
        export_network(source, path, "safetensors", rounding=Rounding(max_bytes=whole - 400, max_loss=0.001))
    with pytest.raises(ExportError, match="too few"):
        export_network(source, path, "safetensors", rounding=Rounding(max_bytes=300))
    assert Path(path).stat().st_size == found.bytes[1]


def test_a_rounded_posterior_is_smaller_and_says_nearly_the_same(tmp_path):
    source = exportable("lenet", keep=0.3)
    paths = [tmp_path / f"{name}.safetensors" for name in ("whole", "rounded")]
    for path, rounding in zip(paths, (None, Rounding(bits=5)), strict=True):
        export_network(source, path, "safetensors", with_posterior=True, rounding=rounding)
    whole, short = (path.stat().st_size for path in paths)
    alive = int(np.sum(source.believed.mask))
    assert short < whole - 2 * alive
    inputs = inputs_for("lenet", 6)
    before, after = (open_posterior(path, 6)[0](inputs) for path in paths)
    assert np.allclose(before.expectation, after.expectation, atol=0.05)
    assert not np.array_equal(before.expectation, after.expectation)
    assert np.allclose(before.std, after.std, atol=0.05)
