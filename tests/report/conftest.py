"""Four small runs that the tests of the report share."""

import pytest

import occamax as ox

from ..experiment.small_runs import dataset, small


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    options = {"epochs": 5, "steps_per_epoch": 2, "batch_size": 8, "num_samples": 2, "progress": False}
    for method, sparsity in ((ox.MAP(), None), (ox.BMR(), 0.5)):
        for seed in (0, 1):
            out = folder / method.name / f"seed{seed}"
            ox.fit(small(), dataset(), method, sparsity=sparsity, out=out, seed=seed, **options)
    return folder
