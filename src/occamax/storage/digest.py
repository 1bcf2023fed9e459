"""A digest inside the file that it is of: computed with zeros in its own place. It needs no package to be checked."""

import hashlib

NO_DIGEST = "0" * 32


def digest_of(content: bytes) -> str:
    """Of a file whose own digest is still zeros."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def is_intact(content: bytes, digest: str) -> bool:
    if len(digest) != len(NO_DIGEST) or digest == NO_DIGEST:
        return False
    return digest_of(content.replace(digest.encode(), NO_DIGEST.encode(), 1)) == digest
