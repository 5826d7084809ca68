"""`vega top`, driven by keys without a terminal, on a runtime behind a real socket."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from textual.widgets import DataTable, Static

from tests.cli.scene import Painted
from tests.patience import until
from vegakit.cli.top_app import TopApp
from vegakit.control import ControlClient
from vegakit.control.sockets import find
from vegakit.host import Supervisor
from vegakit.sdk.control_server import ControlServer
from vegakit.sdk.runtime import Runtime


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
    async with Runtime(name="night", view=ControlServer(tmp_path)) as rt:
        rt.spawn(Supervisor("restart_all", [at_work, idle], name="team"))
        rt.program.tell("team/at_work", "go")
        app = TopApp(ControlClient(find(None, tmp_path)), every_s=3600)
        async with app.run_test(size=(120, 30)) as pilot:
            await until(lambda: rows(app) == ["└─ team", "   ├─ at_work", "   └─ idle"])
            assert said(app, "summary").startswith("night · OS process")
            await pilot.press("down")
            await until(lambda: said(app, "facts").startswith("team/at_work  function running"))
            await pilot.press("K")
            await until(lambda: said(app, "question").startswith("Kill team/at_work for good"))
            await pilot.press("n", "y")
            assert len(rt.ps()) == 3
            await pilot.press("K", "y")
            await until(lambda: [view.path for view in rt.ps()] == ["team", "team/idle"])
            await until(lambda: rows(app) == ["└─ team", "   └─ idle"])


async def test_a_runtime_that_ended_is_told(tmp_path: Path) -> None:
    """What was seen last stays on the screen."""
    async with AsyncExitStack() as stack:
        rt = await stack.enter_async_context(Runtime(view=ControlServer(tmp_path)))
        rt.spawn(idle)
        app = TopApp(ControlClient(find(None, tmp_path)), every_s=3600)
        async with app.run_test():
            await until(lambda: rows(app) == ["└─ idle"])
            await stack.aclose()
            await app.refresh_views()
            assert "it may have ended" in said(app, "question")
            assert rows(app) == ["└─ idle"]


async def test_every_kind_of_process_can_be_drawn() -> None:
    """The picture in the documents is of this screen."""
    app = TopApp(Painted(), every_s=3600)
    async with app.run_test(size=(150, 30)) as pilot:
        await pilot.pause()
        drawn = app.export_screenshot()
    for word in ("stuck", "failing", "slow", "restarting", "61.4", "reviewer"):
        assert word in drawn
