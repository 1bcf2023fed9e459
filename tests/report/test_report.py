"""The report: from run folders alone, self-contained, with everything it promises."""

import re

import numpy as np
import pytest

from occamax.errors import RunError
from occamax.experiment import Config, Experiment, train
from occamax.report import comparison, read_groups, write_report
from occamax.report.figures import as_images, picture_side


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    for method, sparsity in (("map", None), ("bmr", 0.5)):
        config = Config("fashion_mini", "lenet", method, epochs=5, steps=2, batch=8, samples=2, sparsity=sparsity)
        train(Experiment.of(config), [folder / method / f"seed{seed}" for seed in (0, 1)], [0, 1])
    return folder


def test_the_page_holds_the_whole_comparison(runs, tmp_path):
    out = tmp_path / "new" / "report.html"
    write_report(read_groups([runs]), out)
    page = out.read_text()
    for text in ("Flat-MAP", "BMR", "By epoch", "Pruned fraction by layer", "what the evidence said", "First layer"):
        assert text in page
    assert page.count("<svg") >= 5
    assert "Tempered posterior: BMR (divergence × 0.6)" in page
    assert re.search(r"Outputs divided by a temperature that held-out examples set: BMR by [\d.]+", page)
    outside = re.findall(r"""(?:src|href)=["'](?!#)([^"']+)""", page)
    assert all(link.startswith("data:") for link in outside)  # nothing is fetched from anywhere
    assert "<script" not in page


def test_seeds_are_one_row(runs):
    groups = read_groups([runs])
    assert [group.label for group in groups] == ["Flat-MAP", "BMR"]
    assert groups[0].curve("accuracy").shape == (2, 5)
    header, rows, best = comparison(groups, ("accuracy", "nll"))
    assert header == ["method", "accuracy", "NLL", "weights kept"]
    assert "±" in rows[0][1]
    means = [group.value("nll").mean() for group in groups]
    assert [flags[2] for flags in best] == [mean == min(means) for mean in means]


def test_what_is_no_finished_run_is_named(runs, tmp_path):
    with pytest.raises(RunError, match="no run folder in it"):
        read_groups([tmp_path])
    with pytest.raises(RunError, match="no run folder"):
        read_groups([tmp_path / "nowhere"])


def test_rows_of_weights_as_pictures():
    matrix = np.arange(2 * 27.0).reshape(2, 27)
    assert picture_side(matrix) == 3
    assert np.allclose(as_images(matrix)[0, 0, 0], (0 + 9 + 18) / 3)
    assert picture_side(np.zeros((4, 7))) is None
