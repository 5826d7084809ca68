"""`str::…`, and text out of anything."""

from vegakit.vm.faults import Fault, limit
from vegakit.vm.library.table import pure
from vegakit.vm.texts import text_of
from vegakit.vm.values import MAX_CHARS, MAX_ITEMS, Items, Value, items_of, kind_of, sized

__all__ = []


def _room(chars: int) -> None:
    if chars > MAX_CHARS:
        raise limit(f"a text has at most {MAX_CHARS:,} characters; this one would have {chars:,}")


def _few(items: int) -> None:
    if items > MAX_ITEMS:
        raise limit(f"a list has at most {MAX_ITEMS:,} items; this one would have {items:,}")


def _something(part: str) -> None:
    if not part:
        raise Fault("ValueError", "an empty string is nothing to look for")


@pure("str", "*")
def _str(of: Value) -> str:
    return sized(text_of(of))


@pure("str::len", "s")
def _len(text: str) -> int:
    return len(text)


@pure("str::trim", "s")
def _trim(text: str) -> str:
    return text.strip()


@pure("str::lower", "s")
def _lower(text: str) -> str:
    return sized(text.lower())


@pure("str::upper", "s")
def _upper(text: str) -> str:
    return sized(text.upper())


@pure("str::split", "s s")
def _split(text: str, by: str) -> Items:
    _few(text.count(by) + 1 if by else len(text))
    return items_of(text.split(by) if by else text)


@pure("str::join", "l s")
def _join(parts: Items, between: str) -> str:
    for part in parts:
        if type(part) is not str:
            raise Fault("BadProgram", f"str::join joins strings, not {kind_of(part)}")
    _room(sum(map(len, parts)) + len(between) * max(len(parts) - 1, 0))
    return between.join(parts)


@pure("str::lines", "s")
def _lines(text: str) -> Items:
    _few(text.count("\n") + 1)
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return items_of([line.removesuffix("\r") for line in lines])


@pure("str::words", "s")
def _words(text: str) -> Items:
    words = text.split(None, MAX_ITEMS)
    _few(len(words))
    return items_of(words)


@pure("str::starts_with", "s s")
def _starts_with(text: str, part: str) -> bool:
    return text.startswith(part)


@pure("str::ends_with", "s s")
def _ends_with(text: str, part: str) -> bool:
    return text.endswith(part)


@pure("str::contains", "s s")
def _contains(text: str, part: str) -> bool:
    return part in text


@pure("str::find", "s s")
def _find(text: str, part: str) -> int | None:
    at = text.find(part)
    return None if at < 0 else at


@pure("str::count", "s s")
def _count(text: str, part: str) -> int:
    _something(part)
    return text.count(part)


@pure("str::replace", "s s s")
def _replace(text: str, part: str, by: str) -> str:
    _something(part)
    _room(len(text) + text.count(part) * (len(by) - len(part)))
    return text.replace(part, by)


@pure("str::slice", "s i i?")
def _slice(text: str, begin: int, end: int | None) -> str:
    return text[begin:end]


@pure("str::repeat", "s i")
def _repeat(text: str, count: int) -> str:
    if count < 0:
        raise Fault("ValueError", f"a text is not repeated {count} times")
    _room(len(text) * count)
    return text * count if text else ""


@pure("str::pad_left", "s i s?")
def _pad_left(text: str, width: int, fill: str | None) -> str:
    return _filling(text, width, fill) + text


@pure("str::pad_right", "s i s?")
def _pad_right(text: str, width: int, fill: str | None) -> str:
    return text + _filling(text, width, fill)


def _filling(text: str, width: int, fill: str | None) -> str:
    fill = " " if fill is None else fill
    _something(fill)
    _room(width)
    missing = max(width - len(text), 0)
    return (fill * (missing // len(fill) + 1))[:missing]
