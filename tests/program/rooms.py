"""A host in the test's hands: it keeps what the machine wants done, and answers when told to."""

from collections.abc import Sequence
from typing import Any

from vegakit.agent import TurnRule
from vegakit.conversation import (
    AssistantMessage,
    ModelReply,
    ModelSettings,
    Text,
    ToolCall,
    ToolSpec,
    Usage,
)
from vegakit.effects import Cancel, SetTimer, Start
from vegakit.events import Answered, EffectOutcome, OutcomeArrived
from vegakit.ids import ProgramId
from vegakit.money import Money, dollars
from vegakit.prices import PriceRow, PriceTier
from vegakit.program import (
    AgentBody,
    Answer,
    Bounds,
    Code,
    CoroutineBody,
    Event,
    Machine,
    MessageFailed,
    Post,
    ProcessMessage,
    ProcessSpec,
    Program,
    Prompt,
    ReducerBody,
    Respond,
    Returned,
    Spawn,
    Spawned,
    SpawnRefused,
)
from vegakit.records import from_json, to_json

PRICE = PriceRow("m", (PriceTier(*4 * [dollars("$1000")]),))
"""A thousand dollars a million tokens: a token is a tenth of a cent."""
CENT = dollars("$0.01")


def agent(
    *tools: str, max_tokens: int = 10, idempotent: Sequence[str] = (), **more: Any
) -> AgentBody:
    """Ten tokens in and `max_tokens` out: with ten of each a call could cost two cents."""
    specs = tuple(ToolSpec(tool, "", {"type": "object"}) for tool in tools)
    rule = TurnRule("m", ModelSettings(max_tokens), tools=specs)
    return AgentBody(rule, PRICE, lambda _: 10, idempotent=frozenset(idempotent), **more)


def says(text: str, cost: Money = CENT) -> Answered:
    reply = ModelReply(AssistantMessage((Text(text),)), Usage(5, 5))
    return Answered(reply, cost)


def calls(*names: str, cost: Money = CENT, arguments: Any = None) -> Answered:
    made = tuple(ToolCall(f"id{n}", name, arguments or {}) for n, name in enumerate(names))
    return Answered(ModelReply(AssistantMessage(made), Usage(5, 5)), cost)


def counter(state: int, message: Any) -> tuple[int, list[Any]]:
    if message == "boom":
        raise ValueError("boom")
    return state + 1, [Respond(state + 1)]


CODE: dict[str, Any] = {
    "agent": agent(),
    "helper": agent("look"),
    "keeper": agent(memory=True),
    "counter": ReducerBody(counter, 0),
    "function": CoroutineBody(),
    "service": CoroutineBody(whole_incarnation=True),
}


class Room:
    """Its state goes through JSON after every step, so nothing hides outside it."""

    def __init__(self, code: Code | None = None, bounds: Bounds | None = None) -> None:
        self.code = code or CODE
        self.machine = Machine(Program(ProgramId("p"), bounds=bounds or Bounds()), self.code)
        self.now = 0
        self.in_flight: dict[str, Any] = {}
        self.cancelled: list[str] = []
        self.answers: dict[str, Any] = {}
        self.log: list[Any] = []
        self.asked = 0

    @property
    def state(self) -> Program:
        return self.machine.state

    def step(self, event: Event) -> list[Any]:
        said = self.machine.step(event, self.now)
        state = from_json(Program, to_json(self.machine.state))
        assert to_json(state) == to_json(self.machine.state)
        self.machine = Machine(state, self.code)
        for action in said:
            match action:
                case Start(effect):
                    assert effect.key not in self.in_flight
                    self.in_flight[effect.key] = effect
                case Cancel(key):
                    self.cancelled.append(key)
                case Answer(ask, outcome):
                    assert ask not in self.answers
                    self.answers[ask] = outcome
                case _:
                    self.log.append(action)
        return said

    def spawn(self, body: str, name: str = "", *, spawner: str = "", **spec: Any) -> str:
        made = self.step(Spawn(ProcessSpec(body, **spec), name, spawner))
        spawned = next(a for a in made if isinstance(a, Spawned | SpawnRefused))
        assert isinstance(spawned, Spawned), spawned
        return spawned.path

    def refuse(self, body: str, *, spawner: str = "", **spec: Any) -> SpawnRefused:
        made = self.step(Spawn(ProcessSpec(body, **spec), "", spawner))
        return next(action for action in made if isinstance(action, SpawnRefused))

    def ask(self, to: str, value: Any, timeout_ms: int | None = None) -> str:
        self.asked += 1
        deadline_ms = None if timeout_ms is None else self.now + timeout_ms
        self.step(Post(to, ProcessMessage(value, str(self.asked), deadline_ms=deadline_ms)))
        return str(self.asked)

    def prompt(self, to: str, text: str = "hi", **more: Any) -> str:
        timeout_ms = more.pop("timeout_ms", None)
        return self.ask(to, Prompt((Text(text),), **more), timeout_ms)

    def told(self, ask: str) -> Any:
        outcome = self.answers[ask]
        assert isinstance(outcome, Returned), outcome
        return outcome.value

    def fell(self, ask: str) -> str:
        outcome = self.answers[ask]
        assert isinstance(outcome, MessageFailed), outcome
        return outcome.error

    def only(self, kind: type[Any] | None = None) -> Any:
        in_flight = [
            e for e in self.in_flight.values() if kind is None or isinstance(e.request, kind)
        ]
        assert len(in_flight) == 1, in_flight
        return in_flight[0]

    def answer(self, outcome: EffectOutcome, effect: Any = None) -> list[Any]:
        effect = effect or self.only()
        del self.in_flight[effect.key]
        return self.step(OutcomeArrived(effect.key, effect.path, outcome))

    def wait(self, ms: int) -> None:
        """Until then, ringing every alarm on the way."""
        until = self.now + ms
        while True:
            alarms = [e for e in self.in_flight.values() if isinstance(e.request, SetTimer)]
            due = [e for e in alarms if e.request.due_ms <= until]
            if not due:
                break
            first = min(due, key=lambda e: e.request.due_ms)
            self.now = max(self.now, first.request.due_ms)
            self.answer(Answered(None), first)
        self.now = until

    def news(self, kind: type[Any]) -> list[Any]:
        return [action for action in self.log if isinstance(action, kind)]
