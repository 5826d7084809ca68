"""What a document may be called."""

from vegakit.errors import InvalidRecordError

__all__ = ["check_name"]


def check_name(kind: str, key: str) -> None:
    """An empty key would never be listed, since pages begin after the empty key."""
    if not kind or not key:
        raise InvalidRecordError(
            f"a document has a kind and a key, both not empty; got {kind!r} and {key!r}"
        )
