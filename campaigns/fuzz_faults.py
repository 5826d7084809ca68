"""Faults that are planted in a parser, for `campaigns.fuzz planted` to find: a crash behind three
right bytes, time that grows with the square, memory, depth, and a loop without an end."""

from collections.abc import Iterator

from campaigns.fuzz_targets import FuzzTarget, OpenTarget

__all__ = ["PLANTED"]


def _seeds() -> Iterator[bytes]:
    yield b"<p>one two</p> [x]"


def _crash(data: bytes) -> None:
    if data[:1] == b"V" and data[1:2] == b"G":
        raise KeyError(data[2])


def _square(data: bytes) -> None:
    for _ in range(20 * data.count(b"<")):
        data.count(b"<")


def _memory(data: bytes) -> None:
    bytearray(data.count(b"[") * 100_000)


def _depth(data: bytes) -> None:
    if data and data[:1] in b"([{":
        _depth(data[1:])


def _endless(data: bytes) -> None:
    while b"]" in data and data.index(b"]") % 8 == 7:
        pass


PLANTED = {
    name: FuzzTarget(name, _seeds, lambda parse=parse: OpenTarget(parse, ()), 1 << 14)
    for name, parse in {
        "crash": _crash,
        "square": _square,
        "memory": _memory,
        "depth": _depth,
        "endless": _endless,
    }.items()
}
