"""What an export says of itself: how to prepare an image, what the outputs mean, where it came from."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import ExportError

FORMAT = 1


@dataclass(frozen=True)
class Card:
    class_names: tuple[str, ...]
    input_shape: tuple[int, int, int]  # of the raw image: channels, height, width
    mean: tuple[float, ...]  # of each channel, in units of 0 to 1
    std: tuple[float, ...]
    pad: int  # pixels of black on every side
    version: str  # of occamax
    config: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    format: int = FORMAT

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str, source: str) -> "Card":
        try:
            values = json.loads(text)
            if values["format"] != FORMAT:
                raise ExportError(f"{source}: is of export format {values['format']}; this version reads {FORMAT}")
            lists = {name: tuple(values[name]) for name in ("class_names", "input_shape", "mean", "std")}
            card = Card(**{**values, **lists})
            channels, height, width = map(int, card.input_shape)
            if min(channels, height, width, len(card.class_names)) < 1 or len(card.mean) != channels:
                raise ValueError("sizes that do not fit together")
        except (ValueError, KeyError, TypeError) as error:
            raise ExportError(f"{source}: is no export of occamax, or damaged ({error})") from error
        return card
