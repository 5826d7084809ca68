"""Seals made with the user's secret, which show damage and files that somebody else wrote.

A seal finds a flipped bit in a recorded answer, or a journal that came with a cloned repository.
It hides nothing, and it does not protect from anyone who can read the user's files.
"""

import hashlib
import os
import secrets
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from vegakit.config import user_data_dir
from vegakit.errors import StoreError

SEAL_BYTES = 16
_ROWS = msgspec.msgpack.Encoder()
_SECRET_BYTES = 32
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_OWN = (
    os.O_RDWR
    | os.O_CREAT
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # of a named pipe somebody put there: do not wait for its end
)
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


class Seal:
    """Makes the seal of bytes: a keyed hash that nobody makes without the secret."""

    def __init__(self, secret: bytes) -> None:
        # A copy of a hash that has taken in its key costs a third of making a new one.
        self._keyed = hashlib.blake2b(key=secret, digest_size=SEAL_BYTES)

    def of(self, *parts: bytes) -> bytes:
        """Return the seal of the parts as they follow each other; the caller sees to it that two
        different lists of parts are not the same bytes."""
        keyed = self._keyed.copy()
        for part in parts:
            keyed.update(part)
        return keyed.digest()


class RowSeals:
    """Makes and checks the seals of the rows of one place, over the name of their table and all
    their columns."""

    def __init__(self, place: str, seal: Callable[[], Seal], remedy: str = "") -> None:
        """The secret is read when it is first needed, by the thread that needs it. `remedy` says
        how to start over; of a file, it is moved away."""
        self._place, self._make = place, seal
        self._remedy = (
            remedy or f"put a copy of it back, or to start over, type: {move_away_command(place)}"
        )

    def of(self, table: str, row: Sequence[Any]) -> bytes:
        """Return the seal of a row, whose first column is its key. A truth is sealed as the number
        that SQLite gives back for it."""
        plain = [int(value) if value is True or value is False else value for value in row]
        return self._seal.of(table.encode(), _ROWS.encode(plain))

    @cached_property
    def _seal(self) -> Seal:
        return self._make()

    def checked(self, table: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Return the rows without their last column, which is the seal."""
        for *row, seal in rows:
            if seal != self.of(table, row):
                raise self.broken(table, row[0])
            yield tuple(row)

    def broken(self, table: str, key: object) -> StoreError:
        """Return the error about a row that does not fit its seal."""
        return StoreError(
            f"{self._place} was damaged, or written by somebody else: the row {key!r} of its table "
            f"{table} does not fit its seal, so nothing in it can be trusted; {self._remedy}"
        )


def move_away_command(place: str) -> str:
    """Return the command that moves a file with its log: SQLite would take the log for part of the
    next file of that name."""
    folder = shlex.quote(str(Path(place).parent / "damaged"))
    return f"mkdir -p {folder} && mv {shlex.quote(place)}* {folder}"


def open_private(path: Path) -> int:
    """Open a file beside a journal, a spool or a lock, for this user alone. What is there is not
    truncated, and a link is not followed: it could lead to a file that is not ours."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, _OWN, 0o600)
    except OSError as error:
        raise StoreError(
            f"cannot open {path}: {error.strerror}; it must be a file that you may write, in a "
            "folder that you may write, and no link: move it away, or name another journal"
        ) from error
    try:
        _keep_private(path, file)
    except BaseException:
        os.close(file)
        raise
    return file


def keep_private(path: Path) -> None:
    """Take a file that is there from all who are not meant: whoever may read it may lock it, and
    so hold up or end the run that needs it. Members of its group may keep it if they may write it,
    which nobody sets by chance. It is not opened: by closing it again, this process would lose the
    locks that SQLite has on it."""
    with suppress(FileNotFoundError):
        _keep_private(path, path)


def _keep_private(path: Path, file: Path | int) -> None:
    """The folder's owner and root could take the file away as well: theirs are as good as ours."""
    found = os.stat(file, follow_symlinks=isinstance(file, int))  # noqa: PTH116  (or a descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path} is not a file; move it away, or name another journal")
    if not hasattr(os, "geteuid"):
        return  # modes say nothing there
    if found.st_uid not in {os.geteuid(), path.parent.stat().st_uid, 0}:
        raise StoreError(
            f"{path} belongs to another user (uid {found.st_uid}), who could hold up the run; move "
            "it away, or name a journal in a folder that only you may write"
        )
    kept = stat.S_IRWXU | (stat.S_IRWXG if found.st_mode & stat.S_IWGRP else 0)
    mode = stat.S_IMODE(found.st_mode)
    if mode & ~kept and found.st_uid == os.geteuid():
        with suppress(OSError):  # a disk without modes, such as a memory stick
            os.chmod(file, mode & kept)  # noqa: PTH101


def user_seal() -> Seal:
    """Return the seal of the user's secret, which is made when it is first needed."""
    return _seal_in(user_data_dir())


@lru_cache(maxsize=8)
def _seal_in(folder: Path) -> Seal:
    path = folder / "secret"
    try:
        with suppress(FileNotFoundError):
            return Seal(_read(path))
        _make(path)
        return Seal(_read(path))
    except OSError as error:
        raise StoreError(
            f"cannot use the secret {path}: {error.strerror or error}; make {folder} a folder that "
            "you may write, or set VEGA_DATA_DIR to one"
        ) from error


def _read(path: Path) -> bytes:
    descriptor = os.open(path, _READ)
    with os.fdopen(descriptor, "rb") as file:
        found = file.read(_SECRET_BYTES + 1)
    if len(found) != _SECRET_BYTES:
        raise StoreError(
            f"the secret {path} is damaged: it has {len(found)} bytes instead of {_SECRET_BYTES}; "
            "put a copy of it back. Without it no journal of yours can be checked: to start over, "
            "move it and the journals away"
        )
    return found


def _make(path: Path) -> None:
    """Write it under another name first and link it into place: whoever comes second finds a whole
    secret or none, and never replaces one, also when the first was killed half-way."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"secret.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, _MAKE, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path, follow_symlinks=False)
    finally:
        draft.unlink()
