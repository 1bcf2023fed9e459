"""What posteriors that PyTorch has already are worth for pruning in one shot: IVON's and laplace-torch's, beside the
curvature that `ox.prune` measures by itself, and magnitudes.

    python benchmarks/torch_posteriors.py --out results/torch_posteriors.jsonl

An MLP in PyTorch is trained on the embedded images but 500, which set the temperature, by IVON or by AdamW (whose
posterior is laplace-torch's diagonal Gauss–Newton one, by BackPACK). Each line has the test figures at one sparsity in
one order, and the accuracy of the module that came back, in PyTorch. Needs occamax[torch], ivon-opt and laplace-torch.
"""

import argparse
import importlib.metadata
import json
import warnings
from pathlib import Path
from typing import Any

import ivon  # pyright: ignore[reportMissingImports]
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from laplace import Laplace  # pyright: ignore[reportMissingImports]
from laplace.curvature import BackPackGGN  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.utils.data import DataLoader, TensorDataset  # pyright: ignore[reportMissingImports]
from trials import command, keep

import occamax as ox
from occamax.experiment.environment import environment

LIBRARIES = ("torch", "torchax", "ivon-opt", "laplace-torch", "backpack-for-pytorch")
APART = 500  # of 10,000 images
FIGURES = ("accuracy", "nll", "ece", "temperature")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--epochs", type=int, default=20)
    made.add_argument("--seeds", type=int, default=3)
    made.add_argument("--sparsities", type=float, nargs="+", default=[0.5, 0.8, 0.9])
    made.add_argument("--out", type=Path)
    return made


def mlp() -> Any:
    sizes = nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10)
    return nn.Sequential(nn.Flatten(), *sizes)


def by_ivon(module: Any, loader: Any, epochs: int) -> ox.Moments:
    """Trains it; its posterior."""
    count, rounds = len(loader.dataset), epochs * len(loader)
    optimizer = ivon.IVON(module.parameters(), lr=0.1, ess=count, weight_decay=1e-3, hess_init=0.1, beta2=0.9995)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, rounds)
    for _ in range(epochs):
        for images, labels in loader:
            with optimizer.sampled_params(train=True):
                optimizer.zero_grad()
                nn.functional.cross_entropy(module(images), labels).backward()
            optimizer.step()
            rates.step()
    group = optimizer.param_groups[0]
    return ox.Moments(std=(group["ess"] * (group["hess"] + group["weight_decay"])).rsqrt())


def by_laplace(module: Any, loader: Any, epochs: int) -> ox.Moments:
    """Trains it by AdamW; its Laplace posterior."""
    optimizer = torch.optim.AdamW(module.parameters(), 1e-3, weight_decay=0.1)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(images), labels).backward()
            optimizer.step()
            rates.step()
    given = {"subset_of_weights": "all", "hessian_structure": "diag", "backend": BackPackGGN}
    found: Any = Laplace(module, "classification", **given)  # the kind that `given` names, which its type does not say
    found.fit(loader)
    return ox.Moments(precision=found.posterior_precision)


WAYS = {"ivon": by_ivon, "laplace-torch": by_laplace}


def accuracy(module: Any, images: Any, labels: Any) -> float:
    with torch.no_grad():
        return float((module(images).argmax(1) == labels).float().mean())


def measure(way: str, seed: int, options: argparse.Namespace) -> None:
    """Trains a network and prunes it in each order; a line for each, and one for the dense network."""
    data = ox.load_data("fashion_mini")
    center, scale = data.train.inputs.mean(), data.train.inputs.std()
    images, held = (((split.inputs - center) / scale).astype(np.float32) for split in (data.train, data.test))
    labels, right = data.train.targets, data.test.targets
    apart, images, labels = (images[:APART], labels[:APART]), images[APART:], labels[APART:]
    torch.manual_seed(seed)
    pairs = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels).long())
    module = mlp()
    moments = WAYS[way](module, DataLoader(pairs, 100, shuffle=True), options.epochs)
    versions = {name: importlib.metadata.version(name) for name in LIBRARIES}
    base = {"data": "fashion_mini", "network": "mlp", "way": way, "seed": seed, "epochs": options.epochs}
    asked = torch.from_numpy(held), torch.from_numpy(right)
    network, found = ox.from_torch(module, images[0]), []
    orders = {
        "its own": (moments, ox.criteria.SignalToNoise()),
        "Gauss–Newton": (None, ox.criteria.SignalToNoise()),
        "magnitude": (None, ox.criteria.Magnitude()),
    }
    asking = [(0.0, "magnitude", None)]  # the dense network, at its own temperature
    asking += [
        (share, name, repair) for share in options.sparsities for name in orders for repair in (None, ox.Repair())
    ]
    for share, name, repair in asking:
        curvature, order = orders[name]
        given: dict[str, Any] = {"curvature": curvature, "order": order, "repair": repair, "tolerance": None}
        small = ox.prune(network, (images, labels), share, held_out=apart, test=(held, right), **given)
        told = {own: round(float(small.summary[own]), 4) for own in FIGURES}
        told["accuracy_torch"] = round(accuracy(small.to_torch(), *asked), 4)
        names = {"sparsity": share, "order": name, "repair": repair is not None}
        found.append({**names, **told, "settings": small.config.settings})
    for line in found:
        print(json.dumps({**base, **{own: value for own, value in line.items() if own != "settings"}}), flush=True)
        own = environment()
        own["versions"] = own["versions"] | versions
        keep({**base, **line, **own, "command": command()}, options.out)


if __name__ == "__main__":
    chosen = parser().parse_args()
    warnings.filterwarnings("ignore", message="start: the deviations handed in hardly differ")  # the table shows it
    torch.set_num_threads(1)  # two that wait for each other are slower where other work runs
    for each in range(chosen.seeds):
        for name in WAYS:
            measure(name, each, chosen)
