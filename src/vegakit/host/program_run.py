"""The program of a runtime: it spawns processes, carries messages to them, and ends with them."""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from msgspec import structs

from vegakit.conversation import Text
from vegakit.effects import CallModel, Effect
from vegakit.errors import StoreError, UserError, rebuild_error
from vegakit.events import EffectOutcome
from vegakit.host.agents import (
    BUDGET_WAIT_MS,
    Agent,
    Body,
    Child,
    Process,
    Supervisor,
    TurnEnded,
    current_process,
)
from vegakit.host.effect_handlers import EffectHandlers, current_part
from vegakit.host.gate import Account
from vegakit.host.local import LONGEST_TURN_MS, Driver, LocalHost
from vegakit.host.pending_asks import (
    ConversationMemory,
    LocalEffectContexts,
    PendingAsk,
    PendingAsks,
    ToolRound,
    read_media,
)
from vegakit.host.registry import DeployedPrograms, EphemeralPrograms, Registry, step_name
from vegakit.host.services import CompiledProgram, HostServices
from vegakit.ids import EffectKey, Pid, ScopeId, new_program_id, pid_of
from vegakit.money import Money
from vegakit.policy import ChildType, ExitKind, ExitReason, Grant, RestartRule
from vegakit.ports import RunQuote
from vegakit.program import (
    Action,
    Answer,
    AskOnce,
    Bounds,
    Demonitor,
    Down,
    Event,
    FiberBody,
    HistoryCompacted,
    Link,
    Machine,
    MachineEnded,
    MessageFailed,
    Monitor,
    Monitored,
    Post,
    ProcessExited,
    ProcessMessage,
    ProcessRestarted,
    ProcessSpec,
    Program,
    ProgramAdmitted,
    Prompt,
    SendExitSignal,
    ShutDown,
    Spawn,
    Spawned,
    SpawnRefused,
    TerminateProcess,
    ToolBegan,
    ToolEnded,
    TraceNote,
    TraceSpanEnded,
    Unlink,
    child_path,
)
from vegakit.records import digest128
from vegakit.telemetry import Span

if TYPE_CHECKING:
    from vegakit.host.deployment import Deployed

# The program of a runtime: it spawns processes, carries messages to them, and ends with them.


_AT_ONCE = 500
_RULE = RestartRule()


class ProgramRun:
    """The run of a program on the local host: all processes of a runtime."""

    def __init__(self, services: HostServices, bounds: Bounds) -> None:
        self._services = services
        journaled = services.journaled
        self.registry = Registry(services.model_registry, services.admission_service)
        fresh = new_program_id(services.clock.now(), secrets.token_bytes(10))
        self.id = fresh if journaled is None else journaled.run.program
        if journaled is not None:
            services.tracer.run = self.id
        is_resumed = journaled is not None and journaled.is_resumed
        program = Program(
            self.id, bounds=bounds, recorded=journaled is not None, replaying=is_resumed
        )
        self.machine = Machine(program, self.registry.code)
        memory = services.memory
        self._memory = None if memory is None else ConversationMemory(memory, self.id, self._submit)
        on_reply = self._memory.on_reply if self._memory else None
        self._asks = PendingAsks(services.tracer, self._submit_between, on_reply)
        self._contexts = LocalEffectContexts(
            self.machine, self.registry, self._asks, services.tracer
        )
        performing = EffectHandlers(
            services,
            self._contexts,
            counted=True,
            tell=self._on_action,
            warm=self._contexts.warm,
        )
        self._handlers = handlers = performing.handlers
        if is_resumed:
            self.rest_limits()
        journal = None if journaled is None else journaled.journal
        self.host = LocalHost(
            handlers,
            services.clock,
            journal,
            services.backlog,
            None if journaled is None else journaled.check_decided,
            variables_of=self._contexts.variables_of,
            on_recorded=performing.on_recorded,
            before_delivery=self._contexts.prepare_admission,
        )
        if journaled is not None:
            self.host.expect(journaled.recovered.answered, journaled.on_missing)
        self._driver = Driver(self.machine, self.host, self._on_action)
        self.host.listen(self._on_events, self._is_alone)
        self._watches: dict[str, asyncio.Future[ExitReason]] = {}
        self._listeners: dict[type[Any], list[Callable[[Any], object]]] = defaultdict(list)
        self.on(TraceNote, self._contexts.on_note)
        self.on(TraceSpanEnded, self._contexts.on_span_ended)
        self._ended = asyncio.Event()
        on_tool, on_over = self._asks.on_tool, self._on_incarnation_over
        self._takers: dict[type, Callable[[Any], None]] = {
            Answer: self._on_answer,
            ToolBegan: on_tool,
            ToolEnded: on_tool,
            HistoryCompacted: on_tool,
            ProgramAdmitted: on_tool,
            Down: self._on_down,
            MachineEnded: lambda _: self._ended.set(),
            ProcessExited: on_over,
            ProcessRestarted: on_over,
        }
        """Who takes an action; listeners take what is not named here."""
        self._ending: set[asyncio.Task[Any]] = set()
        self._equals: dict[str, int] = {}
        self._asked = 0
        self._programs = DeployedPrograms(
            self.registry, lambda: self.machine, recorded=journaled is not None
        )
        self._ephemeral = EphemeralPrograms(self.registry, lambda: self.machine)

    def rest_limits(self) -> None:
        """Have the agents' own limits hold from the first call that is made and not replayed."""
        perform, self.machine.state.replaying = self._handlers[CallModel], True

        async def first(effect: Effect, account: Account) -> EffectOutcome:
            self.machine.state.replaying = False
            return await perform(effect, account)

        self._handlers[CallModel] = first

    def spawn(
        self,
        body: "Body | Child | Supervisor",
        *,
        name: str = "",
        supervise: Supervisor | None = None,
        **child: Any,  # noqa: ANN401
    ) -> Process[Any]:
        """Start a process, as `Runtime.spawn` does."""
        rule = _RULE if supervise is None else supervise.rule
        if isinstance(body, Supervisor):
            spec, name = body.spec(self.registry.register), name or body.name
        else:
            made = body if isinstance(body, Child) else Child(body, **child)
            spec, name = made.spec(self.registry.register, rule), name or made.name
        return self._spawn(Spawn(spec, name, current_process.get()))

    async def run(
        self,
        program: CompiledProgram,
        function: str,
        given: Sequence[Any],
        wallet: Money | None,
        allowed: Sequence[str] | None,
        quote: RunQuote | None = None,
    ) -> Any:  # noqa: ANN401
        """A function of a compiled program, as a process of its own, which keeps to its `quote`.
        Arguments and result have the form that values of programs have in JSON."""
        await self._driver.gate.enter()
        deployed = await self.deployed(program, allowed)
        scope = self._scope_across_incarnations(function, wallet, quote and quote.wallet)
        if self._keeps_answers():
            self._stop_guessing()
        if wallet is not None and self._keeps_answers():
            self._cap_outside(wallet)
            wallet = None
        spec = ProcessSpec(deployed.bodies[function], ChildType.TEMPORARY, wallet=wallet)
        process = self._spawn(Spawn(spec, "", current_process.get(), scope=scope))
        try:
            return await self.send(process.path, list(given), key=self._key(process.path))
        except asyncio.CancelledError:
            self.host.on_ended()
            raise
        finally:
            self._driver.submit(TerminateProcess(process.path, kill=True))

    def _scope_across_incarnations(
        self, function: str, wallet: Money | None, quoted: Money | None
    ) -> ScopeId:
        """Return the scope of a run: of its quote, which is less if it keeps answers, or else of
        its budget if it is recorded. It holds over all its incarnations, whatever they spent."""
        run = None if (journaled := self._services.journaled) is None else journaled.run
        reused = None if run is None else run.reused
        limit = None if reused is None else reused.at_most
        if limit is not None and wallet is not None and wallet <= limit:
            limit = None  # the limit of a run that keeps answers may be its budget
        if limit is not None and journaled is not None:
            limit = Money(limit + journaled.extension)
        quoted = min((cap for cap in (quoted, limit) if cap is not None), default=None)
        cap = quoted if quoted is not None or run is None else wallet
        if cap is None:
            return ScopeId("")
        number = self._equals[function] = self._equals.get(function, 0) + 1
        name, budgets = f"{self.id}:{function}#{number}", self._services.budgets
        return budgets.of_program(name, cap, quoted=quoted is not None)

    def _keeps_answers(self) -> bool:
        journaled = self._services.journaled
        return journaled is not None and journaled.run.reused is not None

    def _stop_guessing(self) -> None:
        """Begin no call behind a guard that is not decided: the cap of a run that keeps answers has
        no room for waste."""
        state = self.machine.state
        state.bounds = structs.replace(state.bounds, guesses=0, least_guesses=0)

    def _cap_outside(self, wallet: Money) -> None:
        """Leave the budget of a run that keeps answers to the ledger, which these never meet: a
        wallet would hold for each what it could cost, and refuse it. The program is told of it all
        the same."""
        state = self.machine.state
        caps = [cap for cap in (state.bounds.ceiling, wallet + state.bounds.raised) if cap]
        state.bounds = structs.replace(state.bounds, ceiling=min(caps))

    async def run_ephemeral(
        self, program: CompiledProgram, given: Sequence[Any], most: Grant, fuel: int
    ) -> Any:  # noqa: ANN401
        """Run a program as `run` does, but one that is not known before and is forgotten with its
        run. It may touch no more than `most`, whatever it declares, and reaches nothing outside of
        itself. The wallet of whoever runs it is its quote: that holds what its calls may cost,
        which may be less than the budgets that stand in it."""
        prefix, body = self._ephemeral.install(program, most, fuel)
        try:
            spec = ProcessSpec(body, ChildType.TEMPORARY, quoted=True)
            process = self._spawn(Spawn(spec, "main", current_process.get()))
            try:
                return await process.ask(list(given))
            finally:
                self._driver.submit(TerminateProcess(process.path, kill=True))
        finally:
            self._ephemeral.leave(prefix)

    async def deployed(self, program: CompiledProgram, allowed: Sequence[str] | None) -> "Deployed":
        """Return the bodies of a program, for a process that is begun without waiting again."""
        return await self._programs.get(program, allowed, self._services)

    def _spawn(self, command: Spawn) -> Process[Any]:
        [process] = self._spawned(command)
        return process

    def _spawned(self, command: Spawn) -> Iterator[Process[Any]]:
        for action in self._driver.submit(command):
            if isinstance(action, Spawned):
                yield Process(self, action.path)
            elif isinstance(action, SpawnRefused):
                raise rebuild_error(action.error, action.reason)

    def process(self, path: str) -> Process[Any]:
        """Return a process that lives."""
        if not self.is_alive(path):
            known = ", ".join(sorted(self.machine.state.processes)[:10]) or "none"
            raise UserError(f"there is no process {path!r}; living are: {known}")
        return Process(self, path)

    def spawn_many(self, body: Body, count: int, **child: Any) -> list[Process[Any]]:  # noqa: ANN401
        """Start many processes of one body. It is quicker than one by one: the spec is made once,
        and many are started in one step."""
        spec, spawner = Child(body, **child).spec(self.registry.register), current_process.get()
        parts = [min(_AT_ONCE, count - done) for done in range(0, count, _AT_ONCE)]
        steps = (Spawn(spec, "", spawner, part) for part in parts)
        return [process for step in steps for process in self._spawned(step)]

    def on(self, kind: Any, react: Callable[[Any], object]) -> None:  # noqa: ANN401
        """Call `react` with news of a kind: a class of news, or several, as in `CostAlert |
        ProcessExited`."""
        for one in get_args(kind) or (kind,):
            self._listeners[one].append(react)

    def send(
        self,
        path: str,
        message: Any,  # noqa: ANN401
        *,
        timeout: float | None = None,
        deps: object = None,
        files: Sequence[str | Path] = (),
        stream: bool = False,
        key: str = "",
    ) -> PendingAsk:
        """Send a message, and return the pending answer. `key` names an ask that is the only one of
        its process."""
        agent = self._agent_at(path)
        if agent is not None:
            message = self._prompt(message, files, stream=stream)
        function = self._function_at(path)
        asked = self._asks.begin(path, agent, deps, stream=stream, function=function, key=key)
        deadline_ms, timeout_ms = None, 0
        if timeout is not None:
            timeout_ms = round(timeout * 1000)
            deadline_ms = self.host.now + timeout_ms
        incoming = ProcessMessage(message, asked.ask, "", deadline_ms, timeout_ms=timeout_ms)
        self._driver.submit(Post(path, incoming))
        return asked

    def tell(self, path: str, message: Any) -> None:  # noqa: ANN401
        """Send a message; nobody waits for an answer."""
        if self._agent_at(path) is not None:
            message = self._prompt(message, (), stream=False)
        self._driver.submit(Post(path, ProcessMessage(message)))

    async def stream(
        self,
        path: str,
        message: object,
        **options: Any,  # noqa: ANN401
    ) -> AsyncGenerator[Any]:
        """Yield what an agent says while it says it, and its reply at the end."""
        asked = self.send(path, message, stream=True, **options)
        try:
            async for event in asked.buffer:
                yield event
            yield TurnEnded(asked.result())
        finally:
            asked.cancel()

    def ask_once(
        self,
        agent: Agent[Any],
        prompt: Prompt,
        *,
        deps: object,
        deadline_ms: int | None,
        timeout_ms: int,
        above: Span | None,
        with_events: bool,
        place: str = "",
    ) -> PendingAsk:
        """A process for one question, which begins at once. Whoever gives it up waits until it has
        `landed`. Who `hears` it is told its tools, and its text if that is streamed. `place` tells
        equal questions of one asker apart, where it is known which is which."""
        spawner, name = current_process.get(), step_name(agent.name)
        if (part := current_part.get()).startswith(f"{spawner}#"):
            prompt = structs.replace(prompt, session=part)
        word, which = "", self._which(agent, prompt, spawner, place)
        if self.machine.state.recorded:
            word = "1"  # the process has one letter, and a name that says which it is
        path = child_path(spawner, self._generation(spawner), f"{name}~{which}")
        asked = self._asks.begin(
            path, agent, deps, stream=with_events, above=above, key=self._key(path)
        )
        asked.once = True
        try:
            spec = self.registry.question(agent, self.machine.state)
            incoming = ProcessMessage(
                prompt, asked.ask, "", deadline_ms, word, timeout_ms=timeout_ms
            )
            actions = self._driver.submit(AskOnce(spec, f"{name}~{which}", incoming, spawner))
        except (UserError, StoreError) as wrong:
            self._asks.on_answer(asked.ask, MessageFailed(type(wrong).__name__, str(wrong)))
            self._asks.end_span(asked)
            asked.exception()  # it is raised here
            raise
        for action in actions:
            if isinstance(action, SpawnRefused):
                self._asks.on_answer(asked.ask, MessageFailed(action.error, action.reason))
        return asked

    def round_of(self, key: EffectKey) -> ToolRound:
        """Return where a tool call in flight stands in its turn."""
        return self._contexts.round_of(key)

    async def finished(self, asked: PendingAsk) -> None:
        """Wait until nothing that an ask began goes on, unless that refuses to be cancelled: the
        connection is closed, and what it came to is charged."""
        process = self.machine.state.processes.get(asked.path)
        if process is not None and process.in_flight:
            await self.host.finished(tuple(process.in_flight))
        self._asks.end_span(asked)

    def _key(self, path: str) -> str:
        """Return what names the only ask of a process in every incarnation of a recorded run."""
        return f"{self.id} {path}" if self.machine.state.recorded else ""

    def _which(self, agent: Agent[Any], prompt: Prompt, spawner: str, place: str) -> str:
        """Return the name of a question. Where answers are recorded it says which question it is
        and which of its equals, so that a run that is taken up again finds its answer. Elsewhere a
        number will do."""
        if not self.machine.state.recorded:
            self._asked += 1
            return str(self._asked)
        question = [spawner, agent.name, prompt.question, *([place] if place else [])]
        word = digest128(question)[:12]
        number = self._equals[word] = self._equals.get(word, 0) + 1
        return f"{word}.{number}"

    def lasting_owner(self) -> str:
        """Return the process whose code runs here, seen past processes for one question: a server
        that an agent's tool starts serves the next question of the same asker, too."""
        path, processes = current_process.get(), self.machine.state.processes
        while (process := processes.get(path)) is not None and process.once:
            path = process.spawner
        return path

    def _generation(self, path: str) -> int:
        process = self.machine.state.processes.get(path)
        return process.generation if process else 1

    async def recall(self, path: str, limit: int) -> int:
        """Recall what was said to a process before."""
        if self._memory is None:
            raise UserError("nothing is remembered; open Runtime(memory=SqliteMemory(path))")
        return await self._memory.recall(path, limit)

    def link(self, path: str, other: str) -> None:
        """Link two processes."""
        self._driver.submit(Link(path, other))

    def unlink(self, path: str, other: str) -> None:
        """Undo a link."""
        self._driver.submit(Unlink(path, other))

    def monitor(self, path: str) -> "asyncio.Future[ExitReason]":
        """Return a future that is done when the process has ended for good."""
        future: asyncio.Future[ExitReason] = asyncio.get_running_loop().create_future()
        actions = self.machine.step(Monitor(path), self.host.now)
        for action in actions:
            if isinstance(action, Monitored):
                self._watches[action.ref] = future
                future.add_done_callback(lambda _, ref=action.ref: self._unwatch(ref))
            else:
                self._on_action(action)
        return future

    def exit(self, path: str, reason: str) -> None:
        """Send an exit signal to a process: its supervisor decides what follows."""
        kind = ExitKind(reason) if reason in tuple(ExitKind) else ExitKind.CRASHED
        detail = "" if kind.value == reason else reason
        self._driver.submit(SendExitSignal(path, ExitReason(kind, detail)))

    async def end(self, path: str, *, kill: bool) -> ExitReason:
        """End a process for good with all below it, and return why it ended."""
        gone = self.monitor(path)
        self._driver.submit(TerminateProcess(path, kill))
        return await gone

    def is_alive(self, path: str) -> bool:
        """Return whether a process has not ended for good."""
        return self.machine.is_alive(path)

    def pid_of(self, path: str) -> Pid:
        """Return the pid of the current incarnation."""
        process = self.machine.state.processes.get(path)
        return pid_of(self.id, path, process.generation if process else 0)

    async def aclose(self) -> None:
        """Ends every process, the last started first."""
        if self._driver.failure is None:
            self._driver.submit(ShutDown())
        try:
            await self._ended.wait()
        finally:
            self.host.listen(None)
            await self.host.aclose()
        if self._ending:
            await asyncio.wait(self._ending)
        if self._memory is not None:
            await self._memory.aclose()
        self._contexts.close()

    def adopt(self, machine: Machine) -> None:
        """Go on with this machine: the same program, restored from its record or watched."""
        self.machine = self._driver.machine = self._contexts.machine = machine

    def _submit(self, event: Event) -> list[Action]:
        return self._driver.submit(event)

    def _submit_between(self, event: Event) -> None:
        self._driver.submit_between(event)

    def _agent_at(self, path: str) -> Agent[Any] | None:
        process = self.machine.state.processes.get(path)
        if process is None or not self.registry.is_agent(process.spec.body):
            return None
        return self.registry.agent(process.spec.body)

    def _function_at(self, path: str) -> str:
        """Return the function of a compiled program that a process runs, empty if it runs none."""
        process = self.machine.state.processes.get(path)
        body = None if process is None else self.registry.code.get(process.spec.body)
        return body.module.functions[body.function].name if isinstance(body, FiberBody) else ""

    def _prompt(
        self,
        message: object,
        files: Sequence[str | Path],
        *,
        stream: bool,
    ) -> Prompt:
        if isinstance(message, Prompt):
            return message
        scope = self._services.budgets.current_for_asks
        parts = (Text(str(message)), *map(read_media, files))
        return Prompt(parts, scope=scope, stream=stream, budget_wait_ms=BUDGET_WAIT_MS)

    def _on_action(self, action: Action) -> None:
        self._takers.get(type(action), self._react)(action)

    def _react(self, action: Action) -> None:
        for react in self._listeners.get(type(action), ()):
            react(action)

    def _on_answer(self, action: Answer) -> None:
        self._asks.on_answer(action.ask, action.outcome)

    def _on_down(self, action: Down) -> None:
        watch = self._watches.get(action.ref)
        if watch is not None and not watch.done():
            watch.set_result(action.reason)

    def _on_incarnation_over(self, action: ProcessExited | ProcessRestarted) -> None:
        self._end_children(action.path)
        self._react(action)

    def _end_children(self, path: str) -> None:
        """End what an incarnation started outside of Python."""
        for child in self._services.children.of(path):
            ending = asyncio.ensure_future(child.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _on_events(self) -> None:
        """Step by what arrived. If the program cannot go on, all who wait are told why nothing
        follows."""
        if self._driver.failure is not None:
            return
        try:
            # Hundreds of answers may arrive at once, and each may let the program look ahead anew.
            # What does not fit into this turn waits for the next, so that others' timers and
            # answers get theirs.
            ends = self.host.now + LONGEST_TURN_MS
            events = self.host.take()
            for number, event in enumerate(events, start=1):
                self._driver.submit(event)
                if number < len(events) and self.host.now >= ends:
                    self.host.put_back(events[number:])
                    break
        except Exception as failure:  # noqa: BLE001
            self._driver.fail(failure)
            self._give_up(failure)

    def _is_alone(self, key: EffectKey) -> bool:
        """Return whether an effect is of a question that nobody else's meaning depends on."""
        state = self.machine.state
        flight = None if state.recorded else state.effects_in_flight.get(key)
        process = None if flight is None else state.processes.get(flight.path)
        return process is not None and process.once

    def _give_up(self, failure: Exception) -> None:
        self._asks.give_up(failure)
        for watch in self._watches.values():
            if not watch.done():
                watch.set_exception(failure)
        self._ended.set()

    def _unwatch(self, ref: str) -> None:
        if self._watches.pop(ref).cancelled():
            self._driver.submit(Demonitor(ref))
