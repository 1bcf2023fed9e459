"""One-shot pruning: which weights go, how many, what is refused, and what comes back."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import occamax as ox
from occamax import pruning
from occamax.inference.curvature import GaussNewton

from .toys import Tiny, normal

QUICK = GaussNewton(draws=2, batch_size=50)


def doubled(x):
    return 2.0 * x


def planted(count=300):
    """A network of eight hidden units of which four are all but silent, and targets that it makes itself. Weights of
    the silent ones are large: magnitudes cannot tell them."""
    rng = np.random.default_rng(0)
    network = Tiny((6, 8, 2))
    first = (rng.choice([-1, 1], (8, 6)) * rng.uniform(0.8, 1.2, (8, 6))).astype(np.float32)
    second = rng.choice([-2.0, 2.0], (2, 8)).astype(np.float32)
    first[4:] *= 1.5
    second[:, 4:] = [[1e-3], [-1e-3]]
    second[1, :4] = -second[0, :4]
    shifts = normal(8, seed=1), normal(2, seed=2)
    where = lambda net: (net.first.weight, net.second.weight, net.first.bias, net.second.bias)  # noqa: E731
    network = eqx.tree_at(where, network, (jnp.asarray(first), jnp.asarray(second), *shifts))
    inputs = rng.normal(size=(count, 6)).astype(np.float32)
    logits = np.tanh(inputs @ first.T + np.asarray(shifts[0])) @ second.T + np.asarray(shifts[1])
    chances = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
    return network, (inputs, (rng.random(count) < chances).astype(np.int32))


@pytest.fixture(scope="module")
def problem():
    return planted()


@pytest.fixture(scope="module")
def half(problem):
    network, data = problem
    return ox.prune(network, data, 0.5, curvature=QUICK, test=data)


def test_what_the_outputs_do_not_feel_goes_first(problem, half):
    mask = half.masks["first"]
    assert not mask[4:].any()  # the four silent units and their biases are the half that went
    assert mask[:4].all()
    assert half.sparsity == 0.5
    assert half.masks["second"].all()
    assert not np.asarray(half.network.first.weight[4:]).any()
    ask = lambda net: np.asarray(jax.jit(lambda x: jax.vmap(net)(x))(problem[1][0]))  # noqa: E731
    again = ask(half.network) * half.history[-1]["temperature"]
    assert np.abs(again - ask(problem[0])).max() < 0.05  # it says what it said


def test_a_pruned_network_is_a_fit(half, problem, tmp_path):
    inputs, targets = problem[1]
    figures = half.evaluate()
    assert figures["accuracy"] == half.history[-1]["accuracy"] > 0.7
    again = ox.load(half.save(tmp_path / "run"), problem[0])
    assert np.array_equal(again.predict(inputs), half.predict(inputs))
    assert again.config.settings["prune"]["order"] == {"kind": "SignalToNoise"}
    assert again.config.origin["start"] == {"from": "network", "class": "Tiny"}
    assert half.export(tmp_path / "network.safetensors", data=(inputs, targets))


def test_magnitudes_are_worse_and_the_guard_says_so(problem):
    network, data = problem
    with pytest.raises(ox.RunError, match=r"sparsity: 0\.5 without training costs .* would pass.*ox\.Trained"):
        ox.prune(network, data, 0.5, order=ox.criteria.Magnitude(), repair=None, curvature=QUICK)
    anyway = ox.prune(network, data, 0.5, order=ox.criteria.Magnitude(), repair=None, curvature=QUICK, tolerance=None)
    assert anyway.history[-1]["held_out_nll"] > anyway.history[-1]["held_out_nll_dense"] + 0.1


@pytest.mark.parametrize("orders", [pruning.ORDERS, pruning.ORDERS[::-1]])
def test_of_two_orders_that_is_kept_which_held_out_examples_notice_least(problem, monkeypatch, orders):
    """Whichever is tried first; with a sparsity, and as far as they let it go without."""
    network, data = problem
    monkeypatch.setattr(pruning, "ORDERS", orders)
    options = {"repair": None, "curvature": QUICK}
    for sparsity in (0.5, None):
        own = options | ({"tolerance": None} if sparsity else {})
        each = {type(one).__name__: ox.prune(network, data, sparsity, order=one, **own).history[-1] for one in orders}
        best = min(each, key=lambda name: (-each[name]["removed"], each[name]["held_out_nll"]))
        assert each[best] != each[next(name for name in each if name != best)]
        found = ox.prune(network, data, sparsity, **own)
        assert found.config.settings["prune"]["order"] == {"kind": best}
        assert found.history[-1]["held_out_nll"] == each[best]["held_out_nll"]


def test_a_fit_knows_how_it_takes_its_examples(problem):
    """A network that was made for numbers twice as large says of halved ones, doubled, what it said."""
    network, (inputs, targets) = problem
    halved, options = (inputs / 2, targets), {"curvature": QUICK, "sparsity": 0.5}
    wanted = ox.prune(network, problem[1], **options).history[-1]["held_out_nll_dense"]
    first = ox.prune(network, halved, preprocess=doubled, sparsity=0.0, curvature=QUICK, tolerance=None)
    again = ox.prune(first, halved, **options)
    assert again.facts.preprocess is doubled
    assert again.history[-1]["held_out_nll_dense"] == pytest.approx(wanted, abs=1e-3)


def test_a_fit_knows_what_it_held_out(problem):
    """By one in twenty of all, of which it was trained on most, it would be judged by what it knows by heart."""
    network, (inputs, targets) = problem
    one_in_three = ox.Plain(calibration=ox.Calibration(one_in=3))
    trained = ox.fit(network, (inputs, targets), one_in_three, epochs=1, steps_per_epoch=2, progress=False)
    options = {"curvature": QUICK, "sparsity": 0.5, "tolerance": None, "repair": None}
    found = ox.prune(trained, (inputs, targets), **options).history[-1]["held_out_nll_dense"]
    held_out = inputs[2::3], targets[2::3]
    wanted = ox.prune(trained, (inputs, targets), held_out=held_out, **options).history[-1]["held_out_nll_dense"]
    assert found == pytest.approx(wanted, abs=1e-5)


def test_without_a_share_as_much_goes_as_nobody_notices(problem, half):
    network, data = problem
    found = ox.prune(network, data, curvature=QUICK)
    last = found.history[-1]
    limit = last["held_out_nll_dense"] + 0.05 * (np.log(2) - last["held_out_nll_dense"])
    assert last["held_out_nll"] <= limit + 1e-3
    assert 0.5 <= found.sparsity < 0.9
    again = ox.prune(half, data, 0.5, curvature=QUICK)  # of a Fit; what is gone already counts
    assert np.array_equal(again.masks["first"], half.masks["first"])


def test_the_evidence_of_a_laplace_posterior_is_warned_of(problem):
    network, data = problem
    with pytest.warns(UserWarning, match=r"ΔF of a Laplace posterior prunes badly.*ox\.Trained"):
        found = ox.prune(network, data, order=ox.criteria.Evidence(), curvature=QUICK)
    assert found.history[-1]["removed"] <= found.history[-1]["proposed"]
    with pytest.raises(ox.ArgumentError, match="Evidence"):
        ox.prune(network, data, 0.5, order=ox.criteria.Evidence())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sparsity": 1.0}, "sparsity: 1.0 given"),
        ({"tolerance": 0.0}, "tolerance: 0.0 given"),
        ({"tolerance": None}, "nothing says how much"),
        ({"weights": "nowhere.safetensors"}, r"nowhere\.safetensors is neither a run folder nor"),
    ],
)
def test_wrong_options_are_refused(problem, options, says):
    with pytest.raises(ox.OccamaxError, match=says):
        ox.prune(*problem, **options)


def test_too_few_examples_to_hold_any_out(problem):
    network, (inputs, targets) = problem
    few = inputs[:20], targets[:20]
    with pytest.raises(ox.ArgumentError, match="held_out: 20 examples are too few"):
        ox.prune(network, few, 0.5)
