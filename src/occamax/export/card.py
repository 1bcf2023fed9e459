"""What an export says of itself: what it takes, what its outputs mean, where it came from."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..errors import ExportError
from .packing import whole_text

FORMAT = 2
RUN_FIGURES = "accuracy", "nll", "ece", "ece_floor", "rmse", "sparsity", "kl_weight"


@dataclass(frozen=True)
class Card:
    """**class_names** None for a regression, whose outputs **target_names** names. **input_shape** and **input_dtype**
    are those of one raw example. **encoder** the data of a `TableEncoder` for a table or of a `TextEncoder` for
    texts, None for what is neither.
    **resize**: images of another size were resized in training, so they are here.
    **figures** are of the network in the file, measured on the test set as it was written; **run_figures** of the run:
    of draws of the weights, averaged. **temperature** is in the posterior, so in every draw of it, and in the file's
    network, the posterior mean, as well; **mean_temperature** by which the outputs of that one network are divided on
    top. None where nothing was divided."""

    class_names: tuple[str, ...] | None
    input_shape: tuple[int, ...]
    input_dtype: str
    version: str  # of occamax
    target_names: tuple[str, ...] | None = None
    encoder: dict[str, Any] | None = None
    resize: bool = False
    config: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    run_figures: dict[str, float] = field(default_factory=dict)
    temperature: float | None = None
    mean_temperature: float | None = None
    format: int = FORMAT

    @staticmethod
    def of(config: dict[str, Any], last: dict[str, Any]) -> "Card":
        """The card of a run whose configuration this is, as data; `last` its last figures."""
        data, example = config["origin"]["data"], config["origin"]["example"]
        source = data.get("from") or {}
        names = {key: None if data.get(key) is None else tuple(data[key]) for key in ("class_names", "target_names")}
        return Card(
            class_names=names["class_names"],
            input_shape=tuple(example["shape"]),
            input_dtype=example["dtype"],
            version=config["version"],
            target_names=names["target_names"],
            encoder=source.get("encoder"),
            resize=bool((source.get("options") or {}).get("size")),
            config={name: value for name, value in config.items() if name not in ("format", "version", "layout")},
            run_figures={name: last[name] for name in RUN_FIGURES if name in last},
            temperature=last.get("temperature"),
            mean_temperature=last.get("mean_temperature"),
        )

    @property
    def takes_images(self) -> bool:
        return self.input_dtype == "uint8" and len(self.input_shape) == 3 and self.input_shape[0] in (1, 3)

    @property
    def input_name(self) -> str:
        return "pixels" if self.input_dtype == "uint8" and len(self.input_shape) == 3 else "inputs"

    @property
    def output_name(self) -> str:
        return "prediction" if self.class_names is None else "probabilities"

    def as_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str, source: str) -> "Card":
        try:
            values = json.loads(whole_text(text))
            found = values["format"]
            if found == 1:
                raise ExportError(
                    f"{source}: was written by occamax 0.1; this version reads export format {FORMAT}. Export it again."
                )
            if found != FORMAT:
                raise ExportError(f"{source}: is of export format {found}; this version reads {FORMAT}")
            names = ("class_names", "input_shape", "target_names")
            lists = {name: None if values[name] is None else tuple(values[name]) for name in names}
            card = Card(**{**values, **lists})
            np.dtype(card.input_dtype)
            if not all(isinstance(size, int) and size > 0 for size in card.input_shape) or card.class_names == ():
                raise ValueError("sizes that do not fit together")
            if card.encoder is not None and not isinstance(card.encoder, dict):
                raise ValueError("an encoder that is none")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ExportError(f"{source}: is no export of occamax, or damaged ({error})") from error
        return card
