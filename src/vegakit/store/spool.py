"""The spool that holds replies until their journal has them, and the lock on a run, both files of
this machine whatever place the journal is in.

The spool of a run holds each reply from the moment it arrives, before anything is waited for:

    reply ─▶ one write to the spool ─▶ journal and ledger, when their thread comes to it
                    │                                   │
                    └── read after `kill -9`            └── emptied when nothing waits any more

What was written survives the death of the process, since the system holds it; what the power
takes is what the last commit of the journal did not have. A frame is a length with its seal,
then the seal of the content, then the content, which is a `KeptOutcome` as JSON. No frame ends in
a zero.

Before a call is sent, the spool allocates a place for its answer: zeros after the last frame. If
the disk is full, the call is refused, and no answer is lost.

| at the end of the file, or within it       | means                          | then             |
|--------------------------------------------|--------------------------------|------------------|
| zeros                                      | places of answers              | they are skipped |
| less than a frame, or zeros in a frame     | killed or off during the write | it is left out   |
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
from vegakit.store.seals import SEAL_BYTES, Seal, open_private, user_seal

_LENGTH = 4
_HEAD = _LENGTH + SEAL_BYTES + SEAL_BYTES
_MOST_BYTES = 1 << 20
"""Above this it is emptied as soon as nothing in it waits to be recorded."""
_CHUNK = 1 << 16
_HOLE = bytes(_HEAD)
_NO_SUPPORT = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


class Spool:
    """A spool in a file that this process alone writes: its journal holds a lock on the run."""

    def __init__(self, path: Path, seal: Seal, most_bytes: int = _MOST_BYTES) -> None:
        self.path = path
        self._seal, self._most_bytes = seal, most_bytes
        self._file = open_private(path)
        self._allocated = os.fstat(self._file).st_size
        self._size = len(_frames(self._file, self._allocated))
        self._waiting: set[EffectKey] = set()
        """Effects of which a frame is here and not known to be recorded."""
        self._places: dict[EffectKey, int] = {}
        """How long the answers of calls in flight may be."""
        self._due = 0

    def make_place(self, key: EffectKey, length: int) -> None:
        """Allocate a place for the answer to an effect, or raise `StoreError` if the disk is
        full."""
        self.leave_place(key)
        self._places[key] = _HEAD + length
        self._due += _HEAD + length
        try:
            self._allocate(self._size + self._due)
        except OSError as error:
            self.leave_place(key)
            raise StoreError(
                f"an answer would have no place in {self.path}: {error.strerror}; make room, "
                "then start it again, or type: vega resume"
            ) from error

    def leave_place(self, key: EffectKey) -> None:
        """Free the place of an effect that has its answer, or gets none."""
        self._due -= self._places.pop(key, 0)

    def append(self, kept: KeptOutcome) -> None:
        """Write one frame by one call. A frame that does not fit on the disk is taken back, so that
        what is written after it can be read."""
        content = to_json(kept)
        length = len(content).to_bytes(_LENGTH, "little")
        frame = b"".join((length, self._seal.of(length), self._seal.of(content), content))
        self.leave_place(kept.key)
        self._allocate(self._size + len(frame))
        if os.pwrite(self._file, frame, self._size) < len(frame):
            self._cut(self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._size += len(frame)
        self._waiting.add(kept.key)

    def done(self, key: EffectKey) -> None:
        """Note that what was kept of the effect is recorded."""
        self._waiting.discard(key)
        if self._size > self._most_bytes and not self._waiting:
            self.empty()
            with suppress(OSError):  # the disk may be full by now; the next call is refused
                self._allocate(self._due)

    def read(self) -> list[KeptOutcome]:
        """Return what is there. All of it waits until it is `done`."""
        text = _frames(self._file, self._allocated)
        found, at = _outcomes(text, self._seal, self.path)
        if at < len(text):
            # Killed during the last write, or the power took a part of it: JSON holds no zeros.
            # What is appended must begin where a frame ended.
            self._cut(at)
        self._waiting.update(kept.key for kept in found)
        return found

    def empty(self) -> None:
        """Truncate by the descriptor: a name could lead elsewhere by now."""
        self._cut(0)

    def settle(self) -> None:
        """Empty it, unless something in it is not known to be recorded."""
        if not self._waiting:
            self.empty()

    def close(self) -> None:
        """Close it; what is not known to be recorded stays for the next process."""
        self.settle()
        self._cut(self._size)
        os.close(self._file)

    def _cut(self, size: int) -> None:
        os.ftruncate(self._file, size)
        self._size = self._allocated = size

    def _allocate(self, size: int) -> None:
        """Have the disk hold so many bytes for this file."""
        if size <= self._allocated:
            return
        size = -(-size // _CHUNK) * _CHUNK
        more = size - self._allocated
        try:
            os.posix_fallocate(self._file, self._allocated, more)
        except AttributeError:  # a system without it
            self._write_zeros(more)
        except OSError as error:
            if error.errno not in _NO_SUPPORT:
                raise
            self._write_zeros(more)
        self._allocated = size

    def _write_zeros(self, count: int) -> None:
        if os.pwrite(self._file, bytes(count), self._allocated) < count:
            os.ftruncate(self._file, self._allocated)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))


def _outcomes(text: bytes, seal: Seal, path: Path) -> tuple[list[KeptOutcome], int]:
    """Return the outcomes in a spool, and where the last whole frame ends."""
    found, at = list[KeptOutcome](), 0
    while at + _HEAD <= len(text):
        length = text[at : at + _LENGTH]
        if text[at : at + _HEAD] == _HOLE:
            break
        ends = at + _HEAD + int.from_bytes(length, "little")
        if text[at + _LENGTH : at + _LENGTH + SEAL_BYTES] != seal.of(length):
            raise _damaged(path, at)
        content = text[at + _HEAD : ends]
        if ends > len(text) or _HOLE in content or content.endswith(b"\0"):
            break
        if text[at + _LENGTH + SEAL_BYTES : at + _HEAD] != seal.of(content):
            raise _damaged(path, at)
        try:
            found.append(from_json(KeptOutcome, content))
        except InvalidRecordError as error:
            raise _damaged(path, at) from error
        at = ends
    return found, at


def _damaged(path: Path, at: int) -> StoreError:
    return StoreError(
        f"the spool {path} was damaged at byte {at}, or not written by you: its seal does "
        "not fit, so no reply in it can be trusted. To go on without it, type: "
        f"mv {path} {path}.damaged (replies that only it holds are then asked for, "
        "and paid, again)"
    )


def _frames(file: int, size: int) -> bytes:
    """Return the bytes of all frames, without the zeros behind them, which are places."""
    parts: list[bytes] = []
    at = 0
    while at < size and (part := os.pread(file, size - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts).rstrip(b"\0")


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

    def spooled(self, program: str) -> list[KeptOutcome]:
        """Return what the spool of a run has, without a write; of a damaged one nothing."""
        path = Path(f"{self.beside(program if self.was_shared(program) else '')}.spool")
        try:
            return _outcomes(path.read_bytes().rstrip(b"\0"), user_seal(), path)[0]
        except (OSError, StoreError):
            return []

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
