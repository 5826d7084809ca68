"""The spool of a run: replies are in it the moment they arrive, before anything is waited for.

    reply ─▶ one write to the spool ─▶ journal and ledger, when their thread comes to it
                    │                                   │
                    └── read after `kill -9`            └── emptied when nothing waits any more

What was written survives the death of the process, since the system holds it; what the power takes
is what the last commit of the journal did not have. A frame is a length with its seal, then the
seal of the content, then the content, which is a `Kept` as JSON.

| at the end of the file, or within it       | means                          | then               |
|--------------------------------------------|--------------------------------|--------------------|
| less than a frame                          | killed during the write        | it is left out     |
| a seal that does not fit                   | damaged, or somebody else's    | it is refused      |
"""

import errno
import os
from pathlib import Path

from vegakit.errors import InvalidRecordError, StoreError
from vegakit.ids import EffectKey
from vegakit.ports import Kept
from vegakit.records import from_json, to_json
from vegakit.store.secret import SEAL_BYTES, Seal, open_own

__all__ = ["Spool"]

_LENGTH = 4
_HEAD = _LENGTH + SEAL_BYTES + SEAL_BYTES
_MOST_BYTES = 1 << 20
"""Above this it is emptied as soon as nothing in it waits to be recorded."""


class Spool:
    """The spool in a file that this process alone writes: its journal holds a lock on the run."""

    def __init__(self, path: Path, seal: Seal, most_bytes: int = _MOST_BYTES) -> None:
        self.path = path
        self._seal, self._most_bytes = seal, most_bytes
        self._file = open_own(path)
        self._size = os.fstat(self._file).st_size
        self._waiting: set[EffectKey] = set()
        """Effects of which a frame is here and not known to be recorded."""

    def append(self, kept: Kept) -> None:
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
        """What was kept of the effect is recorded."""
        self._waiting.discard(key)
        if self._size > self._most_bytes and not self._waiting:
            self.empty()

    def read(self) -> list[Kept]:
        """Return what is there. All of it waits until it is `done`."""
        text, found, at = _whole(self._file, self._size), list[Kept](), 0
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
        """What is not known to be recorded stays for the next process."""
        self.settle()
        os.close(self._file)

    def _kept(self, content: bytes, at: int) -> Kept:
        try:
            return from_json(Kept, content)
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
