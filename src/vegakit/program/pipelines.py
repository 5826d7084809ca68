"""Pipelines as programs: the walk of a session stands where a compiled function has its machine
(pure).

    input ─▶ walk ─ SendTo, CallHost ─▶ agents, people ─ results ─▶ walk … ─▶ the outputs of stages

What comes next is decided by `policy.PipelineSession`, which is told of each result. Time is not
its business here: nobody who holds a task can be lost without the whole program, so leases never
end, and the time limit of a stage is the deadline of its send.

| a stage is     | request                | its result, told to the session                     |
|----------------|------------------------|-----------------------------------------------------|
| an agent       | `SendTo`, to its name  | StageCompleted, or StageFailed by the error's name  |
| a person       | `CallHost` of `human`  | StageAsked at once; settled by the answer, or by    |
|                |                        | what its kind says of silence                       |
| completed      | `Print`, of its output | –                                                   |

A request is named by its stage, which run of it this is, and which attempt: never by the order of
results, which may be another one when a run goes on after a crash.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Struct, convert, field, json

from vegakit.errors import ContractViolated, LimitReached, Timeout, rebuild_error
from vegakit.events import EffectOutcome
from vegakit.ids import InterruptId
from vegakit.policy import (
    INTERRUPT_KINDS,
    AgentDefinition,
    Approved,
    Declined,
    InterruptKind,
    OutputField,
    PipelineDefinition,
    PipelineSession,
    Replied,
    Resume,
    RunAgent,
    StageAsked,
    StageCompleted,
    StageFailed,
    StageTask,
    TakeErrorNext,
    TaskId,
    TerminalReason,
    Terminate,
    answer_output,
    as_text,
    begin_session,
    failure_of,
    stage_agent,
    stage_prompt,
)
from vegakit.program.bodies import FiberBody, FiberRun, PipelineBody
from vegakit.program.fibers import FiberWorker, arguments_in_order
from vegakit.program.messages import (
    AgentReply,
    MessageFailed,
    Outcome,
    Returned,
    as_record,
    plain_outcome,
)
from vegakit.program.state import InFlightEffect, ProcessRecord
from vegakit.value_types import BOOL, FLOAT, INT, STR, ListOf, RecordOf, Type
from vegakit.vm import CallHost, Crash, FiberRequest, Print, SendTo, Status, Step, Vm

_NOW = 0
_TYPES: Final[Mapping[OutputField, Type]] = {
    OutputField.TEXT: STR,
    OutputField.NUMBER: FLOAT,
    OutputField.INTEGER: INT,
    OutputField.TRUTH: BOOL,
    OutputField.TEXTS: ListOf(STR),
}
_ASKS: Final[Mapping[InterruptKind, str]] = {
    InterruptKind.CLARIFICATION: "human::ask",
    InterruptKind.CONFIRMATION: "human::approve",
    InterruptKind.AGENT_REVIEW: "human::review",
}
_BOUND = "the pipeline met its bound {reason}; raise that in `bounds`, or route to its end earlier"
_SILENCE = "nobody answered in time; answer sooner, or give the stage an error_next"


class PipelineWalkState(Struct, omit_defaults=True):
    """The state of a walk. `out` are the tasks of agents that were sent and `asked` the questions
    to people, by ticket; `answers` what was answered and not yet taken up by its stage; `error` is
    what ended the walk."""

    session: PipelineSession
    given: Any = None
    outputs: dict[str, Any] = field(default_factory=dict[str, Any])
    out: dict[str, TaskId] = field(default_factory=dict[str, TaskId])
    asked: dict[str, InterruptId] = field(default_factory=dict[str, InterruptId])
    answers: dict[InterruptId, Any] = field(default_factory=dict[InterruptId, Any])
    outbox: list[FiberRequest] = field(default_factory=list[FiberRequest])
    error: Crash | None = None
    fuel_used: int = 0


class PipelineWalk:
    """One walk through a pipeline. It has what a worker of fibers uses of a `Vm`."""

    spans: tuple[str, ...] = ()

    def __init__(self, definition: PipelineDefinition, state: PipelineWalkState) -> None:
        self._definition = definition
        self.state = state

    def written(self) -> PipelineWalkState:
        """Return the state as JSON can hold it."""
        return self.state

    def weigh(self) -> bool:
        """Return whether the state may be stored. It holds no more than answers that were paid
        for, of which the bounds of the pipeline allow so many."""
        return True

    def run(self, fuel: int) -> Step:
        """Do what the session says until it waits or ends."""
        del fuel  # a step of a session is bounded by its stages
        session, state = self.state.session, self.state
        while isinstance(instruction := session.next_instruction(_NOW), RunAgent):
            for task in instruction.tasks:
                if session.ended is None:
                    self._issue(task)
        requests = tuple(state.outbox)
        state.outbox.clear()
        if not isinstance(instruction, Terminate):
            return Step(Status.WAITING, requests, None, None)
        if instruction.reason is TerminalReason.COMPLETED:
            named = (stage.name for stage in self._definition.stages)
            outputs = {name: state.outputs[name] for name in named if name in state.outputs}
            return Step(Status.FINISHED, requests, outputs, None)
        bound = Crash(LimitReached.__name__, _BOUND.format(reason=instruction.reason), ())
        return Step(Status.CRASHED, requests, None, state.error or bound)

    def fail(self, ticket: str, error: str, reason: str, cause: tuple[str, ...] = ()) -> bool:
        """Take what went wrong with a request before it was sent."""
        del cause  # nothing was asked
        self.on_result(ticket, MessageFailed(error, reason))
        return True

    def on_result(self, ticket: str, outcome: Outcome) -> None:
        """Take what came of a send to an agent."""
        task = self.state.out.pop(ticket, None)
        if task is None:
            return
        stage = task.rpartition("#")[0]
        if isinstance(outcome, MessageFailed):
            failure = failure_of(rebuild_error(outcome.error, outcome.reason))
            # A call that failed may have been billed, and then it was one.
            self.state.session.report(task, StageFailed(failure, int(outcome.charged > 0)), _NOW)
            self._note_end(stage, outcome)
            return
        reply = as_record(AgentReply, outcome.value)
        is_typed = self._definition.agents[self._definition.by_name[stage].agent].output
        output = json.decode(reply.text) if is_typed else reply.text
        self._complete(stage, task, StageCompleted(output, reply.steps))

    def on_person(self, ticket: str, kind: InterruptKind, outcome: Outcome) -> None:
        """Take the answer of a person, or that there was none."""
        key = self.state.asked.pop(ticket, None)
        if key is None:
            return
        stage, silence = key.rpartition("#")[0], MessageFailed(Timeout.__name__, _SILENCE)
        match outcome:
            case MessageFailed():
                consequence = TakeErrorNext(TerminalReason.SYSTEM_ERROR)
                silence = outcome
            case Returned(None):
                consequence = INTERRUPT_KINDS[kind].at_expiry or Terminate(TerminalReason.TIMEOUT)
            case Returned(bool(is_approved)):
                consequence = Resume(Approved() if is_approved else Declined())
            case Returned(value):
                consequence = Resume(Replied(value))
        if isinstance(consequence, Resume):
            self.state.answers[key] = answer_output(consequence.answer)
        self.state.session.on_interrupt_settled(key, consequence)
        self._note_end(stage, silence)

    def _issue(self, task: StageTask) -> None:
        agent, stage = self._definition.agents[task.agent], self._definition.by_name[task.stage]
        text = stage_prompt(agent, self.state.given, self.state.outputs)
        if agent.asks is not None:
            self._ask_person(task, agent.asks, text)
            return
        ticket = _ticket(task)
        self.state.out[ticket] = task.id
        send = SendTo(
            ticket,
            stage_agent(stage),
            text,
            agent=True,
            answer=_answer_type(agent),
            timeout_ms=stage.timeout_ms,
        )
        self.state.outbox.append(send)

    def _ask_person(self, task: StageTask, kind: InterruptKind, question: str) -> None:
        """Ask, or take up what was answered: a stage is issued again when it is."""
        key, state = InterruptId(f"{task.stage}#{task.iteration}"), self.state
        if key in state.answers:
            self._complete(task.stage, task.id, StageCompleted(state.answers.pop(key)))
            return
        ticket = _ticket(task)
        state.asked[ticket] = key
        state.session.report(task.id, StageAsked(key, kind), _NOW)
        state.outbox.append(CallHost(ticket, _ASKS[kind], (question, None), 0))

    def _complete(self, stage: str, task: TaskId, completed: StageCompleted) -> None:
        self.state.outputs[stage] = completed.output
        self.state.session.report(task, completed, _NOW)
        self.state.outbox.append(Print(task, f"{stage}: {as_text(completed.output)}"))

    def _note_end(self, stage: str, failed: MessageFailed) -> None:
        """Keep the failure if the session has ended by it: who started the program is told, and its
        cause is asked again when the run goes on."""
        if self.state.session.ended is not None:
            reason = f"stage {stage}: {failed.reason}"
            self.state.error = Crash(failed.error, reason, (), failed.cause)


def _ticket(task: StageTask) -> str:
    return f"{task.stage}:{task.iteration}.{task.attempt}"


def _answer_type(agent: AgentDefinition) -> Type | None:
    if not agent.output:
        return None
    return RecordOf("Output", tuple((name, _TYPES[kind]) for name, kind in agent.output.items()))


class PipelineWorker(FiberWorker):
    """Runs pipelines: as fibers, whose machine is a walk."""

    _machine = PipelineWalk

    def on_outcome(
        self, path: str, process: ProcessRecord, flight: InFlightEffect, outcome: EffectOutcome
    ) -> None:
        run = self._run_of(path, process, flight.message_id)
        if run is not None:
            self._requests.settle(run, flight.ask)
            kind = InterruptKind(cast("Any", flight.effect.request).kind)
            came = plain_outcome(outcome, flight.effect.key)
            _walk(run).on_person(flight.ask, kind, came)
            self._go_on(run)

    def on_result(self, path: str, process: ProcessRecord, ask: str, outcome: Outcome) -> None:
        message_id, _, ticket = ask.partition(":")
        run = self._run_of(path, process, int(message_id))
        if run is not None:
            self._requests.settle(run, ticket, outcome.charged)
            _walk(run).on_result(ticket, outcome)
            self._go_on(run)

    def _started(self, body: FiberBody, args: object) -> Vm:
        given = arguments_in_order(body, args)
        if len(given) != 1:
            raise ContractViolated(f"a pipeline takes its input; got {len(given)} arguments")
        definition = _definition(body)
        state = PipelineWalkState(begin_session(definition.pipeline), given[0])
        return _as_machine(PipelineWalk(definition, state))

    def _restored(self, body: FiberBody, stored: object) -> Vm:
        return _as_machine(PipelineWalk(_definition(body), convert(stored, PipelineWalkState)))


def _definition(body: FiberBody) -> PipelineDefinition:
    assert isinstance(body, PipelineBody)
    assert body.definition is not None
    return body.definition


def _walk(run: FiberRun) -> PipelineWalk:
    walk: object = run.vm
    assert isinstance(walk, PipelineWalk)
    return walk


def _as_machine(walk: PipelineWalk) -> Vm:
    """A worker of fibers needs no more of a machine than a walk has."""
    return cast("Vm", walk)
