"""What a run is, as plain data: names, numbers, the method, the layout, and where network and data came from."""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import ArgumentError, RunError
from ..storage.structured import differences

FORMAT = 2
DTYPES = ("float32", "bfloat16")
KINDS = {  # of what is in the file
    "data": str, "network": str, "method": str, "epochs": int, "steps_per_epoch": int, "batch_size": int, "seed": int,
    "num_samples": int, "curve_samples": int | None, "compute_dtype": str, "settings": dict, "origin": dict,
    "layout": list,
}  # fmt: skip
# what 0.1 called them
OLD_NAMES = {"steps": "steps_per_epoch", "batch": "batch_size", "samples": "num_samples", "precision": "compute_dtype"}


@dataclass(frozen=True)
class Config:
    """One run. Written to and read from `config.json`. `data`, `network` and `method` are names for tables; what they
    are in full is in `settings` (the method, likelihood, preprocessing and augmentation as data), `origin` (where data
    and network came from) and `layout`.

    **epochs**, **steps_per_epoch**, **batch_size**: how long it trains; **seed** of the run; **num_samples** draws of
    the weights in the last evaluation, **curve_samples** in those before, as many unless given; **compute_dtype** of
    activations and products.

    Raises:
        ArgumentError: a number that cannot work.
        RunError: from `from_dict`, a file of another version, or a damaged one.

    Examples:
        >>> fitted.config.network, fitted.config.method, fitted.config.epochs
        ('MLP', 'bmr', 4)
    """

    data: str
    network: str
    method: str
    epochs: int = 50
    steps_per_epoch: int = 500
    batch_size: int = 128
    seed: int = 0
    num_samples: int = 100
    curve_samples: int | None = None
    compute_dtype: str = "float32"
    settings: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, Any] = field(default_factory=dict)
    layout: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self):
        if self.compute_dtype not in DTYPES:
            raise ArgumentError(f"compute_dtype: {self.compute_dtype!r} given; it must be one of {', '.join(DTYPES)}")
        numbers = {"seed": 0, "num_samples": 1} | ({} if self.curve_samples is None else {"curve_samples": 1})
        for name, least in numbers.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ArgumentError(f"{name}: {value!r} given; it must be a whole number from {least} up")
        if self.seed >= 2**32:
            raise ArgumentError(f"seed: {self.seed} given; it must be under 2³²")

    @property
    def name(self) -> str:
        """For a folder: data, network, method and seed."""
        return f"{self.data}-{self.network}-{self.method}-seed{self.seed}"

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON-able data, with the version; `from_dict` is the inverse."""
        return {"format": FORMAT, "version": __version__, **asdict(self)}

    def differences(self, other: "Config") -> list[str]:
        """In what another configuration differs, in words; where it runs and what its files are called do not count."""
        return list(differences(_comparable(self), _comparable(other)))

    @staticmethod
    def from_dict(values: dict[str, Any], source: Path) -> "Config":
        """What `as_dict` wrote. Runs of 0.1 are refused by name: their method was not stored as data."""
        if values.get("format") != FORMAT:
            version = values.get("version", "0.1" if "format" not in values else "unknown")
            raise RunError(
                f"{source}: was written by occamax {version}; this is {__version__}, which cannot read its runs. Use "
                "that version, or train it anew."
            )
        return _config({name: value for name, value in values.items() if name not in ("format", "version")}, source)

    @staticmethod
    def from_results(values: dict[str, Any], source: Path) -> "Config":
        """The same for kept results, also those of 0.1, of which only names and numbers are wanted."""
        if values.get("format") == FORMAT:
            return Config.from_dict(values, source)
        renamed = {OLD_NAMES.get(name, name): value for name, value in values.items()}
        settings = {name: renamed.pop(name, None) for name in ("sparsity", "unit_price")}
        return _config({**renamed, "settings": {name: value for name, value in settings.items() if value}}, source)


def _config(values: dict[str, Any], source: Path) -> Config:
    known = {own.name for own in fields(Config)}
    strange, missing = set(values) - known, {"data", "network", "method"} - set(values)
    if strange or missing:
        raise RunError(
            f"{source}: is no configuration of this version of occamax (unknown: {sorted(strange) or 'none'}, missing: "
            f"{sorted(missing) or 'none'})"
        )
    for name, kind in KINDS.items():
        if name in values and not isinstance(values[name], kind):
            raise RunError(f"{source}: is damaged; its {name} is {str(values[name])[:50]!r}")
    return Config(**values)


def _comparable(config: Config) -> dict[str, Any]:
    plain = {key: value for key, value in asdict(config).items() if key not in ("origin", "layout")}
    return plain | {"layout": [_plain(block) for block in config.layout], "examples": _contents(config.origin)}


def _contents(origin: dict[str, Any]) -> dict[str, Any]:
    """What tells one set of examples from another, wherever they lie."""
    found = (origin.get("data") or {}).get("from") or {}
    return {name: found[name] for name in ("digest", "files", "steps") if name in found}


def _plain(block: dict[str, Any]) -> dict[str, Any]:
    """A block without tuples, as it is read back."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in block.items()}
