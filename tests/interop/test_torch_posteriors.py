"""What IVON and laplace-torch find stands at its own weights here, whatever the order in which a module names them.
The lines are those of docs/start/pytorch.md."""

import functools
import re
from pathlib import Path
from types import SimpleNamespace

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
PAGE = (Path(__file__).parents[2] / "docs/start/pytorch.md").read_text()


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


def run(number, **names):
    """A block of the page as it stands, but short."""
    code = re.findall(r"```python\n(.*?)```", PAGE.split("## Posteriors of IVON")[1].split("\n## ")[0], re.DOTALL)[
        number
    ]
    budget = {"epochs": 2, "steps_per_epoch": 2, "batch_size": 8, "num_samples": 2}
    ours = SimpleNamespace(Moments=ox.Moments, Trained=ox.Trained, from_torch=ox.from_torch)
    ours.prune, ours.fit = functools.partial(ox.prune, tolerance=None), functools.partial(ox.fit, **budget)
    names |= {"ox": ours}
    exec(code, names)
    return names


def test_the_posterior_of_ivon_prunes_and_starts():
    ivon = pytest.importorskip("ivon", reason="ivon-opt is not installed: make test-torch")
    module, x, y = problem()
    optimizer = ivon.IVON(module.parameters(), lr=0.1, ess=60, beta2=0.9, hess_init=0.5, weight_decay=0.01)
    for _ in range(100):
        with optimizer.sampled_params(train=True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()
    found = run(0, module=module, optimizer=optimizer, images=x.numpy(), labels=y.numpy())
    body = found["small"].to_torch().body
    assert int((body.weight == 0).sum()) + int((body.bias == 0).sum()) == 15
    assert found["fitted"].sparsity == pytest.approx(0.8, abs=0.05)

    def draw():
        with optimizer.sampled_params():
            kept.update({name: tensor.detach().clone() for name, tensor in module.named_parameters()})
        drawn.load_state_dict(kept)

    kept, drawn = {}, Backwards()
    assert is_spread(drawn, found["network"], np.asarray(x[0]), found["posterior"].std, draw)


def test_the_posterior_of_laplace_torch_prunes():
    try:
        import laplace
    except (ImportError, RuntimeError) as error:  # its torchvision may be built for another torch
        pytest.skip(f"laplace-torch cannot be imported: {error}")
    module, x, y = problem()
    optimizer = torch.optim.Adam(module.parameters(), 0.05)
    for _ in range(40):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 20)
    found = run(1, module=module, loader=loader, Laplace=laplace.Laplace)
    network = ox.from_torch(module, x[0])
    small = ox.prune(network, (x.numpy(), y.numpy()), 0.5, curvature=found["posterior"], tolerance=None)
    assert small.sparsity == pytest.approx(0.5, abs=0.02)
    drawn, draws = Backwards(), iter(found["la"].sample(DRAWS))
    draw = lambda: torch.nn.utils.vector_to_parameters(next(draws), drawn.parameters())  # noqa: E731
    assert is_spread(drawn, network, np.asarray(x[0]), found["posterior"].precision.rsqrt(), draw)
