"""How `vega demo` is shown: a line for whatever happens, and in a terminal a living tree below."""

import asyncio
import textwrap
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TextIO

from vegakit.cli.demo_paint import BOLD, DIM, MARKS, Paint, painter
from vegakit.cli.demo_scene import Happened, Mark
from vegakit.cli.demo_tree import tree
from vegakit.runtime import ProcessView

__all__ = ["Lines", "Live", "Stage"]

_FRAME_S = 0.08
_MARGIN, _ENDLESS = 22, 10_000
_QUIET = {Mark.BEGAN, Mark.DONE}
_HIDE_CURSOR, _SHOW_CURSOR, _CLEAR_BELOW = "\x1b[?25l", "\x1b[?25h", "\x1b[J"


class Stage:
    """Shows nothing, and remembers what was last told of each."""

    def __init__(self) -> None:
        self.paint: Paint = painter(colour=False)
        self.width = _ENDLESS
        self.last: dict[str, Happened] = {}

    def tell(self, event: Happened) -> None:
        self.last[event.who] = event

    def show(self, lines: Sequence[str]) -> None:
        pass

    @asynccontextmanager
    async def open(self, views: Callable[[], list[ProcessView]]) -> AsyncGenerator[None]:
        yield


class Lines(Stage):
    """A line for each event; `width` None breaks none of them."""

    def __init__(self, out: TextIO, *, colour: bool = False, width: int | None = None) -> None:
        super().__init__()
        self.paint = painter(colour=colour)
        self.width = width or self.width
        self._out = out

    def tell(self, event: Happened) -> None:
        super().tell(event)
        self.show(_lines(event, self.paint, self.width))

    def show(self, lines: Sequence[str]) -> None:
        self._write("".join(f"{line}\n" for line in lines))

    def _write(self, text: str) -> None:
        """A reader that leaves early, like `head`, is no failure of the process that tells."""
        with suppress(BrokenPipeError):
            self._out.write(text)
            self._out.flush()


class Live(Lines):
    """Events scroll up; the tree stays below them and is drawn anew in place."""

    def __init__(self, out: TextIO, width: int) -> None:
        super().__init__(out, colour=True, width=width)
        self._views: Callable[[], list[ProcessView]] = list
        self._drawn = self._tick = 0

    def show(self, lines: Sequence[str]) -> None:
        """In one write, so that it does not flicker."""
        wipe, frame = self._wipe(), self._frame()
        self._drawn = len(frame)
        self._write(wipe + "".join(f"{line}\n" for line in [*lines, *frame]))

    @asynccontextmanager
    async def open(self, views: Callable[[], list[ProcessView]]) -> AsyncGenerator[None]:
        """The last frame is wiped away at the end."""
        self._views = views
        self._write(_HIDE_CURSOR)
        turning = asyncio.ensure_future(self._turn())
        try:
            yield
        finally:
            turning.cancel()
            await asyncio.wait([turning])
            self._views = list
            self.show([])
            self._write(_SHOW_CURSOR)

    async def _turn(self) -> None:
        while True:
            self._tick += 1
            self.show([])
            await asyncio.sleep(_FRAME_S)

    def _frame(self) -> list[str]:
        views = self._views()
        return ["", *tree(views, self.last, self.paint, self._tick)] if views else []

    def _wipe(self) -> str:
        up = f"\x1b[{self._drawn}A\r" if self._drawn else "\r"
        self._drawn = 0
        return up + _CLEAR_BELOW


def _lines(event: Happened, paint: Paint, width: int) -> list[str]:
    sign, style = MARKS[event.mark]
    at, who = f"{event.at_ms / 1000:4.1f} s", f"{event.who:12}"
    first, *more = textwrap.wrap(event.text, max(20, width - _MARGIN))
    head = f"{paint(at, DIM)}  {paint(sign, style)} {paint(who, BOLD)}"
    colour = "" if event.mark in _QUIET else style
    return [
        f"{head}{paint(first, colour)}",
        *(" " * _MARGIN + paint(rest, colour) for rest in more),
    ]
