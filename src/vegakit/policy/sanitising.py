"""What a tool gave back, made harmless to read: every result passes here before anyone sees it.

| in a result                                     | becomes                                  |
|-------------------------------------------------|------------------------------------------|
| bytes that are no UTF-8, halves of surrogates   | `\\xff`, `\\ud800`                       |
| control characters but tab and new line, so any | `\\x1b`, `\\x0d`                         |
| terminal sequence and any carriage return       |                                          |
| marks that turn the direction of text           | `\\u202e`                                |
| tags, fillers and others without form           | `\\U000e0041`, `\\u200b`                 |
| three joiners or selectors in a row             | `\\u200d\\u200d\\u200d`; two serve emoji |
| more than the cap                               | its two ends; what was cut is said       |

So a person, a terminal, a log and the model read the same text. Backslashes stay as they are: what
looks like an escape may also be one that the tool wrote.

That a text is harmless to read does not make it true, nor an instruction: it is `Untrusted`, and a
model is given it between marks that the text itself cannot close.
"""

import re
from typing import NewType

__all__ = ["DEFAULT_MOST_BYTES", "Untrusted", "for_model", "is_unseen", "sanitise"]

Untrusted = NewType("Untrusted", str)

DEFAULT_MOST_BYTES = 64 * 1024

_UNSEEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f"  # controls
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2028\u2029\u2060-\u2065\u206a-\u206f"
    "\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"  # without form
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"  # tags, selectors
    "|[\u200c\u200d\ufe0e\ufe0f]{3,}"
)
_BLANK = "\u200c\u200d\u2800\ufe0e\ufe0f\U0001d159"
_MARK = re.compile(r"<(?=/?\s*untrusted)", re.IGNORECASE)


def sanitise(result: str | bytes, most_bytes: int = DEFAULT_MOST_BYTES) -> Untrusted:
    """At most so many bytes of UTF-8, and one line that says what was cut."""
    text = result.decode(errors="backslashreplace") if isinstance(result, bytes) else result
    if len(text) <= most_bytes and len(clean := _escaped(text).encode()) <= most_bytes:
        return Untrusted(clean.decode())
    return Untrusted(_cut(text, most_bytes))


def is_unseen(letter: str) -> bool:
    """Whether it has no form of its own, wherever it stands."""
    return letter in _BLANK or _UNSEEN.fullmatch(letter) is not None


def for_model(text: Untrusted) -> str:
    kept_open = _MARK.sub(lambda _: _spelled("<"), text)
    return f"<untrusted>\n{kept_open}\n</untrusted>"


def _escaped(text: str) -> str:
    whole = text.encode(errors="backslashreplace").decode()
    return _UNSEEN.sub(lambda found: "".join(map(_spelled, found[0])), whole)


def _spelled(letter: str) -> str:
    code = ord(letter)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _cut(text: str, most_bytes: int) -> str:
    """Escaping never makes a text shorter: what lies further in cannot be part of either end."""
    half = most_bytes // 2
    head = _escaped(text[:half]).encode()[:half].decode(errors="ignore")
    tail = _escaped(text[-half:]).encode()[-half:].decode(errors="ignore") if half else ""
    return f"{head}\n… {len(text):,} characters, cut here to their beginning and end …\n{tail}"
