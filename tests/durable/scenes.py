"""Example programs whose histories are kept: what each is made of, and what is done with it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from tests.durable.bodies import COUNTER, Gated, Hanging, asked, boss, buyer, clerk, landed, waits
from tests.durable.stage import until
from vegakit.conversation import ModelReply, ModelRequest, Text
from vegakit.durable import ProgramHandle
from vegakit.errors import ErrorClass, StoreError, VegaError
from vegakit.host import Agent, Reducer
from vegakit.policy import (
    Backoff,
    BreakerRule,
    ExitKind,
    ExitReason,
    Rate,
    RateRule,
    RestartRule,
    RestartStrategy,
    RetryRule,
)
from vegakit.program import (
    AskProcess,
    DeferReply,
    Exit,
    GroupSpec,
    ProcessSpec,
    Prompt,
    Respond,
    ResultMessage,
    Tell,
)
from vegakit.providers import ScriptedCall, ScriptedModel, ScriptedReply

__all__ = ["SCENES", "Scene"]


class Scene(NamedTuple):
    bodies: Callable[[], list[Any]]
    play: Callable[..., Awaitable[None]]
    launch: dict[str, Any]
    budget: str


SCENES: dict[str, Scene] = {}


def scene(
    bodies: Callable[[], list[Any]], budget: str = "$10", **launch: Any
) -> Callable[[Any], Any]:
    """Its play is given the program and the bodies."""

    def keep(play: Any) -> Any:
        SCENES[play.__name__] = Scene(bodies, play, launch, budget)
        return play

    return keep


def guide(*answers: Any, **options: Any) -> Agent[Any]:
    return Agent("guide", ScriptedModel(list(answers)), max_tokens=100, **options)


class FailsOnce(ScriptedModel):
    """As when a worker dies that has sent a call: the next attempt finds it claimed."""

    async def ask(self, request: ModelRequest) -> ModelReply:
        if not self.requests:
            self.requests.append(request)
            raise StoreError("the disk is full")
        return await super().ask(request)


def area(city: str) -> str:
    return f"{city} has 105 km²"


def people(city: str) -> str:
    raise ValueError(f"nobody counted {city}")


def fan(state: Any, message: Any) -> tuple[Any, list[Any]]:
    """Asks five at once, and answers with what they said by their numbers."""
    if message == "go":
        asks = [
            AskProcess(f"guide {n}", Prompt((Text(f"question {n}"),)), str(n)) for n in range(5)
        ]
        return {}, [DeferReply("client"), *asks]
    assert isinstance(message, ResultMessage)
    state = {**state, message.ask: str(message.outcome)[:40]}
    return state, [Respond(sorted(state), "client")] if len(state) == 5 else []


def relay(state: Any, message: Any) -> tuple[Any, list[Any]]:
    """Passes a number on to itself until it is nought, then ends."""
    if message:
        return message, [Tell("relay", message - 1)]
    return 0, [Exit(ExitReason(ExitKind.NORMAL))]


def patient(state: Any, message: Any) -> tuple[Any, list[Any]]:
    """Asks the clerk, who never answers, and tells what came of it."""
    if isinstance(message, ResultMessage):
        return state, [Respond(type(message.outcome).__name__, "client")]
    return state, [DeferReply("client"), AskProcess("clerk", "may I?", "c", timeout_ms=message)]


@scene(lambda: [guide("Paris", "Madrid")])
async def two_sends(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("guide", wallet="$1")
    for question in ("France?", "Spain?"):
        await program.ask("guide", question)


@scene(lambda: [guide("Paris", "In 1889", memory="conversation")])
async def memory_of_a_conversation(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("guide")
    for question in ("What has a tower?", "When was it built?"):
        await program.ask("guide", question)


@scene(
    lambda: [
        guide(ScriptedReply(calls=(ScriptedCall("area", {"city": "Paris"}),)), "105", tools=[area])
    ]
)
async def tool_between(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("guide")
    await program.ask("guide", "How large?")


CALLS = tuple(ScriptedCall(name, {"city": city}) for name in ("area", "people") for city in "AB")


@scene(lambda: [guide(ScriptedReply(calls=CALLS), "105", tools=[area, people])])
async def tools_at_once(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("guide")
    await program.ask("guide", "How large, how many?")


@scene(lambda: [guide("Paris", "Madrid", rate=RateRule(Rate(1, 300, burst=1)))])
async def rate_waits(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("guide")
    await asyncio.gather(*(program.ask("guide", text) for text in ("France?", "Spain?")))


@scene(lambda: [guide("once upon a time")])
async def stream(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("guide")
    await program.ask("guide", Prompt((Text("story"),), stream=True))


@scene(
    lambda: [
        *(
            Agent(f"guide {n}", ScriptedModel(f"answer {n}", latency_ms=200 - 40 * n))
            for n in range(5)
        ),
        Reducer("fan", fan),
    ]
)
async def five_at_once(program: ProgramHandle, *bodies: Any) -> None:
    for body in bodies:
        await program.spawn(body.name)
    await program.ask("fan", "go")


@scene(lambda: [COUNTER])
async def supervised_crash(program: ProgramHandle, *_: Any) -> None:
    rule = RestartRule(max_restarts=1)
    await program.spawn(GroupSpec(rule, {"one": ProcessSpec("counter")}), name="team")
    await program.ask("team/one", "more")
    await program.tell("team/one", "boom")
    with suppress(VegaError):
        await program.ask("team/one", "more")


@scene(lambda: [COUNTER, guide("Paris")])
async def crash_takes_all_with_it(program: ProgramHandle, *_: Any) -> None:
    rule = RestartRule(RestartStrategy.RESTART_ALL, backoff=Backoff(100))
    children: dict[str, ProcessSpec | GroupSpec] = {
        "one": ProcessSpec("counter"),
        "two": ProcessSpec("guide"),
    }
    await program.spawn(GroupSpec(rule, children), name="team")
    with suppress(VegaError):
        await program.ask("team/one", "boom", timeout=1)
    await program.ask("team/two", "France?")


@scene(lambda: [Agent("worker", ScriptedModel("done"), max_tokens=100), Reducer("boss", boss)])
async def nested_budgets(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("boss", wallet="$0.01")
    await program.ask("boss", "go")


@scene(lambda: [Agent("worker", ScriptedModel("done"), max_tokens=1_000), Reducer("boss", boss)])
async def nested_budget_refuses(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("boss", wallet="$0.01")
    await program.ask("boss", "go")


@scene(lambda: [Agent("worker", ScriptedModel("done"), max_tokens=1_000)], budget="$0.004")
async def shared_budget_refuses(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("worker")
    with suppress(VegaError):
        await program.ask("worker", "?")


@scene(lambda: [Agent("slow", Hanging(), max_tokens=100)])
async def cancel(program: ProgramHandle, slow: Any) -> None:
    await program.spawn("slow", wallet="$1")
    asking = asyncio.ensure_future(program.ask("slow", "?"))
    await slow.model.asked.wait()
    asking.cancel()
    await until(lambda: landed(program))


@scene(lambda: [Agent("slow", Hanging(), max_tokens=100), COUNTER])
async def kill(program: ProgramHandle, slow: Any, *_: Any) -> None:
    await program.spawn("slow", wallet="$1")
    await program.spawn("counter")
    asking = asyncio.ensure_future(program.ask("slow", "?"))
    await slow.model.asked.wait()
    await program.kill("slow", tree=True)
    await asyncio.gather(asking, return_exceptions=True)
    await program.ask("counter", "more")


@scene(lambda: [Reducer("clerk", clerk), Reducer("patient", patient)])
async def timers(program: ProgramHandle, *_: Any) -> None:
    clerks = [await program.spawn("clerk") for _number in range(2)]
    await program.spawn("patient")
    await asyncio.gather(program.ask(clerks[0], 250), program.ask(clerks[1], 50))
    await program.ask("patient", 100)


@scene(lambda: [Reducer("clerk", clerk)])
async def person_and_deadline(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("clerk")
    with suppress(VegaError):
        await program.ask("clerk", "may I?", timeout=0.2)
    asking = asyncio.ensure_future(program.ask("clerk", "may I?"))
    await until(lambda: waits(program))
    for _number in range(2):
        await program.tell("clerk", "yes", id="reply-1")
    await asking


@scene(
    lambda: [
        guide(
            *[ScriptedReply(error=ErrorClass.RATE_LIMIT)] * 3,
            "Paris",
            breaker=BreakerRule(threshold=1, reset_after_ms=100),
        )
    ]
)
async def breaker_opens(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("guide")
    for _number in range(2):
        with suppress(VegaError):
            await program.ask("guide", "France?")


@scene(lambda: [Agent("guide", FailsOnce("Paris"), retry=RetryRule(), max_tokens=9)])
async def unknown_and_sent_again(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("guide", wallet="$1")
    await program.ask("guide", "France?")


@scene(lambda: [Reducer("buyer", buyer)])
async def question_to_a_person(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("buyer")
    await program.ask("buyer", {"open": False, "question": "Buy it?", "timeout_ms": 200})
    asking = asyncio.ensure_future(program.ask("buyer", {"open": True, "question": "Which?"}))
    question = await until(lambda: asked(program))
    await program.answer(question.id, "the red one", by="ada")
    await asking


@scene(lambda: [Reducer("relay", relay), COUNTER])
async def words_to_itself(program: ProgramHandle, *_: Any) -> None:
    await program.spawn("relay")
    await program.tell("relay", 20)
    for _number in range(2):
        await program.ask(await program.spawn("counter", id="once"), "more", id="twice")


@scene(lambda: [COUNTER, Reducer("clerk", clerk), guide(*map(str, range(6)))], longest=30)
async def next_runs(program: ProgramHandle, *bodies: Any) -> None:
    for body in bodies:
        await program.spawn(body.name)
    asking = asyncio.ensure_future(program.ask("clerk", "may I?"))
    for _number in range(6):
        await asyncio.gather(program.ask("counter", "more"), program.ask("guide", "next?"))
    await program.tell("clerk", "yes")
    await asking


@scene(
    lambda: [COUNTER, Reducer("clerk", clerk), Agent("slow", Gated("at last")), guide("at once")],
    longest=30,
)
async def next_run_waits_for_calls(program: ProgramHandle, *bodies: Any) -> None:
    for body in bodies:
        await program.spawn(body.name)
    slow = bodies[2].model
    asking = [asyncio.ensure_future(program.ask("slow", "?"))]
    await slow.asked.wait()
    asking.append(asyncio.ensure_future(program.ask("clerk", 2_000)))
    for _number in range(6):
        await program.ask("counter", "more")
    asking.append(asyncio.ensure_future(program.ask("guide", "?")))
    await until(lambda: waits(program, 3))
    slow.may_answer.set()
    await asyncio.gather(*asking)
