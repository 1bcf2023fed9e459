"""What IVON and laplace-torch find stands at its own weights here, whatever the order in which a module names them."""

import jax
import numpy as np
import pytest

import occamax as ox
from occamax.structure.calling import read_network
from occamax.structure.reading import read_layout
from occamax.structure.vectors import vector_of

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytest.importorskip("torchax", reason="torchax is not installed: make test-torch")

from .torch_zoo import NETWORKS, make  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
DRAWS = 600


class Backwards(torch.nn.Module):
    """Its head is named first and used last: the order of its parameters is not that of its layers."""

    def __init__(self):
        super().__init__()
        self.head, self.body = torch.nn.Linear(6, 3), torch.nn.Linear(4, 6)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def problem():
    torch.manual_seed(0)
    x = torch.randn(60, 4)
    return Backwards(), x, (x[:, :3] + 0.3 * torch.randn(60, 3)).argmax(1)


def in_our_order(network, example, given):
    found, statistics, calling = read_network(network)
    layout = read_layout(found, statistics, calling, jax.ShapeDtypeStruct(example.shape, example.dtype))
    return vector_of("it", given, layout, found), found, layout


def is_spread(module, network, example, given, draw):
    """Whether `draw()`, which puts a draw of the posterior into the module, spreads each weight by its own deviation
    here; five standard errors of an estimate from so many draws."""
    stds, found, layout = in_our_order(network, example, given)
    ours = layout.bind(found, jax.numpy.asarray(stds)).arrays
    drawn = {name: [] for name in ours}
    for _ in range(DRAWS):
        draw()
        for name, tensor in module.named_parameters():
            drawn[name].append(tensor.detach().numpy().copy())
    ratios = [(np.std(drawn[name], axis=0) / np.asarray(ours[name])).ravel() for name in ours]
    return np.abs(np.concatenate(ratios) - 1).max() < 5 / np.sqrt(2 * DRAWS)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_tensor_is_in_the_order_of_the_parameters(name):
    module, example = make(name)
    network = ox.from_torch(module, example)
    numbers = torch.arange(1.0, 1 + sum(p.numel() for p in module.parameters()))
    ours, found, layout = in_our_order(network, example, numbers)
    theirs = ox.named_from_vector(module, numbers)
    for own, array in layout.bind(found, jax.numpy.asarray(ours)).arrays.items():
        assert np.array_equal(array, theirs[own]), own
    with pytest.warns(UserWarning, match="prunes badly"):
        assert np.array_equal(ox.named_moments(network, example, var=numbers).var, ours)
    with pytest.raises(ox.ArgumentError, match=r"it has shape .* must be diagonal and of all weights"):
        in_our_order(network, example, numbers[:-1])


def test_the_order_of_use_may_be_another():
    """Else the test above would see nothing."""
    module, x, _ = problem()
    network = ox.from_torch(module, x[0])
    numbers = torch.arange(float(sum(p.numel() for p in module.parameters())))
    assert not np.array_equal(in_our_order(network, np.asarray(x[0]), numbers)[0], numbers)


def test_the_posterior_of_ivon_prunes_and_starts(tmp_path):
    ivon = pytest.importorskip("ivon", reason="ivon-opt is not installed: make test-torch")
    module, x, y = problem()
    optimizer = ivon.IVON(module.parameters(), lr=0.1, ess=60, beta2=0.9, hess_init=0.5, weight_decay=0.01)
    for _ in range(100):
        with optimizer.sampled_params(train=True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()
    (group,) = optimizer.param_groups
    std = (group["ess"] * (group["hess"] + group["weight_decay"])).rsqrt()
    network = ox.from_torch(module, x[0])
    moments, data = ox.Moments(std=std), (x.numpy(), y.numpy())
    small = ox.prune(network, data, 0.5, curvature=moments, tolerance=None)
    assert small.sparsity == pytest.approx(0.5, abs=0.02)
    assert int((small.to_torch().body.weight == 0).sum()) + int((small.to_torch().body.bias == 0).sum()) == 15
    budget = {"epochs": 1, "steps_per_epoch": 2, "batch_size": 8, "num_samples": 2}
    assert ox.fit(network, data, start=ox.Trained(curvature=moments), **budget).to_torch() is not module

    def draw():
        with optimizer.sampled_params():
            kept.update({name: tensor.detach().clone() for name, tensor in module.named_parameters()})
        drawn.load_state_dict(kept)

    kept, drawn = {}, Backwards()
    assert is_spread(drawn, network, np.asarray(x[0]), std, draw)


def test_the_posterior_of_laplace_torch_prunes():
    laplace = pytest.importorskip("laplace", reason="laplace-torch is not installed: make test-torch")
    module, x, y = problem()
    optimizer = torch.optim.Adam(module.parameters(), 0.05)
    for _ in range(40):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()
    found = laplace.Laplace(module, "classification", subset_of_weights="all", hessian_structure="diag")
    found.fit(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 20))
    network = ox.from_torch(module, x[0])
    moments = ox.Moments(precision=found.posterior_precision)
    small = ox.prune(network, (x.numpy(), y.numpy()), 0.5, curvature=moments, tolerance=None)
    assert small.sparsity == pytest.approx(0.5, abs=0.02)
    drawn = Backwards()
    draws = iter(found.sample(DRAWS))
    draw = lambda: torch.nn.utils.vector_to_parameters(next(draws), drawn.parameters())  # noqa: E731
    assert is_spread(drawn, network, np.asarray(x[0]), found.posterior_precision.rsqrt(), draw)
