"""A program that is cut off anywhere goes on, whatever was begun ahead of its turn in which life.

Lives run on a host without tasks over one journal held in memory. Each has its own window, its own
latencies and a wallet that admits only some of what could be begun early, so each begins other
calls speculatively. A life is cut off after some steps, with no goodbye; the last one is not.
"""

import asyncio
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.hosts.conformance import ScriptedOutcome, SimulatedHost
from vegakit.agent import ToolOutcome
from vegakit.conversation import AssistantMessage, ModelReply, Text, Usage, UserMessage
from vegakit.effects import CallModel, CallTool, Effect
from vegakit.errors import ErrorClass, Phase
from vegakit.events import Answered, Failed
from vegakit.host import Driver, Registry, deploy
from vegakit.ids import ProgramId
from vegakit.lang import Module, check_program, compile_program
from vegakit.money import Money, dollars
from vegakit.policy import ChildType
from vegakit.program import (
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
)
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import MemoryJournal
from vegakit.vm import restored, text_of

COURSE = """
agent A { model "any" max_tokens 100 }
fn main() -> int {
    let k = 0;
    for r in range(3) {
        try { let f = A <- "first {r} {k}"; print(f); } catch AgentFailed { k = k + 1; }
        for i in range(4) {
            try { let a = A <- "q{r}.{i} {k}"; print(a); } catch AgentFailed { k = k + 1; }
        }
    }
    return k;
}
"""
RETRY = """
agent A { model "any" max_tokens 100 }
fn ask(text: str) -> str {
    for n in range(9) {
        try { return A <- "{text} {n}"; } catch AgentFailed { trace::event("cut off"); }
    }
    return "nothing";
}
fn main() -> str {
    let all = "";
    for r in range(2) {
        let f = ask("first {r}");
        for i in range(4) { let a = ask("q{r}.{i}"); print(a); all = "{all}{len(a)}"; }
    }
    return all;
}
"""
MEMORY = """
agent M { model "any" max_tokens 100 memory conversation }
agent A { model "any" max_tokens 100 }
fn main() -> str {
    let m = spawn M;
    let k = 0;
    for i in range(4) {
        try { let a = A <- "a{i} {k}"; let b = m <- "m{i} {k}"; print("{a} {b}"); }
        catch AgentFailed { k = k + 1; }
    }
    return m <- "end {k}";
}
"""
PARALLEL = """
agent A { model "any" max_tokens 100 }
fn both(text: str) -> str {
    let k = 0;
    try { let a = A <- "{text} one"; k = len(a); } catch AgentFailed { k = 1; }
    let p = spawn A;
    try { let b = p <- "{text} two {k}"; return b; } catch AgentFailed { return "failed {k}"; }
}
fn main() -> str {
    let all = "";
    for i in range(3) {
        let a = "";
        let b = "";
        parallel { a = both("left {i}"); b = both("right {i}"); }
        all = "{all}{a}, {b}; ";
    }
    return all;
}
"""
READS = """
agent A { model "any" max_tokens 100 }
fn main() -> str may [fs::read, fs::write] {
    let all = "";
    for i in range(3) {
        let a = "";
        try { a = A <- "a{i}"; } catch AgentFailed { file::write("x.txt", "failed {i}"); }
        let x = file::read("x.txt");
        let b = "";
        try { b = A <- "b{i} {x}"; } catch AgentFailed { b = "none"; }
        all = "{all}{a}{x}{b}; ";
    }
    return all;
}
"""
SENDS = """
agent A { model "any" max_tokens 100 }
fn main() -> str {
    let p = spawn A;
    let k = 0;
    let all = "";
    for i in range(3) {
        try {
            let a = p <- "a{i} {k}";
            let b = p <- "b{i} {k}";
            let c = p <- "c{i} {k}";
            all = "{all}{a}{b}{c}";
        } catch AgentFailed { k = k + 1; }
    }
    return "{all} {k}";
}
"""
PROGRAMS = {
    "course": COURSE,
    "retry": RETRY,
    "memory": MEMORY,
    "parallel": PARALLEL,
    "reads": READS,
    "sends": SENDS,
}
SEEDS = 15
WINDOWS = (0, 1, 8, 64)
WALLETS = ("$100", "$0.02", "$0.008")
_ASK = "main"


class Life(NamedTuple):
    window: int
    wallet: Money
    steps: int | None
    """After which it is cut off."""
    seed: int


class World:
    """What calls come to depends on what they ask; how long they take on the life. It remembers
    what it has sold, as the journal should."""

    def __init__(self, seed: int, journal: MemoryJournal) -> None:
        self.seed, self.journal = seed, journal
        self.files = {"x.txt": "at first"}
        self.bought_again: list[str] = []

    def __call__(self, effect: Effect, life: Life) -> ScriptedOutcome:
        request = effect.request
        chance = Random(f"{life.seed} {effect.key}")
        if isinstance(request, CallTool):
            return ScriptedOutcome(chance.randrange(30), Answered(self._file(request)))
        assert isinstance(request, CallModel)
        text = _text(request)
        if text in self._recorded():
            self.bought_again.append(text)
        takes_ms = 1 + chance.randrange(60)
        if Random(f"{self.seed} {text}").random() < 0.3:
            return ScriptedOutcome(takes_ms, Failed(ErrorClass.REJECTED, "no", Phase.NOTHING_SENT))
        reply = ModelReply(AssistantMessage((Text(f"<{text[-20:]}>"),)), Usage(30, 7))
        return ScriptedOutcome(takes_ms, Answered(reply, Money(65_000)))

    def _file(self, request: CallTool) -> ToolOutcome:
        path = request.arguments["path"]
        if request.tool.startswith("file::write"):
            self.files[path] = request.arguments["content"]
            return ToolOutcome("null")
        return ToolOutcome(f'"{self.files[path]}"')

    def _recorded(self) -> set[str]:
        """Under any name: no program here asks the same at two places."""
        found = self.journal._effects.values()
        return {
            _text(effect.request)
            for effect, outcome in found
            if isinstance(outcome, Answered) and isinstance(effect.request, CallModel)
        }


def _text(request: CallModel) -> str:
    messages = request.request.messages
    said = [one.parts for one in messages if isinstance(one, UserMessage | AssistantMessage)]
    return " / ".join(part.text for parts in said for part in parts if isinstance(part, Text))


class Lived(NamedTuple):
    printed: list[str]
    outcome: Outcome | None
    """None: it was cut off."""


async def live(module: Module, life: Life, world: World) -> Lived:
    printed: list[str] = []
    outcomes: list[Outcome] = []

    def on_action(action: Action) -> None:
        match action:
            case Answer(ask, outcome) if ask == _ASK:
                outcomes.append(outcome)
            case Printed(text=text):
                printed.append(text)
            case _:
                pass

    host = SimulatedHost(lambda effect: world(effect, life), world.journal)
    async with Runtime("$1000", models=lambda _: ScriptedModel("")) as rt:
        registry = Registry(rt.model_registry, lambda: rt.admission_service)
        bodies = deploy(module, Path(), registry, ["read", "write"]).bodies
        program = Program(ProgramId("p"), bounds=Bounds(window=life.window), recorded=True)
        driver = Driver(Machine(program, registry.code), host, on_action)
        spec = ProcessSpec(bodies["main"], ChildType.TEMPORARY, wallet=life.wallet)
        [path] = [made.path for made in driver.submit(Spawn(spec)) if isinstance(made, Spawned)]
        driver.submit(Post(path, ProcessMessage([], _ASK)))
        steps = 0
        while not outcomes and steps != life.steps:
            steps += 1
            for event in await host.next():
                driver.submit(event)
    return Lived(printed, outcomes[0] if outcomes else None)


def told(lived: Lived) -> tuple[list[str], str]:
    outcome = lived.outcome
    assert outcome is not None
    if isinstance(outcome, MessageFailed):
        return lived.printed, f"{outcome.error}: {outcome.reason}"
    return lived.printed, text_of(restored(outcome.value))


def compiled(text: str) -> Module:
    checked, found = check_program(text, "main.vega", lambda _: None)
    assert checked is not None, found
    return compile_program(checked)


async def _lives(name: str, seed: int) -> None:
    """Several, cut off at random; then one to the end."""
    module, chance = compiled(PROGRAMS[name]), Random(f"{name} {seed}")
    whole = World(seed, MemoryJournal())
    expected = told(await live(module, Life(0, dollars("$100"), None, 0), whole))
    world = World(seed, MemoryJournal())
    for number in range(1 + chance.randrange(4)):
        wallet = dollars(chance.choice(WALLETS))
        life = Life(chance.choice(WINDOWS), wallet, 1 + chance.randrange(25), number)
        if (await live(module, life, world)).outcome is not None:
            break
    last = Life(chance.choice(WINDOWS), dollars("$100"), None, 99)
    assert told(await live(module, last, world)) == expected
    assert world.files == whole.files
    assert world.bought_again == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_unchanged_program_goes_on_after_any_cuts(name: str) -> None:
    """It never stops with ProgramChanged, says what an uncut run says, and buys no recorded answer
    again."""
    for seed in range(SEEDS):
        asyncio.run(_lives(name, seed))
