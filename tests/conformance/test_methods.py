"""Methods: what goes together, what is refused by name, and the way to data and back."""

import inspect
import itertools
import json
from dataclasses import replace

import optax
import pytest

from occamax.command_words import method_from_words
from occamax.errors import ArgumentError
from occamax.inference import estimators, optimizers, posteriors, priors
from occamax.inference.optimizers import NaturalGradient, Optax
from occamax.inference.posteriors import PointMass
from occamax.inference.schedules import Affordable, Constant, Cosine, InSteps
from occamax.methods import BMR, LONG_STEPS, MAP, METHODS, Flat, Method, NaturalBMR, Suited, method_from
from occamax.reduction import Between, Reduction, criteria, horseshoe
from occamax.storage.structured import differences, is_whole, known_kinds, to_data
from occamax.structure.layout import Layout

from .parts import CRITERIA, ESTIMATORS, OPTIMIZERS, POSTERIORS, PRIORS, make, refused_part


@pytest.mark.parametrize(
    ("base", "modules", "here"),
    [
        (priors.Prior, [priors], PRIORS),
        (posteriors.PosteriorFamily, [posteriors], POSTERIORS),
        (optimizers.Optimizer, [optimizers], OPTIMIZERS),
        (estimators.Estimator, [estimators], ESTIMATORS),
        (criteria.Criterion, [criteria, horseshoe], CRITERIA),
        (criteria.Score, [criteria], [c.score for c in CRITERIA if hasattr(c, "score")]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_none_is_missing_here(base, modules, here):
    """Whoever adds one finds it tested, or this test failing."""
    found = {kind for kind in known_kinds(*modules).values() if issubclass(kind, base) and not inspect.isabstract(kind)}
    found -= {priors.TrainedPrior}  # a NormalPrior before anything is trained (`experiment/test_starting.py`)
    assert found == {type(part) for part in here}


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_what_goes_together_and_what_is_refused(prior):
    """Every combination there is: allowed ones come back from their data equal, others are refused by their field."""
    for parts in itertools.product(POSTERIORS, OPTIMIZERS, ESTIMATORS, (None, *CRITERIA)):
        named = refused_part(*parts)
        if named is not None:
            with pytest.raises(ArgumentError, match=f"^{named}: "):
                make(prior, *parts)
            continue
        method = make(prior, *parts)
        data = json.loads(json.dumps(method.as_data()))
        if isinstance(parts[1], Optax):
            assert not is_whole(data)
        else:
            assert is_whole(data)
            assert method_from(data) == method


@pytest.mark.parametrize("name", METHODS)
def test_a_method_comes_back_from_its_data(name):
    method = METHODS[name]()
    assert method.name == name
    assert method_from(json.loads(json.dumps(method.as_data()))) == method


def test_what_cannot_be_stored_says_so_when_it_is_read_back():
    """Closures of optax have no form as data; a function with a name has."""
    for method in (Flat(learning_rate=optax.cosine_decay_schedule(1e-2, 10)), Flat(optimizer=optax.adam(1e-3))):
        assert not is_whole(method.as_data())
        with pytest.raises(ArgumentError, match=r"method\..*could not be stored as data. Pass the whole again"):
            method_from(json.loads(json.dumps(method.as_data())))
    stored = json.loads(json.dumps(Flat(kl_weight=named_schedule).as_data()))
    assert method_from(stored) == Flat(kl_weight=named_schedule)


def named_schedule(step):
    """A schedule in steps with a name."""
    return 1.0 / (1.0 + step)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"kind": "Method", "prior": {"kind": "FlatPriro"}}, r"method.prior: 'FlatPriro'.*Did you mean FlatPrior"),
        ({"kind": "Method", "pior": None}, "Method: 'pior' is not known.*Did you mean prior"),
        ({"kind": "Evidence", "threshold": 1.0}, "the data of a Evidence given"),
        (
            {"kind": "Method", "kl_weight": {"kind": "function", "name": "nowhere:schedule"}},
            "nowhere:schedule is not there",
        ),
        ({"kind": "Method", "dropout": 2.0}, "dropout: 2.0"),
    ],
)
def test_data_of_no_method_are_refused(data, named):
    with pytest.raises(ArgumentError, match=named):
        method_from(data)


RATES = [
    3,
    0.1,
    Cosine(1e-2),
    Affordable(0.3, 0.5),
    optax.cosine_decay_schedule(1e-2, 10),
    optax.constant_schedule(0.1),
]


@pytest.mark.parametrize("name", ["learning_rate", "kl_weight"])
@pytest.mark.parametrize("rate", RATES, ids=lambda rate: type(rate).__name__)
def test_a_rate_is_a_number_a_schedule_or_one_of_optax(name, rate):
    found = getattr(Flat(**{name: rate}), name)
    if isinstance(rate, int | float):
        assert found == Constant(float(rate))
        assert float(found.at(5, 10)) == pytest.approx(rate)
    elif callable(rate) and not isinstance(rate, Cosine | Affordable):
        assert found == InSteps(rate)
        assert [float(found.at(step, 7)) for step in (0, 5)] == [float(rate(step)) for step in (0, 5)]
    else:
        assert found is rate


@pytest.mark.parametrize("rate", [1e-3, Cosine(1e-3), optax.linear_schedule(1e-3, 0.0, 10)])
def test_a_rate_inside_an_optimiser_is_one_too(rate):
    assert float(NaturalGradient(log_std_rate=rate).log_std_rate.at(0, 10)) == pytest.approx(1e-3)


def test_an_optimiser_is_ours_or_one_of_optax():
    chain = optax.chain(optax.clip(1.0), optax.sgd(optax.linear_schedule(0.1, 0.0, 10), momentum=0.9))
    assert Flat(optimizer=chain).optimizer == Optax(chain)
    assert Flat(optimizer=NaturalGradient()).optimizer == NaturalGradient()
    with pytest.raises(ArgumentError, match="learning_rate: an optax transformation has a rate of its own"):
        Flat(optimizer=chain, learning_rate=0.1)
    with pytest.raises(ArgumentError, match=r"halvings: .*its own"):
        Flat(optimizer=chain).at_rate(0.5)


WRONG = [
    ("learning_rate", "fast"),
    ("learning_rate", optax.adam(1e-3)),
    ("kl_weight", None),
    ("kl_weight", lambda: 1.0),
    ("optimizer", optax.adam),
    ("optimizer", 0.1),
    ("optimizer", optax.constant_schedule(0.1)),
    ("optimizer", "adam"),
    ("prior", FLAT := priors.FlatPrior),
    ("prior", PointMass()),
    ("posterior", FLAT()),
    ("init", 0.1),
    ("estimator", "flipout"),
    ("reduction", criteria.Evidence()),
    ("calibration", True),
    ("dropout", 1.0),
    ("target_rate_factor", 0.0),
]


@pytest.mark.parametrize(("name", "wrong"), WRONG)
def test_the_wrong_kind_of_thing_is_refused_by_name(unchecked, name, wrong):
    with pytest.raises(ArgumentError, match=f"^{name}: "):
        Method(**{name: wrong})


def test_a_wrong_name_is_refused_with_the_nearest():
    with pytest.raises(ArgumentError, match=r"bmr: 'learning_rat' is not known.*Did you mean learning_rate"):
        BMR(learning_rat=0.1)


def test_a_method_told_how_much_to_prune():
    """Its own score decides which; nothing is undone, and it trains at its factor times the rate."""
    asked = BMR().pruned_to(0.9, 20)
    assert asked.reduction.criterion == criteria.TargetSparsity(0.9, reach=0.75)
    assert (asked.reduction.least_left, asked.reduction.tolerance) == (None, None)
    assert float(asked.learning_rate.at(3, 10)) == pytest.approx(2 * float(BMR().learning_rate.at(3, 10)))
    magnitude = MAP(reduction=Reduction(criteria.TargetSparsity(0.5, criteria.Magnitude()))).pruned_to(0.9, 20)
    assert magnitude.reduction.criterion.score == criteria.Magnitude()
    assert magnitude.learning_rate == MAP().learning_rate
    own = criteria.TargetSparsity(0.5, begin=0.3, reach=0.7, power=1.0)  # a way of its own, to another share
    assert BMR(reduction=Reduction(own)).pruned_to(0.9, 20).reduction.criterion == replace(own, sparsity=0.9)
    with pytest.raises(ArgumentError, match=r"begin: 0\.3 .*reach"):  # the last reduction is at a quarter of the run
        BMR(reduction=Reduction(own, Between(0.1, 0.25))).pruned_to(0.9, 8)
    with pytest.raises(ArgumentError, match="sparsity: flat prunes nothing"):
        Flat().pruned_to(0.9, 20)
    with pytest.raises(ArgumentError, match="epochs: 1 leaves no room"):
        BMR().pruned_to(0.9, 1)
    with pytest.raises(ArgumentError, match=r"unit_price: .*fixed sparsity"):
        asked.with_units(0.1)
    assert BMR().with_units(0.1).reduction.unit_price == 0.1


def test_differences_are_named():
    """Whatever was changed, left out or added on either side, and how long lists were."""
    one = {"kind": "A", "rate": 0.1, "parts": [1, {"kind": "B", "x": 1}], "old": 2}
    two = {"kind": "A", "rate": 0.2, "parts": [1, {"kind": "B", "x": 3}], "new": 5}
    assert list(differences(one, one)) == []
    assert list(differences(one, two)) == [
        "rate: 0.1 there, 0.2 here",
        "parts[1].x: 1 there, 3 here",
        "old: 2 there, None here",
        "new: None there, 5 here",
    ]
    assert list(differences({"parts": [1, 2]}, {"parts": [1]})) == ["parts: 2 there, 1 here"]


def test_data_are_plain():
    """Numbers that JSON has no word for come back as well."""
    method = Flat(reduction=Reduction(criteria.Evidence(float("inf"))))
    text = json.dumps(to_data(method), allow_nan=False)
    assert method_from(json.loads(text)) == method


NORMALISED, OTHERS = Layout((), is_normalised=True), Layout((), is_normalised=False)


def test_bmr_takes_natural_gradients_where_activations_are_normalised():
    """And only there. ΔF is then that of the posterior as it is: an evidence of 0 changes nothing."""
    method, natural = BMR().suited_to(NORMALISED), NaturalBMR().suited_to(NORMALISED)
    natural = replace(natural, name="bmr", reduction=replace(natural.reduction, evidence=Constant(0.0)))
    assert method.begun(is_trained=False) == natural
    assert method.learning_rate == Cosine(0.2, warm_up=0.02)
    assert BMR().suited_to(OTHERS) == BMR(normalised=None)
    assert NaturalBMR().suited_to(OTHERS).learning_rate == Cosine(0.05, warm_up=0.02)


def test_bmr_takes_natural_gradients_from_trained_weights():
    """At the rate of a network without norms where it has none, whatever share it is told; one with norms as from
    random weights, at a tenth of the rate and under a prior of the weights' own size. The rate of the first recipe
    when told a share, twice its own, is not taken over."""
    for method in (BMR(), BMR().pruned_to(0.9, 20)):
        begun = method.begun(is_trained=True)
        assert (begun.optimizer, begun.kl_weight, begun.trained) == (NaturalGradient(), Constant(0.25), None)
        assert begun.learning_rate == Cosine(0.05, warm_up=0.02)
        assert begun.reduction.evidence == Constant(0.0)
        assert begun.reduction.criterion == method.reduction.criterion
        fresh = method.begun(is_trained=False).suited_to(NORMALISED)
        slow = Cosine(0.02, warm_up=0.02)
        assert begun.suited_to(NORMALISED) == replace(fresh, learning_rate=slow, prior=priors.TrainedPrior(3.0))
        assert method.begun(is_trained=False) == replace(method, trained=None)
    changed = BMR(kl_weight=0.5)
    assert changed.begun(is_trained=True) == changed
    natural = NaturalBMR().begun(is_trained=True)
    assert natural.suited_to(OTHERS) == NaturalBMR().suited_to(OTHERS)
    assert natural.suited_to(NORMALISED).learning_rate == Cosine(0.02, warm_up=0.02)
    assert natural.suited_to(NORMALISED).prior == priors.TrainedPrior(3.0)
    own = NaturalBMR(prior=priors.NormalPrior(0.3)).begun(is_trained=True).suited_to(NORMALISED)
    assert own.prior == priors.NormalPrior(0.3)
    slow = NaturalBMR(learning_rate=0.01).begun(is_trained=True).suited_to(NORMALISED)
    assert (slow.prior, slow.learning_rate) == (priors.TrainedPrior(3.0), Constant(0.01))
    halved = BMR().at_rate(0.5).begun(is_trained=True).suited_to(NORMALISED)
    assert float(halved.learning_rate(0.02)) == pytest.approx(0.01)


def test_a_method_that_was_changed_is_taken_as_it_was_given():
    changed = BMR(learning_rate=5e-3)
    assert changed.suited_to(NORMALISED) == changed
    kept = BMR(reduction=None, trained=None)
    assert kept.suited_to(NORMALISED) == replace(BMR(trained=None).suited_to(NORMALISED), reduction=None)
    assert NaturalBMR(learning_rate=0.1).suited_to(NORMALISED).learning_rate == Constant(0.1)
    assert NaturalBMR(kl_weight=0.5).suited_to(NORMALISED).learning_rate == Cosine(0.2, warm_up=0.02)


def test_both_recipes_are_told_how_much_to_prune_and_slowed_down():
    """The second's factor is one: it is not trained faster where the first is."""
    told = BMR().pruned_to(0.9, 20).suited_to(NORMALISED)
    assert told.reduction.criterion.sparsity == 0.9
    assert told.learning_rate == BMR().suited_to(NORMALISED).learning_rate
    slower = BMR().at_rate(0.5)
    for layout in (NORMALISED, OTHERS):
        before, after = BMR().suited_to(layout).learning_rate, slower.suited_to(layout).learning_rate
        assert float(after(0.3)) == pytest.approx(0.5 * float(before(0.3)))


def test_a_suited_method_goes_to_data_and_back():
    method = Method(normalised=Suited(learning_rate=0.2, evidence=0.5), reduction=Reduction())
    assert method_from(json.loads(json.dumps(method.as_data()))) == method
    assert float(method.suited_to(NORMALISED).reduction.evidence(0.0)) == 0.5


def test_what_the_command_line_sets_is_what_a_network_with_norms_is_trained_with():
    for words, name, expected in (
        (["learning_rate=5e-3"], "learning_rate", Constant(5e-3)),
        (["kl_weight=1.0"], "kl_weight", Constant(1.0)),
        (["optimizer=AdaBelief()"], "optimizer", optimizers.AdaBelief()),
        (["prior.gain=2"], "prior", priors.FanInPrior(gain=2)),
    ):
        assert getattr(method_from_words("bmr", words).suited_to(NORMALISED), name) == expected
    slow = method_from_words("bmr-natural", ["learning_rate=Cosine(0.05,warm_up=0.02)"]).suited_to(NORMALISED)
    assert slow.learning_rate == Cosine(0.05, warm_up=0.02)
    kept = method_from_words("bmr", ["reduction.tolerance=none"]).suited_to(NORMALISED)
    assert (kept.optimizer, kept.reduction.tolerance) == (NaturalGradient(), None)


def test_how_much_faster_a_target_is_trained_for_is_said_by_the_method_or_by_what_suits():
    asked = BMR(target_rate_factor=3.0).pruned_to(0.9, 20).suited_to(NORMALISED)
    assert float(asked.learning_rate(0.5)) == pytest.approx(3 * float(LONG_STEPS(0.5)))
    only = Method(normalised=Suited(target_rate_factor=2.0), reduction=Reduction()).pruned_to(0.9, 20)
    assert float(only.suited_to(NORMALISED).learning_rate(0.5)) == pytest.approx(2 * float(Method().learning_rate(0.5)))
    own = BMR(reduction=Reduction(evidence=Constant(0.7))).suited_to(NORMALISED)
    assert own.reduction.evidence == Constant(0.7)
