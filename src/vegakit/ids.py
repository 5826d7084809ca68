"""Names of things, each its own type (base, pure).

Randomness and time are handed in, so that the same run makes the same ids again.

| id        | form                          | example                                 |
|-----------|-------------------------------|-----------------------------------------|
| ProgramId | 48 bits of ms + 80 bits, hex  | `0196c1f0a3b2` + 20 hex digits          |
| Pid       | program/path#generation       | `0196…/main/reviewer#2`                 |
| EffectKey | hash of an EffectPath, a dot, | see `effects`                           |
|           | hash of the request           |                                         |
"""

from typing import NewType

from vegakit.errors import InvalidRecordError

__all__ = [
    "ANY_AGENT",
    "Digest",
    "EffectKey",
    "HolderId",
    "InterruptId",
    "Pid",
    "ProgramId",
    "ScopeId",
    "SpanId",
    "TenantId",
    "TraceId",
    "begun_ms",
    "new_program_id",
    "parse_pid",
    "pid_of",
]


TenantId = NewType("TenantId", str)
ProgramId = NewType("ProgramId", str)
Pid = NewType("Pid", str)
EffectKey = NewType("EffectKey", str)
Digest = NewType("Digest", str)
ScopeId = NewType("ScopeId", str)
HolderId = NewType("HolderId", str)
InterruptId = NewType("InterruptId", str)
TraceId = NewType("TraceId", str)
SpanId = NewType("SpanId", str)

ANY_AGENT = "*"
"""In place of an agent's name: it may be any."""

_ENTROPY_BYTES = 10


def new_program_id(now_ms: int, entropy: bytes) -> ProgramId:
    """Sorts by time; two programs of one millisecond differ by their entropy."""
    if len(entropy) != _ENTROPY_BYTES or not 0 <= now_ms < 1 << 48:
        raise ValueError(
            f"a program id needs {_ENTROPY_BYTES} random bytes and a 48-bit time in milliseconds; "
            f"got {len(entropy)} bytes and {now_ms}"
        )
    return ProgramId(f"{now_ms:012x}{entropy.hex()}")


def begun_ms(program: ProgramId) -> int:
    """Return when a program was named."""
    return int(program[:12], 16)


def pid_of(program: ProgramId, path: str, generation: int) -> Pid:
    """Return the id of an incarnation."""
    return Pid(f"{program}/{path}#{generation}")


def parse_pid(pid: str) -> tuple[ProgramId, str, int]:
    """Read an id back into program, path and generation."""
    program, slash, rest = pid.partition("/")
    path, hash_, generation = rest.rpartition("#")
    if not (program and slash and path and hash_ and generation.isascii() and generation.isdigit()):
        raise InvalidRecordError(f"a pid is program/path#generation; got {pid!r}")
    return ProgramId(program), path, int(generation)
