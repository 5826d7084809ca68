"""What a program sends, as parts of a message: text, and files by their content."""

from base64 import b64decode

from vegakit.conversation import Media, Text, UserPart
from vegakit.records import Json
from vegakit.vm import restored, text_of

__all__ = ["parts_of"]

_ADDRESS = "data:"


def parts_of(message: Json) -> tuple[UserPart, ...]:
    """A list with files is sent part by part; all else is one text."""
    if isinstance(message, list) and any(map(_content, message)):
        return tuple(map(_part, message))
    return (_part(message),)


def _part(value: Json) -> UserPart:
    """What only looks like a file that was read is text."""
    kind, _, content = _content(value).partition(";base64,")
    try:
        data = b64decode(content, validate=True)
    except ValueError:
        data = b""
    return Media(kind, data) if data else Text(text_of(restored(value)))


def _content(value: Json) -> str:
    """The host put it into the address of the file, when it read it."""
    path = value.get("of") if isinstance(value, dict) and value.get("$") == "file" else None
    is_read = isinstance(path, str) and path.startswith(_ADDRESS)
    return path.removeprefix(_ADDRESS) if is_read and isinstance(path, str) else ""
