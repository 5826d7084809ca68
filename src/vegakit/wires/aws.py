"""Signs requests by Amazon's Signature Version 4, and reads and writes its streams of binary frames
(pure).

A frame is its length, the length of its headers and a checksum of both; the headers; the payload;
and a checksum of all. Numbers are big-endian. A header is its name, the kind of its value and the
value; the kinds that this protocol does not use are stepped over.
"""

import hashlib
import hmac
import struct
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from msgspec import Struct

_ALGORITHM = "AWS4-HMAC-SHA256"
_PRELUDE = 12
_CHECKSUM = 4
_LONGEST_FRAME = 1 << 24
_TEXT = 7
_BYTES = 6
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a value, by kind: true, false, numbers, a time, a UUID."""


# Signatures.


class AwsKeys(Struct, frozen=True):
    """The keys of an account. `token` belongs to keys that hold for some hours only."""

    id: str
    secret: str
    token: str = ""

    def __repr__(self) -> str:
        return "<AWS keys>"


class SignedRequest(Struct, frozen=True):
    """Holds what is signed of a POST request. `path` stands as in the request line and has no
    query; `headers` are those beside `host` that are to be signed, with names in lower case."""

    host: str
    path: str
    body: bytes
    headers: Mapping[str, str] = {}


def signed_headers(
    request: SignedRequest, keys: AwsKeys, region: str, now: datetime, service: str = "bedrock"
) -> dict[str, str]:
    """Return the headers to send beside `host`: those of the request, the time and the
    signature."""
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    sent = {**request.headers, "x-amz-date": stamp}
    if keys.token:
        sent["x-amz-security-token"] = keys.token
    signed = sorted({**sent, "host": request.host}.items())
    names = ";".join(name for name, _ in signed)
    lines = "".join(f"{name}:{' '.join(value.split())}\n" for name, value in signed)
    digest = hashlib.sha256(request.body).hexdigest()
    # The path is quoted once more than it is sent.
    path = quote(request.path, safe="/-_.~")
    canonical = f"POST\n{path}\n\n{lines}\n{names}\n{digest}"
    summary = hashlib.sha256(canonical.encode()).hexdigest()
    key = b"AWS4" + keys.secret.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, f"{_ALGORITHM}\n{stamp}\n{scope}\n{summary}".encode(), "sha256")
    credential = f"Credential={keys.id}/{scope}, SignedHeaders={names}"
    sent["authorization"] = f"{_ALGORITHM} {credential}, Signature={signature.hex()}"
    return sent


# Frames.


class EventFrame(Struct, frozen=True):
    """A frame. Of its headers, `:message-type` is event, exception or error, and `:event-type` or
    `:exception-type` says which."""

    headers: dict[str, str]
    payload: bytes


class FrameDecoder:
    """Reads the frames of one stream from bytes that are cut anywhere."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, received: bytes) -> list[EventFrame]:
        """Return the frames that these bytes complete; raises ValueError for a damaged one."""
        self._rest += received
        frames: list[EventFrame] = []
        at = 0
        while (length := self._length(at)) and at + length <= len(self._rest):
            frames.append(_frame(bytes(self._rest[at : at + length])))
            at += length
        del self._rest[:at]
        return frames

    def _length(self, at: int) -> int:
        """Return the length of the frame that begins here; zero if it is not known yet."""
        if len(self._rest) - at < _PRELUDE:
            return 0
        length, headers, checksum = struct.unpack_from(">III", self._rest, at)
        if zlib.crc32(self._rest[at : at + 8]) != checksum:
            raise ValueError("the beginning of a frame of an event stream is damaged")
        if not _PRELUDE + headers + _CHECKSUM <= length <= _LONGEST_FRAME:
            raise ValueError(f"a frame of an event stream cannot be {length} bytes long")
        return length


def write_frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return a frame whose headers are texts."""
    head = b"".join(_header(name.encode(), value.encode()) for name, value in headers.items())
    length = _PRELUDE + len(head) + len(payload) + _CHECKSUM
    start = struct.pack(">II", length, len(head))
    text = start + struct.pack(">I", zlib.crc32(start)) + head + payload
    return text + struct.pack(">I", zlib.crc32(text))


def _header(name: bytes, value: bytes) -> bytes:
    return struct.pack(">B", len(name)) + name + struct.pack(">BH", _TEXT, len(value)) + value


def _frame(text: bytes) -> EventFrame:
    (checksum,) = struct.unpack_from(">I", text, len(text) - _CHECKSUM)
    if zlib.crc32(text[:-_CHECKSUM]) != checksum:
        raise ValueError("a frame of an event stream is damaged")
    (size,) = struct.unpack_from(">I", text, 4)
    end = _PRELUDE + size
    return EventFrame(_headers(text[_PRELUDE:end]), text[end:-_CHECKSUM])


def _headers(text: bytes) -> dict[str, str]:
    """Only texts are kept."""
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        end = at + 1 + text[at]
        name, kind = text[at + 1 : end].decode(), text[end]
        at = end + 1
        if kind in {_BYTES, _TEXT}:
            size = int.from_bytes(text[at : at + 2])
            at += 2
            if kind == _TEXT:
                found[name] = text[at : at + size].decode()
        else:
            size = _SIZES[kind]
        at += size
    if at != len(text):
        raise ValueError("the headers of a frame end before their last value")
    return found
