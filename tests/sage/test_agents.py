"""Sub-agents of `vega code`: real processes, a provider on a socket."""

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.patience import GONE_S, wait_until
from tests.sage.scene import calls, scene
from tests.sage.test_code import text_of
from tests.sage.test_tools import web
from vegakit.conversation import Usage
from vegakit.sage import SageAgent, event_line
from vegakit.testing import ProviderReply, ProviderRequest


def task(prompt: str, agent: str = "explore", **given: str) -> tuple[str, dict[str, str]]:
    return "task", {"agent": agent, "prompt": prompt, **given}


def ended(events: list[dict[str, Any]], name: str = "task") -> list[dict[str, Any]]:
    return [e for e in events if e["type"] == "tool_ended" and e["name"] == name]


GREP = calls(("grep", {"pattern": "needle"}))


def test_tasks_of_one_answer_run_at_once(tmp_path: Path) -> None:
    """Each has its own conversation and only reads; its events carry the call it belongs to."""
    script = {
        "find": [GREP, ProviderReply("a.py:1", delay_ms=600)],
        "look": [calls(("write", {"path": "b.py", "content": ""})), "no such tool"],
        "Go": [calls(task("find it"), task("look there", "review")), "Done."],
    }
    with scene(tmp_path, script) as it:
        (it.folder / "a.py").write_text("needle\n")
        events = it.events("-p", "Go.")
        assert events[-1]["text"] == "Done."
        results = {e["id"]: e["result"] for e in ended(events)}
        assert "a.py:1" in results["1.1.0"]
        assert "untrusted" in results["1.1.0"]
        assert "no such tool" in results["1.1.1"]
        inner = [e for e in events if e.get("task")]
        assert {e["task"] for e in inner} == {"1.1.0", "1.1.1"}
        assert ("grep", "1.1.0") in {(e.get("name"), e["task"]) for e in inner}
        assert not (it.folder / "b.py").exists()
        asked = [r for r in it.provider.requests if "Go" not in r.text]
        assert {name for r in asked for name in r.tools} == {"read", "glob", "grep"}
        assert all("Go." not in json.dumps(r.body["messages"]) for r in asked)
        starts = {r.text: r.started_ms for r in reversed(asked)}
        assert abs(starts["find it"] - starts["look there"]) < 600


def test_work_writes_and_starts_no_others(tmp_path: Path) -> None:
    """Its writes are undone with the turn; a nested task is refused."""
    write = ("write", {"path": "b.txt", "content": "b"})
    script = {
        "do it": [calls(write, task("nested")), "did it"],
        "Go": [calls(task("do it", "work")), "Done."],
    }
    with scene(tmp_path, script) as it:
        events = it.events("-p", "Go.")
        assert events[-1]["changed"] == 1
        assert (it.folder / "b.txt").read_text() == "b"
        told = it.results(next(b for b in it.bodies if "no tool 'task'" in json.dumps(b)))
        assert "there is no tool 'task'" in text_of(told[-1])
        assert it.vega(command="undo").returncode == 0
        assert not (it.folder / "b.txt").exists()


def test_what_a_sub_agent_did_that_lasts_is_named(tmp_path: Path) -> None:
    """By the turn and by undo; a request that was refused was not sent."""
    with web() as host:
        wanted = (f"http://{host}/page", "http://elsewhere.example/")
        script = {
            "do it": [calls(*(("fetch", {"url": url}) for url in wanted)), "did it"],
            "Go": [calls(task("do it", "work")), "Done."],
        }
        with scene(tmp_path, script) as it:
            it.settings(f'[permissions]\nrules = ["allow net::get {host}"]\n')
            events = it.events("-p", "Go.")
            assert [e["is_error"] for e in ended(events, "fetch")].count(True) == 1
            lasting = [f"fetch: sent a GET request to {host.partition(':')[0]}"]
            assert events[-1]["lasting"] == lasting
            assert json.loads(it.here("--json", command="undo").stdout)["lasting"] == lasting


def test_a_hundred_and_one_are_refused(tmp_path: Path) -> None:
    many = calls(*(task(f"find {n}") for n in range(101)))
    with scene(tmp_path, {"find": "found", "Go": [many, "Fewer, then."]}) as it:
        events = it.events("-p", "Go.")
        assert all(e["is_error"] for e in ended(events))
        assert "asks for 101 sub-agents, and a turn may start 32" in ended(events)[0]["result"]
        assert "ask for fewer" in ended(events)[0]["result"]
        assert len(it.bodies) == 2


def test_at_most_eight_at_once(tmp_path: Path) -> None:
    many = calls(*(task(f"find {n}") for n in range(20)))
    script = {"find": ProviderReply("found", delay_ms=200), "Go": [many, "Done."]}
    with scene(tmp_path, script) as it:
        events = it.events("-p", "Go.")
        assert [e["is_error"] for e in ended(events)] == [False] * 20
        spans = [(r.started_ms, r.ended_ms or 0) for r in it.provider.requests if "find" in r.text]
        at_once = max(sum(a <= start < b for a, b in spans) for start, _ in spans)
        assert 2 <= at_once <= 8


# Money.


def test_the_quote_comes_before_the_tasks(tmp_path: Path) -> None:
    script = {"find": "found", "Go": [calls(task("find a"), task("find b")), "Done."]}
    with scene(tmp_path, script) as it:
        events = it.events("-p", "Go.", "--budget", "$1")
        kinds = [e["type"] for e in events]
        (quote,) = [e for e in events if e["type"] == "quote"]
        assert kinds.index("quote") < next(i for i, e in enumerate(events) if e.get("task"))
        assert quote["tasks"] == ["1.1.0", "1.1.1"]
        assert 0 < quote["typical_usd"] <= quote["worst_usd"] <= 0.25
        it.provider.reset()
        told = it.here("-p", "Go.", "--budget", "$1").stderr
        assert "2 sub-agents: at most $0.2" in told


def test_a_part_is_never_passed_and_the_session_goes_on(tmp_path: Path) -> None:
    """Every inner call bills all that was reserved for it, so a part fits only a few."""

    def answer(request: ProviderRequest) -> ProviderReply | str:
        if "Go" in request.text:
            return (
                "Went on."
                if request.tool_results
                else calls(task("find", budget="$0.06"), task("find more", budget="$0.001"))
            )
        used = Usage(2_000, request.max_tokens or 0)
        return ProviderReply("", calls(("grep", {"pattern": f"x{request.n}"})).calls, usage=used)

    with scene(tmp_path, answer) as it:
        events = it.events("-p", "Go.", "--budget", "$2")
        assert events[-1]["reason"] == "done"
        assert events[-1]["text"] == "Went on."
        one, two = sorted(ended(events), key=lambda e: e["id"])
        assert one["is_error"]
        assert "stopped: its part of $0.06 is spent" in one["result"]
        assert "stopped: its part of $0.001 is spent" in two["result"]
        inner = [r for r in it.provider.requests if "find" in r.text]
        assert {r.text for r in inner} == {"find"}
        spent = sum((2_000 + 5 * (r.max_tokens or 0)) / 1e6 for r in inner)
        assert 0.02 < spent <= 0.06


def tasks_of(answer: Callable[[ProviderRequest], int]) -> Callable[[ProviderRequest], Any]:
    """Answer with as many tasks as are wanted after what was said before, each of which looks and
    then answers."""

    def say(request: ProviderRequest) -> Any:
        if "part" in request.text:
            return "Found." if request.tool_results else GREP
        wanted = answer(request)
        return calls(*(task(f"part {n}", "work") for n in range(wanted))) if wanted else "Done."

    return say


def test_a_small_cap_is_split_so_that_each_task_can_call(tmp_path: Path) -> None:
    """A quarter of it would be too little for one call of each."""
    with scene(tmp_path, tasks_of(lambda r: 0 if r.tool_results else 3)) as it:
        events = it.events("-p", "Go.", "--budget", "$0.40")
        assert [e["is_error"] for e in ended(events)] == [False] * 3
        (quote,) = [e for e in events if e["type"] == "quote"]
        assert 0.1 < quote["worst_usd"] < 0.4
        kinds = [e["type"] for e in events]
        assert kinds.index("quote") < next(i for i, e in enumerate(events) if e.get("task"))


def test_tasks_that_no_split_is_enough_for_are_refused_with_how_many_fit(tmp_path: Path) -> None:
    """None was started or quoted; the model asks for as many as it was told, which are done."""
    told: list[int] = []

    def many(request: ProviderRequest) -> int:
        results = [text_of(one) for one in it.results(request.body)]
        if len(results) == 3:
            assert "none of 3 was started" in results[0]
            assert {*results} == {results[0]}
            told.append(int(results[0].partition("ask for ")[2].split()[0]))
        return 0 if len(results) > 3 else told[0] if told else 3

    with scene(tmp_path, tasks_of(many)) as it:
        events = it.events("-p", "Go.", "--budget", "$0.20")
        (fit,) = told
        assert 1 <= fit < 3
        assert [e["is_error"] for e in ended(events)] == [True] * 3 + [False] * fit
        assert len([e for e in events if e["type"] == "quote"]) == 1
        assert events[-1]["spent_usd"] <= 0.2


def test_a_part_holds_over_a_kill(tmp_path: Path) -> None:
    """What was billed before it counts, and what was in flight counts in full."""

    def answer(request: ProviderRequest) -> ProviderReply | str:
        if "Go" in request.text:
            return "Done." if request.tool_results else calls(task("find", budget="$0.1"))
        used = Usage(2_000, request.max_tokens or 0)
        return ProviderReply("", calls(("grep", {"pattern": f"x{request.n}"})).calls, usage=used)

    with scene(tmp_path, answer) as it:
        seen: list[dict[str, Any]] = []

        def is_second(event: dict[str, Any]) -> bool:
            seen.extend([event] if event["type"] == "tool_ended" and event["task"] else [])
            return len(seen) == 2

        it.killed("-p", "Go.", when=is_second)
        before = len(it.bodies)
        events = it.events("--resume")
        assert "its part of $0.1" in ended(events)[0]["result"]
        inner = [r for r in it.provider.requests if "find" in r.text]
        assert len(it.bodies) > before
        spent = sum((2_000 + 5 * (r.max_tokens or 0)) / 1e6 for r in inner)
        assert 0.06 < spent <= 0.1
        (quote,) = [e for e in events if e["type"] == "quote"]
        assert quote["worst_usd"] == 0.1


def test_python_gets_the_events_of_sub_agents(tmp_path: Path) -> None:
    """Also of what they say."""
    turns = [calls(task("find it")), "Done."]
    with scene(tmp_path, {"find": [GREP, "Found.", GREP, "Found."], "Go": [*turns, *turns]}) as it:
        told = [e for e in it.events("-p", "Go.")[1:] if e["type"] not in ("cost", "quote")]
        assert {"type": "text", "text": "Found.", "task": "1.1.0"} in told

        async def made() -> list[dict[str, Any]]:
            async with SageAgent() as sage:
                return [json.loads(event_line(event)) async for event in sage.turn("Go.")]

        with it.inside():
            again = asyncio.run(made())
        assert [e for e in again if e["type"] not in ("cost", "quote")] == told


def test_a_turn_may_spend_what_the_session_has(tmp_path: Path) -> None:
    """And no usual amount for one question, which is fifty cents."""
    costly = ProviderReply("", GREP.calls, usage=Usage(400_000, 8_000))
    with scene(tmp_path, [costly, costly, "Done."]) as it:
        end = it.events("-p", "Go.", "--budget", "$5")[-1]
        assert (end["reason"], end["spent_usd"] > 0.8) == ("done", True)


def test_a_failing_sub_agent_does_not_fail_the_session(tmp_path: Path) -> None:
    """One that goes in a circle is stopped at the fifth."""
    script = {
        "round": calls(("shell", {"command": "false"})),
        "Go": [calls(task("round and round", "work")), "Done."],
    }
    with scene(tmp_path, script) as it:
        events = it.events("-p", "Go.")
        assert events[-1]["text"] == "Done."
        assert "5 times in a row" in ended(events)[0]["result"]
        assert len([r for r in it.provider.requests if "round" in r.text]) == 5


def test_a_budget_that_is_no_amount_fails_its_own_call(tmp_path: Path) -> None:
    asked = calls(task("find a", budget="a lot"), task("find b"))
    with scene(tmp_path, {"find": "found", "Go": [asked, "Done."]}) as it:
        wrong, right = sorted(ended(it.events("-p", "Go.")), key=lambda e: e["id"])
        assert "write it like $0.05" in wrong["result"]
        assert not right["is_error"]


def test_explore_asks_the_cheap_model(tmp_path: Path) -> None:
    script = {"find": "found", "Go": [calls(task("find"), task("find", "plan")), "Done."]}
    with scene(tmp_path, script) as it:
        file = tmp_path / "home/config/vega/vega.toml"
        more = '[prices."anthropic:cheap"]\ninput = "$0.1"\noutput = "$0.5"\n'
        text = file.read_text().replace("[models]", '[models]\nfast = "anthropic:cheap"')
        file.write_text(text + more)
        it.events("-p", "Go.")
        assert sorted(r.model for r in it.provider.requests) == ["cheap", *["loopback"] * 3]


# The end.


@pytest.fixture
def short_path() -> Generator[Path]:
    """A folder whose name leaves room for that of a socket, which may have 107 bytes."""
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def test_an_interrupt_ends_sub_agents_and_their_children(short_path: Path) -> None:
    """`vega ps` shows them by name until then."""
    nap = f"60.{os.getpid()}"
    slow = calls(("shell", {"command": f"sleep {nap}; touch late"}))
    script = {"wait": slow, "Go": [calls(task("wait a", "work"), task("wait b", "work")), "Done."]}
    started = ("-p", "Go.", "--json", "--budget", "$0.50")
    with scene(short_path, script) as it, it.start(*started) as life:
        wait_until(lambda: len(sleepers(nap)) == 2)
        shown = it.vega(command="ps")
        assert "work 1.1.0" in shown.stdout, shown
        assert "work 1.1.1" in shown.stdout
        # What it may spend is its own budget, and not that of the settings, which is $10.
        assert "at most $0.5000:" in it.vega(command="tree").stdout
        life.send_signal(signal.SIGINT)
        wait_until(lambda: not sleepers(nap), GONE_S)
        life.communicate()
        assert life.returncode == 130
        assert not (it.folder / "late").exists()


def sleepers(nap: str) -> list[str]:
    """The processes that sleep for just so long."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [str(entry)] if entry.read_text() == f"sleep\0{nap}\0" else []
    return found
