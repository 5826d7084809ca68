"""`vega top`, driven by keys without a terminal, on a runtime behind a real socket."""

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.widgets import DataTable, Static

from tests.cli.scene import QUESTIONS, Painted
from tests.patience import until
from vegakit.cli.top_app import QuestionScreen, TopApp
from vegakit.control import ControlClient, Question
from vegakit.control.sockets import find
from vegakit.host import Supervisor
from vegakit.ids import Digest
from vegakit.sdk import ControlServer, Runtime


async def at_work(message: Any) -> None:
    await asyncio.Event().wait()


async def idle(message: Any) -> None: ...


def rows(app: TopApp) -> list[str]:
    table = app.query_one(DataTable[Any])
    return [str(table.get_row_at(number)[0]) for number in range(table.row_count)]


def said(app: TopApp, name: str) -> str:
    return str(app.query_one(f"#{name}", Static).render())


async def test_it_shows_what_runs_and_kills_what_is_chosen(tmp_path: Path) -> None:
    """A kill waits for a yes; the rest stays, and so does the cursor."""
    async with Runtime(name="night", observable=ControlServer(tmp_path)) as rt:
        rt.spawn(Supervisor("restart_all", [at_work, idle], name="team"))
        rt.program.tell("team/at_work", "go")
        app = TopApp(ControlClient(find(None, tmp_path)), every_s=3600)
        async with app.run_test(size=(120, 30)) as pilot:
            await until(lambda: rows(app) == ["team", "├─ at_work", "└─ idle"])
            assert said(app, "who").startswith("night · up ")
            await pilot.press("down")
            await until(lambda: said(app, "facts").startswith("team/at_work  function ◐ working"))
            await pilot.press("K")
            await until(lambda: said(app, "question").startswith("Kill team/at_work for good"))
            await pilot.press("n", "y")
            assert len(rt.ps()) == 3
            await pilot.press("K", "y")
            await until(lambda: [view.path for view in rt.ps()] == ["team", "team/idle"])
            await until(lambda: rows(app) == ["team", "└─ idle"])


async def test_a_runtime_that_ended_is_told(tmp_path: Path) -> None:
    """What was seen last stays on the screen."""
    async with AsyncExitStack() as stack:
        rt = await stack.enter_async_context(Runtime(observable=ControlServer(tmp_path)))
        rt.spawn(idle)
        app = TopApp(ControlClient(find(None, tmp_path)), every_s=3600)
        async with app.run_test():
            await until(lambda: rows(app) == ["idle"])
            await stack.aclose()
            await app.refresh_views()
            assert "it may have ended" in said(app, "question")
            assert rows(app) == ["idle"]


async def test_every_kind_of_process_can_be_drawn() -> None:
    """The picture in the documents is of this screen."""
    app = TopApp(Painted(), every_s=3600)
    async with app.run_test(size=(150, 30)) as pilot:
        await pilot.pause()
        drawn = app.export_screenshot()
    for word in ("stuck", "needs", "slow", "restarting", "61.4", "reviewer", "Reserved"):
        assert word in drawn


@pytest.mark.parametrize("width", [60, 80, 100, 140])
async def test_no_amount_is_cut(width: int) -> None:
    """At any width: whole columns go, and what is reserved, spent and left adds up above."""
    app = TopApp(Painted(), every_s=3600)
    async with app.run_test(size=(width, 24)) as pilot:
        await pilot.pause()
        titles = [str(column.label) for column in app.query_one(DataTable[Any]).ordered_columns]
        assert {"Process", "State", "Spent", "Left"} <= set(titles)
        drawn = re.sub(r"<[^>]*>|&#160;", " ", app.export_screenshot())
    for amount in ("$3.3900", "$2.1800", "$1.3200", "$0.0001", "$10.00", "$6.52", "$3.41"):
        assert amount in drawn, amount


class Asked(Painted):
    """Remembers what was answered."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: list[tuple[str, bool | str]] = []

    async def answer(
        self,
        id: str,  # noqa: A002
        answer: bool | str,
        *,
        action: Digest | None = None,
        by: str = "",
    ) -> None:
        self.answered.append((id, answer))


@pytest.mark.parametrize(("key", "answer"), [("a", "yes"), ("d", "no")])
async def test_a_question_is_answered_in_place(key: str, answer: str) -> None:
    """It is shown whole, with who asks, how long it stands and what may be spent."""
    remote = Asked()
    app = TopApp(remote, every_s=3600)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: "pay" in said(app, "asked"))
        for fact in ("buyer", '"amount":30', "net::post", "57 m left", "at most $0.5000"):
            assert fact in said(app, "asked")
        await pilot.press(key)
        await until(lambda: remote.answered == [("0123456789ab", answer)])


async def test_a_long_question_is_read_to_its_end_first() -> None:
    """Yes counts only after its last line was on the screen."""
    remote = Asked()
    long = replace(QUESTIONS[0], text="pay " * 2_000)

    async def asked() -> list[Question]:
        return [long]

    remote.interrupts = asked  # pyright: ignore[reportAttributeAccessIssue]
    app = TopApp(remote, every_s=3600)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: "more lines; v shows all" in said(app, "asked"))
        await pilot.press("a")
        await until(lambda: isinstance(app.screen, QuestionScreen))
        await pilot.press("a")
        await pilot.pause()
        assert remote.answered == []
        await pilot.press("end", "a")
        await until(lambda: remote.answered == [("0123456789ab", "yes")])
