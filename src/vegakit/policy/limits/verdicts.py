"""Answers that several policies give."""

from msgspec import Struct

__all__ = ["NotYet"]


class NotYet(Struct, frozen=True, tag=True):
    """No, but asking again after `wait_ms` may succeed."""

    wait_ms: int
