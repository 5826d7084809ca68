"""The workflow of a program: all its events go through one pure machine, in one order.

    updates, signals ──▶ inbox ──┐
                                 ├──▶ machine.step ──▶ activities, timers, replies
    outcomes, alarms ──▶ host ───┘

| it is                    | commands        | what the machine starts | then                  |
|--------------------------|-----------------|-------------------------|-----------------------|
| running                  | obeyed          | is started              | –                     |
| holding: history is long | obeyed          | stays in the state      | moves to its next run |
|                          |                 |                         | when calls are over   |
| over                     | nobody is there | –                       | completes             |

Steps are made in tasks only. A worker that is asked a query about a program that it has just taken
up is shown events for which no task has begun, at the time of the task before: steps made of them
would not be those of a replay. So it fails, which makes Temporal forget what it was shown, and the
client asks again.

It is not sandboxed: the machine is pure, and the sandbox would import all of it anew for each
program. A machine that fails ends the workflow. A program that was changed does not: its tasks fail
until workers with the recorded program are back.
"""

from collections import deque

from msgspec import structs
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from vegakit.conversation import Text
from vegakit.durable.host import TemporalHost
from vegakit.durable.messages import BETWEEN_TASKS, Command, Given, Launch, NotYet, Reply, Spoken
from vegakit.durable.payloads import why_too_large
from vegakit.errors import AgentFailed, LimitReached, ProgramChanged
from vegakit.program import (
    Action,
    AgentBody,
    Answer,
    Code,
    Fell,
    Machine,
    Mail,
    Outcome,
    Post,
    Printed,
    Program,
    Prompt,
    Said,
    Spawned,
    SpawnRefused,
    Told,
)
from vegakit.records import to_json
from vegakit.runtime import Driver, Question

__all__ = ["PROGRAM", "ProgramWorkflow", "provide"]

PROGRAM = "VegaProgram"
_REPLIES_KEPT, _REPLIES_MOVED_BYTES = 1_000, 500_000
_WAITING_AT_ONCE = 5
_PRINTED_KEPT, _LONGEST_PRINTED = 200, 1_000
_SMALLER = "end processes that are done, and keep less in reducers and memories"

_FORGOTTEN = Fell(
    AgentFailed.__name__, "it was answered, but so long ago that its answer is no longer kept"
)

_provided: dict[str, tuple[Code, bool]] = {}


def provide(queue: str, code: Code, *, apart: bool = True) -> None:
    """To the programs of this queue: Temporal makes their workflows, and hands them no code.
    `apart`: calls are for workers of their own."""
    _provided[queue] = code, apart


@workflow.defn(name=PROGRAM, sandboxed=False)
class ProgramWorkflow:
    @workflow.init
    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._code, apart = _provided[launch.queue]
        self._state = launch.state
        self._host = TemporalHost(
            launch.state,
            launch.queue,
            launch.heartbeat_ms,
            apart=apart,
            interrupts=launch.interrupts,
        )
        self._driver = Driver(Machine(launch.state, self._code), self._host, self._on_action)
        self._inbox: deque[Command] = deque()
        self._replies = dict(launch.replies)
        self._printed = deque(launch.printed, _PRINTED_KEPT)
        self._failed: Fell | None = None
        self._seen = (0, 0)
        self._waiting = 0
        self._is_up = False

    @workflow.run
    async def run(self, launch: Launch) -> None:
        await self._host.questions.load()
        for flight in list(self._state.flights.values()):
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
                self._failed = Fell(AgentFailed.__name__, reason)
                await workflow.wait_condition(workflow.all_handlers_finished)
                raise ApplicationError(reason, non_retryable=True) from error
            if following is not None:
                workflow.continue_as_new(following)

    @workflow.update
    async def submit(self, command: Command) -> Reply:
        """The answer, if only a few wait for one. Else it returns when the command is obeyed, and
        the answer is asked for by `reply`: Temporal takes ten updates at once, and a program may
        have any number of questions."""
        self._take(command)
        await workflow.wait_condition(lambda: command not in self._inbox or bool(self._failed))
        if self._waiting < _WAITING_AT_ONCE:
            self._waiting += 1
            await workflow.wait_condition(lambda: self._is_told(command.id))
            self._waiting -= 1
        return self.reply(command.id)

    @workflow.update
    async def answer(self, given: Given) -> Reply:
        """By a person, to a question of the program."""
        await workflow.wait_condition(lambda: self._is_up)
        return await self._host.questions.answer(given)

    @workflow.query
    def questions(self) -> list[Question]:
        return self._host.questions.open()

    @workflow.signal
    def tell(self, command: Command) -> None:
        self._take(command)

    @workflow.query
    def reply(self, to: str) -> Reply:
        waits = to in self._state.asks or any(command.id == to for command in self._inbox)
        unanswered = NotYet() if waits else _FORGOTTEN
        return self._replies.get(to) or self._failed or unanswered

    @workflow.query
    def printed(self) -> list[Printed]:
        return list(self._printed)

    @workflow.query
    def state(self) -> Program:
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

    def _is_told(self, to: str) -> bool:
        """Or must be told later: the next run does not know who waits."""
        return self._host.holding or not isinstance(self.reply(to), NotYet)

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
            event = structs.replace(event, mail=self._addressed(event, command.timeout_ms))
        actions = self._driver.submit(event)
        if not isinstance(event, Post) or not event.mail.ask:
            told = (action for action in actions if isinstance(action, Spawned | SpawnRefused))
            self._reply(command.id, next(told, Told(None)))

    def _addressed(self, post: Post, timeout_ms: int | None) -> Mail:
        """An agent is sent a prompt; a time limit counts from here."""
        mail, process = post.mail, self._state.processes.get(post.to)
        if timeout_ms is not None:
            mail = structs.replace(mail, deadline_ms=self._host.now + timeout_ms)
        is_agent = process and isinstance(self._code[process.spec.body], AgentBody)
        if is_agent and isinstance(mail.value, str):
            mail = structs.replace(mail, value=Prompt((Text(mail.value),)))
        return mail

    def _on_action(self, action: Action) -> None:
        if isinstance(action, Answer):
            self._reply(action.ask, _spoken(action.outcome))
        elif isinstance(action, Printed):
            self._printed.append(structs.replace(action, text=action.text[:_LONGEST_PRINTED]))

    def _reply(self, to: str, reply: Reply) -> None:
        too_large = why_too_large("the answer", reply, "answer with less, or with a file's name")
        self._replies[to] = Fell(LimitReached.__name__, too_large) if too_large else reply
        if len(self._replies) > _REPLIES_KEPT:
            del self._replies[next(iter(self._replies))]

    def _has_work(self) -> bool:
        self._check_in_task()
        news = self._host.has_news or bool(self._inbox)
        return news or self._is_done() or self._may_move()

    def _check_in_task(self) -> None:
        """Each task has its own time; more events at the same time are of no task."""
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
    """Those that fit beside the state: replies hold whole conversations."""
    kept, left = list[tuple[str, Reply]](), _REPLIES_MOVED_BYTES
    for to, reply in reversed(replies.items()):
        left -= len(to_json(reply))
        if left < 0:
            break
        kept.append((to, reply))
    return dict(reversed(kept))


def _spoken(outcome: Outcome) -> Reply:
    if isinstance(outcome, Told) and isinstance(outcome.value, Said):
        return Spoken(outcome.value, outcome.charged)
    return outcome
