"""Every screen of `vega code` at 80 x 24 and 140 x 40: dark, light and without colour.

    python -m campaigns.code_screens            compares with what is kept
    python -m campaigns.code_screens --write    keeps it, and draws the pictures of the docs

Each screen is a session that is told by events, as a real one tells them, and some keys. Kept are
its text in both sizes, where its colours are on a dark ground, the lines that a light ground draws
otherwise, and what is left with NO_COLOR. That all of them say the same is checked each time.
"""

import argparse
import asyncio
import io
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from textual.filter import LineFilter, NoColor
from textual.pilot import Pilot
from textual.strip import Strip

from campaigns.screens import FONT, IMAGES, KEPT, OWN_FONTS, RUN, THEME, placed
from vegakit.cli.look import Tone
from vegakit.cli.terminal.app import CodeApp
from vegakit.cli.terminal.driver import SessionDriver
from vegakit.cli.terminal.pane import undo_page
from vegakit.cli.terminal.reducer import on_event, on_question
from vegakit.cli.terminal.screens import Choice, ConfirmScreen, PickScreen
from vegakit.cli.terminal.state import TurnState, TypedPrompt
from vegakit.control import Question
from vegakit.policy import InterruptKind
from vegakit.sage import (
    EndReason,
    SageCompacted,
    SageCost,
    SageEnd,
    SageEvent,
    SageQuote,
    SageRetry,
    SageSession,
    SageText,
    SageToolBegan,
    SageToolEnded,
    SageToolOutput,
    SageTurn,
    UndoTurn,
)

SIZES = ((80, 24), (140, 40))
NOW = 1_700_000_000_000
FOLDER = KEPT / "code"
OPENED = SageSession(
    "retry-fix", "0f3a91c27b44", "/home/ada/shop", "smart", "ask", 2.0, resumed=False
)

_OLD = "    start = clock()\n    async with lock:\n        return await call()"
_NEW = "    async with lock:\n        start = clock()\n        return await call()"
_EDIT = {"path": "src/retry.py", "old": _OLD, "new": _NEW}
_TODO = {
    "items": [
        {"text": "find where the timer starts", "done": True},
        {"text": "start it under the lock", "done": True},
        {"text": "run the tests of retry", "done": False},
        {"text": "push the branch", "done": False},
    ]
}
_ANSWER = """\
## What was wrong

The timer started **before** the lock was held, so a slow neighbour counted as a slow call.

```python
async with lock:
    start = clock()
    return await call()
```

| test | before | after |
|---|---:|---:|
| `test_retry` | 1 of 20 failed | 0 of 500 |

1. `src/retry.py` holds the lock first.
2. Nothing else changed.
"""


def tool(
    id: str,  # noqa: A002
    name: str,
    arguments: Mapping[str, Any],
    result: str,
    *,
    is_error: bool = False,
) -> list[SageEvent]:
    """Return the events of a call that has ended."""
    ended = SageToolEnded(id, name, result, is_error)
    return [SageToolBegan(id, name, dict(arguments)), ended]


BEGUN: list[SageEvent] = [
    SageTurn(1, "fix the flaky retry test"),
    SageText("The timer starts before the lock is held. I will move it."),
    *tool("1.1.0", "read", {"path": "src/retry.py", "start": 40, "lines": 49}, "…"),
    *tool("1.1.1", "todo", _TODO, "noted"),
    *tool("1.2.0", "edit", _EDIT, "edited src/retry.py at line 41"),
    SageCost(0.42, 1.54),
]
WORKING: list[SageEvent] = [
    *BEGUN,
    SageToolBegan("1.3.0", "shell", {"command": "just test retry"}),
    SageToolOutput(
        "1.3.0", "shell", "".join(f"tests/test_retry.py::test_{n} ok\n" for n in range(212)), 212
    ),
]
DONE: list[SageEvent] = [
    *BEGUN,
    *tool("1.3.0", "shell", {"command": "just test retry"}, "stdout:\n212 passed\nexit code 0"),
    SageText(_ANSWER),
    SageEnd(EndReason.DONE, _ANSWER, spent_usd=0.4312, changed=1),
]
AGENTS: list[SageEvent] = [
    SageTurn(2, "review the other users of the lock"),
    SageText("Three places use it; I will have each of them looked at."),
    *(
        SageToolBegan(f"2.1.{n}", "task", {"agent": kind, "prompt": prompt})
        for n, (kind, prompt) in enumerate(
            [
                ("explore", "Find every caller of Lock.acquire outside of src/retry.py."),
                ("review", "Look for timers that start before a lock in src/queue.py."),
                ("review", "The same in src/cache.py."),
            ]
        )
    ),
    SageQuote(("2.1.0", "2.1.1", "2.1.2"), 0.36, 0.081),
    SageToolBegan("2.1.0/1.0", "grep", {"pattern": "acquire"}, "2.1.0"),
    SageToolBegan("2.1.1/1.0", "read", {"path": "src/queue.py"}, "2.1.1"),
    SageToolEnded("2.1.2", "task", "Nothing: it has no timer.", is_error=False),
    SageToolBegan("2.1.3", "shell", {"command": "just serve --port 8080", "background": True}),
    SageCost(0.4512, 1.2),
]
TROUBLE: list[SageEvent] = [
    SageTurn(3, "now do the same for every service"),
    SageText("I will begin with the"),
    SageRetry("smart", "the provider is overloaded", 2, 8, 1.5),
    SageText("I will begin with the payment service."),
    *tool(
        "3.1.0",
        "read",
        {"path": "services/pay/.env"},
        "ToolArgumentsError: 'services/pay/.env' is out of reach: it holds secrets, or other "
        "programs trust what it says; leave it, or tell the person what to change there",
        is_error=True,
    ),
    SageCompacted({"turns": 2, "tool_calls": 31, "files_read": 12}, ("todo",), 412_000, 38_000),
    SageEnd(
        EndReason.BUDGET,
        error="BudgetExceeded",
        message="the next call could cost $0.4013, and $0.2500 is left of the budget of this "
        "session; nothing was sent",
        spent_usd=1.75,
    ),
]


def question(tool_name: str, arguments: str, reaches: str) -> Question:
    """Return a question as the runtime asks it."""
    why = "no rule allows it, and mode ask asks first"
    text = f'"sage 1": {tool_name} {arguments} does {reaches}: {why}'
    kind = InterruptKind.CONFIRMATION
    return Question("9c01f4a2be77", kind, "sage 1", text, NOW, NOW + 3_540_000, True)


PUSH = question(
    "shell",
    '{"command":"git push origin fix/retry"}',
    '{"argv":["bash","-c","git push origin fix/retry"],"type":"RunCommand"}',
)


class _StillDriver(SessionDriver):
    """A session that is told by a list, at one moment."""

    def now(self) -> int:
        return NOW

    async def open(self, **changes: Any) -> None:
        del changes

    async def refresh_cost(self) -> None:
        """Nothing is spent."""


class CodeScene(NamedTuple):
    """A screen: what was told, what is asked, and what is pressed then."""

    name: str
    events: Sequence[SageEvent]
    questions: Sequence[Question] = ()
    keys: Sequence[str] = ()
    over: Callable[[], Any] | None = None
    """Makes what opens over the conversation."""
    shows: Callable[[CodeApp], None] | None = None


def _sessions() -> PickScreen:
    rows = [
        Choice("a", "push-images  push the images", "needs you · $0.0312 spent", "?", Tone.ASK),
        Choice(
            "b",
            "retry-fix  fix the flaky retry test",
            "working · $0.4200 spent · on the screen",
            "◐",
            Tone.WORK,
        ),
        Choice("c", "docs  write the page on locks", "done · 6 turns · 14:01:52", "✓", Tone.OK),
        Choice("d", "migrate  move the store to v2", "failed · 2 turns · 11:40:03", "✗", Tone.BAD),
    ]
    return PickScreen("Sessions", rows, "no session fits")


def _undo() -> ConfirmScreen:
    from vegakit.cli.terminal.state import ChangedFile

    turn = UndoTurn(
        1,
        "fix the flaky retry test",
        NOW,
        "done",
        3,
        "run/000001",
        ("a request to api.example.com",),
        ("docs/changes.md", "src/retry.py", "tests/test_retry.py"),
    )
    files = [ChangedFile("src/retry.py", 2, 2), ChangedFile("tests/test_retry.py", 14, 0)]
    title = "Take back 1 turn, files and conversation?"
    return ConfirmScreen(title, lambda width: undo_page([turn], files, width), "take back")


def _queued(app: CodeApp) -> None:
    app.state.queue.append(TypedPrompt("then write a note for the changelog"))


SCENES = (
    CodeScene("empty", ()),
    CodeScene("working", WORKING, shows=_queued),
    CodeScene("approval", WORKING[:-2], (PUSH,)),
    CodeScene("done", DONE),
    CodeScene("agents", AGENTS),
    CodeScene("trouble", TROUBLE),
    CodeScene("slash", DONE, keys=("slash",)),
    CodeScene("palette", DONE, keys=("ctrl+k", "r", "e")),
    CodeScene("diff", BEGUN, keys=("ctrl+o",)),
    CodeScene("help", DONE, keys=("f1",)),
    CodeScene("sessions", DONE, over=_sessions),
    CodeScene("undo", DONE, over=_undo),
)
PICTURED = {"working": (140, 30), "approval": (80, 22), "sessions": (80, 10), "undo": (80, 12)}
"""Screens in other pages of the docs, with the sizes of their pictures."""
LIGHT = TerminalTheme(
    (255, 255, 255),
    (22, 24, 29),
    [
        (22, 24, 29),
        (168, 15, 46),
        (0, 125, 113),
        (143, 95, 0),
        (37, 88, 217),
        (110, 60, 170),
        (37, 88, 217),
        (92, 99, 112),
    ],
)
"""A terminal with a light ground."""


def make_app(scene: CodeScene, *, light: bool, ascii_only: bool = False) -> CodeApp:
    """Return a screen on which a scene was played."""
    app = CodeApp(Path("/home/ada/shop"), {}, light=light, ascii_only=ascii_only)
    driver: SessionDriver = _StillDriver(Path("/home/ada/shop"), {}, app)
    app.driver = driver
    app.drivers[:] = [driver]
    state = driver.state
    on_event(state, OPENED, NOW)
    for event in scene.events:
        on_event(state, event, NOW - 4_100)
    for one in scene.questions:
        on_question(state, one)
    state.context_share = 0.31 if scene.events else 0.0
    if not scene.events:
        state.turn_state = TurnState.IDLE
    if scene.shows is not None:
        scene.shows(app)
    return app


async def framed(app: CodeApp, pilot: Pilot[str]) -> None:
    """Draw some frames: what a key would answer is known when it was drawn."""
    for _ in range(2):
        await pilot.pause()
        app.changed()
        app._frame()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    await pilot.pause()


async def played(scene: CodeScene, app: CodeApp, pilot: Pilot[str]) -> None:
    """Draw a scene, and press its keys."""
    await framed(app, pilot)
    if scene.over is not None:
        app.push_screen(scene.over())
    for key in scene.keys:
        await pilot.press(key)
        await pilot.pause()
    await pilot.pause()


async def captured(
    scene: CodeScene,
    size: tuple[int, int],
    *,
    light: bool = False,
    colour: bool = True,
    ascii_only: bool = False,
) -> tuple[str, str]:
    """Return the text of a screen, and the same with its colours spelled."""
    environment = {} if colour else {"NO_COLOR": "1"}
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with patch.dict(os.environ, {**kept, **environment}, clear=True):
        app = make_app(scene, light=light, ascii_only=ascii_only)
        async with app.run_test(size=size) as pilot:
            await played(scene, app, pilot)
            return rendered(app, size[0])


def strips_of(app: CodeApp, more: Sequence[LineFilter] = ()) -> list[Strip]:
    """Return the rows of the screen of an app, as they are sent to a terminal."""
    compositor = app.screen._compositor  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    filters, ground = [*app.get_line_filters(), *more], app.screen.background_colors[1]
    made: list[Strip] = []
    for strip in compositor.render_strips():
        for one in filters:
            strip = strip.apply_filter(one, ground)  # noqa: PLW2901
        made.append(strip)
    return made


def rendered(app: CodeApp, width: int, more: Sequence[LineFilter] = ()) -> tuple[str, str]:
    """Return what is on the screen of an app, its text and the same with its colours spelled."""
    console = Console(width=width, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    strips = strips_of(app, more)
    plain = "\n".join(strip.text.rstrip() for strip in strips)
    return f"{plain}\n", "\n".join(spelled(strip.render(console)) for strip in strips) + "\n"


def spelled(line: str) -> str:
    """Return a line whose colours can be read, each where it begins; blanks at its end have
    none."""
    made, now = "", ""
    for code, text in re.findall(r"(?:\x1b\[([0-9;]*)m)?([^\x1b]*)", line):
        parts = [part for part in code.split(";") if part not in {"", "0", "39", "49"}]
        wanted = ";".join(parts)
        if text and wanted != now:
            made, now = f"{made}{{{wanted}}}", wanted
        made += text
    return re.sub(r"(?:\s|\{[0-9;]*\})+$", "", made)


def unspelled(text: str) -> str:
    """Return text without spelled colours."""
    return re.sub(r"\{[0-9;]*\}", "", text)


async def looks_of(scene: CodeScene, size: tuple[int, int]) -> dict[str, tuple[str, str]]:
    """Return a scene in each look, its text and the same with colours, of one program whose look is
    changed: to start one for each would take three times as long."""
    app = make_app(scene, light=False)
    async with app.run_test(size=size) as pilot:
        await played(scene, app, pilot)
        found = {
            "dark": rendered(app, size[0]),
            "NO_COLOR": rendered(app, size[0], (NoColor(),)),
        }
        app.choose_theme(light=True)
        app.chat.forget()
        await framed(app, pilot)
        found["light"] = rendered(app, size[0])
    return found


async def page_of(scene: CodeScene) -> str:
    """Return what is kept of a scene."""
    texts, colours = list[str](), list[str]()
    for size in SIZES:
        found = await looks_of(scene, size)
        told, dark = f"{size[0]}x{size[1]}", found["dark"][1]
        texts.append(f"=== {told}\n{found['dark'][0]}")
        if len(said := {text for text, _ in found.values()}) > 1:
            raise AssertionError(f"{scene.name} at {told} says {len(said)} things by its look")
        colours.append(f"=== {told}, dark\n{dark}")
        colours.append(f"=== {told}, light\n{_unlike(found['light'][1], dark)}")
        colours.append(f"=== {told}, NO_COLOR\n{_unlike(found['NO_COLOR'][1], found['dark'][0])}")
    return "".join((*texts, *colours))


def _unlike(text: str, other: str) -> str:
    """Return the lines that differ from those of another text, by their numbers."""
    pairs = enumerate(zip(text.splitlines(), other.splitlines(), strict=True), 1)
    return "".join(f"{number}: {one}\n" for number, (one, two) in pairs if one != two)


async def draw(scene: CodeScene, size: tuple[int, int], *, light: bool = False) -> str:
    """Return a picture of a scene, which fetches nothing."""
    app = make_app(scene, light=light)
    async with app.run_test(size=size) as pilot:
        await played(scene, app, pilot)
        console = Console(record=True, width=size[0], file=io.StringIO(), force_terminal=True)
        painted = "\n".join(strip.render(console) for strip in strips_of(app))
    console.print(Text.from_ansi(painted), soft_wrap=True)
    theme, name = LIGHT if light else THEME, f"vega-code-{scene.name}{'-light' if light else ''}"
    svg = console.export_svg(title="vega code", theme=theme, unique_id=name)
    svg = RUN.sub(placed, FONT.sub("", svg)).replace("Fira Code, monospace", OWN_FONTS)
    return re.sub(r"[ \t]+\n", "\n", svg)


async def picture(scene: CodeScene) -> None:
    """Draw the pictures of a scene: those of the page with all screens, and of other pages."""
    drawn = {
        f"{scene.name}-80": await draw(scene, SIZES[0]),
        f"{scene.name}-140": await draw(scene, SIZES[1], light=True),
    }
    if scene.name in PICTURED:
        drawn[scene.name] = await draw(scene, PICTURED[scene.name])
    for name, svg in drawn.items():
        (IMAGES / f"code-{name}.svg").write_text(svg, encoding="utf-8")


async def compare(*, writes: bool, names: Sequence[str]) -> int:
    """Compare the screens with what is kept, or keep them; return how many differ."""
    wrong = 0
    for scene in SCENES:
        if names and scene.name not in names:
            continue
        found, path = await page_of(scene), FOLDER / f"{scene.name}.txt"
        if writes:
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_text(found, encoding="utf-8")
            await picture(scene)
        same = writes or (path.is_file() and found == path.read_text(encoding="utf-8"))
        print(f"{'same' if same else 'differs':8} {scene.name}")
        wrong += not same
    return wrong


def main() -> int:
    """Compare or keep."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.code_screens")
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--write", action="store_true", help="keep what is shown now")
    chosen = parser.parse_args()
    wrong = asyncio.run(compare(writes=chosen.write, names=chosen.names))
    print(f"{len(SCENES)} screens in 2 sizes, dark, light and without colour: {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
