"""PyTorch modules go in, say the same, are trained as PyTorch trains them, and come out pruned."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import occamax as ox
from occamax.export.card import Card
from occamax.export.onnx_file import write_onnx
from occamax.interop.adapted import parts_of
from occamax.structure.calling import read_network
from occamax.structure.compaction import compact
from occamax.structure.layout import float_leaves
from occamax.structure.reading import read_graph, read_layout

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytest.importorskip("torchax", reason="torchax is not installed: make test-torch")

from ..export.test_operations import session  # noqa: E402
from ..tolerances import ADAPTED  # noqa: E402
from .torch_zoo import NETWORKS, batch_like, make  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


class Taken:
    """A module of the zoo with what was made of it."""

    def __init__(self, name):
        self.module, example = make(name)
        self.given = ox.from_torch(self.module, example)
        self.network, self.buffers, self.calling = read_network(self.given)
        self.example = jax.ShapeDtypeStruct(example.shape, example.dtype)
        self.inputs = batch_like(example)
        with torch.no_grad():
            self.expected = self.module(torch.from_numpy(self.inputs)).numpy()

    @property
    def reading(self):
        return self.network, self.buffers, self.calling, self.example


@pytest.fixture(scope="module", params=NETWORKS)
def taken(request):
    return Taken(request.param)


def test_an_unpruned_round_trip_is_exact_and_outputs_agree(taken):
    outputs, _ = jax.jit(taken.calling.apply, static_argnums=3)(taken.network, taken.buffers, taken.inputs, None)
    assert np.abs(outputs - taken.expected).max() < ADAPTED
    back = ox.to_torch(taken.given)
    assert back is not taken.module
    assert list(back.state_dict()) == list(taken.module.state_dict())
    for name, tensor in back.state_dict().items():
        assert torch.equal(tensor, taken.module.state_dict()[name]), name


def test_every_parameter_has_a_place_and_its_own_name(taken):
    layout = read_layout(*taken.reading)
    trained = dict(taken.module.named_parameters())
    assert layout.size == sum(parameter.numel() for parameter in trained.values())
    assert {block.name for block in layout.blocks} <= {name.removesuffix(".weight") for name in trained}
    assert all(block.kind != "bias" for block in layout.blocks if len(block.weight_shape) > 1)


def test_the_compacted_network_in_a_file_says_the_same(taken):
    """A third of the weights gone, and all of one unit."""
    layout = read_layout(*taken.reading)
    vector = np.array(layout.pack(taken.network))
    last = layout.bounds[-1][0] if layout.blocks[-1].kind != "embedding" else layout.size
    vector[:last][np.random.default_rng(0).random(last) < 0.3] = 0
    pruned = layout.bind(taken.network, jnp.asarray(vector))
    leaves = jax.tree.leaves(pruned)
    graph = read_graph(*taken.reading).bind({n: np.asarray(leaves[i]) for n, i in enumerate(float_leaves(pruned))})
    small, _ = compact(graph)
    expected = taken.calling.apply(pruned, taken.buffers, jnp.asarray(taken.inputs), None)[0]
    runner = session(write_onnx(small, Card(None, taken.example.shape, str(taken.example.dtype), ox.__version__)))
    (found,) = runner.run(None, {runner.get_inputs()[0].name: taken.inputs})
    assert np.abs(found - expected).max() < 1e-4
    state = jax.tree.unflatten(taken.calling.state_tree, taken.buffers) if taken.calling.has_state else None
    back = ox.to_torch(pruned if state is None else (pruned, state), masks=True)
    with torch.no_grad():
        assert np.abs(back(torch.from_numpy(taken.inputs)).numpy() - expected).max() < ADAPTED
    masked = sum(int((buffer == 0).sum()) for name, buffer in back.named_buffers() if name.endswith("_mask"))
    assert masked >= int((vector == 0).sum())


def gradients(taken, inputs, weights):
    """Of the sum of the outputs, weighed, in training mode; and the buffers afterwards."""
    keys = jax.random.split(jax.random.key(0), len(inputs))

    def total(network):
        outputs, after = taken.calling.apply(network, taken.buffers, jnp.asarray(inputs), keys)
        return (outputs * weights).sum(), after

    return eqx.filter_jit(eqx.filter_grad(total, has_aux=True))(taken.network)


def test_a_training_step_is_that_of_torch():
    """Gradients through batch statistics, and running statistics, of the whole batch."""
    taken = Taken("residual")
    weights = np.random.default_rng(2).normal(size=taken.expected.shape).astype(np.float32)
    found, after = gradients(taken, taken.inputs, weights)
    module = taken.module.train()
    (module(torch.from_numpy(taken.inputs)) * torch.from_numpy(weights)).sum().backward()
    for name, parameter in module.named_parameters():
        assert np.allclose(found.arrays[name], parameter.grad, atol=1e-4), name
    state = jax.tree.unflatten(taken.calling.state_tree, after)
    _, statistics = parts_of((taken.network, state))
    assert sorted(statistics) == ["norm.num_batches_tracked", "norm.running_mean", "norm.running_var"]
    for name, array in statistics.items():
        assert np.allclose(array, dict(module.named_buffers())[name], atol=ADAPTED), name


def test_dropout_follows_the_key_and_is_off_in_prediction():
    module, example = torch.nn.Sequential(torch.nn.Linear(3, 40), torch.nn.Dropout(0.5)), np.ones(3, np.float32)
    network = ox.from_torch(module, example)
    first, again, other = (np.asarray(network(example, key=jax.random.key(seed))) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    kept, whole = first != 0, np.asarray(network(example))
    assert 5 < kept.sum() < 35
    assert np.allclose(first[kept], 2 * whole[kept])
    assert np.array_equal(whole, np.asarray(network(example)))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_torch_goes_on_training_what_came_back(name):
    """Also torch 2.15, whose Adam asks the accelerator that torchax says there is for a stream."""
    module, example = make("linear")
    back = ox.to_torch(ox.from_torch(module, example))
    optimizer = getattr(torch.optim, name)(back.parameters(), lr=0.1)
    back(torch.from_numpy(batch_like(example))).sum().backward()
    optimizer.step()
    assert not torch.equal(back[0].weight, module[0].weight)


def test_what_needs_no_gradient_stays():
    module, example = make("linear")
    module[0].weight.requires_grad_(False)
    network = ox.from_torch(module, example)
    assert sorted(network.arrays) == ["0.bias", "2.bias", "2.weight"]
    assert torch.equal(ox.to_torch(network)[0].weight, module[0].weight)


class Strange(torch.nn.Module):
    """A layer whose operation jax has not."""

    def forward(self, x):
        return torch.special.airy_ai(x)


def on_two_devices():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    module[1].to("meta")
    return module


class Named(torch.nn.Module):
    def forward(self, x):
        return {"logits": x}


ROW = np.ones(3, np.float32)
REFUSED = {
    "half": (lambda: torch.nn.Linear(3, 2).half(), ROW, r"weight has type float16; pass module\.float\(\)"),
    "double": (lambda: torch.nn.Linear(3, 2).double(), ROW, "weight has type float64"),
    "devices": (on_two_devices, ROW, "several devices .*0.bias on cpu, 1.bias on meta"),
    "meta": (lambda: torch.nn.Linear(3, 2, device="meta"), ROW, "without values"),
    "lazy": (lambda: torch.nn.LazyLinear(2), ROW, "weight has no shape yet"),
    "statistics": (
        lambda: torch.nn.Sequential(torch.nn.BatchNorm1d(3, track_running_stats=False)),
        ROW,
        "layer 0, a BatchNorm1d, keeps no running statistics",
    ),
    "processes": (lambda: torch.nn.Sequential(torch.nn.SyncBatchNorm(3)), ROW, "layer 0, a SyncBatchNorm"),
    "instances": (
        lambda: torch.nn.Sequential(torch.nn.InstanceNorm1d(3, track_running_stats=True)),
        np.ones((3, 4), np.float32),
        "layer 0, a InstanceNorm1d",
    ),
    "unknown": (
        lambda: torch.nn.Sequential(torch.nn.Linear(3, 3), Strange()),
        ROW,
        "layer 1, a Strange, cannot be run by jax",
    ),
    "arguments": (
        lambda: torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Bilinear(3, 3, 2)),
        ROW,
        r"does not take a batch .*layer 1, a Bilinear: .*input2",
    ),
    "example": (lambda: torch.nn.Linear(3, 2), np.ones(4, np.float32), "does not take a batch of shape \\(2, 4\\)"),
    "outputs": (Named, ROW, "puts out a dict for a batch of 2"),
    "batch": (lambda: torch.nn.Softmax(dim=0), ROW, "depend on the others of the batch"),
    "module": (lambda: np.ones(3), ROW, r"ndarray given; it must be a torch\.nn\.Module"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_taken_is_refused_in_words(name):
    build, example, words = REFUSED[name]
    with pytest.raises(ox.ArgumentError, match=words):
        ox.from_torch(build(), example)


def test_only_what_came_from_torch_goes_back():
    with pytest.raises(ox.ArgumentError, match="MLP given; it must be one that"):
        ox.to_torch(ox.MLP((1, 2, 2), 2, (3,), key=jax.random.key(0)))


def test_moments_by_name_stand_in_our_order():
    """Of laplace-torch's vector: ΔF of each weight is that of its own number."""
    module, example = make("residual")
    network = ox.from_torch(module, example)
    count = sum(parameter.numel() for parameter in module.parameters())
    precisions = ox.named_from_vector(module, torch.arange(1.0, count + 1))
    with pytest.warns(UserWarning, match="prunes badly"):
        moments = ox.named_moments(network, example, precision=precisions)
    inner = moments.layout.names.index("inner")
    (start, stop), block = moments.layout.bounds[inner], moments.layout.blocks[inner]
    weight, bias = precisions["inner.weight"].ravel(), precisions["inner.bias"]
    assert block.piece_sizes == (weight.size, bias.size)
    assert np.allclose(1 / moments.var[start:stop], np.concatenate([weight, bias]), rtol=1e-5)
    assert np.allclose(moments.mean[start : start + weight.size], module.inner.weight.detach().numpy().ravel())
    with pytest.warns(UserWarning, match="no curvature"):
        ox.named_moments(network, example, var=precisions, is_curvature=False)
    with pytest.raises(ox.ArgumentError, match=r"var: it is of another network: stem\.weight is missing"):
        ox.named_moments(network, example, var={name: v for name, v in precisions.items() if name != "stem.weight"})


def test_a_fit_gives_a_pruned_module_back(tmp_path):
    """With BatchNorm: its statistics are renewed. Saved and loaded, it is the same."""
    module, example = make("residual")
    generator = np.random.default_rng(0)
    data = generator.normal(size=(40, *example.shape)).astype(np.float32), generator.integers(0, 3, 40)
    network = ox.from_torch(module, example)
    fitted = ox.fit(network, data, epochs=2, steps_per_epoch=2, batch_size=8, sparsity=0.5, num_samples=2)
    pruned = fitted.to_torch()
    weights = [parameter for name, parameter in pruned.named_parameters() if not name.startswith("head")]
    masks = [mask for name, mask in fitted.masks.items() if name != "head"]
    assert sum(int((mask == 0).sum()) for mask in masks) == pytest.approx(0.5 * sum(w.numel() for w in weights), abs=1)
    assert sum(int((weight == 0).sum()) for weight in weights) > 0.4 * sum(weight.numel() for weight in weights)
    assert not torch.equal(pruned.norm.running_mean, module.norm.running_mean)
    assert int(pruned.norm.num_batches_tracked) == 4
    expected = fitted.model.outputs(fitted.network[0], jnp.asarray(data[0][:5]), fitted.state.buffers)
    with torch.no_grad():
        assert np.abs(pruned(torch.from_numpy(data[0][:5])).numpy() - expected).max() < ADAPTED
    again = ox.load(fitted.save(tmp_path / "run"), network)
    assert torch.equal(again.to_torch().inner.weight, pruned.inner.weight)
    assert fitted.export(tmp_path / "network.onnx").difference < 1e-4
