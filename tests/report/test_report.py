"""The report: from run folders alone, self-contained, with everything it promises."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from occamax.errors import RunError
from occamax.experiment.config import Config
from occamax.report import Group, charts, comparison, legend, print_comparison, read_groups, winner, write_report
from occamax.report.nats import foretold, in_words
from occamax.report.pictures import as_images, picture_side
from occamax.report.styles import colour


def test_the_page_holds_the_whole_comparison(runs, tmp_path):
    out = tmp_path / "new" / "report.html"
    write_report(read_groups([runs]), out)
    page = out.read_text()
    for text in (
        "Flat-MAP",
        "BMR",
        "By epoch",
        "Pruned fraction by layer",
        "what the evidence said",
        "First layer",
        "−ELBO",
        "floor",
    ):
        assert text in page
    assert page.count("<svg") >= 5
    assert re.search(r"BMR: what ΔF foretold.*The sign was right in \d+ of \d+ reductions in 2 runs", page, re.DOTALL)
    assert "Flat-MAP: what ΔF foretold" not in page
    assert "Tempered posterior: BMR (KL weight 0.6)" in page
    assert re.search(r"Outputs divided by a temperature that held-out examples set: BMR by [\d.]+", page)
    outside = re.findall(r"""(?:src|href)=["'](?!#)([^"']+)""", page)
    assert all(link.startswith("data:") for link in outside)  # nothing is fetched from anywhere


def test_seeds_are_one_row(runs):
    groups = read_groups([runs])
    assert [group.label for group in groups] == ["Flat-MAP", "BMR"]
    assert groups[0].curve("accuracy").shape == (2, 5)
    header, rows, best = comparison(groups, ("accuracy", "nll"))
    assert header == ["method", "accuracy", "NLL", "weights kept"]
    assert "±" in rows[0][1]
    one, two = (group.value("nll") for group in groups)
    is_clear = abs(one.mean() - two.mean()) > np.hypot(one.std(ddof=1), two.std(ddof=1))
    assert [flags[2] for flags in best] == [is_clear and one.mean() < two.mean(), is_clear and two.mean() < one.mean()]


def test_two_of_one_name_are_told_apart(runs, tmp_path):
    """By their folders, in the table, the switches and the colours; and a page says how long each was trained."""
    for name, epochs in (("short", 5), ("long", 7)):
        for seed in (0, 1):
            shutil.copytree(runs / "bmr" / f"seed{seed}", tmp_path / name / f"seed{seed}")
            config = json.loads((tmp_path / name / f"seed{seed}" / "config.json").read_text())
            (tmp_path / name / f"seed{seed}" / "config.json").write_text(json.dumps({**config, "epochs": epochs}))
    groups = read_groups([tmp_path, runs / "map"])
    assert [group.label for group in groups] == ["Flat-MAP", "BMR (long)", "BMR (short)"]
    assert len({colour(group) for group in groups}) == 3
    write_report(groups, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert 'data-method="BMR (long)"' in page
    assert "Flat-MAP, BMR (short): 5 epochs of 2 steps on 8 examples" in page
    assert "BMR (long): 7 epochs of 2 steps" in page
    for name in ("long", "short"):  # seeds side by side
        for seed in (0, 1):
            (tmp_path / "all").mkdir(exist_ok=True)
            shutil.move(tmp_path / name / f"seed{seed}", tmp_path / "all" / f"{name}{seed}")
    assert [group.label for group in read_groups([tmp_path / "all"])] == ["BMR (long0)", "BMR (short0)"]


def made(method, held_out=None, **figures):
    """Runs of which only figures are known, one a seed."""
    posterior = {"kind": "PointMass" if method == "map" else "MeanField"}
    calibration = None if held_out is None else {"kind": "Calibration", "one_in": held_out, "most": 100}
    settings = {"method": {"posterior": posterior, "calibration": calibration}}
    seeds = max(np.size(values) for values in figures.values())
    summaries = [{name: np.broadcast_to(values, seeds)[i] for name, values in figures.items()} for i in range(seeds)]
    for summary in summaries:
        summary["sizes"] = {"remaining": 1000}
    return Group(Config("data", "net", method, settings=settings), [], [[]] * seeds, summaries)


def test_a_column_has_a_winner_only_beyond_chance():
    """By hand: deviations of .01 and .02 over seeds are .0224 together."""
    apart, better = [0.29, 0.30, 0.31], [0.25, 0.27, 0.29]
    assert winner([made("flat", nll=apart), made("bmr", nll=better)], "nll") == 1
    assert winner([made("flat", nll=apart), made("bmr", nll=np.add(better, 0.01))], "nll") is None
    assert winner([made("flat", nll=0.300), made("bmr", nll=0.299)], "nll") == 1  # one seed: nothing else is known
    assert winner([made("flat", nll=0.3), made("bmr", nll=0.3)], "nll") is None
    third = made("tiered", nll=[0.2, 0.3, 0.5])
    assert winner([made("flat", nll=apart), made("bmr", nll=better), third], "nll") is None
    assert winner([made("bmr", accuracy=0.9)], "accuracy") is None
    assert winner([made("flat", accuracy=0.9), made("bmr", accuracy=0.8)], "accuracy") == 0


def test_a_calibration_error_inside_the_noise_does_not_win():
    floor = {"ece_floor": 0.007, "ece_floor_std": 0.002}
    one, near, far = (made("flat", ece=ece, **floor) for ece in (0.0100, 0.0075, 0.0070))
    assert winner([one, near], "ece") is None
    assert winner([one, far], "ece") == 1
    assert winner([one, made("bmr", ece=0.001)], "ece") is None  # of which nobody knows what chance makes
    header, rows, _ = comparison([one, near], ("ece", "ece_floor"), brief=True)
    assert header == ["method", "ECE", "floor"]
    assert rows[0] == ["Flat-FF", "0.010", "0.007"]
    assert "without its floor" in legend([one, made("bmr", ece=0.001)])
    assert "without its floor" not in legend([one, near, made("flat", rmse=1.0)])


def test_the_bound_is_shown_of_what_has_one(capsys):
    groups = [made("map", neg_elbo=5.0, nll=0.5), made("flat", neg_elbo=[12_345.6, 12_845.6], nll=0.4)]
    groups.append(made("bmr-paper", neg_elbo=[2_000.0, 2_100.0], nll=0.4))
    header, rows, best = comparison(groups, ("neg_elbo",))
    assert header == ["method", "−ELBO", "weights kept"]
    assert [row[1] for row in rows] == ["–", "12,596±354", "2,050±71"]
    assert [flags[1] for flags in best] == [False, False, True]
    held_out = made("bmr", held_out=20, neg_elbo=[1.0, 2.0], nll=0.4)
    assert winner([*groups, held_out], "neg_elbo") is None  # of fewer data
    assert "hold out different" in legend([*groups, held_out])
    assert "hold out" not in legend(groups)
    print_comparison(groups)
    printed = " ".join(capsys.readouterr().out.split())
    for text in ("−ELBO", "12,596±354", "Bold: better", "a point estimate has no such bound"):
        assert text in printed
    assert "Bold" not in legend(groups[1:2])


def test_a_tempered_posterior_is_called_so(capsys):
    """Once a method, not one whose KL weight is one, nor a point, whatever its weight."""
    weights = {"bmr": 0.6, "bmr-natural": 0.25, "bmr-paper": 1.0, "map": 0.0}
    groups = [made(name, nll=0.5, kl_weight=weight) for name, weight in [*weights.items(), ("bmr", 0.6)]]
    assert legend(groups).endswith("Tempered posterior: BMR (KL weight 0.6), BMR-N (KL weight 0.25).")
    assert "Tempered" not in legend(groups[2:4])
    print_comparison(groups)
    assert "BMR (KL weight 0.6)" in " ".join(capsys.readouterr().out.split())


def reduction(epoch, predicted, expected_nll, divergence, data_count=1.0, **more):
    named = {"predicted": predicted, "expected_nll": expected_nll, "divergence": divergence, "data_count": data_count}
    return {"epoch": epoch, "undone": False, "proposed": 5, "removed": 5, **named, **more}


def test_what_was_foretold_and_what_was_measured():
    lines = [reduction(2, 100.0, 10.0, -60.0, 2.0), reduction(3, 7.0, 0.0, 0.0, removed=0)]
    lines.append(reduction(4, 5.0, 30.0, -20.0, undone=True))
    one, two = foretold(lines)
    assert (one.measured, one.evidence, one.is_right) == (40.0, 50.0, True)  # −(2 · 10 − 60), −(10 − 60)
    assert (two.measured, two.evidence, two.is_right, two.is_undone) == (-10.0, -10.0, False, True)


WRONG = [{"predicted": float("nan")}, {"expected_nll": None}, {"data_count": "x"}, {"divergence": float("inf")}]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_was_not_measured_is_not_drawn(wrong):
    assert foretold([reduction(2, 1.0, 1.0, 1.0), {**reduction(3, 1.0, 1.0, 1.0), **wrong}]) == []
    line = reduction(2, 1.0, 1.0, 1.0)
    assert foretold([{name: value for name, value in line.items() if name not in wrong}]) == []


def test_reductions_are_drawn_and_said_in_words(runs, tmp_path):
    """One undone, one with the wrong sign, from one nat to twenty thousand; runs without the figures get no figure."""
    run = tmp_path / "run"
    shutil.copytree(runs / "bmr" / "seed0", run)
    lines = [reduction(2, 2e4, 0.0, -1e4, 2.0), reduction(3, 40.0, 20.0, -10.0, 2.0, undone=True)]
    lines.append(reduction(4, 1.0, -1.0, 0.0))
    (run / "reductions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (group,) = read_groups([run])
    drawn = charts.foretold(group)
    assert drawn.count("<circle") == 9  # three reductions, each predicted, in the tempered bound and in the evidence
    for text in ("predicted: ΔF, summed", "measured: the tempered bound", "measured: the evidence bound"):
        assert text in drawn
    said = json.loads(re.search(r"<script[^>]*>(.*)</script>", drawn)[1])["series"]
    assert said[0]["notes"][0].endswith("+20,000 nats")
    assert said[1]["notes"][1].endswith("−30 nats; undone")
    words = in_words(group)
    assert "The sign was right in 2 of 3 reductions. 1 of them was undone" in words
    assert "were to gain +20,001 nats and gained +10,001 at once in the tempered bound" in words
    (run / "reductions.jsonl").write_text(json.dumps({**lines[0], "data_count": 1.0}) + "\n")
    assert charts.foretold(group).count("<circle") == 2
    assert "tempered" not in in_words(group)
    for text in ("", json.dumps({**lines[0], "predicted": float("nan")}) + "\n"):
        (run / "reductions.jsonl").write_text(text)
        assert charts.foretold(group) is None


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
