"""What rollouts tell: to a webhook over a real socket, to the trace, and to whoever scrapes."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.patience import until
from tests.store.postgres import own_schema, url_of
from vegakit.concurrency import SteadyClock
from vegakit.contracts import Compared, InputSource, Rollout, Tally
from vegakit.errors import StoreError, UserError
from vegakit.events import CallKind, CallTraced
from vegakit.host import Agent
from vegakit.providers import ScriptedCall, ScriptedModel, ScriptedReply
from vegakit.sdk import Runtime
from vegakit.store import MemoryStore, SqliteStore, open_stores
from vegakit.vesper import (
    PersonAction,
    RolloutMode,
    RolloutRule,
    Webhook,
    open_rollouts,
    rollout,
    store_with_rollouts,
)
from vegakit.vesper.evidence import HISTORIES, RolloutEvidence, initial_rollout, load_history
from vegakit.vesper.monitoring import TRIES

AT_ONCE = RolloutRule(calibration=0)
LOGGER = "vegakit.vesper.monitoring"


async def double(number: int) -> int:
    return 2 * number


async def shift(number: int) -> int:
    return number << 1


async def wrong(number: int) -> int:
    return 2 * number + (number == 13)


async def fails(number: int) -> int:
    raise LookupError(number)


@dataclass
class Receiver:
    """A server that answers posts with these statuses in turn, then with 200. With 0 it says
    nothing until it is closed."""

    statuses: list[int] = field(default_factory=list[int])
    heads: list[str] = field(default_factory=list[str])
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.partition(":")[2])
            for line in head.splitlines()
            if line.lower().startswith("content-length")
        )
        self.bodies.append(json.loads(await reader.readexactly(length)))
        self.heads.append(head)
        self.arrived.set()
        status = self.statuses.pop(0) if self.statuses else 200
        if status:
            place = f"Location: {self.url}\r\n" if status == 307 else ""
            writer.write(f"HTTP/1.1 {status} X\r\n{place}Content-Length: 0\r\n\r\n".encode())
            await writer.drain()
        else:
            await reader.read()
        writer.close()


@asynccontextmanager
async def receiver(*statuses: int) -> AsyncGenerator[Receiver]:
    one = Receiver([*statuses])
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    one.url = f"http://127.0.0.1:{port}/hooks/s3cr3t-path"
    try:
        yield one
    finally:
        server.close()


def within(work: Callable[[Runtime], Awaitable[Any]], **options: Any) -> Any:
    async def opened() -> Any:
        async with Runtime(observable=False, **options) as rt:
            return await work(rt)

    return asyncio.run(opened())


def test_a_webhook_is_told_of_every_decision() -> None:
    """By a person and by evidence, in their order, and before the block is left."""

    async def work(rt: Runtime) -> None:
        async with receiver() as heard:
            async with rollout(
                rt, "d", reference=double, candidate=wrong, rule=AT_ONCE, webhook=heard.url
            ) as doubled:
                for _ in range(3):
                    await doubled.decide(PersonAction.PROMOTE, "ada", "looked at it")
                await doubled(13)
            assert [body["after"] for body in heard.bodies] == [
                "canary",
                "canary",
                "dual_verify",
                "shadow",
            ]
            person, fault = heard.bodies[0], heard.bodies[-1]
            assert (person["by"], person["reason"]) == ("ada", "looked at it")
            assert (fault["by"], fault["is_promotion"], fault["runs"]) == ("", False, 1)
            assert fault["text"] == (
                "rollout d: demoted to shadow: it differed from an exact reference"
            )
            assert heard.heads[0].startswith("POST /hooks/s3cr3t-path HTTP/1.1")
            assert len({body["id"] for body in heard.bodies}) == 4

    within(work)


def test_the_last_promotion_tells_how_long_faults_stay() -> None:
    """As numbers and in words."""

    async def work(rt: Runtime) -> None:
        async with receiver() as heard:
            async with rollout(
                rt, "d", reference=double, candidate=shift, rule=AT_ONCE, webhook=heard.url
            ) as doubled:
                while doubled.status().mode is not RolloutMode.DIRECT_ONLY:
                    await doubled.decide(PersonAction.PROMOTE, "ada")
            assert {"fault": 0.01, "calls": 29_956} in heard.bodies[-1]["detection"]
            assert "1 % of calls is found after 29,956 calls" in heard.bodies[-1]["detection_text"]
            assert heard.bodies[0]["detection"] == []

    within(work)


@pytest.mark.parametrize(
    ("statuses", "posts", "is_told"),
    [([503, 500], 3, True), ([429], 2, True), ([500] * 9, TRIES, False), ([404], 1, False)],
)
def test_a_webhook_is_tried_a_few_times(
    statuses: list[int], posts: int, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """What a server refuses is not sent again. What was not told is in the log, without the path,
    which is often a secret."""

    async def work(rt: Runtime) -> int:
        async with receiver(*statuses) as heard:
            async with rollout(
                rt, "d", reference=double, candidate=shift, webhook=heard.url
            ) as doubled:
                await doubled.decide(PersonAction.STOP, "ada")
            assert len({body["id"] for body in heard.bodies}) == 1, "it can be told apart"
            return len(heard.bodies)

    with caplog.at_level(logging.WARNING, LOGGER):
        assert within(work) == posts
    assert ("not told: rollout d: stopped at reference_only" in caplog.text) == (not is_told)
    assert "s3cr3t" not in caplog.text


def test_no_call_waits_for_a_webhook() -> None:
    """It never answers, and the calls go on; who is cancelled gives it up at once."""

    async def work(rt: Runtime) -> None:
        async with receiver(0, 0, 0) as heard:
            with suppress(asyncio.CancelledError):
                async with rollout(
                    rt, "d", reference=double, candidate=shift, webhook=heard.url
                ) as doubled:
                    await doubled.decide(PersonAction.STOP, "ada")
                    await heard.arrived.wait()
                    assert [await doubled(n) for n in range(20)] == [2 * n for n in range(20)]
                    raise asyncio.CancelledError
            assert len(heard.bodies) == 1

    within(work)


def test_a_webhook_that_is_away_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody listens there."""

    async def work(rt: Runtime) -> RolloutMode:
        async with receiver() as gone:
            url = gone.url
        async with rollout(rt, "d", reference=double, candidate=shift, webhook=url) as doubled:
            await doubled.decide(PersonAction.STOP, "ada")
        return doubled.status().mode

    with caplog.at_level(logging.WARNING, LOGGER):
        assert within(work) is RolloutMode.REFERENCE_ONLY
    assert "not told" in caplog.text
    assert "s3cr3t" not in caplog.text


def test_the_path_of_a_webhook_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It leads to itself, and the client says which URL that was."""

    async def work(rt: Runtime) -> None:
        async with (
            receiver(*[307] * 99) as heard,
            rollout(rt, "d", reference=double, candidate=shift, webhook=heard.url) as doubled,
        ):
            await doubled.decide(PersonAction.STOP, "ada")

    with caplog.at_level(logging.WARNING, LOGGER):
        within(work)
    assert "redirect number 6" in caplog.text
    assert "s3cr3t" not in caplog.text


def test_a_webhook_reaches_its_own_host_only(caplog: pytest.LogCaptureFixture) -> None:
    """A name must not lead into the local network, by the rules for tools; an address may."""

    async def work(rt: Runtime) -> int:
        async with receiver() as heard:
            url = heard.url.replace("127.0.0.1", "localhost")
            async with rollout(rt, "d", reference=double, candidate=shift, webhook=url) as doubled:
                await doubled.decide(PersonAction.STOP, "ada")
            return len(heard.bodies)

    with caplog.at_level(logging.WARNING, LOGGER):
        assert within(work) == 0
    assert "localhost leads to" in caplog.text


@pytest.mark.parametrize("url", ["hooks.example", "ftp://hooks.example/", "https://a b/"])
def test_a_webhook_is_a_url(url: str) -> None:
    """A typo is told before the first call."""
    with pytest.raises(UserError, match="webhook"):
        Webhook(url, SteadyClock())


class Records:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.calls: list[CallTraced] = []

    def record(self, call: CallTraced) -> None:
        self.calls.append(call)

    async def aclose(self) -> None:
        return


def test_a_decision_is_an_event_of_the_trace() -> None:
    """So it is wherever traces go; a key that somebody writes into a reason is hidden."""
    sink = Records()

    async def work(rt: Runtime) -> None:
        async with rollout(rt, "d", reference=double, candidate=shift) as doubled:
            await doubled.decide(PersonAction.DEMOTE, "ada", "sk-ant-api03-" + "k" * 40)

    within(work, trace=sink)
    [event] = [call for call in sink.calls if call.kind is CallKind.EVENT]
    assert event.name.startswith("rollout d: stopped at reference_only, by ada")
    assert "kkkk" not in event.name
    assert event.attributes["sir.node_id"] == "d"
    assert event.attributes["rollout.by"] == "ada"


def test_rollouts_are_counted_with_the_metrics_of_their_runtime() -> None:
    """Runs and failures of each path, and what is known; two rollouts share the names."""

    async def work(rt: Runtime) -> str:
        async with (
            rollout(rt, "d", reference=double, candidate=fails, rule=AT_ONCE) as doubled,
            rollout(rt, "e", reference=double, candidate=shift, rule=AT_ONCE) as other,
        ):
            for number in range(3):
                await doubled(number)
            await doubled.settle()
            await other.decide(PersonAction.PROMOTE, "ada")
            for _ in range(1_000):
                await other._evidence[""].record(Compared(agrees=True))  # pyright: ignore[reportPrivateUsage]
            return rt.metrics_text()

    lines = within(work).splitlines()
    assert 'sir_executions_total{node="d",path="reference"} 3' in lines
    assert 'sir_executions_total{node="d",path="candidate"} 3' in lines
    assert ('sir_executions_errors_total{node="d",path="candidate",error="LookupError"} 3') in lines
    assert 'sir_divergences{node="d",input_class=""} 3' in lines
    assert 'sir_traffic_split{node="e",input_class="",path="candidate"} 0.01' in lines
    assert [line for line in lines if line.startswith('sir_confidence{node="e"')]
    assert not [line for line in lines if line.startswith('sir_confidence{node="d"')]
    assert lines.count("# TYPE sir_executions_total counter") == 1
    assert lines.count("# TYPE sir_execution_duration_ms histogram") == 1


def test_how_long_paths_take_is_served_by_path() -> None:
    """In milliseconds, as the name says; a path that fails took its time, too."""

    async def take(seconds: float) -> None:
        now = asyncio.get_running_loop().time
        ends = now() + seconds
        await until(lambda: now() > ends)

    async def slow(number: int) -> int:
        await take(0.011)
        return number

    async def slower(number: int) -> int:
        await take(0.051)
        raise LookupError(number)

    async def work(rt: Runtime) -> str:
        async with rollout(rt, "s", reference=slow, candidate=slower, rule=AT_ONCE) as asked:
            await asked(1)
            await asked.settle()
            return rt.metrics_text()

    lines = within(work).splitlines()
    for path, below, above in (("reference", 10, 60_000), ("candidate", 50, 60_000)):
        of_path = f'sir_execution_duration_ms_bucket{{node="s",path="{path}",le='
        assert f'{of_path}"{below:.1f}"}} 0' in lines
        assert f'{of_path}"{above:.1f}"}} 1' in lines
        assert f'sir_execution_duration_ms_count{{node="s",path="{path}"}} 1' in lines


# Inputs that were made for it, and what is kept for people.


def test_checked_inputs_are_counted_apart_and_perform_nothing() -> None:
    """The tools of both paths are refused; the evidence of production does not move."""
    orders: list[str] = []

    def order(item: str) -> str:
        """Order an item."""
        orders.append(item)
        return "ordered"

    def buyer(name: str) -> Agent[str]:
        asks = ScriptedReply(calls=(ScriptedCall("order", {"item": "tea"}),))
        return Agent("buyer", model=ScriptedModel([asks, name] * 5, name=name), tools=[order])

    async def work(rt: Runtime) -> Rollout:
        async with rollout(rt, "b", reference=buyer("a"), candidate=buyer("b")) as bought:
            found = [await bought.check("Buy tea.") for _ in range(2)]
            assert [(each.agrees, each.reference, each.candidate) for each in found] == [
                (False, "a", "b")
            ] * 2
            return bought.status()

    state = within(work)
    assert orders == []
    assert (state.evidence.generated, state.evidence.production) == (Tally(2, 2), Tally())
    assert state.mode is RolloutMode.SHADOW


def test_a_checked_input_of_a_recorded_run_counts_once(tmp_path: Path) -> None:
    """However often the run goes on; other inputs are other calls."""

    async def work(rt: Runtime) -> Tally:
        async with rollout(rt, "d", reference=double, candidate=shift) as doubled:
            await doubled.check(1)
            await doubled.check(1)
            return doubled.status().evidence.generated

    async def failed() -> None:
        with suppress(LookupError):
            async with (
                Runtime(observable=False, journal=tmp_path / "run.db") as rt,
                rollout(rt, "d", reference=double, candidate=shift) as doubled,
            ):
                await doubled.check(1)
                raise LookupError

    asyncio.run(failed())
    assert within(work, journal=tmp_path / "run.db") == Tally(2)


def evidence(store: Any) -> RolloutEvidence:
    initial = initial_rollout("r", AT_ONCE, "v1", "")
    return RolloutEvidence(store, SteadyClock(), initial, lambda _change: None)


def test_the_history_is_kept_by_all_processes_together() -> None:
    """Each point by whoever brings that run, none twice."""

    async def work() -> list[int]:
        store = MemoryStore()
        workers = [evidence(store) for _ in range(3)]
        await asyncio.gather(*(one.record(Compared(agrees=True)) for one in workers * 20))
        for one in workers:
            await one.record(Compared(agrees=True, source=InputSource.GENERATED))
        history, _ = await load_history(store, workers[0].key)
        return [point.production.runs for point in history.points]

    assert asyncio.run(work()) == [10, 20, 30, 40, 50, 60]


class ForgetfulStore(MemoryStore):
    """Keeps everything but histories."""

    async def put(self, kind: str, key: str, value: bytes, *, expected: int) -> bool:
        if kind == HISTORIES:
            raise StoreError("the disk is full; make room")
        return await super().put(kind, key, value, expected=expected)


def test_evidence_does_not_depend_on_its_history() -> None:
    """A picture lacks a point; nothing is lost or counted twice."""

    async def work() -> Tally:
        one = evidence(ForgetfulStore())
        for _ in range(25):
            await one.record(Compared(agrees=True))
        return one.machine.evidence.production

    assert asyncio.run(work()) == Tally(25)


def test_a_rollout_is_steered_from_outside(tmp_path: Path) -> None:
    """What was decided is what the program reads; what moved meanwhile is not decided about."""

    async def work() -> None:
        store, place = SqliteStore(tmp_path / "s.db"), str(tmp_path / "s.db")
        async with (
            Runtime(observable=False, store=store) as rt,
            rollout(rt, "d", reference=double, candidate=shift, rule=AT_ONCE) as doubled,
            open_rollouts(place, SteadyClock()) as stored,
        ):
            assert await doubled.begin()
            assert not await doubled.begin()
            [found] = await stored.named("d")
            alert = await stored.decide(found, PersonAction.STOP, "ada", "a holiday")
            assert (alert.after, alert.by) == (RolloutMode.REFERENCE_ONLY, "ada")
            with pytest.raises(UserError, match="moved from shadow to reference_only meanwhile"):
                await stored.decide(found, PersonAction.PROMOTE, "bob")
            async with rollout(rt, "d", reference=double, candidate=shift, rule=AT_ONCE) as fresh:
                assert fresh.status().mode is RolloutMode.REFERENCE_ONLY
            [found] = await stored.named()
            status = await stored.status(found)
            assert status.changes[-1].change.reason == "a holiday"
            assert status.subject.candidate == "shift"
        await store.aclose()

    asyncio.run(work())


def test_evidence_on_a_server_is_found_wherever_it_is_kept() -> None:
    """Beside the journal of a user, or in the documents that all users share; a new rollout joins
    those that are there."""

    async def work(url: str) -> None:
        own, shared = open_stores(url)
        assert await store_with_rollouts([own, shared]) is own
        for store, name in ((shared, "team"), (own, "mine")):
            initial = initial_rollout(name, AT_ONCE, "v1", "")
            one = RolloutEvidence(store, SteadyClock(), initial, lambda _change: None)
            await one.record(Compared(agrees=True))
            assert await store_with_rollouts([own, shared]) is store
        async with open_rollouts(url, SteadyClock()) as stored:
            assert [each.machine.name for each in await stored.all()] == ["mine", "team"]
            [found] = await stored.named("team")
            await stored.decide(found, PersonAction.PROMOTE, "ada")
            [found] = await stored.named("team")
            assert found.machine.mode is RolloutMode.CANARY
            with pytest.raises(UserError, match="name one of: mine, team"):
                await stored.named()
        for store in (own, shared):
            await store.aclose()

    with own_schema() as schema:
        asyncio.run(work(url_of(schema)))


@pytest.mark.parametrize("mode", [RolloutMode.SHADOW, RolloutMode.DUAL_VERIFY])
@pytest.mark.parametrize(
    ("candidate", "said"), [(wrong, "27"), (fails, "LookupError: 13")], ids=["wrong", "fails"]
)
def test_what_differed_is_kept_for_people(
    candidate: Any, said: str, mode: RolloutMode, tmp_path: Path
) -> None:
    """The inputs and what both said, of the last few; with none, nothing of it is written."""

    async def work(rt: Runtime, differences: int) -> None:
        rule = RolloutRule(calibration=0, differences=differences)
        name = f"d{differences}"
        async with rollout(rt, name, reference=double, candidate=candidate, rule=rule) as doubled:
            while doubled.status().mode is not mode:
                await doubled.decide(PersonAction.PROMOTE, "ada")
            for _ in range(3):
                await doubled(13)
                await doubled.settle()

    async def kept(name: str) -> list[tuple[str, str, str]]:
        async with open_rollouts(str(tmp_path / "s.db"), SteadyClock()) as stored:
            [found] = await stored.named(name)
            differences = (await stored.status(found)).differences
            return [(one.inputs, one.reference, one.candidate) for one in differences]

    for differences in (2, 0):
        within(
            lambda rt, differences=differences: work(rt, differences),
            store=SqliteStore(tmp_path / "s.db"),
        )
        assert asyncio.run(kept(f"d{differences}")) == [("13", "26", said)] * differences


def test_a_listener_that_fails_undoes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever it raises: who decided is told that it was done."""

    def breaks(_change: object) -> None:
        raise ZeroDivisionError

    async def work(rt: Runtime) -> RolloutMode:
        async with rollout(rt, "d", reference=double, candidate=shift, on_change=breaks) as doubled:
            assert await doubled.decide(PersonAction.PROMOTE, "ada") is not None
            return doubled.status().mode

    assert within(work) is RolloutMode.CANARY
    assert "on_change failed" in caplog.text
