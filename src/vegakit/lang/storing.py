"""Modules as files: `.vgb`.

| bytes   | are                                              |
|---------|--------------------------------------------------|
| 4       | `VEGA`                                           |
| 2       | the version of the format, the high byte first   |
| 4       | the length of the rest, the high byte first      |
| 32      | the BLAKE2b digest of the rest                   |
| the rest | the module as JSON                              |

The digest finds damage. It does not make a file honest: every module that is read is verified.
"""

import hashlib
import struct

from vegakit.errors import InvalidRecordError
from vegakit.lang.bytecode import Module
from vegakit.lang.verifying import verify
from vegakit.records import from_json, to_json

__all__ = ["from_vgb", "to_vgb"]

_MAGIC = b"VEGA"
_VERSION = 1
_HEAD = struct.Struct(">4sHI32s")
_MAX_BYTES = 16 * 1024 * 1024
_AGAIN = "build it again with `vega build`"


def to_vgb(module: Module) -> bytes:
    body = to_json(module)
    if len(body) > _MAX_BYTES:
        raise _refusal(f"a module has at most {_MAX_BYTES:,} bytes; this one has {len(body):,}")
    return _HEAD.pack(_MAGIC, _VERSION, len(body), _digest(body)) + body


def from_vgb(stored: bytes) -> Module:
    body = _body(stored)
    try:
        module = from_json(Module, body)
    except InvalidRecordError as error:
        raise _refusal(f"what it holds is not a module: {error.__cause__}") from error
    problems = verify(module)
    if problems:
        raise _refusal(f"it is not what the compiler makes: {'; '.join(problems[:3])}")
    return module


def _body(stored: bytes) -> bytes:
    if len(stored) < _HEAD.size or not stored.startswith(_MAGIC):
        raise _refusal("it does not begin as one")
    _, version, length, digest = _HEAD.unpack_from(stored)
    body = stored[_HEAD.size :]
    if version != _VERSION:
        raise _refusal(f"it has format {version}; this version of Vega reads format {_VERSION}")
    if length > _MAX_BYTES:
        raise _refusal(f"a module has at most {_MAX_BYTES:,} bytes; this one has {length:,}")
    if len(body) != length:
        raise _refusal(f"it has {len(body):,} bytes where {length:,} are announced")
    if _digest(body) != digest:
        raise _refusal("its content does not fit its digest: it was changed or damaged")
    return body


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=32).digest()


def _refusal(why: str) -> InvalidRecordError:
    return InvalidRecordError(f"this is not a program to run (.vgb): {why}; {_AGAIN}")
