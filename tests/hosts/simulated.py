"""Test programs on the simulated host: what each call comes to is worked out when it is started."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from tests.hosts.conformance import ScriptedOutcome, SimulatedHost
from vegakit.agent import ToolOutcome
from vegakit.conversation import ModelReply, TextDelta
from vegakit.effects import AskHuman, CallModel, CallTool, Effect
from vegakit.errors import BugError, WorldError
from vegakit.events import Answered, Failed
from vegakit.host import Driver, Registry, deploy
from vegakit.ids import ProgramId
from vegakit.money import Money, dollars
from vegakit.policy import ChildType, InterruptKind
from vegakit.prices import bill
from vegakit.program import (
    DEFAULT_WINDOW,
    Action,
    Answer,
    Bounds,
    Machine,
    MessageFailed,
    Outcome,
    Post,
    Printed,
    ProcessMessage,
    ProcessSpec,
    Program,
    Spawn,
    Spawned,
    TraceNote,
)
from vegakit.providers import ScriptedModel
from vegakit.records import to_json
from vegakit.sdk import Runtime
from vegakit.testing import ProgramTestResult
from vegakit.testing.expectations import Expectations
from vegakit.testing.programs import main_arguments, scripted_model
from vegakit.vm import restored, text_of

T = TypeVar("T")

_ASK = "main"


def run_simulated(ran: ProgramTestResult, expected: Expectations) -> None:
    """Run a test program on the simulated host."""
    asyncio.run(_Simulated(ran, expected).run())


class _Simulated:
    def __init__(self, ran: ProgramTestResult, expected: Expectations) -> None:
        self._ran = ran
        self._expected = expected
        self._model = scripted_model(expected)
        self._answers = iter(expected.answers)
        self._outcome: Outcome | None = None
        self.host = SimulatedHost(self._outcome_of)

    async def run(self) -> None:
        module, ran = self._ran.module, self._ran
        assert module is not None
        async with Runtime("$1000", models=lambda _: self._model) as rt:
            registry = Registry(rt.model_registry, lambda: rt.admission_service)
            bodies = deploy(module, Path(), registry, self._expected.allow).bodies
            bounds = Bounds(window=DEFAULT_WINDOW)
            machine = Machine(Program(ProgramId("p"), bounds=bounds), registry.code)
            body = bodies[module.functions[module.main].name]
            await self._drive(Driver(machine, self.host, self._on_action), body)
        ran.took_ms, ran.calls = self.host.now, len(self._model.requests)

    async def _drive(self, driver: Driver, body: str) -> None:
        module, ran = self._ran.module, self._ran
        assert module is not None
        wallet = dollars(self._expected.budget or "$100")
        spec = ProcessSpec(body, ChildType.TEMPORARY, wallet=wallet)
        made = driver.submit(Spawn(spec))
        [path] = [action.path for action in made if isinstance(action, Spawned)]
        driver.submit(Post(path, ProcessMessage(main_arguments(module, self._expected), _ASK)))
        while self._outcome is None:
            for event in await self.host.next():
                driver.submit(event)
        if isinstance(self._outcome, MessageFailed):
            ran.error = f"{self._outcome.error}: {self._outcome.reason}"
        else:
            ran.result = text_of(restored(self._outcome.value))

    def _on_action(self, action: Action) -> None:
        match action:
            case Answer(ask, outcome) if ask == _ASK:
                self._outcome = outcome
            case Printed(text=text):
                self._ran.printed.extend(text.split("\n"))
            case TraceNote(kind=kind, text=text):
                self._ran.notes.append(f"{kind} {text}")
            case _:
                pass

    def _outcome_of(self, effect: Effect) -> ScriptedOutcome:
        request = effect.request
        match request:
            case CallModel():
                return self._called(request)
            case AskHuman():
                return self._asked(request)
            case CallTool():
                return ScriptedOutcome(0, Answered(self._read(request)))
            case _:
                raise BugError(f"nobody knows what {request} comes to")

    def _called(self, request: CallModel) -> ScriptedOutcome:
        takes_ms = self._expected.latency_ms
        try:
            pieces, reply = _at_once(self._said(request))
        except WorldError as failed:
            return ScriptedOutcome(takes_ms, Failed(failed.error_class, str(failed), failed.phase))
        except RuntimeError as crash:
            return ScriptedOutcome(takes_ms, crash)
        charged = _bill(self._model, reply)
        self._ran.spent += charged
        return ScriptedOutcome(takes_ms, Answered(reply, charged, pieces))

    async def _said(self, request: CallModel) -> tuple[tuple[str, ...], ModelReply]:
        if not request.stream:
            return (), await self._model.ask(request.request)
        chunks = [chunk async for chunk in self._model.stream(request.request)]
        pieces = tuple(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
        assert isinstance(chunks[-1], ModelReply)
        return pieces, chunks[-1]

    def _asked(self, request: AskHuman) -> ScriptedOutcome:
        said = next(self._answers, None)
        if said is None:
            takes_ms = max(0, (request.expires_ms or 0) - self.host.now)
            return ScriptedOutcome(takes_ms, Answered(None))
        confirms = request.kind == InterruptKind.CONFIRMATION
        return ScriptedOutcome(0, Answered(said.lower() in ("yes", "true") if confirms else said))

    def _read(self, request: CallTool) -> ToolOutcome:
        path = request.arguments.get("path", "")
        if not request.tool.startswith("file::read@") or path not in self._expected.files:
            return ToolOutcome(f"the simulated host has no {request.tool} {path}", is_error=True)
        return ToolOutcome(to_json(self._expected.files[path]).decode())


def _bill(model: ScriptedModel, reply: ModelReply) -> Money:
    assert reply.usage is not None
    assert model.price is not None
    return bill(model.price, reply.usage)


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run work that waits for nothing: it needs no loop, though it may let others in."""
    try:
        while work.send(None) is None:
            pass
    except StopIteration as done:
        return done.value
    raise BugError("the scripted model waited")
