"""What may leave: without keys, and without content unless the user asked for it.

Keys are known by value (whoever reads a key adds it here), by format, and in JSON by name. A value
is also found in its base64, hex, URL and JSON spellings. Values under eight characters are not
secrets: hiding `none` or `ollama` would garble every text.
"""

import json
import re
import threading
from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import cast
from urllib.parse import quote, quote_plus

import msgspec

from vegakit.events import CallTraced
from vegakit.records import Json
from vegakit.telemetry.key_formats import MARGIN, PLACEHOLDER, hide_key_formats, is_secret_name
from vegakit.telemetry.plain import plain

__all__ = ["Redactor", "redact"]

_SHORTEST = 8
_MOST_SECRETS = 256
_MOST_TEXT = 1_000_000
_MOST_DEPTH = 32
_MOST_REMEMBERED = 1024
_REMEMBERED_LENGTH = 100
"""Names, which are the same in every call."""
_ESCAPE = re.compile("%[0-9A-F]{2}")


class _Keys:
    """Those known at one time. What short texts became is remembered with them, so that nothing
    remembered outlives the next key."""

    def __init__(self, spellings: frozenset[str]) -> None:
        self._longest_first = sorted(spellings, key=len, reverse=True)
        self.hide_short = lru_cache(_MOST_REMEMBERED)(self.hide)

    def hide(self, text: str) -> str:
        for spelling in self._longest_first:
            if spelling in text:
                text = text.replace(spelling, PLACEHOLDER)
        return hide_key_formats(text)


class Redactor:
    """Shared by all sinks and log filters of one runtime. Remembers the last 256 keys."""

    def __init__(self, secrets: Iterable[str] = (), *, content: bool = False) -> None:
        self._content = content
        self._lock = threading.Lock()
        self._spellings: dict[str, frozenset[str]] = {}
        self._names: dict[str, str] = {}
        self._keys = _Keys(frozenset())
        for secret in secrets:
            self.add(secret)

    def __repr__(self) -> str:
        return f"Redactor({len(self._spellings)} secrets)"

    def named(self) -> dict[str, str]:
        """The name of each secret that has one, for people who are shown the name."""
        with self._lock:
            return dict(self._names)

    def add(self, secret: str, name: str = "") -> None:
        """Each time it is read, so that a key in use is not forgotten."""
        if len(secret) < _SHORTEST:
            return
        with self._lock:
            if name:
                self._names[secret] = name
            spellings = self._spellings.pop(secret, None)
            self._spellings[secret] = spellings or frozenset(_spellings(secret))
            if spellings is None:
                self._forget_the_oldest()

    def _forget_the_oldest(self) -> None:
        if len(self._spellings) > _MOST_SECRETS:
            oldest = next(iter(self._spellings))
            del self._spellings[oldest]
            self._names.pop(oldest, None)
        self._keys = _Keys(frozenset[str]().union(*self._spellings.values()))

    def redact(self, text: str) -> str:
        """Text beyond a million characters is cut off, and so is a key that the cut would halve."""
        if len(text) <= _REMEMBERED_LENGTH and type(text) is str:  # others may be equal by lying
            return self._keys.hide_short(text)
        if len(text) > _MOST_TEXT:
            return self._keys.hide(text[: _MOST_TEXT + MARGIN])[:-MARGIN] + "…"
        return self._keys.hide(text)

    def redact_json(self, value: object, depth: int = 0) -> Json:
        """Any value as JSON that can be written: keys of dicts are texts too."""
        match value:
            case None | bool():
                return value
            case int():
                return int(value)
            case float():
                return float(value)
            case str():
                return _writable(self.redact(value[:]))
            case bytes() | bytearray() | memoryview():
                return f"<{len(cast('bytes', value))} bytes>"
            case dict() | list() | tuple() | set() | frozenset() if depth >= _MOST_DEPTH:
                return "…"
            case dict():
                pairs = cast("dict[object, object]", value).items()
                return dict(self._pair(_word(key), inner, depth + 1) for key, inner in pairs)
            case list() | tuple() | set() | frozenset():
                items = cast("Iterable[object]", value)
                return [self.redact_json(item, depth + 1) for item in items]
            case _:
                return self.redact_json(plain(value), depth + 1)

    def _pair(self, key: str, value: object, depth: int) -> tuple[str, Json]:
        hidden = is_secret_name(key) and value is not None
        return self._text(key), PLACEHOLDER if hidden else self.redact_json(value, depth)

    def redact_call(self, call: CallTraced) -> CallTraced:
        return msgspec.structs.replace(
            call,
            name=self._text(call.name),
            agent=self._text(call.agent),
            model=self._text(call.model),
            finish=self._text(call.finish),
            error=self._text(call.error),
            attributes=self.redact_json(call.attributes),
            content=self.redact_json(call.content) if self._content else None,
        )

    def _text(self, text: str) -> str:
        return _writable(self.redact(text)) if text else text


_BY_FORMAT = Redactor()


def redact(text: str) -> str:
    """Without anything of a known key format."""
    return _BY_FORMAT.redact(text)


def _spellings(secret: str) -> Iterator[str]:
    raw = secret.encode(errors="replace")
    yield from (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield from (repr(secret)[1:-1], raw.hex(), raw.hex().upper())
    for quoted in (quote(secret, safe="", errors="replace"), quote(secret, errors="replace")):
        yield from (quoted, _ESCAPE.sub(lambda escape: escape[0].lower(), quoted))
    yield quote_plus(secret, errors="replace")
    for offset in range(3):
        inner = _base64_inside(raw, offset)
        yield from (inner, inner.replace("+", "-").replace("/", "_"))


def _base64_inside(raw: bytes, offset: int) -> str:
    """What a longer base64 text shows of `raw`, whatever stands before and after it."""
    text = b64encode(bytes(offset) + raw).decode().rstrip("=")
    first = (0, 2, 3)[offset]
    whole = (offset + len(raw)) * 8 // 6
    return text[first:whole]


def _word(key: object) -> str:
    return key if isinstance(key, str) else str(plain(key))


def _writable(text: str) -> str:
    """UTF-8 has no halves of surrogate pairs."""
    return text if text.isascii() else text.encode(errors="replace").decode()
