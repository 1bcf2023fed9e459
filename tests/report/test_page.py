"""The page, by itself and in a browser: values under the pointer, methods that switch, tables that sort, a slider."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from occamax.experiment.examining import examined, picture, reliability
from occamax.report import read_groups, write_report
from occamax.report.chart import Chart, Scale, Series, as_json, names_of

from . import browser as browsers

PICTURES = Path(__file__).parents[2] / "build"  # to be looked at before a release
EXPORT = {
    "file": "network.onnx", "bytes": [4000, 1000], "zipped": [3500, 800], "zipped_masked": 900,
    "milliseconds": {"1": [0.2, 0.1], "128": [2.0, 1.0]},
    "figures": {"accuracy": 0.5, "ece": 0.0312, "ece_floor": 0.0123},
}  # fmt: skip


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(runs, folder / "runs")
    exports = [{**EXPORT, "bytes": [4000, 987654]}, EXPORT]  # made twice: the last counts
    lines = "".join(json.dumps(line) + "\n" for line in exports)
    (folder / "runs" / "bmr" / "seed0" / "exports.jsonl").write_text(lines)
    write_report(read_groups([folder / "runs"]), folder / "report.html")
    return folder / "report.html"


def test_it_is_one_small_file_that_fetches_nothing(page):
    text = page.read_text()
    assert page.stat().st_size < 2e6
    assert not re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text.replace("http://www.w3.org/2000/svg", ""))
    assert all(link.startswith(("#", "data:")) for link in re.findall(r"""(?:src|href)=["']([^"']*)""", text))
    assert "default-src 'none'" in text


def test_it_is_whole_without_a_script(page):
    """Curves, calibration, both ends of the reductions, examples and exports stand in the page itself."""
    text = page.read_text()
    text = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert text.count("<polyline") >= 8
    assert text.count("reduction before epoch") >= 2
    for words in ("as sure as it is right", "Wrong, the surest first", "Exported files", "network.onnx", "1,000"):
        assert words in text
    assert "0.2 → 0.1" in text
    assert "987,654" not in text
    exports = text[text.index("Exported files") :]
    assert "<th>ECE</th><th>floor</th>" in exports  # beside what chance alone makes
    assert "<td>0.031</td><td>0.012</td>" in exports


def test_old_runs_have_no_examples_and_a_page(runs, tmp_path):
    shutil.copytree(runs / "bmr" / "seed0", tmp_path / "run")
    (tmp_path / "run" / "examples.json").unlink()
    write_report(read_groups([tmp_path / "run"]), tmp_path / "report.html")
    assert "Test examples" not in (tmp_path / "report.html").read_text()


@pytest.fixture(scope="module")
def browser(page, tmp_path_factory):
    if browsers.DRIVER is None or browsers.CHROMIUM is None:
        pytest.skip("there is no Chromium here (Debian's packages chromium and chromium-driver)")
    with browsers.browser(tmp_path_factory.mktemp("profile")) as found:
        found.open(page)
        yield found


def test_a_chart_says_its_values_under_the_pointer(browser):
    place = """
      const svg = document.querySelector('figure.chart svg'); svg.scrollIntoView({block: 'center'});
      const box = svg.getBoundingClientRect(); return [box.left + box.width * .98, box.top + box.height / 2]"""
    browser.point(*browser.run(place))
    said = browser.run("return document.querySelector('.tip').innerText").splitlines()
    values = json.loads(browser.run("return document.querySelector('figure.chart script').textContent"))["series"]
    assert said[0] == "epoch 5"
    assert said[1:] == [f"{one['name']} {one['y'][-1]:.4g}" for one in values]
    browser.point(1, 1)
    assert browser.run("return document.querySelector('.tip')") is None
    assert browser.errors() == []


def test_a_method_switches_off_and_on(browser):
    click = "document.querySelector('.switches button[data-method=BMR]').click();"
    hidden = "return [...document.querySelectorAll('g[data-series=BMR]')].map(g => getComputedStyle(g).display)"
    assert set(browser.run(click + hidden)) == {"none"}
    assert "none" not in browser.run(click + hidden)
    assert browser.errors() == []


def test_a_table_sorts_both_ways(browser):
    click = """
      const table = document.querySelector('table.sortable');
      const heads = [...table.querySelectorAll('th')];
      const column = heads.findIndex(head => head.innerText.startsWith(arguments[0]));
      heads[column].querySelector('button').click();
      return [...table.tBodies[0].rows].map(row => row.cells[column].textContent)"""
    for name in ("NLL", "−ELBO"):
        down, up = browser.run(click, name), browser.run(click, name)
        numbers = [float(re.sub(r"[,±].*", "", text.replace(",", ""))) for text in down if text != "–"]
        assert numbers == sorted(numbers, reverse=True)
        assert [text for text in up if text != "–"] == [text for text in reversed(down) if text != "–"]
        assert "–" not in (up + down)[:1]  # what has no value comes last


def test_the_slider_goes_through_the_reductions(browser):
    slide = """
      const figure = document.querySelector('.slider').closest('figure'), input = figure.querySelector('input');
      input.value = arguments[0]; input.dispatchEvent(new Event('input'));
      const bars = [...figure.querySelectorAll('g.before rect')].map(bar => +bar.getAttribute('height'));
      return [figure.querySelector('figcaption').textContent, bars]"""
    frames = json.loads(
        browser.run("return document.querySelector('.slider').closest('figure').querySelector('script').textContent")
    )["frames"]
    assert len(frames) > 1
    for number in (0, len(frames) - 1):
        title, bars = browser.run(slide, number)
        assert title == f"reduction before epoch {frames[number]['epoch']}"
        counts = np.array(frames[number]["before"])
        assert np.argmax(bars) == np.argmax(counts)
        assert ((np.array(bars) > 0) == (counts > 0)).all()


SEEN = Path(__file__).with_name("seen.js").read_text()
SCRIPTED = "return document.querySelectorAll('th button, .switches button, .slider').length"
DRAWN = """
  const boxes = [...document.querySelectorAll('figure polyline, figure circle, figure .after rect')];
  return boxes.map(one => one.getBoundingClientRect()).filter(box => box.width || box.height).length"""


@pytest.fixture
def seen(browser, page):
    """Opens the page as some reader has it, checks what is seen and keeps a picture of it; ends as it began."""

    def seen(name, width=1200):
        browser.open(page, width, 900)
        assert {fault: where for fault, where in browser.run(SEEN).items() if where} == {}
        assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.errors() == []
        PICTURES.mkdir(exist_ok=True)
        browser.picture(PICTURES / f"report-{name}.png")
        with Image.open(PICTURES / f"report-{name}.png") as found:
            assert found.width == width
            return found.convert("L").getpixel((2, 2))

    yield seen
    browser.command("Emulation.setEmulatedMedia", features=[])
    browser.command("Emulation.clearDeviceMetricsOverride")
    browser.command("Emulation.setScriptExecutionDisabled", value=False)
    browser.open(page)


def test_it_is_read_in_the_light(browser, seen):
    browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    assert seen("light") == 255
    assert browser.run(SCRIPTED) > 3


def test_it_is_read_in_the_dark(browser, seen):
    browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert seen("dark") < 40


def test_it_fits_a_phone(browser, seen):
    browser.command("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
    seen("phone", 390)


def test_it_is_seen_whole_where_scripts_are_off(browser, seen):
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    seen("plain")
    assert browser.run(SCRIPTED) == 0
    words = browser.run("return document.body.innerText")
    for text in ("By epoch", "as sure as it is right", "gain of each reduction", "Test examples", "network.onnx"):
        assert text in words
    assert words.count("reduction before epoch") == 2  # the first and the last; no slider goes through them
    assert browser.run(DRAWN) > 30
    assert browser.run("return [...document.images].every(one => one.naturalWidth || !one.checkVisibility())")


def test_examples_by_hand():
    """Four examples: confidences .9, .6, .6, .8; right, right, wrong, wrong."""
    probabilities = np.array([[0.9, 0.1], [0.4, 0.6], [0.4, 0.6], [0.8, 0.2]])
    inputs = np.zeros((4, 1, 3, 3), np.uint8)
    found = examined(probabilities, inputs.__getitem__, np.array([0, 1, 0, 1]), ("cat", "dog"))
    assert [one["number"] for one in found["surest"]] == [0, 3, 1, 2]
    assert [one["number"] for one in found["least_sure"]] == [2, 1, 3, 0]
    assert [(one["said"], one["truth"]) for one in found["wrong"]] == [("cat", "dog"), ("dog", "cat")]
    assert found["reliability"] == [
        {"count": 2, "confidence": 0.6, "accuracy": 0.5},
        {"count": 1, "confidence": 0.8, "accuracy": 0.0},
        {"count": 1, "confidence": 0.9, "accuracy": 1.0},
    ]
    json.dumps(found)
    assert examined(probabilities, inputs.__getitem__, np.array([0, 1, 0, 1]))["surest"][0]["said"] == "0"


def test_the_last_bin_holds_the_surest():
    found = reliability(np.array([1.0, 0.05]), np.array([True, False]), 10)
    assert found == [
        {"count": 1, "confidence": 0.05, "accuracy": 0.0},
        {"count": 1, "confidence": 1.0, "accuracy": 1.0},
    ]


def test_what_is_no_image_has_no_picture():
    assert picture(np.zeros((1, 4, 4), np.float32)) is None
    assert picture(np.zeros((7,), np.uint8)) is None
    assert picture(np.zeros((3, 200, 100), np.uint8)) is not None


def test_scales():
    log = Scale(1.0, 100.0, "log")
    assert (log(1.0), log(10.0), log(100.0)) == (0.0, 0.5, 1.0)
    assert log.ticks() == [1, 2, 5, 10, 20, 50, 100]
    assert Scale(0.0, 1.0, "linear").ticks() == [0, 0.5, 1]
    assert Scale(0.801, 0.879, "linear").ticks() == pytest.approx([0.82, 0.84, 0.86])
    both = Scale(-9.0, 9.0, "symlog", 1.0)
    assert both(0.0) == 0.5
    assert both(9.0) + both(-9.0) == 1.0
    assert Scale(0.0, 1.0).ticks() == pytest.approx([0.0, 0.5, 1.0])
    held = Scale.over(np.array([5.0, 5.0, np.nan]))
    assert held.low < 5.0 < held.high


def test_axes_name_their_numbers_alike():
    """As many decimals as the one that needs most; thousands in k; of what is counted only whole numbers."""
    assert names_of([0.0, 0.5, 1.0]) == ["0.0", "0.5", "1.0"]
    assert names_of([-0.02, 0.0, 0.02]) == ["−0.02", "0.00", "0.02"]
    assert names_of([2.0, 4.0]) == ["2", "4"]
    assert names_of([0.05, 0.1, 0.2], "log") == ["0.05", "0.10", "0.20"]
    assert names_of([0.01, 0.1, 1.0], "log") == ["0.01", "0.1", "1"]
    assert names_of([-10000.0, 0.0, 2.5e6], "symlog") == ["−10k", "0", "2.5M"]
    assert names_of([]) == []
    drawn = Chart("t", [Series("a", "#fff", [2, 3], [1.0, 2.0])], "epoch", "nats", "log", (1.5, 3.5), counts=True).svg()
    assert re.findall(r">([\d.]+)</text>", drawn[drawn.index('text-anchor="middle"') :]) == ["2", "3"]
    assert ">nats, log scale<" in drawn


def test_higher_is_up():
    text = Chart("t", [Series("a", "#fff", [1, 2], [1.0, 2.0])], "x", "y").svg()
    (series,) = json.loads(re.search(r"<script[^>]*>(.*)</script>", text)[1])["series"]
    assert series["py"][1] < series["py"][0]
    assert series["px"][0] < series["px"][1]


def test_points_that_are_no_numbers_are_left_out():
    text = Chart("t", [Series("a<b", "#fff", [1, 2, 3], [1.0, float("nan"), 2.0])], "x", "y", "log").svg()
    data = json.loads(re.search(r"<script[^>]*>(.*)</script>", text)[1])
    assert data["series"][0]["x"] == [1, 3]
    assert "nan" not in text
    assert "a<b" not in text
    assert "</script" not in as_json("</script>")
