"""Answers that several policies give, and what a person is told of a refusal."""

from msgspec import Struct

__all__ = ["NotYet", "left_alone", "no_more_now", "too_much_at_once"]


class NotYet(Struct, frozen=True, tag=True):
    """No, but asking again after `wait_ms` may succeed."""

    wait_ms: int


def no_more_now(who: str, wait_ms: int) -> str:
    """`who` is a model or an agent; the limit is its own."""
    return (
        f"{who} takes no more calls now, the next in {wait_ms} ms; "
        "slow down, or set strategy = 'queue' for it"
    )


def too_much_at_once(who: str, tokens: int, burst: int) -> str:
    return (
        f"one call of {tokens:,} tokens is more than {who} ever lets through "
        f"at once ({burst:,}); send less, or raise the burst of its token limit"
    )


def left_alone(who: str, wait_ms: int) -> str:
    return (
        f"{who} has failed too often and is left alone for {wait_ms} ms more; "
        "catch CircuitOpen, or use another model meanwhile"
    )
