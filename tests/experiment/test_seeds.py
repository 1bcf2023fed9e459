"""Seeds that do not fit into memory together are trained one after the other, with the same results."""

import jax
import numpy as np
import pytest

from occamax.experiment import seeds
from occamax.experiment.folder import RunFolder
from occamax.experiment.loop import Loop

from .small_runs import fit_small

ERROR = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 68719476736 bytes."


@pytest.fixture
def short(monkeypatch):
    """A device that has memory for two epochs of several seeds, and for any number of one."""
    epochs = Loop.epochs

    def full(self, *given):
        for epoch in epochs(self, *given):
            if len(self.program.seeds) > 1 and epoch.number == 3:
                raise jax.errors.JaxRuntimeError(ERROR)
            yield epoch

    monkeypatch.setattr(Loop, "epochs", full)


def test_seeds_that_do_not_fit_are_trained_one_after_the_other(short, tmp_path, capsys):
    alone = [fit_small(seed=number) for number in (0, 1)]
    kept = fit_small(tmp_path / "runs", seeds=2)
    said = capsys.readouterr().err
    assert "2 seeds at once do not fit (RESOURCE_EXHAUSTED" in said
    assert "one after the other" in said
    free = fit_small(seeds=2)
    for i, own in enumerate(alone):
        assert [line["epoch"] for line in RunFolder(tmp_path / "runs" / f"seed{i}").metrics()] == [1, 2, 3, 4]
        assert kept[i].config.seed == free[i].config.seed == i
        assert np.array_equal(own.state.posterior.mean, free[i].state.posterior.mean)
        # two epochs of it were trained together, which rounds differently
        assert np.allclose(own.state.posterior.mean, kept[i].state.posterior.mean, atol=1e-4)


def test_another_error_is_not_taken_for_it(monkeypatch):
    asked = []

    def fails(experiment, keeping):
        asked.append(experiment.task.seeds)
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    monkeypatch.setattr(seeds, "train", fails)
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        fit_small(seeds=2)
    monkeypatch.setattr(seeds, "FULL", "INTERNAL")
    with pytest.raises(jax.errors.JaxRuntimeError):  # one alone does not fit either
        fit_small(seeds=2)
    assert asked == [(0, 1), (0, 1), (0,)]
