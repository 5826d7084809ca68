"""The workflow of a program on Temporal, and the host that carries out its effects as activities,
timers and questions.

    updates, signals ──▶ inbox ──┐
                                 ├──▶ machine.step ──▶ activities, timers, replies
    outcomes, alarms ──▶ host ───┘
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import timedelta

from msgspec import structs
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError

from vegakit.control import Question
from vegakit.conversation import Text
from vegakit.durable.messages import (
    BETWEEN_TASKS,
    ActivityInput,
    ActivityName,
    ActivityResult,
    ChargedReply,
    Command,
    Launch,
    PersonAnswer,
    Reply,
    ReplyPending,
    why_too_large,
)
from vegakit.effects import AskHuman, CallModel, CallTool, Effect, EffectRequest, SetTimer, changed
from vegakit.errors import AgentFailed, LimitReached, ProgramChanged, UserError
from vegakit.events import (
    Answered,
    EffectCancelled,
    EffectOutcome,
    HostEvent,
    OutcomeArrived,
    Refused,
)
from vegakit.host import Account, Approvals, Driver, EffectHandler, LocalHost
from vegakit.ids import EffectKey, pid_of
from vegakit.policy import Interrupts
from vegakit.ports import Clock
from vegakit.program import (
    Action,
    AgentBody,
    AgentReply,
    Answer,
    Code,
    Machine,
    MessageFailed,
    Outcome,
    Post,
    Printed,
    ProcessMessage,
    Program,
    Prompt,
    Returned,
    Spawned,
    SpawnRefused,
)
from vegakit.records import from_json, to_json

# Questions of a program to people, held where its history is: no worker remembers them.


_ANONYMOUS = "nobody is named who answers; give by= a name"


class WorkflowQuestions:
    """The questions of a program to people. `interrupts` are those that an earlier run of the
    workflow left open."""

    def __init__(self, clock: Clock, interrupts: Interrupts | None) -> None:
        self._page = _InterruptDocument(interrupts)
        self.approvals = Approvals(clock, self._page, None, None)

    async def load(self) -> None:
        """Load the questions that an earlier run left open."""
        await self.approvals.questions.load()

    def open(self) -> list[Question]:
        """Return the questions that people have not answered."""
        return self.approvals.questions.open()

    async def answer(self, given: PersonAnswer) -> Returned | MessageFailed:
        """Take an answer of a named person, or say why it is refused."""
        if not given.by.strip():
            return MessageFailed(UserError.__name__, _ANONYMOUS)
        try:
            await self.approvals.answer(given.question, given.answer, given.by, given.action)
        except UserError as refused:
            return MessageFailed(UserError.__name__, str(refused))
        return Returned(None)

    @property
    def interrupts(self) -> Interrupts | None:
        """The questions that the next run begins with."""
        return None if self._page.text is None else from_json(Interrupts, self._page.text)


class _InterruptDocument:
    """Implements `ports.Store` for the one document that there is."""

    def __init__(self, interrupts: Interrupts | None) -> None:
        self.text = None if interrupts is None else to_json(interrupts)
        self._version = 0 if interrupts is None else 1

    async def get(self, kind: str, key: str) -> tuple[bytes, int] | None:
        return None if self.text is None else (self.text, self._version)

    async def put(self, kind: str, key: str, value: bytes, *, expected: int) -> bool:
        if expected != self._version:
            return False
        self.text, self._version = value, expected + 1
        return True

    async def delete(self, kind: str, key: str, *, expected: int) -> bool:
        if expected != self._version or self.text is None:
            return False
        self.text, self._version = None, 0
        return True

    async def keys(self, kind: str, *, after: str = "", limit: int = 100) -> Sequence[str]:
        return []

    async def aclose(self) -> None: ...


# The host of a program on Temporal: model and tool calls as activities, alarms as timers, and
# questions to people held in the workflow.
#
#     start ──▶ activity on the queue of models or tools ── outcome ──▶ next()
#     hold  ──▶ from now on what is started stays in the program's state, and the next run starts it
#
# What a worker that died was doing is not done again: the next attempt looks at the ledger, and
# the program hears that the outcome is unknown. Steps are made only when all else has run, which
# is when `wait_condition` looks. So the outcomes of one wake-up come together, and a cancel never
# meets a result that has arrived and is not yet told: Temporal would drop it, and what it cost.


_LONGEST_CALL = timedelta(days=1)
_LONGEST_LOOK = timedelta(seconds=30)
_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    maximum_interval=timedelta(seconds=10),
    maximum_attempts=10,
)
_AT_ONCE = 50
_SHORTER = "shorten the conversation (history= of the agent), or hand over files by name"
_CALLS: dict[type[EffectRequest], ActivityName] = {
    CallModel: ActivityName.MODEL,
    CallTool: ActivityName.TOOL,
}


def queue_of(queue: str, call: ActivityName) -> str:
    """Return the queue on which workers of their own look for models or tools: neither keeps the
    other waiting."""
    return queue if call is ActivityName.FIND_OUTCOME else f"{queue}-{call.name.lower()}s"


class WorkflowClock:
    """Implements `ports.Clock`, the same on every replay."""

    def now(self) -> int:
        """Return the time of the current task."""
        return workflow.time_ns() // 1_000_000

    async def wait_until(self, at_ms: int) -> None:
        """Wait on a timer of Temporal."""
        await asyncio.sleep(max(0, at_ms - self.now()) / 1000)


class TemporalHost(LocalHost):
    """Implements `ports.Host`, inside a workflow."""

    def __init__(
        self,
        state: Program,
        queue: str,
        heartbeat_ms: int,
        *,
        separate_workers: bool = True,
        interrupts: Interrupts | None = None,
    ) -> None:
        """Calls that are not `apart` may begin at once on the worker that steps the program, which
        is a fifth of what Temporal costs."""
        handlers: dict[type[EffectRequest], EffectHandler] = {
            CallModel: self._call,
            CallTool: self._call,
            AskHuman: self._ask_person,
            SetTimer: self._wait,
        }
        super().__init__(handlers, WorkflowClock())
        self.questions = WorkflowQuestions(self._clock, interrupts)
        self._state = state
        self._queues = {
            call: queue_of(queue, call) if separate_workers else queue for call in ActivityName
        }
        self._heartbeat = timedelta(milliseconds=heartbeat_ms)
        self.holding = False
        self._at_once = 0

    @property
    def has_news(self) -> bool:
        """Whether events have arrived that the machine has not seen."""
        return bool(self._arrived) or self._broken is not None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight but timers, which the next run sets again, and questions,
        which it finds as they stand."""
        waits = (SetTimer, AskHuman)
        return all(isinstance(effect.request, waits) for effect in self._effects.values())

    def start(self, effect: Effect, *, speculative: bool = False) -> None:
        """Start an effect, unless it is left to the next run."""
        if not self.holding:
            super().start(effect, speculative=speculative)

    def cancel(self, key: EffectKey, *, late: bool = False) -> None:
        """Cancel an effect. One that was left to the next run never began, so it is over at
        once."""
        flight = self._state.effects_in_flight.get(key)
        if self.holding and flight is not None and key not in self._effects:
            self.tell(OutcomeArrived(key, flight.effect.path, EffectCancelled()))
        super().cancel(key)

    def hold(self) -> None:
        """Leave what is started from now on to the next run."""
        self.holding = True

    async def next(self) -> Sequence[HostEvent]:
        """Wait for events that the machine has not seen, and return them."""
        await workflow.wait_condition(lambda: self.has_news)
        return await super().next()

    async def _wait(self, effect: Effect, account: Account) -> EffectOutcome:
        assert isinstance(effect.request, SetTimer)
        if effect.request.due_ms <= self._clock.now():
            await self._let_others_in()
        await self._clock.wait_until(effect.request.due_ms)
        return Answered(None)

    async def _let_others_in(self) -> None:
        """A program that computes for long does so in many tasks: Temporal believes that one which
        takes seconds hangs."""
        self._at_once += 1
        if self._at_once % _AT_ONCE == 0:
            await asyncio.sleep(0.001)

    async def _ask_person(self, effect: Effect, account: Account) -> EffectOutcome:
        path, place = self._state.effects_in_flight[effect.key].path, effect.path
        process = pid_of(place.program, path, place.incarnations[-1].generation)
        return await self.questions.approvals.ask_person(effect, process)

    async def _call(self, effect: Effect, account: Account) -> EffectOutcome:
        path = self._state.effects_in_flight[effect.key].path
        body = self._state.processes[path].spec.body
        written = (one for one in self._state.authored.values() if body.startswith(one.prefix))
        work = ActivityInput(effect, body, path, authored=next(written, None))
        if too_large := why_too_large("the request", work, _SHORTER):
            return Refused(LimitReached.__name__, too_large)
        performed = await self._perform(work)
        if performed.digest != effect.digest:
            self._broken = changed(effect)  # whoever waits for the outcome is told this instead
        return performed.outcome

    async def _perform(self, work: ActivityInput) -> ActivityResult:
        call = _CALLS[type(work.effect.request)]
        try:
            return await workflow.execute_activity(
                call,
                work,
                result_type=ActivityResult,
                task_queue=self._queues[call],
                activity_id=work.effect.key,
                summary=str(work.effect.path),
                start_to_close_timeout=_LONGEST_CALL,
                heartbeat_timeout=self._heartbeat,
                retry_policy=_RETRY_POLICY,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
        except ActivityError as failed:
            cancelled = isinstance(failed.cause, CancelledError)
        return await workflow.execute_activity(
            ActivityName.FIND_OUTCOME,
            ActivityInput(work.effect, work.body, work.path, cancelled),
            result_type=ActivityResult,
            start_to_close_timeout=_LONGEST_LOOK,
        )


# The workflow of a program: all its events go through one pure machine, in one order.
#
#     updates, signals ──▶ inbox ──┐
#                                  ├──▶ machine.step ──▶ activities, timers, replies
#     outcomes, alarms ──▶ host ───┘
#
# | it is                    | commands        | what the machine starts | then                  |
# |--------------------------|-----------------|-------------------------|-----------------------|
# | running                  | obeyed          | is started              | –                     |
# | holding: history is long | obeyed          | stays in the state      | moves to its next run |
# |                          |                 |                         | when calls are over   |
# | over                     | nobody is there | –                       | completes             |
#
# Steps are made in tasks only. A worker that is asked a query about a program that it has just
# taken up is shown events for which no task has begun, at the time of the task before: steps made
# of them would not be those of a replay. So it fails, which makes Temporal forget what it was
# shown, and the client asks again.
#
# It is not sandboxed: the machine is pure, and the sandbox would import all of it anew for each
# program. A machine that fails ends the workflow. A program that was changed does not: its tasks
# fail until workers with the recorded program are back.


PROGRAM = "VegaProgram"
_REPLIES_KEPT, _REPLIES_MOVED_BYTES = 1_000, 500_000
_WAITING_AT_ONCE = 5
_PRINTED_KEPT, _LONGEST_PRINTED = 200, 1_000
_SMALLER = "end processes that are done, and keep less in reducers and memories"

_FORGOTTEN = MessageFailed(
    AgentFailed.__name__, "it was answered, but so long ago that its answer is no longer kept"
)

_provided: dict[str, tuple[Code, bool]] = {}


def register_code(queue: str, code: Code, *, separate_workers: bool = True) -> None:
    """Give code to the programs of a queue: Temporal makes their workflows, and hands them no code.
    With `separate_workers`, calls are for workers of their own."""
    _provided[queue] = code, separate_workers


@workflow.defn(name=PROGRAM, sandboxed=False)
class ProgramWorkflow:
    """The workflow of a program."""

    @workflow.init
    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._code, separate_workers = _provided[launch.queue]
        self._state = launch.state
        self._host = TemporalHost(
            launch.state,
            launch.queue,
            launch.heartbeat_ms,
            separate_workers=separate_workers,
            interrupts=launch.interrupts,
        )
        self._driver = Driver(Machine(launch.state, self._code), self._host, self._on_action)
        self._inbox: deque[Command] = deque()
        self._replies = dict(launch.replies)
        self._printed = deque(launch.printed, _PRINTED_KEPT)
        self._failed: MessageFailed | None = None
        self._seen = (0, 0)
        self._waiting = 0
        self._is_up = False

    @workflow.run
    async def run(self, launch: Launch) -> None:
        """Step the machine until the program is over, or move to the next run."""
        await self._host.questions.load()
        for flight in list(self._state.effects_in_flight.values()):
            self._host.start(flight.effect)
        self._is_up = True
        while not self._is_done():
            await workflow.wait_condition(self._has_work)
            try:
                await self._work()
                following = self._next_launch() if self._may_move() else None
            except ProgramChanged:
                raise
            except Exception as error:
                reason = f"the program cannot go on: {type(error).__name__}: {error}"
                self._failed = MessageFailed(AgentFailed.__name__, reason)
                await workflow.wait_condition(workflow.all_handlers_finished)
                raise ApplicationError(reason, non_retryable=True) from error
            if following is not None:
                workflow.continue_as_new(following)

    @workflow.update
    async def submit(self, command: Command) -> Reply:
        """Obey a command and return its answer, if only a few wait for one. Otherwise return when
        the command is obeyed; the answer is then asked for by `reply`, because Temporal takes ten
        updates at once, and a program may have any number of questions."""
        self._take(command)
        await workflow.wait_condition(lambda: command not in self._inbox or bool(self._failed))
        if self._waiting < _WAITING_AT_ONCE:
            self._waiting += 1
            await workflow.wait_condition(lambda: self._has_reply(command.id))
            self._waiting -= 1
        return self.reply(command.id)

    @workflow.update
    async def answer(self, given: PersonAnswer) -> Reply:
        """Take the answer of a person to a question of the program."""
        await workflow.wait_condition(lambda: self._is_up)
        return await self._host.questions.answer(given)

    @workflow.query
    def questions(self) -> list[Question]:
        """Return the questions that people have not answered."""
        return self._host.questions.open()

    @workflow.signal
    def tell(self, command: Command) -> None:
        """Obey a command for which nobody waits."""
        self._take(command)

    @workflow.query
    def reply(self, to: str) -> Reply:
        """Return the answer to a command, or that it is still to come."""
        waits = to in self._state.asks or any(command.id == to for command in self._inbox)
        unanswered = ReplyPending() if waits else _FORGOTTEN
        return self._replies.get(to) or self._failed or unanswered

    @workflow.query
    def printed(self) -> list[Printed]:
        """Return the last lines that were printed."""
        return list(self._printed)

    @workflow.query
    def state(self) -> Program:
        """Return the state of the program."""
        return self._state

    def _next_launch(self) -> Launch:
        launch = structs.replace(
            self._launch,
            state=self._state,
            replies=_latest(self._replies),
            printed=list(self._printed),
            interrupts=self._host.questions.interrupts,
        )
        if too_large := why_too_large("the state of the program", launch, _SMALLER):
            raise LimitReached(too_large)
        return launch

    def _has_reply(self, to: str) -> bool:
        """Return whether there is an answer, or it must be told later because the next run does not
        know who waits."""
        return self._host.holding or not isinstance(self.reply(to), ReplyPending)

    def _take(self, command: Command) -> None:
        waiting = (taken.id for taken in self._inbox)
        if command.id not in {*waiting, *self._replies, *self._state.asks}:
            self._inbox.append(command)

    async def _work(self) -> None:
        if self._host.has_news:
            for event in await self._host.next():
                self._driver.submit(event)
        while self._inbox:
            self._obey(self._inbox.popleft())
        if self._is_long():
            self._host.hold()

    def _obey(self, command: Command) -> None:
        event = command.event
        if isinstance(event, Post):
            event = structs.replace(event, message=self._addressed(event, command.timeout_ms))
        actions = self._driver.submit(event)
        if not isinstance(event, Post) or not event.message.ask:
            told = (action for action in actions if isinstance(action, Spawned | SpawnRefused))
            self._reply(command.id, next(told, Returned(None)))

    def _addressed(self, post: Post, timeout_ms: int | None) -> ProcessMessage:
        """An agent is sent a prompt; a time limit counts from here."""
        message, process = post.message, self._state.processes.get(post.to)
        if timeout_ms is not None:
            message = structs.replace(message, deadline_ms=self._host.now + timeout_ms)
        is_agent = process and isinstance(self._code[process.spec.body], AgentBody)
        if is_agent and isinstance(message.value, str):
            message = structs.replace(message, value=Prompt((Text(message.value),)))
        return message

    def _on_action(self, action: Action) -> None:
        if isinstance(action, Answer):
            self._reply(action.ask, _charged_reply(action.outcome))
        elif isinstance(action, Printed):
            self._printed.append(structs.replace(action, text=action.text[:_LONGEST_PRINTED]))

    def _reply(self, to: str, reply: Reply) -> None:
        too_large = why_too_large("the answer", reply, "answer with less, or with a file's name")
        self._replies[to] = MessageFailed(LimitReached.__name__, too_large) if too_large else reply
        if len(self._replies) > _REPLIES_KEPT:
            del self._replies[next(iter(self._replies))]

    def _has_work(self) -> bool:
        self._check_in_task()
        news = self._host.has_news or bool(self._inbox)
        return news or self._is_done() or self._may_move()

    def _check_in_task(self) -> None:
        """Fail if we are not in a task. Each task has its own time, so more events at the same time
        are of no task."""
        (length, at), self._seen = (
            self._seen,
            (
                workflow.info().get_current_history_length(),
                workflow.time_ns(),
            ),
        )
        if self._seen[0] > length and self._seen[1] == at:
            raise RuntimeError(BETWEEN_TASKS)

    def _is_done(self) -> bool:
        return self._state.over and not self._inbox and workflow.all_handlers_finished()

    def _is_long(self) -> bool:
        here = workflow.info()
        is_long = here.get_current_history_length() >= self._launch.longest
        return is_long or here.is_continue_as_new_suggested()

    def _may_move(self) -> bool:
        busy = self._host.has_news or self._inbox or not self._host.is_idle
        is_moving = self._host.holding and not busy and not self._state.over
        return is_moving and workflow.all_handlers_finished()


def _latest(replies: dict[str, Reply]) -> dict[str, Reply]:
    """Return the last replies that fit beside the state: they hold whole conversations."""
    kept, left = list[tuple[str, Reply]](), _REPLIES_MOVED_BYTES
    for to, reply in reversed(replies.items()):
        left -= len(to_json(reply))
        if left < 0:
            break
        kept.append((to, reply))
    return dict(reversed(kept))


def _charged_reply(outcome: Outcome) -> Reply:
    if isinstance(outcome, Returned) and isinstance(outcome.value, AgentReply):
        return ChargedReply(outcome.value, outcome.charged)
    return outcome
