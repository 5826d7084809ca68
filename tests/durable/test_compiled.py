"""Compiled programs on Temporal: the same test programs that the other hosts run."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from tests.durable.bodies import COUNTER, Hanging, landed
from tests.durable.scenes import FailsOnce
from tests.durable.stage import PATIENCE_S, Stage, stage, until
from tests.hosts.test_simulated import CORE, FOLDER
from vegakit.conversation import ModelChunk, ModelReply, ModelRequest
from vegakit.durable import Deployment, ProgramHandle
from vegakit.errors import AgentFailed, ErrorClass, Phase, Timeout, UserError, WorldError
from vegakit.host import LimiterRules
from vegakit.lang import Module, check_program, compile_program
from vegakit.policy import BreakerRule, RateRule, RetryBudgetRule
from vegakit.program import Bounds
from vegakit.providers import ScriptedCall, ScriptedModel, ScriptedReply
from vegakit.sdk import Runtime, Source, VegaProgram, load
from vegakit.store import MemoryLedger
from vegakit.testing import ProgramTestResult
from vegakit.testing.expectations import Expectations, read_expectations
from vegakit.testing.programs import compare, main_arguments, scripted_model


class Actor(ScriptedModel):
    """Says what the program on stage expects."""

    part = ScriptedModel("nothing")

    async def ask(self, request: ModelRequest) -> ModelReply:
        return await self.part.ask(request)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        return self.part.stream(request)


def compiled(text: str, path: Path = Path("main.vega")) -> Module:
    checked, diagnostics = check_program(text, path.name, Source(path).read)
    assert checked is not None, diagnostics
    return compile_program(checked)


def body_of(number: int) -> str:
    return f"{number + 1}~main" if number else "main"


async def answers(program: ProgramHandle, said: Iterator[str]) -> None:
    for answer in said:
        [question] = await until(program.interrupts)
        given: bool | str = answer == "yes" if question.permits else answer
        await program.answer(question.id, given, by="tester")
        await until(lambda asked=question: gone(program, asked.id))


async def gone(program: ProgramHandle, question: str) -> bool:
    return all(asked.id != question for asked in await program.interrupts())


async def play(
    here: Stage, actor: Actor, ran: ProgramTestResult, expected: Expectations, body: str
) -> None:
    assert ran.module is not None
    actor.part = scripted_model(expected, latency_ms=expected.latency_ms)
    program = await here.start()
    answering = asyncio.ensure_future(answers(program, iter(expected.answers)))
    try:
        given = main_arguments(ran.module, expected)
        work = program.run(body, *given, wallet=expected.budget or "$100")
        ran.result = await asyncio.wait_for(work, PATIENCE_S)
    except TimeoutError:
        ran.problems.append("it has not ended")
    except UserError as error:
        ran.error = f"{type(error).__name__}: {error}"
    answering.cancel()
    ran.printed = [line for text in await program.printed() for line in text.split("\n")]
    ran.calls = len(actor.part.requests)
    await program.stop()


async def test_programs_do_the_same_on_temporal(temporal: str, tmp_path: Path) -> None:
    """Sends, typed answers, parallel, crash and restart, sessions, tools, timers, people."""
    paths = [FOLDER / f"{name}.vega" for name in CORE]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    modules = [compiled(text, path) for text, path in zip(texts, paths, strict=True)]
    bodies = [VegaProgram(module, tmp_path) for module in modules]
    actor, problems = Actor("?"), dict[str, list[str]]()
    async with stage(temporal, tmp_path, bodies, models=lambda _: actor) as here:
        for number, (name, text, module) in enumerate(zip(CORE, texts, modules, strict=True)):
            expected = read_expectations(text, name)
            expected.time_ms = expected.spent = expected.result = None
            expected.notes = []
            ran = ProgramTestResult(paths[number], module=module)
            await play(here, actor, ran, expected, body_of(number))
            compare(ran, expected)
            if ran.problems:
                problems[name] = ran.problems
    assert problems == {}


LONG = "fn main(n: int) -> int { let i = 0; while i < n { i = i + 1; } return i; }"


async def test_a_long_computation_is_many_tasks(temporal: str, tmp_path: Path) -> None:
    """Temporal takes one that lasts for seconds as hung."""
    async with stage(temporal, tmp_path, [VegaProgram(compiled(LONG), tmp_path)]) as here:
        program = await here.start()
        assert await program.run("main", 300_000) == 300_000
        await program.stop()
        [history] = await here.histories()
        fired = [
            event for event in history.events if event.HasField("timer_fired_event_attributes")
        ]
        assert fired


ASKS = 'agent A { model fast  max_tokens 10 }\nfn main() -> str { return A <- "hi"; }'


async def test_a_program_that_is_killed_in_the_middle(temporal: str, tmp_path: Path) -> None:
    """Its call is cancelled, who waits is told, and nothing of it is left."""
    slow, body = Hanging(), VegaProgram(compiled(ASKS), tmp_path)
    async with stage(temporal, tmp_path, [body], models=lambda _: slow) as here:
        program = await here.start()
        running = asyncio.ensure_future(program.run("main", id="it"))
        await slow.asked.wait()
        await program.kill("main~it", tree=True)
        with pytest.raises(AgentFailed):
            await running
        state = await until(lambda: landed(program))
        assert not state.processes
        assert not state.wallets
        await program.stop()


async def test_state_of_a_program_goes_to_its_next_run(temporal: str, tmp_path: Path) -> None:
    """A question to a person is still open there, and the program goes on behind it."""
    text = 'fn main() -> str { return human::ask("who?", 1h) ?? ""; }'
    async with stage(temporal, tmp_path, [VegaProgram(compiled(text), tmp_path), COUNTER]) as here:
        program = await here.start(longest=20)
        running = asyncio.ensure_future(program.run())
        await until(program.interrupts)
        await program.spawn("counter")
        for _ in range(6):
            await program.ask("counter", "more")
        [question] = await program.interrupts()
        await program.answer(question.id, "Ada", by="tester")
        assert await running == "Ada"
        await program.stop()
        assert len(await here.histories()) > 1


PIPELINE = """{
  "stages": [
    {"name": "plan", "agent": "planner"}, {"name": "facts", "agent": "finder"},
    {"name": "write", "agent": "writer", "requires": ["plan", "facts"], "default_next": "review"},
    {"name": "review", "agent": "editor",
     "routing": [{"target": "send", "condition": "equals", "field": "approved", "value": true}]},
    {"name": "send", "agent": "sender"}
  ],
  "start": ["plan", "facts"],
  "agents": {
    "planner": {"model": "fast", "prompt": "Plan {input}"},
    "finder": {"model": "fast", "prompt": "Facts on {input}"},
    "writer": {"model": "fast", "prompt": "Write {plan} with {facts}"},
    "editor": {"asks": "agent_review", "prompt": "May this be sent? {write}"},
    "sender": {
      "model": "fast", "prompt": "Send {write}", "tools": ["post"], "output": {"sent": "truth"}
    }
  }
}"""


async def test_a_pipeline_walks_on_over_the_runs_of_its_workflow(
    temporal: str, tmp_path: Path
) -> None:
    """Stages side by side, a person, tools, typed answers; where it stands is in its state."""
    posted: list[str] = []

    def post(text: str) -> str:
        posted.append(text)
        return "done"

    def reply(request: ModelRequest) -> str | ScriptedReply:
        text = str(request.messages)
        if "Send" in text:
            call = ScriptedReply(calls=(ScriptedCall("post", {"text": "owls"}),))
            return '{"sent": true}' if posted else call
        return f"[{text.partition('Text(text=')[2][1:6]}]"

    (tmp_path / "p.json").write_text(PIPELINE)
    with pytest.raises(UserError, match="was not given it"):
        Deployment([load(tmp_path / "p.json")], MemoryLedger()).registry(Runtime())
    model, body = ScriptedModel(reply), load(tmp_path / "p.json", tools=[post])
    async with stage(temporal, tmp_path, [body, COUNTER], models=lambda _: model) as here:
        program = await here.start(longest=30)
        running = asyncio.ensure_future(program.run("main", "owls", wallet="$1"))
        [question] = await until(program.interrupts)
        assert question.text.startswith("May this be sent? [Write")
        await program.spawn("counter")
        for _ in range(8):
            await program.ask("counter", "more")
        await program.answer(question.id, True, by="tester")
        outputs = await running
        assert (outputs["send"], outputs["review"]) == ({"sent": True}, {"approved": True})
        assert len(model.requests) == len(["plan", "facts", "write", "send", "sent"])
        assert posted == ["owls"]
        assert (await program.printed())[-1] == 'send: {"sent":true}'
        await program.stop()
        assert len(await here.histories()) > 1


REPEATS = """agent A { model fast  max_tokens 10
    retry { max_attempts 4  backoff exponential(1ms, 1.0, 1ms)  on [timeout] } }
fn main() -> str { let a = A <- "first"; return A <- "last {a}"; }
fn many() { for i in range(20) { try { A <- "{i}"; } catch { let lost = true; } } }
"""
BILLED = WorldError("lost", ErrorClass.TIMEOUT, phase=Phase.UNKNOWN)
PATIENT = LimiterRules(RateRule(), BreakerRule(threshold=10**9), RetryBudgetRule(100, 10**9))


async def test_paid_repeats_come_from_one_pool(temporal: str, tmp_path: Path) -> None:
    """A fifth of the sends that the program may make, at least 2, as on this machine; and who finds
    none is told what helps here. The stage replays all of it."""
    model, limits = ScriptedModel(lambda _: BILLED), lambda _: PATIENT
    many = REPEATS.replace("fn main()", "fn two()").replace("fn many()", "fn main()")
    bodies = [VegaProgram(compiled(text), tmp_path) for text in (REPEATS, many)]
    async with stage(temporal, tmp_path, bodies, models=lambda _: model, limits=limits) as here:
        program = await here.start()
        await program.run("2~main", wallet="$1")
        assert len(model.requests) == 24
        with pytest.raises(
            Timeout, match="its 2 are used up; raise paid_repeats of Bounds"
        ) as told:
            await program.run("main", wallet="$1")
        assert "vega resume" not in str(told.value)
        assert len(model.requests) == 27
        assert (await program.state()).pools == {}
        await program.stop()


async def test_a_call_of_a_worker_that_died_takes_no_repeat(temporal: str, tmp_path: Path) -> None:
    """Those are for calls of a worker that lives."""
    body = VegaProgram(compiled(ASKS), tmp_path)
    for bounds in (Bounds(), Bounds(paid_repeats=0)):
        model = FailsOnce("Paris")
        async with stage(temporal, tmp_path, [body], models=lambda _, model=model: model) as here:
            program = await here.start(bounds=bounds)
            assert await program.run("main", wallet="$1") == "Paris"
            await program.stop()
