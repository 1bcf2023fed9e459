"""What a classifier says of single test examples, as small plain data for whoever reads the run: how often it is right
at each confidence, and the examples it is surest of, least sure of, and wrong about. No jax."""

import base64
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

BINS = 15  # of equal width, as a reliability diagram has them
SHOWN = 10  # examples of each kind
LARGEST = 64  # pixels on a side of a picture that is kept


def examined(
    probabilities: Float[np.ndarray, "n classes"],
    look: Callable[[int], Shaped[np.ndarray, "..."]],
    labels: Int[np.ndarray, "n"],
    class_names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """**reliability** `reliability`; **surest**, **least_sure** and **wrong** (the surest first) some examples each,
    with the input that `look` gives of a number."""
    probabilities = np.asarray(probabilities, np.float64)
    confidence, said = probabilities.max(1), probabilities.argmax(1)
    names = [str(i) for i in range(probabilities.shape[1])] if class_names is None else list(class_names)
    order = np.argsort(-confidence, kind="stable")
    chosen = {"surest": order, "least_sure": order[::-1], "wrong": order[(said != labels)[order]]}

    def one(i: int) -> dict[str, Any]:
        words = {"said": names[said[i]], "truth": names[labels[i]], "confidence": round(float(confidence[i]), 4)}
        return {"number": i, **words, "picture": picture(look(i))}

    found = {kind: [one(int(i)) for i in places[:SHOWN]] for kind, places in chosen.items()}
    return {"examples": len(labels), "reliability": reliability(confidence, said == labels), **found}


def reliability(confidence: np.ndarray, is_right: np.ndarray, bins: int = BINS) -> list[dict[str, float]]:
    """For each bin of confidence that has examples: how many, their mean confidence, and the share that is right."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    found = []
    for number in np.unique(place):
        own = place == number
        means = {"confidence": confidence[own].mean(), "accuracy": is_right[own].mean()}
        found.append({"count": int(own.sum()), **{name: round(float(value), 4) for name, value in means.items()}})
    return found


def picture(example: np.ndarray) -> str | None:
    """A PNG of one image of bytes (channels, height, width), in base64; None of what is no image."""
    if example.dtype != np.uint8 or example.ndim != 3 or example.shape[0] not in (1, 3):
        return None
    from PIL import Image

    pixels = np.moveaxis(example, 0, -1)
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    image.thumbnail((LARGEST, LARGEST))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()
