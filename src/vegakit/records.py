"""State and messages as JSON, exactly there and back (base, pure).

Everything that is stored or sent is a `msgspec.Struct`: frozen for what happened, mutable for a
machine's own state. Readers ignore fields they do not know and fill those they miss from
defaults, so formats grow by adding fields only.
"""

import hashlib
from typing import TypeAlias, TypeVar

import msgspec

from vegakit.errors import InvalidRecordError

__all__ = [
    "UNREADABLE_JSON",
    "Json",
    "canonical",
    "digest128",
    "from_json",
    "to_json",
]


Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

T = TypeVar("T")

UNREADABLE_JSON = (msgspec.DecodeError, RecursionError, UnicodeError)
"""The errors of `msgspec` for JSON that is damaged, nested too deep, or not UTF-8."""

_CANONICAL = msgspec.json.Encoder(order="sorted")


def to_json(record: object) -> bytes:
    """A part of a state that is alive says by `written()` what is kept of it."""
    return _ENCODER.encode(record)


def _written(part: object) -> object:
    written = getattr(part, "written", None)
    if written is None:
        raise TypeError(f"{type(part).__name__} cannot be written as JSON")
    return written()


def from_json(kind: type[T], text: bytes | str) -> T:
    """Read a record, or raise `InvalidRecordError` with the place that is wrong."""
    try:
        return msgspec.json.decode(text, type=kind)
    except UNREADABLE_JSON as error:
        raise InvalidRecordError(
            f"expected a record of {getattr(kind, '__name__', kind)}: {error}; "
            "it was written by another version or damaged"
        ) from error


def canonical(record: object) -> bytes:
    """The one spelling of a value: equal values give equal bytes, whatever the order of keys."""
    return _CANONICAL.encode(record)


def digest128(record: object) -> str:
    """Return a digest of a record by its canonical JSON."""
    return hashlib.blake2b(canonical(record), digest_size=16).hexdigest()


_ENCODER = msgspec.json.Encoder(enc_hook=_written)
