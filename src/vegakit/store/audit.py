"""The audit on a SQLite file: one chain, to which any number of processes append.

Whoever appends holds the file's write lock from reading the last hash to writing the next, and no
two entries may follow the same one (`UNIQUE (prev_hash)`), not even two first ones. What is hashed
is the text as it is stored, so nothing is spelled anew to verify it. An append that was cut off is
dropped whole when the file is next opened.

Keys are hidden before anything is written; who makes an audit says how. A field above 16 KiB is
cut, and says so.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from os import PathLike, fspath
from pathlib import Path
from typing import TypeAlias

from msgspec import structs

from vegakit.errors import UserError
from vegakit.ports import Audited, AuditHead, AuditLevel
from vegakit.records import Json, canonical
from vegakit.store.audit_chain import EMPTY, AuditVerdict, Link, hash_of, verify_chain
from vegakit.store.sqlite_file import Format, Synchronous, explained
from vegakit.store.sqlite_thread import FileDesk, SqliteThread

__all__ = ["SqliteAudit", "read_audit", "verify_audit"]

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
        self._thread = SqliteThread(fspath(path), _AUDIT, synchronous, FileDesk)

    async def append(self, entry: Audited, level: AuditLevel = AuditLevel.BASIC) -> None:
        if level is AuditLevel.NONE:
            return
        text = _text_of(entry, level, self._hide)

        def work(file: FileDesk) -> tuple[None, Callable[[], object]]:
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
    """All of it as it is now, also while others append."""
    return verify_chain(_read(path, _LINKS), kept)


def read_audit(path: str | PathLike[str], last: int) -> list[Link]:
    return list(_read(path, _LAST_LINKS, last))[::-1]


def _text_of(entry: Audited, level: AuditLevel, hide: Hide) -> str:
    fields = structs.asdict(entry)
    if level is AuditLevel.BASIC:
        fields = {name: fields[name] for name in fields if name not in _DETAILS}
    return canonical({name: _bounded(hide(value)) for name, value in fields.items()}).decode()


def _bounded(value: Json) -> Json:
    spelled = canonical(value)
    if len(spelled) <= _MOST_BYTES:
        return value
    return f"{spelled[:_MOST_BYTES].decode(errors='ignore')}… (cut; {len(spelled):,} bytes in all)"


def _head_of(file: FileDesk) -> AuditHead:
    found = file.execute(_HEAD).fetchone()
    return AuditHead(*found) if found else EMPTY


def _read(path: str | PathLike[str], query: str, *values: object) -> Iterator[Link]:
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
                yield Link(number if isinstance(number, int) else 0, *sound)
    except sqlite3.Error as error:
        if "no such" in str(error):
            raise UserError(f"{place} holds no audit: {error}; name another file") from error
        raise explained(fspath(path), error) from error


def _any_text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")
