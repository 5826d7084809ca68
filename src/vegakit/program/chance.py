"""Chance that is the same on every replay: drawn from a word instead of from the world."""

from hashlib import blake2b

__all__ = ["draw"]


def draw(word: str) -> float:
    """From 0 to 1."""
    return int.from_bytes(blake2b(word.encode(), digest_size=4).digest()) / 2**32
