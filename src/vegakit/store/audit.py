"""The audit: a chain of entries on a SQLite file in which every change shows.

Whoever can write the file can cut off its end or write a whole new chain, and the rest still
fits. Only a head kept where they cannot write shows that.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from enum import StrEnum
from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct, structs

from vegakit.errors import UserError
from vegakit.ports import AuditEntry, AuditHead, AuditLevel
from vegakit.records import Json, canonical
from vegakit.store.sqlite.connection import SqliteHandle, SqliteThread, Synchronous, sqlite_error
from vegakit.store.thread import Format

# A chain of entries in which any change shows: how one is hashed, how all are verified.
#
#     hash of entry n  =  SHA-256 of "n", a new line, the hash of entry n-1, a new line, its text
#
# | found                                        | is told as |
# |----------------------------------------------|------------|
# | text, number or link does not give its hash  | edited     |
# | a number is left out                         | gap        |
# | an entry stands there twice                  | duplicate  |
# | an entry follows another than the one before | fork       |
# | fewer entries than the head that was kept    | truncated  |
# | another entry where that head was            | rewritten  |
#
# Who may write the file can cut off its end, or write a whole new chain: the rest still fits.
# Only a head kept where they cannot write shows the last two.


EMPTY = AuditHead(0, "0" * 64)
_MOST_FAULTS = 100


class AuditLink(NamedTuple):
    """A link of the chain is held as it is stored, or as somebody left it."""

    number: int
    prev_hash: str
    hash: str
    text: str


class AuditFaultKind(StrEnum):
    """Says what is wrong at one place of a chain."""

    EDITED = "edited"
    GAP = "gap"
    DUPLICATE = "duplicate"
    FORK = "fork"
    TRUNCATED = "truncated"
    REWRITTEN = "rewritten"


class AuditFault(Struct, frozen=True):
    """One place at which a chain does not hold."""

    kind: AuditFaultKind
    number: int
    """Of the first entry that is wrong."""


class AuditVerdict(Struct, frozen=True):
    """The first hundred faults; none is a chain that holds up to its head."""

    head: AuditHead
    faults: tuple[AuditFault, ...] = ()
    back_ms: int = 0


class _Dated(Struct):
    at_ms: int


def hash_of(number: int, prev_hash: str, text: str) -> str:
    """Return the hash of an entry, which stands for all before it too."""
    spelled = f"{number}\n{prev_hash}\n{text}"
    return hashlib.sha256(spelled.encode(errors="surrogateescape")).hexdigest()


def parse_head(text: str) -> AuditHead:
    """Read a head that was written down as `count:hash`."""
    count, colon, found = text.partition(":")
    if not (colon and count.isascii() and count.isdigit() and len(found) == len(EMPTY.hash)):
        raise UserError(
            f"a head is a count, a colon and 64 hex digits, as `vega audit verify` prints it; "
            f"got {text!r}"
        )
    return AuditHead(int(count), found)


def verify_chain(links: Iterable[AuditLink], kept: AuditHead | None = None) -> AuditVerdict:
    """Check links in the order of their numbers; `kept` is a head from an earlier time."""
    before = AuditLink(0, "", EMPTY.hash, "")
    faults: list[AuditFault] = []
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


def _faults_of(link: AuditLink, before: AuditLink) -> Iterator[AuditFault]:
    if link.hash != hash_of(link.number, link.prev_hash, link.text):
        yield AuditFault(AuditFaultKind.EDITED, link.number)
    if link.number > before.number + 1:
        yield AuditFault(AuditFaultKind.GAP, before.number + 1)
    elif link.number <= before.number and link.hash == before.hash:
        yield AuditFault(AuditFaultKind.DUPLICATE, link.number)
    elif link.prev_hash != before.hash:
        yield AuditFault(AuditFaultKind.FORK, link.number)


def _time_of(link: AuditLink, otherwise_ms: int) -> int:
    try:
        return msgspec.json.decode(link.text, type=_Dated).at_ms
    except (msgspec.DecodeError, UnicodeError, TypeError):
        return otherwise_ms


def _faults_at_end(kept: AuditHead | None, found: str | None, count: int) -> Iterator[AuditFault]:
    if kept is None:
        return
    if count < kept.count:
        yield AuditFault(AuditFaultKind.TRUNCATED, count + 1)
    elif found != kept.hash:
        yield AuditFault(AuditFaultKind.REWRITTEN, kept.count)


# The audit on a SQLite file: one chain, to which any number of processes append.
#
# Whoever appends holds the file's write lock from reading the last hash to writing the next, and
# no two entries may follow the same one (`UNIQUE (prev_hash)`), not even two first ones. What is
# hashed is the text as it is stored, so nothing is spelled anew to verify it. An append that was
# cut off is dropped whole when the file is next opened.
#
# Keys are hidden before anything is written; who makes an audit says how. A field above 16 KiB is
# cut, and says so.


Hide: TypeAlias = Callable[[object], Json]
"""Any value as JSON without keys, such as `Redactor.redact_json`."""

_MOST_BYTES = 16_384
_DETAILS = frozenset({"inputs", "result"})
_AUDIT = Format(
    "audit",
    1,
    (
        """CREATE TABLE audit (
            number INTEGER PRIMARY KEY, prev_hash TEXT NOT NULL UNIQUE, hash TEXT NOT NULL UNIQUE,
            entry TEXT NOT NULL
        )""",
    ),
)
_HEAD = "SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1"
_APPEND = "INSERT INTO audit (number, prev_hash, hash, entry) VALUES (?, ?, ?, ?)"
_LINKS = "SELECT number, prev_hash, hash, entry FROM audit ORDER BY number"
_LAST_LINKS = "SELECT number, prev_hash, hash, entry FROM audit ORDER BY number DESC LIMIT ?"


class SqliteAudit:
    """Implements `ports.Audit`."""

    def __init__(
        self, path: str | PathLike[str], hide: Hide, *, synchronous: Synchronous = "full"
    ) -> None:
        self._hide = hide
        self._thread = SqliteThread(fspath(path), _AUDIT, synchronous, SqliteHandle)

    async def append(self, entry: AuditEntry, level: AuditLevel = AuditLevel.BASIC) -> None:
        if level is AuditLevel.NONE:
            return
        text = _text_of(entry, level, self._hide)

        def work(file: SqliteHandle) -> tuple[None, Callable[[], object]]:
            head = _head_of(file)
            number = head.count + 1
            values = (number, head.hash, hash_of(number, head.hash, text), text)
            return None, lambda: file.execute(_APPEND, values)

        await self._thread.do(work)

    async def head(self) -> AuditHead:
        return await self._thread.do(lambda file: (_head_of(file), lambda: None))

    async def aclose(self) -> None:
        """Everything called before is carried out first."""
        await self._thread.aclose()


def verify_audit(path: str | PathLike[str], kept: AuditHead | None = None) -> AuditVerdict:
    """Check all of a file as it is now, also while others append."""
    return verify_chain(_read(path, _LINKS), kept)


def read_audit(path: str | PathLike[str], last: int) -> list[AuditLink]:
    """Return the links of a file in order."""
    return list(_read(path, _LAST_LINKS, last))[::-1]


def _text_of(entry: AuditEntry, level: AuditLevel, hide: Hide) -> str:
    fields = structs.asdict(entry)
    if level is AuditLevel.BASIC:
        fields = {name: fields[name] for name in fields if name not in _DETAILS}
    return canonical({name: _bounded(hide(value)) for name, value in fields.items()}).decode()


def _bounded(value: Json) -> Json:
    spelled = canonical(value)
    if len(spelled) <= _MOST_BYTES:
        return value
    return f"{spelled[:_MOST_BYTES].decode(errors='ignore')}… (cut; {len(spelled):,} bytes in all)"


def _head_of(file: SqliteHandle) -> AuditHead:
    found = file.execute(_HEAD).fetchone()
    return AuditHead(*found) if found else EMPTY


def _read(path: str | PathLike[str], query: str, *values: object) -> Iterator[AuditLink]:
    """Only reads: what is evidence is not changed, and what is not there is not made."""
    import sqlite3

    place = Path(path)
    if not place.is_file():
        raise UserError(f"there is no audit {place}; name the file that an audit was written to")
    try:
        with closing(sqlite3.connect(f"{place.absolute().as_uri()}?mode=ro", uri=True)) as file:
            file.text_factory = _any_text
            for number, *texts in file.execute(query, values):
                sound = (text if isinstance(text, str) else "" for text in texts)
                yield AuditLink(number if isinstance(number, int) else 0, *sound)
    except sqlite3.Error as error:
        if "no such" in str(error):
            raise UserError(f"{place} holds no audit: {error}; name another file") from error
        raise sqlite_error(fspath(path), error) from error


def _any_text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")
