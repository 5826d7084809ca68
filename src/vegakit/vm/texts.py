"""What a value is as text: in `"{x}"`, in `print`, and as JSON."""

from typing import Any

import msgspec

from vegakit.money import Money as Nanos
from vegakit.money import show
from vegakit.vm.values import (
    AgentRef,
    Duration,
    Fields,
    FileRef,
    Future,
    Handle,
    Items,
    Money,
    StreamRef,
    Value,
)

__all__ = ["json_text", "text_of"]

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))


def text_of(value: Value) -> str:
    if type(value) is str:
        return value
    plain = _plain(value)
    return plain if type(plain) is str else json_text(value)


def json_text(value: Value) -> str:
    return msgspec.json.encode(_plain(value)).decode()


def _plain(value: Value) -> Any:  # noqa: ANN401
    """As JSON for people and models: money, times and handles by their text."""
    match value:
        case Items():
            return [_plain(item) for item in value]
        case Fields():
            return {key: _plain(item) for key, item in value.items()}
        case Money(nanos=nanos):
            return show(Nanos(nanos))
        case Duration(ms=ms):
            return _spelled(ms)
        case AgentRef(name=text) | Handle(path=text) | FileRef(path=text):
            return text
        case Future():
            return "a future"
        case StreamRef():
            return "a stream"
        case _:
            return value


def _spelled(ms: int) -> str:
    """In the largest unit that is exact: `30s`, `1500ms`."""
    for size, unit in _UNITS:
        if ms and ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"
