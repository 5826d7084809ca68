"""The runtime people use, and an ask: it owns ledger, limiters and traces, and every ask goes
through it.

    async with Runtime(budget="$10") as rt:
        reply = await rt.ask(agent, "…")            scope and deadline are those of this line
        with rt.budget("$1/day"): …                 a cap inside the cap
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from msgspec import structs

from vegakit.concurrency import SteadyClock, gather_all
from vegakit.control import Question
from vegakit.conversation import Conversation, Message, Text, UserPart
from vegakit.errors import UserError
from vegakit.events import CallTraced
from vegakit.host import (
    Agent,
    Body,
    Child,
    Process,
    Reply,
    StreamEvent,
    Supervisor,
    TurnEnded,
    current_process,
    read_media,
)
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money, dollars
from vegakit.policy import LEASE_MS, OnExceed, ScopeRule, Secrets
from vegakit.ports import Audit, Clock, Journal, Ledger, Memory, Model, Sink, Store
from vegakit.program import DEFAULT_WINDOW, Bounds, News, Prompt
from vegakit.telemetry import Tracer, current_span
from vegakit.tools import current_effect

if TYPE_CHECKING:
    from vegakit.child_process import ChildProcess
    from vegakit.config import Settings
    from vegakit.control import ProcessView
    from vegakit.host import (
        AdmissionService,
        HostServices,
        JournaledRun,
        Lease,
        Limits,
        PendingAsk,
        PermissionPolicy,
        ProgramRun,
    )
    from vegakit.sdk.control_server import ControlServer
    from vegakit.sdk.programs import VegaProgram


# A question: asked when it is awaited, with budget, span and deadline of where it was written.
#
# It is a message to a process that lives for this one answer: the program decides its turn, its
# retries and its money, with a journal and without one.


AskT = TypeVar("AskT")


class Ask(Generic[AskT]):
    """A question not yet asked: await it, or give it to `rt.batch`. It keeps the budget, the span
    and the deadline of the line it was written on."""

    def __init__(
        self,
        runtime: "Runtime",
        agent: Agent[AskT],
        prompt: str,
        *,
        timeout_s: float | None,
        deps: object,
        files: Sequence[str | Path],
        history: Conversation | Sequence[Message],
        wait_for_budget: bool,
    ) -> None:
        self._runtime = runtime
        self._agent = agent
        self._parts: tuple[UserPart, ...] = (Text(prompt), *map(read_media, files))
        self._history = history.messages if isinstance(history, Conversation) else tuple(history)
        self._scope = runtime.budgets.current
        self._above = current_span()
        self._deps = deps
        self._wait_for_budget = wait_for_budget
        timeout_s = agent.timeout if timeout_s is None else timeout_s
        self._timeout_ms = 0 if timeout_s is None else round(timeout_s * 1000)
        now = runtime.clock.now()
        self._deadline_ms = None if timeout_s is None else now + self._timeout_ms

    def __await__(self) -> Generator[Any, Any, Reply[AskT]]:
        return self._reply().__await__()

    async def _reply(self) -> Reply[AskT]:
        program = self._runtime.program
        asked = await self._begin()
        try:
            return await asked
        except BaseException:
            await program.finished(asked)
            raise

    async def events(self, *, stream: bool) -> AsyncGenerator[StreamEvent[AskT]]:
        """Yield what is said and done while it happens; without `stream` only what is done. Where
        answers are recorded, the text of each model call comes when it is complete and kept."""
        program = self._runtime.program
        asked = await self._begin(stream=stream, with_events=True)
        try:
            async for event in asked.buffer:
                yield event
            yield TurnEnded(asked.result())
        finally:
            asked.cancel()
            await program.finished(asked)

    async def _begin(self, *, stream: bool = False, with_events: bool = False) -> "PendingAsk":
        await self._runtime.model_registry.prepare_for(self._agent)
        budgets, cap = self._runtime.budgets, self._agent.cap
        # A part that holds the quote of programs is a bound, of which little is ever spent.
        if cap is not None and not self._agent.writes_programs:
            budgets.check_part(self._scope, cap)
        prompt = Prompt(
            self._parts,
            self._history,
            self._scope,
            stream=stream,
            wait_for_budget=self._wait_for_budget,
        )
        return self._runtime.program.ask_once(
            self._agent,
            prompt,
            deps=self._deps,
            deadline_ms=self._deadline_ms,
            timeout_ms=self._timeout_ms,
            above=self._above,
            with_events=with_events,
        )


# The runtime people use: it owns ledger, limiters and traces, and every ask goes through it.


T = TypeVar("T")


def _environment_secrets() -> Secrets:
    from vegakit.config import environment_secrets

    return environment_secrets()


class _NoSink:
    def record(self, call: CallTraced) -> None:
        pass

    async def aclose(self) -> None:
        pass


class Runtime:
    """It keeps no journal: what it did is forgotten with it, and after `kill -9` nothing goes on.
    With `journal="run.db"`, or as `Runtime.from_config()`, answers are recorded, and the program
    goes on from them when it is started again: `vega resume`.

    `name` names the cap: runtimes of one name on one ledger share it. `models` turns a model's
    name into a model; without it names are looked up in the settings. With `view`, `vega ps` and
    its kin of the same user may look in. With `permissions` or a `mode` each tool call is allowed,
    denied, or asked about; what is asked is kept in `store`, beside the journal if there is one.
    `sandbox` is where tools run commands: "auto", or "container" if Vega's own is the boundary.
    `window` is how many calls a compiled program may begin before it comes to them, 0 for none.
    `lease_ms` is how long what it has reserved stays reserved on a shared ledger after it died.
    `secrets` are values that people are shown by name in questions; without it, those of variables
    whose names say that they are secret."""

    def __init__(
        self,
        budget: str | float | ScopeRule | None = "$10",
        *,
        name: str = "default",
        ledger: Ledger | str | PathLike[str] | None = None,
        trace: Sink | None = None,
        limits: "Limits | None" = None,
        models: Callable[[str], Model] | None = None,
        clock: Clock | None = None,
        journal: Journal | str | PathLike[str] | None = None,
        on_exceed: str = OnExceed.BLOCK,
        memory: Memory | None = None,
        bounds: Bounds | None = None,
        window: int | None = None,
        view: "bool | ControlServer" = False,
        permissions: "PermissionPolicy | Sequence[str] | None" = None,
        mode: str | None = None,
        audit: Audit | str | PathLike[str] | None = None,
        store: Store | None = None,
        pins: str | PathLike[str] | None = None,
        sandbox: str = "auto",
        lease_ms: int = LEASE_MS,
        secrets: Callable[[], Secrets] = _environment_secrets,
    ) -> None:
        # The parts of a runtime are loaded when one is made, those of its run when a process is
        # started: who only imports the name does not wait for them.
        from vegakit.child_process import Children
        from vegakit.host import (
            ActivityLog,
            Approvals,
            Backlog,
            Budgets,
            ModelRegistry,
            as_audit,
            as_journal,
            as_ledger,
            permission_policy_from,
            rule_of,
            store_beside,
        )
        from vegakit.sdk.mcp import Mcp
        from vegakit.store import MemoryLedger
        from vegakit.tools import SandboxPool

        self.clock: Clock = clock or SteadyClock()
        self._journal = as_journal(journal)
        lasting = as_ledger(ledger, self._journal)
        self._ledger: Ledger = lasting or MemoryLedger()
        self._lasting = lasting is not None
        self.activity = ActivityLog(trace or _NoSink(), self.clock)
        self.children = Children(self.clock)
        self._admission_service: AdmissionService | None = None
        self.backlog = Backlog(self.clock)
        self.memory = memory
        self.name = name
        self.model_registry = ModelRegistry(models, limits, self.clock)
        self._spent = 0
        self.journaled: JournaledRun | None = None
        self._exit_callbacks: list[Callable[[], object]] = []
        rule = rule_of(budget, on_exceed)
        self._bounds = bounds or Bounds(
            window=DEFAULT_WINDOW if window is None else window, ceiling=rule.cap
        )
        self._program: ProgramRun | None = None
        self._lease_ms = lease_ms
        self._lease: Lease | None = None
        root = ScopeId(f"runtime:{name}")
        self.budgets = Budgets(self._ledger, self.clock, root, rule)
        self.tracer = Tracer(self.activity, self.clock)
        if view is True:
            from vegakit.sdk.control_server import control_server_from_settings

            view = control_server_from_settings()
        self._view = view or None
        self.approvals = Approvals(
            self.clock,
            store or store_beside(self._journal),
            permission_policy_from(permissions, mode),
            as_audit(audit),
            secrets,
        )
        self.mcp = Mcp(self, pins)
        self.sandboxes = SandboxPool(self.children, self.clock, current_process.get, sandbox)

    @classmethod
    def from_config(cls, settings: "Settings | None" = None, **flags: object) -> "Runtime":
        """Return a runtime as vega.toml and `VEGA_*` describe it: models by name, a journal, a
        ledger and traces on disk. `flags` are tables of settings, as
        `budget={"default": "$5"}`. Each runtime is a run of its own in the journal of the user;
        `vega resume` has the last unfinished one go on."""
        from vegakit.config import load
        from vegakit.sdk.composition import runtime_arguments

        settings = settings or load(flags)
        made = cls(**runtime_arguments(settings))
        made.mcp.settings = settings
        return made

    async def __aenter__(self) -> Self:
        """Takes a lease, and settles what holders left behind who died."""
        from vegakit.host import Gate, JournaledRun, Lease, charge_missing

        now = self.clock.now()
        self._holder = HolderId(f"{self.name}:{token_hex(8)}")
        self.gate = Gate(self._ledger, self.clock, self._holder, self.backlog, self._lease_ms)
        if self._journal is not None:
            resume = self.approvals.resume
            self.journaled = await JournaledRun.begin(self._journal, self._ledger, now, resume)
            if self._journal.shared:
                self.budgets.begin_run(self.journaled.run.program)
            self.budgets.raise_root(self.journaled.run.raised)
        self.approvals.begin(self.journaled.run.program if self.journaled else self._holder)
        lease = Lease(
            self._ledger,
            self.clock,
            self._holder,
            lasting=self._lasting,
            length_ms=self._lease_ms,
        )
        await lease.take()
        root = await self.budgets.ready(self.budgets.root)
        if self.journaled is not None and self.journaled.is_resumed:
            run, holder = self.journaled.run, self._holder
            await charge_missing(self.journaled.journal, self._ledger, run, root, holder, now)
        lease.keep()
        self._lease = lease
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
        if kind is not None and self.journaled is not None:
            self.approvals.questions.keep_open()
        replayed = await self._end_processes()
        if self.memory is not None:
            await self.memory.aclose()
        await self.backlog.aclose()
        if self._lease is not None:
            await self._lease.aclose()
        await self.budgets.close_left()
        await self.model_registry.aclose()
        await self.activity.aclose()
        await self.approvals.aclose()
        is_reported = False
        try:
            if kind is None:
                for tell in self._exit_callbacks:
                    tell()
                is_reported = True
        finally:
            if self.journaled is not None:
                if error is not None:
                    # After the processes have ended: what they still recorded is reopened, too.
                    await self.journaled.reopen(error, replayed)
                await self.journaled.end(self.clock.now(), is_done=is_reported)
            await self._ledger.aclose()

    async def _end_processes(self) -> set[EffectKey]:
        """End the processes and what serves them, and return the effects that were replayed."""
        replayed: set[EffectKey] = set()
        if self._program is not None:
            await self._program.aclose()
            replayed = self._program.host.replayed
        await self.mcp.aclose()
        if self._admission_service is not None:
            await self._admission_service.aclose()
        await self.children.aclose()
        return replayed

    def before_end(self, tell: Callable[[], object]) -> None:
        """Call it when all is settled and closed, and before the run is recorded as ended. A run
        that is killed or fails while it tells its result goes on, and tells it again."""
        self._exit_callbacks.append(tell)

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
        """Return a question to an agent: await it for the reply. `timeout` is in seconds; `history`
        is said before the prompt; with `wait_for_budget` it waits for money instead of failing."""
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
        """Ask several questions at once; if one fails, the others are cancelled."""
        return tuple(await gather_all([_awaited(ask) for ask in asks]))

    @property
    def services(self) -> "HostServices":
        """The parts of this runtime that a host works with; there are all of them once it is
        entered."""
        from vegakit.host import HostServices

        self._check_entered()
        return HostServices(
            clock=self.clock,
            model_registry=self.model_registry,
            budgets=self.budgets,
            gate=self.gate,
            backlog=self.backlog,
            tracer=self.tracer,
            approvals=self.approvals,
            children=self.children,
            sandboxes=self.sandboxes,
            admission_service=lambda: self.admission_service,
            memory=self.memory,
            journaled=self.journaled,
            on_spent=self.on_spent,
            mcp_tools=self.mcp.tools,
        )

    @property
    def admission_service(self) -> "AdmissionService":
        """The one that looks at programs before they run. It loads the language, so it is made for
        the first program."""
        if self._admission_service is None:
            from vegakit.host import AdmissionService

            self._admission_service = AdmissionService(self.children, self.clock)
        return self._admission_service

    @property
    def program(self) -> "ProgramRun":
        """The run of all processes of this runtime."""
        self._check_entered()
        if self._program is None:
            from vegakit.host import ProgramRun

            self._program = ProgramRun(self.services, self._raised(self._bounds))
            if self._view is not None:
                self._program.on(News, self.activity.tell)
        return self._program

    def _raised(self, bounds: Bounds) -> Bounds:
        """Return the bounds with what a person added to the budget when the run went on."""
        raised = 0 if self.journaled is None else self.journaled.run.raised
        ceiling = None if bounds.ceiling is None else bounds.ceiling + raised
        return structs.replace(bounds, ceiling=ceiling, raised=raised)

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

    def load(
        self,
        path: str | PathLike[str],
        *,
        tools: Iterable[Any] = (),
        types: Iterable[Any] = (),
    ) -> "VegaProgram":
        """A `.vega` file; its functions run here: `await rt.load("review.vega").main("a.py")`.
        `tools` are functions of Python that it may call, `types` models that it knows."""
        from vegakit.sdk.programs import load

        return load(path, self, tools=tools, types=types)

    async def run(
        self,
        program: "VegaProgram",
        *args: Any,  # noqa: ANN401
        function: str = "main",
        budget: str | float | None = None,
        allow: Sequence[str] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run a function of a program to its end. `budget` caps all it spends; `allow` are the
        capabilities it may use at most, without it those that it declares."""
        from vegakit.host import arguments

        wallet = None if budget is None else dollars(budget)
        given = arguments(program.function(function), args)
        value = await self.program.run(program, function, given, wallet, allow)
        return program.result(function, value)

    def process(self, path: str) -> Process[Any]:
        """Return a process that was started elsewhere, such as a child of a supervisor."""
        return self.program.process(path)

    async def start_child(
        self,
        argv: Sequence[str],
        *,
        cwd: str | Path = ".",
        env: Mapping[str, str] | None = None,
        stdin: int = asyncio.subprocess.DEVNULL,
    ) -> "ChildProcess":
        """An OS process that belongs to the process whose code runs here, and ends with its life;
        in a tool of `ask` to whoever asks. It gets no environment but `env`, and no sandbox."""
        owner = self.program.lasting_owner()
        return await self.children.start(argv, cwd=cwd, env=env or {}, owner=owner, stdin=stdin)

    def on(self, kind: Any, react: Callable[[Any], object]) -> None:  # noqa: ANN401
        """Calls `react` with each news of a kind: `rt.on(CostAlert | ProcessExited, print)`, and
        with `Question` when a person is asked."""
        self.program.on(kind, react)
        if kind is Question:
            self.approvals.listeners.append(react)

    def interrupts(self) -> list[Question]:
        """Return the questions that people have not answered, the oldest first."""
        return self.approvals.questions.open()

    async def answer(self, question: str, answer: bool | str, *, by: str = "") -> None:
        """Answer a question: `True` or `False` for an approval, text for anything else. `question`
        is the id of a `Question`; `by` says who answers, if it is not the user of this machine."""
        if current_process.get() or current_effect.get():
            raise UserError(
                "a program does not answer what a program asks; let a person type: "
                f"vega answer {question} yes"
            )
        await self.approvals.answer(question, answer, by)

    def ps(self) -> "list[ProcessView]":
        """Return a view of each process, supervisors too, each before what is below it."""
        if self._program is None:
            return []
        from vegakit.control import HostFacts, views_of

        now = self.clock.now()
        owners = Counter(child.owner for child in self.children.all())
        asked = frozenset(question.process for question in self.interrupts())
        facts = HostFacts(self.activity.tokens_per_s(now), owners, asked)
        return views_of(self._program.machine, self._program.registry.code, now, facts)

    def budget(
        self, allowance: str | float, name: str | None = None
    ) -> AbstractContextManager[ScopeId]:
        """A named block, or one with a period, goes on where it was left; others start anew."""
        return self.budgets.block(allowance, name)

    @property
    def spent(self) -> Money:
        """The amount that the asks of this runtime have spent."""
        return Money(self._spent)

    async def remaining(self) -> Money | None:
        """Return what is left of the current budget, or None if nothing limits it."""
        scope = await self.budgets.ready(self.budgets.current)
        return await self._ledger.room(scope, self.clock.now())

    def on_spent(self, amount: int) -> None:
        """Count an amount that was spent."""
        self._spent += amount

    def _check_entered(self) -> None:
        if self._lease is None:
            raise UserError("open the runtime first: `async with Runtime(...) as rt:`")


async def _awaited(ask: Ask[T]) -> Reply[T]:
    return await ask


# One question without a loop of one's own: `run(agent, "…")`, also in a notebook.


ReplyT = TypeVar("ReplyT")


def run(agent: Agent[ReplyT], prompt: str, **options: Any) -> Reply[ReplyT]:  # noqa: ANN401
    """Takes what `Runtime.ask` takes. Under a running loop it works in a thread, and waits."""

    async def asked() -> Reply[ReplyT]:
        async with Runtime.from_config() as rt:
            return await rt.ask(agent, prompt, **options)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(asked())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, asked()).result()
