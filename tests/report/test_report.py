"""The report: from run folders alone, self-contained, with everything it promises."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import occamax as ox
from occamax.errors import RunError
from occamax.report import comparison, read_groups, write_report
from occamax.report.figures import as_images, picture_side

from ..experiment.small_runs import dataset, small


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    options = {"epochs": 5, "steps_per_epoch": 2, "batch_size": 8, "num_samples": 2, "progress": False}
    for method, sparsity in ((ox.MAP(), None), (ox.BMR(), 0.5)):
        for seed in (0, 1):
            out = folder / method.name / f"seed{seed}"
            ox.fit(small(), dataset(), method, sparsity=sparsity, out=out, seed=seed, **options)
    return folder


def test_the_page_holds_the_whole_comparison(runs, tmp_path):
    out = tmp_path / "new" / "report.html"
    write_report(read_groups([runs]), out)
    page = out.read_text()
    for text in ("Flat-MAP", "BMR", "By epoch", "Pruned fraction by layer", "what the evidence said", "First layer"):
        assert text in page
    assert page.count("<svg") >= 5
    assert "Tempered posterior: BMR (KL weight 0.6)" in page
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


def test_an_unfinished_run_and_one_of_an_old_version_are_named(runs, tmp_path):
    unfinished = tmp_path / "unfinished"
    shutil.copytree(runs / "map" / "seed0", unfinished)
    (unfinished / "summary.json").unlink()
    with pytest.raises(RunError, match=r"unfinished: the run is not finished.*resume"):
        read_groups([unfinished])
    (unfinished / "config.json").write_text(json.dumps({"data": "mnist", "network": "mlp", "method": "map"}))
    (unfinished / "summary.json").write_text("{}")
    with pytest.raises(RunError, match=r"written by occamax 0\.1"):
        read_groups([unfinished])


def test_a_report_does_not_wait_for_jax(runs, tmp_path):
    """From run folders alone: no trainer is loaded."""
    code = f"""
import sys; sys.argv = ["occamax", "report", {str(runs)!r}, "--out", {str(tmp_path / "page.html")!r}]
from occamax.cli import main
try:
    main()
finally:
    print("loaded:", [name for name in ("jax", "equinox", "optax") if name in sys.modules])
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "BMR" in said
    assert said.strip().endswith("loaded: []")
    assert (tmp_path / "page.html").stat().st_size > 10_000
