"""Jobs of `campaign.py` for networks that others trained: EfficientNet-Lite0 on CIFAR-10 enlarged, MiniLM on snippets.

All begin at the same weights and take the same steps. Plain training is chosen for its dense network and, by itself,
for its networks at 80 %, where `bmr-natural` is chosen too: three and four candidates, on validation data.
"""

from collections.abc import Iterator, Sequence
from typing import Any

WAYS = {
    "lite0": ("cifar10", "lite0", "--epochs", "10", "--steps", "300", "--side", "128", "--augment", "flip"),
    "minilm": ("film_snippets", "minilm", "--epochs", "10", "--steps", "100", "--batch", "64"),
}
TRIED = {"dense": ("plain", "0"), "plain": ("plain", "0.8"), "bmr": ("bmr-natural", "0.8")}
RATES = {"lite0": (3e-4, 1e-3, 3e-3), "minilm": (3e-5, 1e-4, 3e-4)}
Way = tuple[str, ...]


def rate(value: float) -> str:
    return f"learning_rate=Cosine({value},warm_up=0.05)"


def natural() -> dict[str, Way]:
    """As it comes, faster, and two colder: with many more weights than examples the divergence at a KL weight of a
    quarter may outweigh the data."""
    found: dict[str, Way] = {"as-it-is": (rate(0.02),), "faster": (rate(0.1),)}
    return {**found, **{f"kl-{beta}": (rate(0.02), f"kl_weight={beta}") for beta in (0.02, 0.001)}}


def choices() -> dict[str, dict[str, Way]]:
    """Values of the method by candidate."""
    found: dict[str, dict[str, Way]] = {}
    for model in WAYS:
        plain: dict[str, Way] = {f"{value:g}": ("optimizer=AdamW(0.01)", rate(value)) for value in RATES[model]}
        found |= {f"{model}dense": plain, f"{model}plain": plain}
        found[f"{model}bmr"] = natural()
    return found


def _job(name: str, model: str, method: str, level: str, *more: str, choice: str | None = None) -> dict[str, Any]:
    data, network, *way = WAYS[model]
    words = (data, network, method, *way, "--precision", "bfloat16", "--samples", "20", "--levels", level, *more)
    return {"name": name, "script": "pretrained.py", "words": words, "minutes": 10, "text": model == "minilm",
            "choice": choice}  # fmt: skip


def candidates() -> Iterator[dict[str, Any]]:
    for choice, changes in choices().items():
        model = next(name for name in WAYS if choice.startswith(name))
        for name, own in changes.items():
            yield _job(f"{choice}-{name}", model, *TRIED[choice.removeprefix(model)], "--set", *own)


def tests() -> Iterator[dict[str, Any]]:
    """On the test set, as it was chosen: one seed at all levels, two more at some."""
    yield from _tests(0, ("0", "0.7", "0.8", "0.9", "evidence"))
    for seed in (1, 2):
        yield from _tests(seed, ("0", "0.7", "0.8"))


def _tests(seed: int, levels: Sequence[str]) -> Iterator[dict[str, Any]]:
    for model in WAYS:
        for level in levels:
            for kind in ("dense",) if level == "0" else ("bmr",) if level == "evidence" else ("bmr", "plain"):
                name, asked = f"pretrained-{model}-{kind}-{level}-{seed}", ("--test", "--first-seed", str(seed))
                yield _job(name, model, TRIED[kind][0], level, *asked, choice=f"{model}{kind}")
