"""What is asked and answered: images, arrays, tables; tables and JSON lines."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from occamax.export.card import Card
from occamax.export.exporting import Measured
from occamax.export.images import read_images
from occamax.export.instead import Instead
from occamax.export.posterior_file import Drawn
from occamax.export.show import answers, of_draws, of_mean, print_answers, print_measured
from occamax.structure.compaction import Kept

IMAGES = Card(("cat", "dog"), (1, 4, 6), "uint8", "0.2")
TABLE = Card(
    None,
    (3,),
    "float32",
    "0.2",
    target_names=("price",),
    encoder={"columns": ["size", "colour"], "categories": [None, ["blue", "red"]]},
)


def brightness(pixels):
    """The brighter, the more a dog."""
    share = pixels.reshape(len(pixels), -1).mean(1) / 255.0
    return np.stack([1 - share, share], 1).astype(np.float32)


def asked(capsys, card, predict, *paths):
    failed = print_answers(answers(of_mean(predict), card, read_images(list(paths), card)), True)
    return failed, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_images_are_answered_and_bad_ones_named(tmp_path, capsys):
    folder = tmp_path / "images"
    folder.mkdir()
    for i, level in enumerate((10, 240)):
        Image.fromarray(np.full((4, 6), level, np.uint8)).save(folder / f"{i}.png")
    Image.fromarray(np.zeros((5, 7), np.uint8)).save(folder / "small.png")
    (folder / "torn.jpg").write_bytes(b"not an image")
    np.savez(tmp_path / "more.npz", images=np.full((2, 4, 6), 240, np.uint8))
    failed, lines = asked(capsys, IMAGES, brightness, folder, tmp_path / "more.npz", tmp_path / "gone.png")
    assert failed == 3
    good = [line for line in lines if "error" not in line]
    assert [line["label"] for line in good] == ["cat", "dog", "dog", "dog"]
    assert good[1]["probability"] == pytest.approx(240 / 255, abs=1e-6)
    assert all(0 < line["uncertainty"] < 0.7 for line in good)
    errors = {line["input"].rsplit("/", 1)[-1]: line["error"] for line in lines if "error" in line}
    assert "7 × 5" in errors["small.png"]
    assert "cannot be read" in errors["torn.jpg"]
    assert errors["gone.png"] == "is not there"
    resized = replace(IMAGES, resize=True)
    assert dict(read_images([folder / "small.png"], resized))[str(folder / "small.png")].shape == (1, 4, 6)


def test_grey_for_colour_is_said(tmp_path):
    Image.fromarray(np.zeros((4, 6), np.uint8)).save(tmp_path / "grey.png")
    ((_, found),) = read_images([tmp_path / "grey.png"], replace(IMAGES, input_shape=(3, 4, 6)))
    assert "is grey" in found


def test_arrays_must_fit(tmp_path):
    np.savez(tmp_path / "x.npz", images=np.zeros((2, 5, 5), np.float32))
    ((_, found),) = read_images([tmp_path / "x.npz"], IMAGES)
    assert found == "holds float32 of shape (2, 5, 5); the network takes uint8 of shape n × 1 × 4 × 6"
    np.savez(tmp_path / "y.npz", inputs=np.zeros((2, 3), np.float64))
    assert [numbers.dtype for _, numbers in read_images([tmp_path / "y.npz"], TABLE)] == [np.float32] * 2
    tokens = Card(("a",), (3,), "int32", "0.2")
    ((_, found),) = read_images([tmp_path / "y.npz"], tokens)
    assert "the network takes int32" in found
    ((_, found),) = read_images([tmp_path / "y.png"], replace(tokens, class_names=("a",)))
    assert found == "is not there"
    ((_, found),) = read_images([tmp_path], TABLE)
    assert "no image in it" in found


def test_rows_of_a_table_are_answered_and_bad_ones_named(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    path.write_text("colour,size,other\nred,2,x\ngreen,3,x\nblue,oops,x\nblue,4,x\n")
    failed, lines = asked(capsys, TABLE, lambda x: 10 * x[:, :1] + x[:, 2:], path)
    assert failed == 2
    assert [line.get("prediction") for line in lines] == [{"price": 21.0}, None, None, {"price": 40.0}]
    assert "green" in lines[1]["error"]
    assert "colour" in lines[1]["error"]
    assert lines[1]["input"] == f"{path}, row 2"
    assert "oops" in lines[2]["error"]
    path.write_text("size\n1\n")
    failed, lines = asked(capsys, TABLE, lambda x: x, path)
    assert "colour" in lines[0]["error"]
    assert "is a table" in dict(read_images([path], IMAGES))[str(path)]


def test_tables_are_printed(capsys):
    pixels = np.full((1, 4, 6), 240, np.uint8)
    found = answers(of_mean(brightness), IMAGES, [("a[b].png", pixels), ("c.png", "is not there")])
    assert print_answers(found, False) == 1
    printed = capsys.readouterr().out
    for text in ("a[b].png", "dog", "0.941", "is not there"):
        assert text in printed
    draw = of_draws(lambda x: Drawn(np.array([[3.25]]), np.zeros(1), np.array([[0.5]])))
    assert print_answers(answers(draw, TABLE, [("row", np.zeros(3, np.float32))]), False, True) == 0
    printed = capsys.readouterr().out
    for text in ("price", "3.25", "± 0.5", "of the weights"):
        assert text in printed
    draw = of_draws(lambda x: Drawn(np.array([[0.5, 0.5]]), np.array([0.1]), np.zeros((1, 2))))
    print_answers(answers(draw, IMAGES, [("a", pixels)]), True, True)
    assert json.loads(capsys.readouterr().out)["mutual_information"] == pytest.approx(np.log(2) - 0.1)


def test_what_was_measured_is_printed(capsys, tmp_path):
    measured = Measured(
        numbers=(100, 10),
        nonzero=(20, 9),
        bytes=(4000, 400),
        zipped=(3500, 300),
        zipped_masked=900,
        milliseconds={1: (1.0, 0.5), 128: (9.0, 3.0)},
        difference=1e-7,
        difference_of="of a probability",
        compared=40,
        figures={"accuracy": 0.9, "ece": 0.0112, "ece_floor": 0.0071},
        tested=50,
        instead=Instead(1234, 1000, {1: 0.7, 128: 8.0}, {"accuracy": 0.89, "ece": 0.01, "ece_floor": 0.007}),
        units=[Kept("hidden", 8, 3), Kept("head", 4, 4, "its units are normalised")],
    )
    print_measured(measured, tmp_path / "x.onnx")
    printed = capsys.readouterr().out
    for text in (
        "10.0 ×",
        "gzipped",
        "900",
        "ms at batch 128",
        "on 50 test examples",
        "its units are",
        "0.0071",
        "quantised by onnxruntime itself",
        "1,234",
        "the file is the mean network; the figures are those of the file",
        "1.0e-07",
    ):
        assert text in printed
    assert "tempered" not in printed
    assert "thread ms" not in printed
    print_measured(replace(measured, is_thread_time=True, tested_before=40), tmp_path / "x.onnx")
    printed = capsys.readouterr().out
    assert "thread ms at batch 128" in printed
    assert "on 50 test examples; under `dense` on 40" in printed
    print_measured(replace(measured, instead=None, no_instead="KeyError: 'x'"), tmp_path / "x.onnx")
    assert "cannot be had: KeyError: 'x'" in capsys.readouterr().out
    print_measured(replace(measured, tempered=0.6), tmp_path / "x.onnx")
    assert "of a tempered posterior: KL weight 0.6" in capsys.readouterr().out
