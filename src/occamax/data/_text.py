"""Texts → token numbers. The words are learnt from the training texts alone, by the `tokenizers` library."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from ..errors import ArgumentError, DataError

SPECIAL = ("[PAD]", "[UNK]")  # tokens 0 and 1: what fills a text up, and a piece that no token stands for
LONGEST = 512  # tokens that a text may be cut to
AT_ONCE = 1000  # texts: what the library says of one is much larger than the text


@dataclass(frozen=True)
class TextEncoder:
    """Words in small letters, rare ones in pieces, the longest that is known first; at most `length` of them a text: a
    longer one is cut, a shorter one filled up with token 0. `words` are the tokens in the order of their numbers; those
    that begin a word begin with a ▁."""

    words: tuple[str, ...]
    length: int

    def __post_init__(self):
        if self.words[: len(SPECIAL)] != SPECIAL or len(set(self.words)) != len(self.words):
            raise DataError(f"encoder: its words must begin with {', '.join(SPECIAL)}, and each stand there once")
        if not isinstance(self.length, int) or not 0 < self.length <= LONGEST:
            raise ArgumentError(f"length: {self.length!r} given; it must be a whole number from 1 to {LONGEST}")

    def encode(self, texts: Sequence[str]) -> Int[np.ndarray, "n length"]:
        found = np.zeros((len(texts), self.length), np.int32)
        for first in range(0, len(texts), AT_ONCE):
            some = list(texts[first : first + AT_ONCE])
            for row, tokens in enumerate(self._tokenizer.encode_batch(some), first):
                ids = tokens.ids[: self.length]
                found[row, : len(ids)] = ids
        return found

    @cached_property
    def _tokenizer(self) -> Any:
        return _tokenizer(self.words)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, from which `from_dict` makes an equal object."""
        return {"kind": "text", "words": list(self.words), "length": self.length}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TextEncoder":
        try:
            return cls(tuple(values["words"]), values["length"])
        except (KeyError, TypeError) as error:
            raise DataError("encoder: is none of texts; it must hold words and a length") from error

    @classmethod
    def learnt(cls, texts: Sequence[str], words: int = 4096, share: float = 0.99) -> "TextEncoder":
        """At most so many words, from these texts; long enough that this share of them is not cut."""
        if not texts:
            raise DataError("texts: none given; there must be some to learn words from")
        whole = cls(_learnt_words(texts, words), LONGEST)
        lengths = (whole.encode(texts) != 0).sum(1)
        return replace(whole, length=max(int(np.quantile(lengths, share, method="higher")), 1))


def encoder_kind(values: dict[str, Any] | None) -> str | None:
    """What an encoder's data are of: `text`, `table`, or nothing."""
    return None if values is None else values.get("kind", "table")


def _library() -> Any:
    """The `tokenizers` package, which not everybody has."""
    if find_spec("tokenizers") is None:
        raise DataError("tokenizers is not installed, and texts need it: pip install 'occamax[text]'")
    return import_module("tokenizers")


def _learnt_words(texts: Sequence[str], count: int) -> tuple[str, ...]:
    """By byte-pair merges, which are the same every time; the library's trainer of WordPiece numbers pieces in the
    order of a hash map. The merges are not kept: the longest piece first does without."""
    library = _library()
    tokenizer = _prepared(library.models.BPE(unk_token=SPECIAL[1]))
    trainer = library.trainers.BpeTrainer(
        vocab_size=count, special_tokens=list(SPECIAL), show_progress=False, min_frequency=2
    )
    tokenizer.train_from_iterator(texts, trainer)
    known = tokenizer.get_vocab()
    return tuple(sorted(known, key=known.__getitem__))


def _tokenizer(words: tuple[str, ...]) -> Any:
    """What cuts a text into these, the longest first."""
    known = {word: number for number, word in enumerate(words)}
    model = _library().models.WordPiece(vocab=known, unk_token=SPECIAL[1], continuing_subword_prefix="")
    return _prepared(model)


def _prepared(model: Any) -> Any:
    """Small letters without accents; words and signs apart, each begun with a ▁."""
    library = _library()
    before = library.pre_tokenizers
    tokenizer = library.Tokenizer(model)
    tokenizer.normalizer = library.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = before.Sequence([before.BertPreTokenizer(), before.Metaspace(prepend_scheme="always")])
    return tokenizer


@dataclass(frozen=True)
class Rated:
    """Texts with a rating each."""

    texts: list[str] = field(default_factory=list)
    ratings: list[float] = field(default_factory=list)


def read_rated(path: Path) -> Rated:
    """Lines of a number, a rating and a text, parted by tabs."""
    found = Rated()
    try:
        lines = path.read_bytes().decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is no text in UTF-8 (byte {error.start}). Delete it, and fetch it again.") from error
    for number, line in enumerate(lines, 1):
        parts = line.split("\t", 2)
        try:
            rating, text = float(parts[1]), parts[2].strip()
        except (IndexError, ValueError) as error:
            raise DataError(
                f"{path}, line {number}: must be a number, a rating and a text, parted by tabs. Delete the file, and "
                "fetch it again."
            ) from error
        found.texts.append(text)
        found.ratings.append(rating)
    return found
