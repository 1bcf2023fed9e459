"""Pictures of a page: test examples, and what the units of a first layer look at."""

import base64
import html
import io
from typing import Any

import numpy as np

from .runs import Group

UNITS = 24
KINDS = {
    "surest": "Surest",
    "least_sure": "Least sure",
    "wrong": "Wrong, the surest first",
}


def examples(group: Group) -> str | None:
    """The examples that a method is surest of, least sure of and wrong about; None where they were not kept."""
    found = group.examples()
    if not found:
        return None
    parts = []
    for kind, title in KINDS.items():
        cards = "".join(_card(one) for one in found.get(kind, [])) or '<p class="note">none</p>'
        parts.append(f'<h4>{title}</h4><div class="cards">{cards}</div>')
    return "".join(parts)


def _card(one: dict[str, Any]) -> str:
    """One example: its picture if it is one, what was said of it and how surely, and the truth where it is another."""
    said, truth = html.escape(str(one["said"])), html.escape(str(one["truth"]))
    picture = one.get("picture")
    image = "" if picture is None else f'<img alt="{truth}" src="data:image/png;base64,{html.escape(picture)}">'
    is_right = one["said"] == one["truth"]
    truly = "" if is_right else f"<br><small>truth: {truth}</small>"
    words = f"<b>{said}</b> {one['confidence']:.0%}{truly}<br><small>#{one['number']}</small>"
    return f'<div class="card{"" if is_right else " wrong"}">{image}<p>{words}</p></div>'


def first_layer(group: Group) -> str | None:
    """The input weights of the strongest units of the first layer that looks at an image, one picture a unit: red
    above zero, blue below. None where no layer does, or the weights were not kept."""
    if not group.folders or not (group.folders[0].path / "weights.safetensors").is_file():
        return None
    layers = group.folders[0].weights()
    name = next((name for name, matrix in layers.items() if picture_side(matrix) is not None), None)
    if name is None:
        return None
    matrix = layers[name]
    order = np.argsort(-np.linalg.norm(matrix, axis=1))[:UNITS]
    limit = float(np.abs(matrix[order]).max()) or 1.0
    images = "".join(f'<img alt="unit {unit}" src="{as_png(as_images(matrix)[unit] / limit)}">' for unit in order)
    words = html.escape(f"{group.label}: {name}, from −{limit:.2g} (blue) to {limit:.2g} (red)")
    return f'<p class="note">{words}</p><div class="units">{images}</div>'


def as_png(values: np.ndarray) -> str:
    """Values from −1 to 1 as a picture in an address: white is 0."""
    from PIL import Image

    ends = {True: np.array([178, 24, 43]), False: np.array([33, 102, 172])}
    share = np.abs(values.clip(-1, 1))[..., None]
    pixels = np.where(values[..., None] > 0, 255 + share * (ends[True] - 255), 255 + share * (ends[False] - 255))
    buffer = io.BytesIO()
    Image.fromarray(pixels.round().astype(np.uint8)).save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def picture_side(matrix: np.ndarray) -> int | None:
    """The side of the square picture that each row is, of one or three channels; None where it is no picture."""
    for channels in (1, 3):
        side = round((matrix.shape[1] / channels) ** 0.5)
        if side > 2 and side * side * channels == matrix.shape[1]:
            return side
    return None


def as_images(matrix: np.ndarray) -> np.ndarray:
    """Rows as square pictures, channels averaged."""
    side = picture_side(matrix)
    assert side is not None
    return matrix.reshape(len(matrix), -1, side, side).mean(1)
