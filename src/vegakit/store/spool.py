"""The spool that holds replies until their journal has them, and the lock on a run, both files of
this machine whatever place the journal is in.

The spool of a run holds each reply from the moment it arrives, before anything is waited for:

    reply ─▶ one write to the spool ─▶ journal and ledger, when their thread comes to it
                    │                                   │
                    └── read after `kill -9`            └── emptied when nothing waits any more

What was written survives the death of the process, since the system holds it; what the power
takes is what the last commit of the journal did not have. A frame is a length with its seal,
then the seal of the content, then the content, which is a `KeptOutcome` as JSON.

| at the end of the file, or within it       | means                          | then             |
|--------------------------------------------|--------------------------------|------------------|
| less than a frame                          | killed during the write        | it is left out   |
| a seal that does not fit                   | damaged, or somebody else's    | it is refused    |
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

from vegakit.errors import InvalidRecordError, StoreError
from vegakit.ids import EffectKey
from vegakit.ports import KeptOutcome
from vegakit.records import from_json, to_json
from vegakit.store.seals import SEAL_BYTES, Seal, open_private

_LENGTH = 4
_HEAD = _LENGTH + SEAL_BYTES + SEAL_BYTES
_MOST_BYTES = 1 << 20
"""Above this it is emptied as soon as nothing in it waits to be recorded."""


class Spool:
    """A spool in a file that this process alone writes: its journal holds a lock on the run."""

    def __init__(self, path: Path, seal: Seal, most_bytes: int = _MOST_BYTES) -> None:
        self.path = path
        self._seal, self._most_bytes = seal, most_bytes
        self._file = open_private(path)
        self._size = os.fstat(self._file).st_size
        self._waiting: set[EffectKey] = set()
        """Effects of which a frame is here and not known to be recorded."""

    def append(self, kept: KeptOutcome) -> None:
        """Write one frame by one call. A frame that does not fit on the disk is taken back, so that
        what is written after it can be read."""
        content = to_json(kept)
        length = len(content).to_bytes(_LENGTH, "little")
        frame = b"".join((length, self._seal.of(length), self._seal.of(content), content))
        written = os.write(self._file, frame)
        if written < len(frame):
            os.ftruncate(self._file, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._size += written
        self._waiting.add(kept.key)

    def done(self, key: EffectKey) -> None:
        """Note that what was kept of the effect is recorded."""
        self._waiting.discard(key)
        if self._size > self._most_bytes and not self._waiting:
            self.empty()

    def read(self) -> list[KeptOutcome]:
        """Return what is there. All of it waits until it is `done`."""
        text, found, at = _whole(self._file, self._size), list[KeptOutcome](), 0
        while at + _HEAD <= len(text):
            length = text[at : at + _LENGTH]
            ends = at + _HEAD + int.from_bytes(length, "little")
            if text[at + _LENGTH : at + _LENGTH + SEAL_BYTES] != self._seal.of(length):
                raise self._damaged(at)
            content = text[at + _HEAD : ends]
            if ends > len(text):
                break
            if text[at + _LENGTH + SEAL_BYTES : at + _HEAD] != self._seal.of(content):
                raise self._damaged(at)
            found.append(self._kept(content, at))
            at = ends
        if at < len(text):
            # Killed during the last write. What is appended must begin where a frame ended.
            os.ftruncate(self._file, at)
            self._size = at
        self._waiting.update(kept.key for kept in found)
        return found

    def empty(self) -> None:
        """Truncate by the descriptor: a name could lead elsewhere by now."""
        os.ftruncate(self._file, 0)
        self._size = 0

    def settle(self) -> None:
        """Empty it, unless something in it is not known to be recorded."""
        if not self._waiting:
            self.empty()

    def close(self) -> None:
        """Close it; what is not known to be recorded stays for the next process."""
        self.settle()
        os.close(self._file)

    def _kept(self, content: bytes, at: int) -> KeptOutcome:
        try:
            return from_json(KeptOutcome, content)
        except InvalidRecordError as error:
            raise self._damaged(at) from error

    def _damaged(self, at: int) -> StoreError:
        return StoreError(
            f"the spool {self.path} was damaged at byte {at}, or not written by you: its seal does "
            "not fit, so no reply in it can be trusted. To go on without it, type: "
            f"mv {self.path} {self.path}.damaged (replies that only it holds are then asked for, "
            "and paid, again)"
        )


def _whole(file: int, size: int) -> bytes:
    parts: list[bytes] = []
    at = 0
    while at < size and (part := os.pread(file, size - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


class RunFiles:
    """The lock and the spool of the run that a journal carries on: `<program>.lock` and `.spool` in
    a folder, or for a journal of one run files whose names begin with that of the journal."""

    def __init__(self, single: Path, folder: Path) -> None:
        self._single, self._folder = single, folder
        self._lock: int | None = None
        self.spool: Spool | None = None

    def beside(self, program: str) -> Path:
        """Return what the names of the files of a run begin with; "" is the only run."""
        return self._folder / program if program else self._single

    def lock(self, program: str) -> bool:
        """Say whether the run is ours now. It is until `close`, or the death of this process."""
        if self._lock is None:
            self._lock = lock_file(self.beside(program))
        return self._lock is not None

    def was_shared(self, program: str) -> bool:
        """Say whether this machine has carried on the run in a journal that many runs share."""
        return Path(f"{self.beside(program)}.lock").exists()

    def is_locked(self, program: str) -> bool:
        """Say whether somebody holds the lock, without keeping it."""
        path = self.beside(program)
        if not Path(f"{path}.lock").exists():
            return False
        lock = lock_file(path)
        if lock is not None:
            os.close(lock)
        return lock is None

    def open_spool(self, program: str, seal: Seal) -> None:
        """Open the spool of the run whose lock is held, unless it is open."""
        self.spool = self.spool or Spool(Path(f"{self.beside(program)}.spool"), seal)

    def remove(self, program: str) -> None:
        """Remove what belongs to a run that is forgotten."""
        for suffix in (".spool", ".lock"):
            with suppress(OSError):
                Path(f"{self.beside(program)}{suffix}").unlink()

    def close(self) -> None:
        """Close the spool before the lock is given up: the next owner reads it."""
        if self.spool is not None:
            self.spool.close()
            self.spool = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def lock_file(path: Path) -> int | None:
    """Lock that journal until the descriptor is closed; None if somebody else has locked it."""
    import fcntl  # not on every system, and needed only here

    lock = open_private(Path(f"{path}.lock"))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
