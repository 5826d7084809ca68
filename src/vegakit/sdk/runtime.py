"""The runtime people use, and an ask: it owns ledger, limiters and traces, and every ask goes
through it.

    async with Runtime(budget="$10") as rt:
        reply = await rt.ask(agent, "…")            scope and deadline are those of this line
        with rt.budget("$1/day"): …                 a cap inside the cap
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import copy_context
from os import PathLike
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from msgspec import structs

from vegakit.concurrency import CollectorPace, SteadyClock, run_to_completion
from vegakit.control import Question
from vegakit.errors import UserError, VegaError
from vegakit.host import (
    Agent,
    AskOptions,
    Body,
    Child,
    ChildOptions,
    Process,
    Reducer,
    Reply,
    StreamEvent,
    Supervisor,
    current_process,
)
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Dollars, Money, dollars, priced
from vegakit.policy import LEASE_MS, OnExceed, RateRule, ScopeRule, Secrets
from vegakit.ports import Audit, Clock, Journal, Ledger, Memory, Model, RunQuote, Sink, Store
from vegakit.program import DEFAULT_WINDOW, Bounds, News
from vegakit.sdk.ask import Ask, SyncRuntime
from vegakit.telemetry import Redactor, Tracer, current_span
from vegakit.tools import current_effect

if TYPE_CHECKING:
    from vegakit.child_process import ChildProcess
    from vegakit.config import OnCutOff, ResumeTarget, Settings, UserBudget
    from vegakit.control import ProcessView
    from vegakit.host import (
        AdmissionService,
        HostServices,
        JournaledRun,
        Lease,
        LimiterRules,
        Limits,
        PermissionPolicy,
        ProgramRun,
    )
    from vegakit.sdk.composition import NamedModels, RuntimeOptions
    from vegakit.sdk.control_server import ControlServer
    from vegakit.sdk.monitoring import Observer
    from vegakit.sdk.programs import VegaProgram
    from vegakit.store import ReplyCache


T = TypeVar("T")


def _environment_secrets() -> Secrets:
    from vegakit.config import environment_secrets

    return environment_secrets()


def _user_budget() -> "UserBudget | None":
    from vegakit.config import user_budget

    return user_budget()


def _cap_of(quote: RunQuote | None, rule: ScopeRule) -> Money | None:
    """Return the cap that the run started with, None if it has none."""
    if quote is not None and quote.cap is not None:
        return quote.cap
    return None if rule.period is not None else rule.cap


def _failure_in(error: BaseException | None) -> BaseException | None:
    """Return what made a run end before it was done; `sys.exit(0)` is an end like any other."""
    return None if isinstance(error, SystemExit) and not error.code else error


class _ModelsByName:
    """Finds models by their names in the settings, which are loaded for the first of them."""

    def __init__(self, named: "Callable[[], NamedModels]") -> None:
        self._named = named

    def names_of(self, name: str) -> tuple[str, ...]:
        return self._named().names_of(name)

    def __call__(self, name: str) -> tuple[Model, ...]:
        return self._named()(name)


class Runtime(SyncRuntime):
    """It owns money, limits and traces, and every ask goes through it.

    It keeps no journal: what it did is forgotten with it, and after `kill -9` nothing goes on.
    With `journal="run.db"`, or as `Runtime.from_config()`, answers are recorded, and the program
    goes on from them when it is started again: `vega resume`.

    `budget` caps this run, also when it goes on after a kill; with a period ("$5/day"), or on a
    `ledger` that you name, all runtimes of one `name` share it. `models` turns a model's
    name into a model; without it names are looked up in the settings when one is first used:
    "fast", "smart", `provider:name`, and your own in `[models]`. `vega ps` and its kin of the same
    user may look in, by a socket that nobody else can open, unless `observable` is False. With
    `permissions` or a `mode` each tool call is allowed, denied, or asked about; what is asked is
    kept in `store`, beside the journal if there is one. With `cache`, a file of its own, the reply
    to a request that was made before is given again. `sandbox` is where tools run commands: "auto",
    or "container" if Vega's own is the boundary. `lookahead` is how many calls a compiled program
    may begin before it comes to them, 0 for none. `lease_ms` is how long what it has reserved stays
    reserved on a shared ledger after it died. `secrets` are shown to people by name; without it,
    variables whose names say that they are. `user_budget` finds the budget with a period in
    `vega.toml` of the user, which holds for this runtime, too, whatever `budget` says. With
    `keeps_budget` a resumed run has the budget that it started with, and `budget` is for a new run;
    `from_config` sets it for a budget of the settings. `on_cut_off` says how a run that goes on
    pays for calls that a kill cut off: up to the "cap", after a person is asked ("ask"), or only
    out of what it was quoted ("never"). `resume` names the recorded run to continue; without it
    the runtime continues the run that `vega resume` started this process for, or begins a run."""

    def __init__(
        self,
        budget: str | float | ScopeRule | None = "$10",
        *,
        name: str = "default",
        ledger: Ledger | str | PathLike[str] | None = None,
        trace: Sink | None = None,
        limits: "Limits | None" = None,
        models: Callable[[str], Model | tuple[Model, ...]] | None = None,
        clock: Clock | None = None,
        journal: Journal | str | PathLike[str] | None = None,
        cache: "ReplyCache | str | PathLike[str] | None" = None,
        on_exceed: str = OnExceed.BLOCK,
        memory: Memory | None = None,
        bounds: Bounds | None = None,
        lookahead: int | None = None,
        observable: "bool | ControlServer" = True,
        permissions: "PermissionPolicy | Sequence[str] | None" = None,
        mode: str | None = None,
        audit: Audit | str | PathLike[str] | None = None,
        store: Store | None = None,
        pins: str | PathLike[str] | None = None,
        sandbox: str = "auto",
        lease_ms: int = LEASE_MS,
        secrets: Callable[[], Secrets] = _environment_secrets,
        user_budget: "Callable[[], UserBudget | None]" = _user_budget,
        observers: "Sequence[Observer]" = (),
        keeps_budget: bool = False,
        on_cut_off: "OnCutOff | str | None" = None,
        resume: "ResumeTarget | None" = None,
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
            TakeoverTerms,
            as_audit,
            as_cache,
            as_journal,
            as_ledger,
            check_numbers,
            check_parts,
            permission_policy_from,
            rule_of,
            store_beside,
        )
        from vegakit.sdk.mcp import Mcp
        from vegakit.store import MemoryLedger
        from vegakit.tools import SandboxPool

        check_parts(
            {"clock": clock, "journal": journal, "ledger": ledger, "cache": cache}
            | {"trace": trace, "store": store, "memory": memory, "audit": audit}
        )
        check_numbers({"lookahead": (lookahead or 0, 0), "lease_ms": (lease_ms, 1)})
        self.clock: Clock = clock or SteadyClock()
        self._journal = as_journal(journal)
        # A cap that is kept where the answers are is of each run there, as one without a journal
        # is; who names a ledger, and is not given it by the settings, has its runs share one.
        journal_shared = self._journal is not None and self._journal.shared
        self._has_own_cap = ledger is None or journal_shared
        of_user = user_budget()
        if of_user is not None and ledger is None and not journal_shared:
            ledger = of_user.ledger  # the only one that knows what other runs of the user spend
        lasting = as_ledger(ledger, self._journal)
        self._ledger: Ledger = lasting or MemoryLedger()
        self._lasting = lasting is not None
        self._cache = as_cache(cache)
        self.activity = ActivityLog(trace, self.clock)
        self.children = Children(self.clock)
        self._admission_service: AdmissionService | None = None
        self.backlog = Backlog(self.clock)
        self.memory = memory
        self.name = name
        self._redactor = Redactor()
        self._named_models: NamedModels | None = None
        self.model_registry = ModelRegistry(
            models or _ModelsByName(self._named), limits or self._limits_of, self.clock
        )
        self.journaled: JournaledRun | None = None
        self.quote: RunQuote | None = None  # set before it is entered; then the recorded one
        self.takeover_terms = TakeoverTerms(on_cut_off)  # completed before it is entered
        self._exit_callbacks: list[Callable[[], Awaitable[object]]] = []
        self._resume = resume
        rule = self._rule = rule_of(budget, on_exceed)
        bounds = bounds or Bounds(window=DEFAULT_WINDOW if lookahead is None else lookahead)
        self._bounds = structs.replace(bounds.with_pool(), ceiling=rule.cap)
        self._program: ProgramRun | None = None
        self._lease_ms = lease_ms
        self._lease: Lease | None = None
        user_rule = None if of_user is None else of_user.rule
        # The user may change the limit of a period while a run is stopped.
        self._keeps_budget = keeps_budget
        self._started_with = rule if keeps_budget and rule != user_rule else None
        self.budgets = Budgets(self._ledger, self.clock, name, rule, user_rule)
        self.tracer = Tracer(self.activity, self.clock)
        self._observable = observable
        self._control: ControlServer | None = None
        self._observers = tuple(observers)
        self.store: Store = store or store_beside(self._journal)
        self.approvals = Approvals(
            self.clock,
            self.store,
            permission_policy_from(permissions, mode),
            as_audit(audit),
            secrets,
        )
        self.mcp = Mcp(self, pins)
        self.sandboxes = SandboxPool(self.children, self.clock, current_process.get, sandbox)

    @classmethod
    def from_config(
        cls, settings: "Settings | None" = None, **options: "Unpack[RuntimeOptions]"
    ) -> "Runtime":
        """Return a runtime as vega.toml and `VEGA_*` describe it: models by name, a journal, a
        ledger and traces on disk. `options` are arguments of `Runtime`, and replace what the
        settings say: `Runtime.from_config(budget="$5", journal="run.db")`. Each runtime is a run
        of its own in the journal of the user; `vega resume` has the last unfinished one of the
        folder go on."""
        from vegakit.config import load
        from vegakit.sdk.composition import runtime_arguments

        settings = settings or load()
        made = cls(**runtime_arguments(settings, options))
        made.mcp.settings = settings
        return made

    async def __aenter__(self) -> Self:
        CollectorPace.open(self)
        try:
            await self._begin()
        except BaseException:
            await run_to_completion(self._let_go())
            CollectorPace.close(self)
            raise
        return self

    async def _let_go(self) -> None:
        """Close what one that could not begin has opened: nobody leaves a block that was not
        entered, and a journal that stays locked could not be opened again by this process."""
        for part in (self._control, self._lease, self.approvals, self._journal, self._ledger):
            if part is not None:
                with suppress(VegaError):  # why it could not begin is told, and that is enough
                    await part.aclose()

    async def _begin(self) -> None:
        """Takes a lease, and settles what holders left behind who died."""
        from vegakit.host import (
            Gate,
            JournaledRun,
            Lease,
            ProcessRuns,
            charge_missing,
            runs_of_process,
        )

        now, self._variables = self.clock.now(), copy_context()
        self._is_over = False
        self._holder = HolderId(f"{self.name}:{token_hex(8)}")
        parts = self._ledger, self.clock, self._holder, self.backlog, self._lease_ms, self._cache
        self.gate = Gate(*parts)
        self.gate.on_wait = self.model_registry.on_wait = self.activity.observe_wait
        if self._journal is not None:
            rules = self._bounds.paid_repeats, self._bounds.sends, self.quote, self._started_with
            runs = ProcessRuns(self._resume) if self._resume else runs_of_process()
            terms = now, runs, self.approvals.resume, *rules, self.model_registry.resolved
            self.journaled = await JournaledRun.begin(self._journal, self._ledger, *terms)
            if self._keeps_budget:
                self._keep_rule(self.journaled)
            await self._keep_models(self.journaled)
            self.journaled.change_budget(_cap_of(self.journaled.run.quote, self._rule))
            self.quote = self.journaled.quote(self.takeover_terms.on_cut_off)
            if self._has_own_cap:
                self.budgets.begin_run(self.journaled.run.program)
            self.budgets.raise_caps(self.journaled.run.raised)
            self.budgets.name_blocks(self.journaled.run.program, may_go_on=True)
            if self.journaled.is_resumed and await self.budgets.is_raised():
                await self.journaled.decide_refused_anew()
        elif self._lasting:
            if self._has_own_cap:
                self.budgets.begin_run(self._holder)
            self.budgets.name_blocks(self._holder, may_go_on=False)
        self.approvals.begin(self.journaled.run.program if self.journaled else self._holder)
        lease = Lease(
            self._ledger, self.clock, self._holder, lasting=self._lasting, length_ms=self._lease_ms
        )
        await lease.take()
        await self.budgets.sync_limits()
        await self.budgets.ready(self.budgets.root)
        if self.journaled is not None and self.journaled.is_resumed:
            run = self.journaled.run
            recorded = self.journaled.recovered.charged
            await charge_missing(recorded, self._ledger, run, self.budgets, self._holder, now)
        lease.keep()
        self._lease = lease
        if self.journaled is not None and self.journaled.is_resumed:
            await self.takeover_terms.check()
            await self._check_cut_off(self.journaled)
            await self.journaled.note()
        await self._open_control()
        for observer in self._observers:
            await observer.open(self)

    def _keep_rule(self, journaled: "JournaledRun") -> None:
        """Hold a resumed run to the budget that it started with. With `current_settings` it takes
        the budget of the settings."""
        if journaled.which.current_settings:
            journaled.run = structs.replace(journaled.run, budget=self._started_with)
        elif (rule := journaled.run.budget) is not None:
            self._rule = rule
            self._bounds = structs.replace(self._bounds, ceiling=rule.cap)
            self.budgets.keep_rule(rule)

    async def _keep_models(self, journaled: "JournaledRun") -> None:
        """Keep the models that the run started with. With `current_settings` the models of the
        settings replace them, and their prices make a new quote."""
        registry = self.model_registry
        run = journaled.run
        if journaled.is_resumed and journaled.which.current_settings:
            names = {alias: registry.names_by_settings(alias) for alias in run.models}
            moved = {alias: new for alias, new in names.items() if new != run.models[alias]}
            journaled.move(moved, self.quote)
        if journaled.is_resumed:
            await registry.keep(run.models, journaled.run.moved)

        async def note() -> None:
            if registry.resolved != journaled.run.models:
                await journaled.note(models={**registry.resolved})

        registry.on_resolved = note

    async def _check_cut_off(self, journaled: "JournaledRun") -> None:
        """Check all calls together that a kill cut off, before any is sent again. If they need more
        than a person accepted, a person accepts it first."""
        from vegakit.host import takeover

        terms = self.takeover_terms
        spent = int(await self.spent())
        rooms = [await self.remaining()]
        rooms += [Money(max(0, cap + journaled.run.raised - spent)) for cap in terms.caps]
        room = min((int(amount) for amount in rooms if amount is not None), default=None)
        is_accepted = journaled.which.accept
        if is_accepted:
            journaled.accept()
        of_user = await self.budgets.room_of_user()
        doubt = takeover(journaled, self.quote, terms.on_cut_off, room, of_user)
        if doubt is None:
            return
        if not doubt.may_be_accepted or not (is_accepted or await terms.ask(doubt.error)):
            raise doubt.error
        journaled.accept()
        journaled.add(doubt.missing)
        self.budgets.raise_caps(doubt.missing)

    async def _open_control(self) -> None:
        """Let `vega ps` look in, if it can: it never fails the program."""
        control = self._observable
        if control is True:
            from vegakit.sdk.control_server import default_control_server

            control = default_control_server(self._redactor)
        self._control = control or None
        if self._control is not None:
            await self._control.open(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        try:
            await self._end(_failure_in(error))
        finally:
            CollectorPace.close(self)

    async def _end(self, failure: BaseException | None) -> None:
        self._is_over = True
        if self._control is not None:
            await self._control.aclose()
        if failure is not None and self.journaled is not None:
            self.approvals.questions.keep_open()
        replayed = await self._end_processes()
        if self.memory is not None:
            await self.memory.aclose()
        await self.backlog.aclose()
        if self._lease is not None:
            await self._lease.aclose()
        await self.budgets.end_run(is_done=failure is None)
        await self.model_registry.aclose()
        await self.activity.aclose()
        await self.approvals.aclose()
        is_reported = False
        try:
            if failure is None:
                for tell in self._exit_callbacks:
                    await tell()
                is_reported = True
        finally:
            if self.journaled is not None:
                if failure is not None:
                    # After the processes have ended: what they still recorded is reopened, too.
                    await self.journaled.reopen(failure, replayed)
                now = self.clock.now()
                await self.journaled.end(now, is_done=is_reported, failure=failure)
            await self._ledger.aclose()
            for observer in self._observers:  # last: what closing says is logged and counted, too
                await observer.aclose()

    async def _end_processes(self) -> set[EffectKey]:
        """End the processes and what serves them, and return the effects that were replayed."""
        replayed: set[EffectKey] = set()
        if self._program is not None:
            await self._program.aclose()
            replayed = self._program.host.replayed
        if self._cache is not None:
            await self._cache.aclose()
        await self.mcp.aclose()
        if self._admission_service is not None:
            await self._admission_service.aclose()
        await self.children.aclose()
        return replayed

    def before_end(self, tell: Callable[[], Awaitable[object]]) -> None:
        """Await it when all is settled, and before the run is recorded as ended. A run that is
        killed or fails while it tells its result goes on, and tells it again."""
        self._exit_callbacks.append(tell)

    def ask(
        self,
        agent: Agent[T],
        prompt: str,
        **options: Unpack[AskOptions],
    ) -> Ask[T]:
        """Return a question to an agent: await it for the reply. `budget="$0.10"` caps this ask
        alone, with its tools and retries; `timeout` is in seconds or like "30s"; `history` is said
        before the prompt; `on_chunk` is called with each piece of text as `stream` yields it. Where
        calls in flight hold the money, it waits until nothing has moved in the budget for
        `wait_for_budget`: in seconds, like "5m", True for 60 s, False to fail at once. For a limit
        it waits no longer than `max_wait`, also in seconds or like "30s", and fails with
        `RateLimited` otherwise."""
        self._check_entered()
        if self._is_over:
            raise UserError(
                "the runtime is closed; ask inside of `async with Runtime(...) as rt:`, not below"
            )
        return Ask(self, agent, prompt, **options)

    def stream(
        self,
        agent: Agent[T],
        prompt: str,
        **options: Unpack[AskOptions],
    ) -> AsyncGenerator[StreamEvent[T]]:
        """Yield what an agent says and does while it does so; takes what `ask` takes. Leaving the
        loop early closes the connection. With a journal the text of a model call comes all at once,
        when it is recorded: what was read must be what a run that goes on has, too."""
        return self.ask(agent, prompt, **options).events(stream=True)

    async def batch(self, *asks: Ask[T]) -> tuple[Reply[T], ...]:
        """Ask several questions at once, as `map_all` does: the first failure cancels the others,
        and a refusal of a budget has their answers."""
        from vegakit.sdk.patterns import map_all

        works = [ask.begin() for ask in asks]
        return tuple(await map_all(lambda work: work, works, max(1, len(works))))

    @property
    def services(self) -> "HostServices":
        """The parts that a host works with; there are all of them once this is entered."""
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
            mcp_tools=self.mcp.tools,
        )

    @property
    def admission_service(self) -> "AdmissionService":
        """Return who looks at programs before they run: made for the first, as it loads much."""
        if self._admission_service is None:
            from vegakit.host import AdmissionService

            self._admission_service = AdmissionService(self.children, self.clock)
        return self._admission_service

    @property
    def program(self) -> "ProgramRun":
        """The run of all processes of this runtime."""
        self._check_entered()
        if self._program is None:
            from vegakit.host import RARE_NEWS, ProgramRun

            # Restarts are below our span here, or of who entered the runtime, not of a web request.
            variables = copy_context() if current_span() else self._variables.copy()
            self._program = variables.run(ProgramRun, self.services, self._raised())
            told = RARE_NEWS if self._control is None else News
            self._program.on(told, self.activity.tell)
        return self._program

    def _raised(self) -> Bounds:
        """Return the bounds with what a person added to the budget when the run went on, and with
        the limit on guesses by its quote, or else by its cap."""
        typical = None if self.quote is None else self.quote.typical
        expected = self._bounds.ceiling if typical is None else typical
        if self.journaled is None:
            return self._bounds.with_guesses(expected)
        bounds = self.journaled.bounds(self._bounds)
        is_accepted = bounds.accepted or self.takeover_terms.on_cut_off == "cap"
        return structs.replace(bounds.with_guesses(expected), accepted=is_accepted)

    @overload
    def spawn(
        self,
        body: Agent[T],
        *,
        name: str = "",
        supervise: Supervisor | None = None,
        **child: Unpack[ChildOptions],
    ) -> Process[Reply[T]]: ...
    @overload
    def spawn(
        self,
        body: Callable[..., Awaitable[T]],
        *,
        name: str = "",
        supervise: Supervisor | None = None,
        **child: Unpack[ChildOptions],
    ) -> Process[T]: ...
    @overload
    def spawn(
        self,
        body: Reducer | Child | Supervisor | Body,
        *,
        name: str = "",
        supervise: Supervisor | None = None,
        **child: Unpack[ChildOptions],
    ) -> Process[Any]: ...
    def spawn(
        self,
        body: Body | Child | Supervisor,
        *,
        name: str = "",
        supervise: Supervisor | None = None,
        **child: Unpack[ChildOptions],
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
        self.program.on(kind, lambda news: react(priced(news)))
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
        views = views_of(self._program.machine, self._program.registry.code, now, facts)
        return list(map(priced, views))

    def metrics_text(self) -> str:
        """Return what was counted and what goes on now, as Prometheus reads it: serve it at
        `/metrics` of your own application, as `text/plain; version=0.0.4`."""
        from vegakit.sdk.monitoring import runtime_metrics

        return runtime_metrics(self, None if self._program is None else self._program.machine.state)

    def budget(
        self, allowance: str | float | None, name: str | None = None
    ) -> AbstractContextManager[ScopeId]:
        """A named block, or one with a period, goes on where it was left; others start anew. None
        counts what is spent inside, and limits nothing."""
        return self.budgets.block(allowance, name)

    async def spent(self) -> Dollars:
        """Return what was spent within the current budget: that of the innermost `rt.budget` block,
        or of this run with all its earlier lives."""
        found = await self.budgets.figures(self.budgets.current)
        return Dollars.of_nanos(found.settled)

    async def remaining(self) -> Dollars | None:
        """Return what is left of the current budget, or None if nothing limits it. What calls in
        flight have reserved is neither spent nor left."""
        room = await self.budgets.room()
        return None if room is None else Dollars.of_nanos(room)

    def _named(self) -> "NamedModels":
        """Return the models by their names in the settings, which are read for the first."""
        from vegakit.sdk.composition import NamedModels

        if self._named_models is None:
            self._named_models = NamedModels(self._redactor)
        return self._named_models

    def _limits_of(self, model: str) -> "LimiterRules":
        """Return the limits of the settings for a model that was found in them, else none."""
        from vegakit.host import LimiterRules

        named = self._named_models
        return LimiterRules(RateRule()) if named is None else named.limits(model)

    def _check_entered(self) -> None:
        if self._lease is None:
            raise UserError(
                "the runtime is not open; write `async with Runtime(...) as rt:` around its use, "
                "or in a script `with Runtime(...) as rt:` and rt.run_sync(…)"
            )
