"""Sends to one process without memory run at once; to one with memory in turn."""

from pathlib import Path

import pytest
from campaigns.parallel.comparing import differences
from campaigns.parallel.running import Seen, compiled, run

from vegakit.conversation import ModelReply, ModelRequest
from vegakit.program.processes import Incarnations
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram
from vegakit.testing import VirtualClock, run_virtual

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


async def asked_of_models() -> tuple[int, int]:
    clock = VirtualClock()
    model, module = Slow(clock), compiled(SUPERVISED)
    assert module is not None
    async with Runtime("$10", models=lambda _: model, clock=clock) as rt:
        began = clock.now()
        await rt.run(VegaProgram(module, Path()))
    return len(model.requests), clock.now() - began


def test_sends_to_processes_of_a_team_overlap() -> None:
    """All three are under way at once, before the first is answered, and none is wasted."""
    assert run_virtual(asked_of_models()) == (3, 4_000)


LEFT = """
agent Plain { model fast }
supervisor Team { strategy restart children [Plain] }
fn main() -> str {
    let team = spawn Team;
    let one = spawn Plain supervised by team;
    let later = async one <- "never awaited";
    return "done";
}
"""


def test_a_program_ends_before_what_its_team_was_asked(caplog: pytest.LogCaptureFixture) -> None:
    """The call is cancelled and still paid by who spawned the team, who has to be there for it."""

    async def ended() -> None:
        clock = VirtualClock()
        model, module = Slow(clock), compiled(LEFT)
        assert module is not None
        async with Runtime("$10", models=lambda _: model, clock=clock) as rt:
            assert await rt.run(VegaProgram(module, Path())) == "done"

    run_virtual(ended())
    assert not caplog.records
