"""Values of any kind as plain ones: what JSON knows, and bytes."""

from typing import Any

import msgspec

__all__ = ["plain"]

_BYTES = (bytes, bytearray, memoryview)


def plain(value: object) -> Any:  # noqa: ANN401
    """A copy that its owner cannot change any more. Records become dicts; of what is no record only
    the type is told."""
    try:
        return msgspec.to_builtins(value, builtin_types=_BYTES, enc_hook=_type_of)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _type_of(value)


def _type_of(value: object) -> str:
    return f"<{type(value).__name__}>"
