"""A chain of entries in which any change shows: how one is hashed, how all are verified.

    hash of entry n  =  SHA-256 of "n", a new line, the hash of entry n-1, a new line, its text

| found                                        | is told as |
|----------------------------------------------|------------|
| text, number or link does not give its hash  | edited     |
| a number is left out                         | gap        |
| an entry stands there twice                  | duplicate  |
| an entry follows another than the one before | fork       |
| fewer entries than the head that was kept    | truncated  |
| another entry where that head was            | rewritten  |

Who may write the file can cut off its end, or write a whole new chain: the rest still fits. Only a
head kept where they cannot write shows the last two.
"""

import hashlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec import Struct

from vegakit.errors import UserError
from vegakit.ports import AuditHead

__all__ = [
    "EMPTY",
    "AuditVerdict",
    "Fault",
    "FaultKind",
    "Link",
    "hash_of",
    "parse_head",
    "verify_chain",
]

EMPTY = AuditHead(0, "0" * 64)
_MOST_FAULTS = 100


class Link(NamedTuple):
    """As it is stored, or as somebody left it."""

    number: int
    prev_hash: str
    hash: str
    text: str


class FaultKind(StrEnum):
    EDITED = "edited"
    GAP = "gap"
    DUPLICATE = "duplicate"
    FORK = "fork"
    TRUNCATED = "truncated"
    REWRITTEN = "rewritten"


class Fault(Struct, frozen=True):
    kind: FaultKind
    number: int
    """Of the first entry that is wrong."""


class AuditVerdict(Struct, frozen=True):
    """The first hundred faults; none is a chain that holds up to its head.

    `back_ms` is how far an entry says it was written before an earlier one: a little between
    processes, much when a clock was set back. The order is that of the numbers all the same.
    """

    head: AuditHead
    faults: tuple[Fault, ...] = ()
    back_ms: int = 0


class _Dated(Struct):
    at_ms: int


def hash_of(number: int, prev_hash: str, text: str) -> str:
    spelled = f"{number}\n{prev_hash}\n{text}"
    return hashlib.sha256(spelled.encode(errors="surrogateescape")).hexdigest()


def parse_head(text: str) -> AuditHead:
    count, colon, found = text.partition(":")
    if not (colon and count.isascii() and count.isdigit() and len(found) == len(EMPTY.hash)):
        raise UserError(
            f"a head is a count, a colon and 64 hex digits, as `vega audit verify` prints it; "
            f"got {text!r}"
        )
    return AuditHead(int(count), found)


def verify_chain(links: Iterable[Link], kept: AuditHead | None = None) -> AuditVerdict:
    """In the order of their numbers; `kept` is a head from an earlier time."""
    before = Link(0, "", EMPTY.hash, "")
    faults: list[Fault] = []
    found = None if kept is None or kept.count else EMPTY.hash
    latest_ms = back_ms = 0
    for link in links:
        if len(faults) < _MOST_FAULTS:
            faults += _faults_of(link, before)
        if kept is not None and link.number == kept.count:
            found = link.hash
        at_ms = _time_of(link, latest_ms)
        latest_ms, back_ms = max(latest_ms, at_ms), max(back_ms, latest_ms - at_ms)
        before = link
    faults += _faults_at_end(kept, found, before.number)
    return AuditVerdict(AuditHead(before.number, before.hash), tuple(faults), back_ms)


def _faults_of(link: Link, before: Link) -> Iterator[Fault]:
    if link.hash != hash_of(link.number, link.prev_hash, link.text):
        yield Fault(FaultKind.EDITED, link.number)
    if link.number > before.number + 1:
        yield Fault(FaultKind.GAP, before.number + 1)
    elif link.number <= before.number and link.hash == before.hash:
        yield Fault(FaultKind.DUPLICATE, link.number)
    elif link.prev_hash != before.hash:
        yield Fault(FaultKind.FORK, link.number)


def _time_of(link: Link, otherwise_ms: int) -> int:
    try:
        return msgspec.json.decode(link.text, type=_Dated).at_ms
    except (msgspec.DecodeError, UnicodeError, TypeError):
        return otherwise_ms


def _faults_at_end(kept: AuditHead | None, found: str | None, count: int) -> Iterator[Fault]:
    if kept is None:
        return
    if count < kept.count:
        yield Fault(FaultKind.TRUNCATED, count + 1)
    elif found != kept.hash:
        yield Fault(FaultKind.REWRITTEN, kept.count)
