"""Sends to one process without memory run at once; to one with memory in turn."""

from pathlib import Path

import pytest
from campaigns.parallel.comparing import differences
from campaigns.parallel.running import Seen, compiled, run

from vegakit.conversation import ModelReply, ModelRequest
from vegakit.program.processes import Incarnations
from vegakit.providers.scripted import ScriptedModel
from vegakit.sdk.programs import VegaProgram
from vegakit.sdk.runtime import Runtime
from vegakit.testing.harness import VirtualClock, run_virtual
from vegakit.vm import lookahead

REVIEWS = """
agent Reviewer {{ model fast {memory} }}
agent Summarizer {{ model fast }}
fn main() -> str {{
    let reviewer = spawn Reviewer;
    let one = reviewer <- "first";
    let two = reviewer <- "second";
    let three = reviewer <- "third";
    return Summarizer <- one + two + three;
}}
"""


class Slow(ScriptedModel):
    """Takes four seconds for everything."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(lambda request: "ok")
        self._time = clock

    async def ask(self, request: ModelRequest) -> ModelReply:
        await self._time.wait_until(self._time.now() + 4_000)
        return await super().ask(request)


async def took_ms(memory: str, window: int) -> int:
    clock = VirtualClock()
    model, began = Slow(clock), clock.now()
    module = compiled(REVIEWS.format(memory=memory))
    assert module is not None
    async with Runtime("$10", models=lambda _: model, clock=clock, lookahead=window) as rt:
        await rt.run(VegaProgram(module, Path()))
        took = clock.now() - began
    assert len(model.requests) == 4
    return took


@pytest.mark.parametrize(
    ("memory", "window", "expected"),
    [("", 0, 16_000), ("", 1, 12_000), ("", 64, 8_000), ("memory conversation", 64, 16_000)],
)
def test_three_sends_to_one_process(memory: str, window: int, expected: int) -> None:
    """Without memory they take as long as the longest, and the summary waits for all of them."""
    assert run_virtual(took_ms(memory, window)) == expected


CRASHES = """
agent Doomed {{ model fast system "Doomed crash:20 stumbles:40" }}
fn main() -> str {{
    let p = spawn Doomed;
    let all = "";
    for i in range(4) {{
        try {{ let a = p <- "one {seed} {{i}}"; all = "{{all}}{{a}}"; }}
        catch AgentFailed {{ all = "{{all}}!"; }}
        try {{ let b = p <- "two {seed} {{i}}"; all = "{{all}}{{b}}"; }}
        catch AgentFailed {{ all = "{{all}}?"; }}
    }}
    return all;
}}
"""


def found_in(seeds: range) -> list[str]:
    found: list[str] = []
    for seed in seeds:
        module = compiled(CRASHES.format(seed=seed))
        assert module is not None
        in_order: Seen = run(module, seed * 6, 0)
        for window in (1, 8, 64):
            found += differences(in_order, run(module, seed * 6, window))
    return found


def test_a_process_that_ends_takes_back_what_it_answered_ahead() -> None:
    """In order that would have been sent to its next incarnation, or to nobody."""
    assert found_in(range(15)) == []


def test_answers_that_outlive_their_process_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Incarnations, "_void_answered", lambda self, path: None)
    assert found_in(range(15)) != []


SUPERVISED = """
agent Plain { model fast budget $0.05 }
agent Reader {
    model fast
    budget $0.05
    tool look(at: str) -> str "Read." capabilities [fs::read] allowed_paths ["a/**"] {
        return file::read(at);
    }
}
agent Writer {
    model fast
    budget $0.05
    tool put(at: str) -> str "Write." capabilities [fs::write] allowed_paths ["a/**"] {
        file::write(at, "w");
        return "ok";
    }
}
supervisor Team { strategy restart children [Plain] }
fn main() -> str {
    let team = spawn Team;
    let watched = spawn Plain supervised by team;
    let other = spawn Writer named "other";
    let one = watched <- "one";
    let two = watched <- "two";
    return Reader <- "three";
}
"""


async def asked_of_models() -> int:
    clock = VirtualClock()
    model, module = Slow(clock), compiled(SUPERVISED)
    assert module is not None
    async with Runtime("$10", models=lambda _: model, clock=clock) as rt:
        await rt.run(VegaProgram(module, Path()))
    return len(model.requests)


def test_nothing_is_wasted_behind_a_process_with_its_own_supervisor() -> None:
    """Nobody knows what it will touch, before it is spawned as afterwards."""
    assert run_virtual(asked_of_models()) == 3


def test_a_process_taken_for_one_that_is_known_costs_a_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookahead, "is_followed", lambda **_: True)
    assert run_virtual(asked_of_models()) == 4
