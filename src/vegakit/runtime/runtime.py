"""The runtime people use: it owns ledger, lanes and traces, and every ask goes through it.

async with Runtime(budget="$10") as rt:
    reply = await rt.ask(agent, "…")            scope and deadline are those of this line
    with rt.budget("$1/day"): …                 a cap inside the cap
"""

import asyncio
import secrets
from asyncio.subprocess import DEVNULL
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from vegakit.config import Settings, load
from vegakit.conversation import Conversation, Message
from vegakit.errors import SettingsError, UserError
from vegakit.events import CallTraced
from vegakit.ids import HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import OnExceed, ScopeRule
from vegakit.ports import Clock, Journal, Ledger, Memory, Model, Sink
from vegakit.program import Bounds, News
from vegakit.runtime.agents import Agent
from vegakit.runtime.asks import Ask
from vegakit.runtime.budgets import Budgets, rule_of
from vegakit.runtime.cancelling import all_of
from vegakit.runtime.catalogue import Catalogue, Limits
from vegakit.runtime.children import Child as OsChild
from vegakit.runtime.children import Children
from vegakit.runtime.clock import SteadyClock
from vegakit.runtime.composing import parts_from
from vegakit.runtime.gate import Gate
from vegakit.runtime.journaling import Journaled, as_journal, ledger_beside
from vegakit.runtime.processes import (
    Child,
    HostFacts,
    Process,
    ProcessView,
    ProgramRun,
    Recent,
    Supervisor,
    views_of,
)
from vegakit.runtime.processes.performing import current_process
from vegakit.runtime.processes.supervisors import Body
from vegakit.runtime.replies import Reply, StreamEvent
from vegakit.runtime.viewing import ViewServer
from vegakit.store import MemoryLedger
from vegakit.telemetry import Tracer

__all__ = ["Runtime"]

T = TypeVar("T")

_LEASE_MS = 20_000
_RENEW_MS = 5_000
_PRUNE_MS = 60_000
_REMEMBER_MS = 86_400_000
"""How long a late bill still finds its claim."""
_REMEMBER_IN_MEMORY_MS = 900_000
"""Longer than any call waits for its answer."""


class _NoSink:
    def record(self, call: CallTraced) -> None:
        pass

    async def aclose(self) -> None:
        pass


class Runtime:
    """`name` names the cap: runtimes of one name on one ledger share it. `models` turns a model's
    name into a model; without it names are looked up in the settings. With `view`, `vega ps` and
    its kin of the same user may look in."""

    def __init__(
        self,
        budget: str | float | ScopeRule | None = "$10",
        *,
        name: str = "default",
        ledger: Ledger | None = None,
        trace: Sink | None = None,
        limits: Limits | None = None,
        models: Callable[[str], Model] | None = None,
        clock: Clock | None = None,
        journal: Journal | str | PathLike[str] | None = None,
        on_exceed: str = OnExceed.BLOCK,
        memory: Memory | None = None,
        bounds: Bounds | None = None,
        view: bool | ViewServer = False,
    ) -> None:
        self.clock: Clock = clock or SteadyClock()
        self._journal = as_journal(journal)
        ledger = ledger or ledger_beside(self._journal)
        self._ledger: Ledger = ledger or MemoryLedger()
        self._remember_ms = _REMEMBER_MS if ledger else _REMEMBER_IN_MEMORY_MS
        self.recent = Recent(trace or _NoSink(), self.clock)
        self.children = Children(self.clock)
        self.memory = memory
        self.name = name
        self.catalogue = Catalogue(models, limits, self.clock)
        self._spent = 0
        self.journaled: Journaled | None = None
        self._bounds = bounds or Bounds()
        self._program: ProgramRun | None = None
        self._renewing: asyncio.Task[None] | None = None
        root = ScopeId(f"runtime:{name}")
        self.budgets = Budgets(self._ledger, self.clock, root, rule_of(budget, on_exceed))
        self.tracer = Tracer(self.recent, self.clock)
        self._view = _view_from_settings() if view is True else view or None

    @classmethod
    def from_config(cls, settings: Settings | None = None, **flags: object) -> "Runtime":
        """As vega.toml and `VEGA_*` say: models by name, a ledger and traces on disk. `flags` are
        settings by dotted name, with `_` for the dots."""
        return cls(**parts_from(settings or load(flags)))

    async def __aenter__(self) -> Self:
        """Takes a lease, and settles what holders left behind who died."""
        now = self.clock.now()
        self._holder = self.budgets.holder = HolderId(f"{self.name}:{secrets.token_hex(8)}")
        self.gate = Gate(self._ledger, self.clock, self._holder)
        if self._journal is not None:
            self.journaled = await Journaled.begin(self._journal, self._ledger, now)
            self.budgets.raise_root(self.journaled.run.raised)
        await self._ledger.renew(self._holder, now + _LEASE_MS)
        await self._ledger.expire(now)
        await self.budgets.ready(self.budgets.root)
        self._renewing = asyncio.ensure_future(self._renew())
        if self._view is not None:
            await self._view.open(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._view is not None:
            await self._view.aclose()
        if self._program is not None:
            await self._program.aclose()
        await self.children.aclose()
        if self.memory is not None:
            await self.memory.aclose()
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        await self.budgets.close_left()
        await self.catalogue.aclose()
        await self.recent.aclose()
        if self.journaled is not None:
            await self.journaled.end(self.clock.now(), is_done=kind is None)
        await self._ledger.aclose()

    def ask(
        self,
        agent: Agent[T],
        prompt: str,
        *,
        timeout: float | None = None,
        deps: object = None,
        files: Sequence[str | Path] = (),
        history: Conversation | Sequence[Message] = (),
        wait_for_budget: bool = False,
    ) -> Ask[T]:
        self._check_entered()
        return Ask(
            self,
            agent,
            prompt,
            timeout_s=timeout,
            deps=deps,
            files=files,
            history=history,
            wait_for_budget=wait_for_budget,
        )

    def stream(
        self,
        agent: Agent[T],
        prompt: str,
        **options: Any,  # noqa: ANN401
    ) -> AsyncGenerator[StreamEvent[T]]:
        """Takes what `ask` takes. Leaving the loop early closes the connection."""
        return self.ask(agent, prompt, **options).events(stream=True)

    async def batch(self, *asks: Ask[Any]) -> tuple[Reply[Any], ...]:
        """At once; if one fails, the others are cancelled."""
        return tuple(await all_of([_awaited(ask) for ask in asks]))

    @property
    def program(self) -> ProgramRun:
        """All processes of this runtime."""
        self._check_entered()
        if self._program is None:
            self._program = ProgramRun(self, self._bounds, self.journaled)
            if self._view is not None:
                self._program.on(News, self.recent.tell)
        return self._program

    def spawn(
        self,
        body: Body | Child | Supervisor,
        *,
        name: str = "",
        supervise: Supervisor | None = None,
        **child: Any,  # noqa: ANN401
    ) -> Process[Any]:
        """An agent, a reducer, an `async def` function or a whole `Supervisor` as a process, which
        is restarted when it crashes: three times a minute, or as `supervise` says. `child` is what
        `Child` takes: `wallet="$2"`, `restart=`, `cost_alert=`. Inside a process or a tool of one,
        what is spawned is a child of it, takes its wallet out of its parent's, and ends with it."""
        return self.program.spawn(body, name=name, supervise=supervise, **child)

    def process(self, path: str) -> Process[Any]:
        """One that was started elsewhere, as a child of a supervisor is."""
        return self.program.process(path)

    async def start_child(
        self,
        argv: Sequence[str],
        *,
        cwd: str | Path = ".",
        env: Mapping[str, str] | None = None,
        stdin: int = DEVNULL,
    ) -> OsChild:
        """An OS process that belongs to the process whose code runs here, and ends with its life.
        It gets no environment but `env`. It is not in a sandbox."""
        owner = current_process.get()
        return await self.children.start(argv, cwd=cwd, env=env or {}, owner=owner, stdin=stdin)

    def on(self, kind: Any, react: Callable[[Any], object]) -> None:  # noqa: ANN401
        """Calls `react` with each news of a kind: `rt.on(CostAlert | ProcessExited, print)`."""
        self.program.on(kind, react)

    def ps(self) -> list[ProcessView]:
        """What each process is doing, supervisors too, each before what is below it."""
        if self._program is None:
            return []
        now = self.clock.now()
        owners = Counter(child.owner for child in self.children.all())
        facts = HostFacts(self.recent.tokens_per_s(now), owners)
        return views_of(self._program.machine, self._program.registry.code, now, facts)

    def budget(
        self, allowance: str | float, name: str | None = None
    ) -> AbstractContextManager[ScopeId]:
        """A named block, or one with a period, goes on where it was left; others start anew."""
        return self.budgets.block(allowance, name)

    @property
    def spent(self) -> Money:
        """By the asks of this runtime."""
        return Money(self._spent)

    async def remaining(self) -> Money | None:
        """Of the current budget; None where nothing limits it."""
        scope = await self.budgets.ready(self.budgets.current)
        return await self._ledger.room(scope, self.clock.now())

    def on_spent(self, amount: int) -> None:
        self._spent += amount

    async def _renew(self) -> None:
        """Keeps the lease, settles what the dead left behind, and forgets old claims now and then,
        so that a long life stays small."""
        prune_at = 0
        while True:
            now = self.clock.now()
            await self._ledger.renew(self._holder, now + _LEASE_MS)
            await self._ledger.expire(now)
            if now >= prune_at:
                await self._ledger.prune(now - self._remember_ms)
                prune_at = now + _PRUNE_MS
            await self.clock.wait_until(now + _RENEW_MS)

    def _check_entered(self) -> None:
        if self._renewing is None:
            raise UserError("open the runtime first: `async with Runtime(...) as rt:`")


def _view_from_settings() -> ViewServer:
    directory = load().sockets_path
    if directory is None:
        raise SettingsError(
            'view=True needs a directory for its socket, and view.sockets is ""; take it out of '
            "vega.toml, or leave out view=True"
        )
    return ViewServer(directory)


async def _awaited(ask: Ask[T]) -> Reply[T]:
    return await ask
