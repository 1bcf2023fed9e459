"""Tables: what is a number, a category, a class, a fault; and the same encoding for a table to predict."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from occamax.data import TableEncoder, load_data, read_table, reopen
from occamax.errors import ArgumentError, DataError

HOUSES = """size,colour,rooms,price
10.5,red,1,100.5
20,blue,2,200
30,red,3,300.25
-4e1,green,4,400
50,blue,5,500
"""


@pytest.fixture
def houses(tmp_path):
    (tmp_path / "houses.csv").write_text(HOUSES)
    return tmp_path / "houses.csv"


def everything(data):
    return np.concatenate([data.train.inputs, data.test.inputs])


def test_numbers_stay_and_texts_become_columns(houses):
    data = load_data(houses, target="price")
    assert data.feature_names == ("size", "colour=blue", "colour=green", "colour=red", "rooms")
    assert (data.target_names, data.is_classification, data.outputs) == (("price",), False, 1)
    assert data.origin["task"].startswith("regression: floats in the column price")
    found = everything(data)
    expected = [[10.5, 0, 0, 1, 1], [20, 1, 0, 0, 2], [30, 0, 0, 1, 3], [-40, 0, 1, 0, 4], [50, 1, 0, 0, 5]]
    assert found[np.argsort(found[:, -1])].tolist() == expected
    prices = np.concatenate([data.train.targets, data.test.targets])
    assert prices[np.argsort(found[:, -1])].tolist() == [100.5, 200, 300.25, 400, 500]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6).map(str.strip)
words = texts.filter(lambda text: text.lower() not in ("", "na", "n/a", "nan", "null", "?")).map(
    lambda text: f"w{text}"
)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.floats(-1e6, 1e6, width=32), st.sampled_from(["a", "b", "c"]), words), min_size=4, max_size=12
    ),
    delimiter=st.sampled_from([",", ";", "\t"]),
)
def test_any_table_is_read_back(tmp_path_factory, rows, delimiter):
    path = tmp_path_factory.mktemp("table") / "any.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([("number", "target", "word"), *rows])
    different = {label for _, label, _ in rows}
    if len(different) < 2:
        with pytest.raises(DataError, match="nothing to predict"):
            load_data(path, target="target")
        return
    if all(sum(label == other for _, other, _ in rows) < 2 for label in different):
        return
    data = load_data(path, target="target")
    assert data.class_names == tuple(sorted(different))
    assert sorted(everything(data)[:, 0]) == sorted(np.float32(number) for number, _, _ in rows)
    encoder = TableEncoder.from_dict(json.loads(json.dumps(data.origin["encoder"])))
    assert encoder == TableEncoder(("number", "word"), (None, tuple(sorted({word.strip() for *_, word in rows}))))
    again = read_table(path, encoder)
    assert again.dtype == np.float32
    assert again.shape == (len(rows), len(data.feature_names))
    assert again.tolist() == encoder.encode([(number, word) for number, _, word in rows]).tolist()
    assert np.array_equal(again[:, 1:].sum(1), np.ones(len(rows)))


@pytest.mark.parametrize(
    ("values", "task", "names"),
    [
        (["yes", "no"] * 5, None, ("no", "yes")),
        (["10", "9"] * 5, None, ("9", "10")),
        (["1.0", "2.0"] * 5, None, None),
        (["1.0", "2.0"] * 5, "classification", ("1.0", "2.0")),
        (list(map(str, range(21))), None, None),
        (["3", "4"] * 15, "regression", None),
        ([str(i % 20) for i in range(60)], None, tuple(map(str, range(20)))),
    ],
)
def test_the_target_says_the_task(tmp_path, values, task, names):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["x,y", *(f"{i},{value}" for i, value in enumerate(values))]))
    data = load_data(path, target="y", task=task)
    assert data.class_names == names
    assert ("as asked for" in data.origin["task"]) == (task is not None)
    for split in (data.train, data.test):
        for x, y in zip(split.inputs[:, 0], split.targets, strict=True):
            assert values[int(x)] == names[y] if names else float(values[int(x)]) == y


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("20,blue", ",blue"), r"row 2 \(line 3\), column 'size': is empty, a missing value; fill"),
        (("blue,2", "NA,2"), r"row 2 \(line 3\), column 'colour': holds 'NA', a missing"),
        (("20,blue", "big,blue"), r"row 2 \(line 3\), column 'size': holds 'big', but 4 of 5 rows hold numbers"),
        (("20,blue", "inf,blue"), r"row 2 .*'size': holds 'inf', no finite"),
        (("20,blue", "1_000,blue"), r"'size': holds '1_000', but"),
        (("20,blue", '"3,5",blue'), r"'size': holds '3,5'; write decimals with a point"),
        (("blue,2", "7,2"), r"row 1 .*'colour': holds 'red', but 1 of 5"),
        (("20,blue,2,200", "20,blue,2"), r"row 2 \(line 3\): holds 3 cells, but there are 4 columns"),
        (("20,blue,2,200", "20,blue,2,200,1"), "holds 5 cells"),
        (("200", ""), r"column 'price': is empty"),
        (("200", "dear"), r"row 2 .*'price': holds 'dear', no number"),
        (("size,colour", ",colour"), "column 1 has no name"),
        (("size,colour", "colour,colour"), "two columns are called 'colour'"),
        (("blue", '"blue'), "quotation marks"),
        (("size,colour,rooms,price", "1,2,3,4"), "must name the columns"),
    ],
)
def test_a_fault_is_named_by_row_column_and_value(houses, change, says):
    houses.write_text(houses.read_text().replace(*change, 1))
    with pytest.raises(DataError, match=says) as caught:
        load_data(houses, target="price", task="regression")
    assert str(houses) in str(caught.value)


def test_lines_are_counted_as_an_editor_does(houses):
    houses.write_text(HOUSES.replace("20,blue", "\n\n20,").replace("red,1", '"re\nd",1'))
    with pytest.raises(DataError, match=r"row 2 \(line 6\), column 'colour': is empty"):
        load_data(houses, target="price")


def test_targets_are_named(houses, tmp_path):
    with pytest.raises(ArgumentError, match=r"target: none given.*size, colour, rooms, price"):
        load_data(houses)
    with pytest.raises(ArgumentError, match=r"size, colour, rooms, price. Did you mean price"):
        load_data(houses, target="prize")
    with pytest.raises(ArgumentError, match=r"size: .* a table"):
        load_data(houses, target="price", size=3)
    with pytest.raises(DataError, match=r"row 1 .*'colour': holds 'red', no number"):
        load_data(houses, target="colour", task="regression")
    (tmp_path / "one.csv").write_text("y\n1\n2\n")
    with pytest.raises(DataError, match="only the target"):
        load_data(tmp_path / "one.csv", target="y")
    for content in (b"", b"x,y\n", b"\xff\xfe\x00"):
        (tmp_path / "one.csv").write_bytes(content)
        with pytest.raises(DataError, match=r"one\.csv"):
            load_data(tmp_path / "one.csv", target="y")


def test_a_few_integers_that_are_no_classes_say_how_to_go_on(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,5\n2,7\n3,9\n")
    with pytest.raises(DataError, match=r"no class has two examples.*integers in the column y.*task='regression'"):
        load_data(path, target="y")
    assert load_data(path, target="y", task="regression").outputs == 1


def test_names_of_people_are_no_categories(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["name,y", *(f"person {i},{i % 2}" for i in range(30))]))
    with pytest.raises(DataError, match="column 'name': 30 different texts are no categories; remove"):
        load_data(path, target="y")


def test_another_table_is_read_by_the_same_encoder(houses, tmp_path):
    encoder = TableEncoder.from_dict(load_data(houses, target="price").origin["encoder"])
    path = tmp_path / "new.csv"
    path.write_text("rooms;id;colour;size\n2;x;red;1.5\n3;y;blue;2.5\n")
    assert read_table(path, encoder).tolist() == [[1.5, 0, 0, 1, 2], [2.5, 1, 0, 0, 3]]
    for change, says in (
        (("blue", "pink"), r"row 2 \(line 3\), column 'colour': holds 'pink', which was not there .*blue, green, red"),
        (("2.5", "much"), r"row 2 \(line 3\), column 'size': holds 'much', no number"),
        (("1.5", ""), r"row 1 \(line 2\), column 'size': is empty"),
    ):
        broken = tmp_path / "broken.csv"
        broken.write_text(path.read_text().replace(*change))
        with pytest.raises(DataError, match=says):
            read_table(broken, encoder)
    path.write_text("room;colour;size\n2;red;1.5\n")
    with pytest.raises(ArgumentError, match=r"new\.csv: column: 'rooms' is not known.*Did you mean room"):
        read_table(path, encoder)
    with pytest.raises(DataError, match="row 1: holds 2 cells"):
        encoder.encode([[1, "red"]])
    with pytest.raises(DataError, match="encoder"):
        TableEncoder.from_dict({})


def test_a_table_is_opened_again_and_changes_are_said(houses):
    data = load_data(houses, target="price", seed=5, test_share=0.4)
    origin = json.loads(json.dumps(data.origin))
    again = reopen(origin)
    assert np.array_equal(again.train.inputs, data.train.inputs)
    assert np.array_equal(again.test.targets, data.test.targets)
    assert (again.origin, again.feature_names, again.target_names) == (origin, data.feature_names, data.target_names)
    houses.write_text(HOUSES + "60,red,6,600\n")
    with pytest.raises(DataError, match=r"houses\.csv held \d+ bytes, now \d+\. Restore"):
        reopen(origin)
