"""`vega demo`: a team of agents that crashes, runs out of money and loses its provider, and still
finishes.

It needs no key and no network: only the model is scripted.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from vegakit.cli.demo.crash import run_crash
from vegakit.cli.demo.plan import run_plan
from vegakit.cli.demo.scenario import BUDGET, TEAM, ReleaseScenario
from vegakit.cli.demo.screen import (
    DIM,
    DemoScreen,
    DemoSummary,
    LineScreen,
    LiveScreen,
    MoneyComparison,
    TeamMember,
    demo_parser,
    page,
    tree,
)
from vegakit.cli.look import look_of, print_json
from vegakit.config import load
from vegakit.control import ProcessKind, ProcessView
from vegakit.errors import UserError, did_you_mean
from vegakit.money import Money, in_dollars
from vegakit.ports import Sink
from vegakit.sdk import Runtime
from vegakit.store import MemoryLedger
from vegakit.telemetry import JsonLinesSink, SqliteSink, load_runs

__all__ = [
    "demo_command",
    "play",
]


_FAST = 0.05
_TREE_WIDTH, _TREE_HEIGHT, _WIDEST = 70, 16, 100
_OTHERS: dict[str, Callable[[Sequence[str]], int]] = {"crash": run_crash, "plan": run_plan}
_TITLE = "No key, no network, a scripted model: a team of agents writes release notes."


def demo_command(arguments: Sequence[str]) -> int:
    """Run `vega demo`."""
    if arguments and arguments[0] in _OTHERS:
        return _OTHERS[arguments[0]](arguments[1:])
    if arguments and not arguments[0].startswith("-"):
        near = did_you_mean(arguments[0], _OTHERS)
        raise UserError(
            f"there is no demo {arguments[0]!r}; {near}; to see one, type: vega demo crash"
        )
    chosen = demo_parser(
        "vega demo",
        "Watch agents work, crash, be restarted and be refused, in seven seconds. "
        "`vega demo crash` kills a run by `kill -9` and goes on with it; "
        "`vega demo plan` shows a model that plans 355 agents, and what that may cost.",
        faster="in little more than a second",
    ).parse_args(arguments)
    screen = _screen(as_json=chosen.json)
    screen.show([f"  {screen.paint(_TITLE, DIM)}", ""])
    try:
        facts = asyncio.run(play(screen, _FAST if chosen.fast else 1.0))
    except KeyboardInterrupt:
        return 130
    if chosen.json:
        print_json(in_dollars(facts))
    return 0 if facts.books.agree else 1


def _screen(*, as_json: bool) -> DemoScreen:
    if as_json:
        return DemoScreen()
    look = look_of(sys.stdout)
    columns, lines = shutil.get_terminal_size()
    has_room = columns >= _TREE_WIDTH and lines >= _TREE_HEIGHT
    screen = LiveScreen if look.moves and has_room else LineScreen
    return screen(sys.stdout, look)


async def play(screen: DemoScreen, pace: float) -> DemoSummary:
    """Play the demo, and return what it came to."""
    path, sink, command = _trace_place()
    ledger = MemoryLedger()
    async with Runtime(BUDGET, name="demo", ledger=ledger, trace=sink) as rt:
        with rt.tracer.span(TEAM) as span:
            scene = ReleaseScenario(rt, screen.tell, pace)
            async with screen.open(rt.ps):
                await scene.play()
        wall_ms, views, program = rt.clock.now() - scene.began_ms, rt.ps(), rt.program
        scope = await ledger.scope(rt.budgets.root)
    run, members = load_runs(path, span.trace_id)[0], _members(views)
    spent, alone_ms = scope.settled if scope else 0, sum(call.latency_ms for call in run.billed)
    facts = DemoSummary(
        seen=scene.seen,
        members=members,
        books=MoneyComparison(
            Money(spent), Money(sum(member.spent for member in members)), run.cost
        ),
        wasted=Money(spent - scene.seen.useful),
        wall_s=wall_ms / 1000,
        alone_s=alone_ms / 1000,
        saved_s=(alone_ms - wall_ms) / 1000,
        processes_left=len(program.machine.state.processes),
        tasks_left=len(asyncio.all_tasks()) - 1,
        trace_id=span.trace_id,
        trace_file=str(path),
        trace_command=command.format(span.trace_id[:12]),
    )
    end = page(facts, screen.paint, min(screen.width, _WIDEST))
    screen.show(["", *tree(views, screen.last, screen.paint), *end])
    return facts


def _members(views: Sequence[ProcessView]) -> list[TeamMember]:
    """Return who stands under a supervisor; what they spawned has spent from their wallets."""
    groups = {view.path for view in views if view.kind is ProcessKind.SUPERVISOR}
    return [
        TeamMember(view.path, view.spent, view.restarts)
        for view in views
        if view.parent in groups and view.path not in groups
    ]


def _trace_place() -> tuple[Path, Sink, str]:
    """Return where `vega trace` looks; elsewhere if the settings name no file or cannot be read."""
    try:
        settings = load()
    except UserError:
        settings = None
    if settings is not None and (path := settings.traces_path) is not None:
        made = SqliteSink(path) if settings.telemetry.sqlite else JsonLinesSink(path)
        return path, made, "vega trace {}"
    path = Path(tempfile.mkdtemp(prefix="vega-demo-")) / "traces.jsonl"
    return path, JsonLinesSink(path), f"vega trace {{}} --file {path}"
