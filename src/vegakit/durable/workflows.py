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
from vegakit.durable.messages import Command, Launch, NotYet, Reply, Spoken
from vegakit.errors import AgentFailed, ProgramChanged
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
    Program,
    Prompt,
    Said,
    Spawned,
    SpawnRefused,
    Told,
)
from vegakit.records import to_json
from vegakit.runtime import Driver

__all__ = ["PROGRAM", "ProgramWorkflow", "provide"]

PROGRAM = "VegaProgram"
_REPLIES_KEPT, _REPLIES_MOVED_BYTES = 1_000, 500_000

_FORGOTTEN = Fell(
    AgentFailed.__name__, "it was answered, but so long ago that its answer is no longer kept"
)

_provided: dict[str, Code] = {}


def provide(queue: str, code: Code) -> None:
    """To the programs of this queue: Temporal makes their workflows, and hands them no code."""
    _provided[queue] = code


@workflow.defn(name=PROGRAM, sandboxed=False)
class ProgramWorkflow:
    @workflow.init
    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._code = _provided[launch.queue]
        self._state = launch.state
        self._host = TemporalHost(launch.state, launch.queue, launch.heartbeat_ms)
        self._driver = Driver(Machine(launch.state, self._code), self._host, self._on_action)
        self._inbox: deque[Command] = deque()
        self._replies = dict(launch.replies)
        self._failed: Fell | None = None

    @workflow.run
    async def run(self, launch: Launch) -> None:
        for flight in list(self._state.flights.values()):
            self._host.start(flight.effect)
        while not self._is_done():
            await workflow.wait_condition(self._has_work)
            try:
                await self._work()
            except ProgramChanged:
                raise
            except Exception as error:
                reason = f"the program cannot go on: {type(error).__name__}: {error}"
                self._failed = Fell(AgentFailed.__name__, reason)
                await workflow.wait_condition(workflow.all_handlers_finished)
                raise ApplicationError(reason, non_retryable=True) from error
            if self._may_move():
                replies = _latest(self._replies)
                workflow.continue_as_new(
                    structs.replace(launch, state=self._state, replies=replies)
                )

    @workflow.update
    async def submit(self, command: Command) -> Reply:
        """Obeyed when this returns; an answer that takes longer is asked for by `reply`, since
        Temporal takes ten updates at once and a program may have any number of questions."""
        self._take(command)
        await workflow.wait_condition(lambda: command not in self._inbox or bool(self._failed))
        return self.reply(command.id)

    @workflow.signal
    def tell(self, command: Command) -> None:
        self._take(command)

    @workflow.query
    def reply(self, to: str) -> Reply:
        waits = to in self._state.asks or any(command.id == to for command in self._inbox)
        unanswered = NotYet() if waits else _FORGOTTEN
        return self._replies.get(to) or self._failed or unanswered

    @workflow.query
    def state(self) -> Program:
        return self._state

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

    def _reply(self, to: str, reply: Reply) -> None:
        self._replies[to] = reply
        if len(self._replies) > _REPLIES_KEPT:
            del self._replies[next(iter(self._replies))]

    def _has_work(self) -> bool:
        news = self._host.has_news or bool(self._inbox)
        return news or self._is_done() or self._may_move()

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
