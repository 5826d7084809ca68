"""Metrics, by the parser of Prometheus's own client."""

import asyncio
import logging
import socket
import threading
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.error import HTTPError

import pytest
from campaigns.telemetry_receivers import Scrape, parse, scrape

from tests.patience import until
from tests.telemetry.calls import MemorySink, call, paid
from vegakit.errors import BudgetExceeded
from vegakit.events import CallKind, CallStatus
from vegakit.host import ActivityLog, Agent, Supervisor
from vegakit.money import Money
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.sdk.monitoring import MetricsServer
from vegakit.telemetry import Metrics, metrics_text
from vegakit.telemetry.metrics import BOUNDS_S
from vegakit.testing import FakeClock


def parsed(metrics: Metrics) -> Scrape:
    return parse(metrics_text(metrics.collect()))


def test_a_model_call_is_counted() -> None:
    """With tokens by type, money, retries and how long it took."""
    metrics = Metrics()
    metrics.count([paid(retries=2, first_token_ms=250.0, cache_read_tokens=9, reserved=Money(7))])
    metrics.count([paid(2)])
    seen, who = parsed(metrics), {"agent": "Coder", "model": "anthropic:claude"}
    assert seen.value("vega_calls_total", kind="model", status="ok", **who) == 2
    assert seen.value("vega_tokens_total", type="input", **who) == 300
    assert seen.value("vega_tokens_total", type="output", **who) == 1784
    assert seen.value("vega_tokens_total", type="cache_read", **who) == 9
    assert seen.value("vega_cost_usd_total", **who) == 0.0086
    assert seen.value("vega_reserved_usd_total", **who) == 7e-9
    assert seen.value("vega_retries_total", **who) == 2
    assert seen.value("vega_call_duration_seconds_sum", kind="model") == 4.682
    assert seen.value("vega_call_duration_seconds_bucket", kind="model", le="1.0") == 0
    assert seen.value("vega_call_duration_seconds_bucket", kind="model", le="2.5") == 2
    assert seen.value("vega_time_to_first_chunk_seconds_count") == 1
    assert seen.value("vega_time_to_first_chunk_seconds_bucket", le="0.25") == 1


def test_money_is_counted_once() -> None:
    """An ask costs what its model calls cost."""
    metrics = Metrics()
    metrics.count([paid()])
    metrics.count([call(2, kind=CallKind.ASK, agent="Coder", cost=Money(4_300_000))])
    assert parsed(metrics).value("vega_cost_usd_total") == 0.0043


def test_every_bound_is_a_bucket() -> None:
    """A duration of exactly a bound is below it, as Prometheus says; the buckets are cumulative."""
    metrics = Metrics()
    for bound in BOUNDS_S:
        metrics.count([call(latency_ms=bound * 1000)])
    metrics.count([call(latency_ms=1e9)])
    seen = parsed(metrics)
    for number, bound in enumerate(BOUNDS_S, 1):
        assert seen.value("vega_call_duration_seconds_bucket", le=str(bound)) == number
    total = len(BOUNDS_S) + 1
    assert seen.value("vega_call_duration_seconds_bucket", le="+Inf") == total
    assert seen.value("vega_call_duration_seconds_count") == total


def test_failures_are_counted_by_name() -> None:
    """Not by message."""
    metrics = Metrics()
    for number in range(3):
        error = f"BudgetExceeded: {number} dollars"
        metrics.count([call(number, status=CallStatus.REFUSED, error=error)])
    metrics.count([call(kind=CallKind.TOOL, status=CallStatus.FAILED, error="Bern")])
    seen = parsed(metrics)
    assert seen.value("vega_errors_total", kind="model", error="BudgetExceeded") == 3
    assert seen.value("vega_errors_total", kind="tool", error="failed") == 1
    assert seen.series("vega_errors_total") == 2
    assert seen.value("vega_calls_total", status="refused") == 3


@pytest.mark.parametrize("odd", ['a"b', "a\\b", "a\nb", 'é{}," #', "\\n", "", "\ud800"])
def test_odd_names_come_through(odd: str) -> None:
    """As the parser reads them back; half a pair of surrogates is a question mark."""
    metrics = Metrics()
    metrics.count([call(agent=odd, model=f"m{odd}")])
    read = odd.replace("\ud800", "?")
    assert parsed(metrics).value("vega_calls_total", agent=read, model=f"m{read}") == 1


def test_series_are_bounded() -> None:
    """Ten thousand agents, models and tools have a few hundred series; all calls are counted."""
    metrics = Metrics()
    for number in range(10_000):
        name = f"n{number}"
        metrics.count([call(agent=name, model=name)])
        metrics.count([call(kind=CallKind.TOOL, name=name)])
        metrics.count([call(status=CallStatus.FAILED, error=f"E{number}: x")])
    seen = parsed(metrics)
    assert seen.value("vega_calls_total") == 30_000
    assert seen.value("vega_calls_total", agent="n1") == 1
    assert seen.value("vega_calls_total", agent="other", model="other") == 9_950
    assert seen.value("vega_errors_total") == 10_000
    assert len(seen.values) < 2_000
    assert len(metrics._remembered) <= 2_000


def test_combinations_are_bounded() -> None:
    """Also where no label has many values."""
    metrics = Metrics()
    for agent in range(40):
        for model in range(40):
            metrics.count([call(agent=f"a{agent}", model=f"m{model}")])
    seen = parsed(metrics)
    assert seen.series("vega_calls_total") <= 501
    assert seen.value("vega_calls_total") == 1_600


def test_a_key_in_a_name_is_hidden() -> None:
    """As in every other sink; and a long name is cut."""
    key = "sk-" + "ant-api03-" + "x" * 40
    metrics = Metrics()
    metrics.count([call(agent=key, model="m" * 1000)])
    text = metrics_text(metrics.collect())
    assert key not in text
    assert 'agent="[redacted]"' in text
    assert "m" * 81 not in text


def test_threads_lose_no_call() -> None:
    """Spans end where a tool runs."""
    activity = ActivityLog(MemorySink(), FakeClock())
    workers = [
        threading.Thread(target=lambda: [activity.record(paid()) for _ in range(2_000)])
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert parsed(activity.count_metrics()).value("vega_tokens_total", type="input") == 8_000 * 150


# Of a real runtime, over a socket.


def served(
    model: Any, work: Callable[[Runtime, str], Awaitable[Any]], address: str = "127.0.0.1:0"
) -> Any:
    async def opened() -> Any:
        server = MetricsServer(address)
        async with Runtime("$10", models=lambda _: model, observers=[server]) as rt:
            return await work(rt, server.url)

    return asyncio.run(opened())


def test_a_runtime_serves_its_metrics() -> None:
    """Over a socket, in the format that Prometheus asks for, and equal to `metrics_text`."""

    async def work(rt: Runtime, url: str) -> None:
        await rt.ask(Agent("guide", model="any", max_tokens=10), "hello")
        seen = await asyncio.to_thread(scrape, url)
        assert seen.content_type == "text/plain; version=0.0.4; charset=utf-8"
        assert seen.text == rt.metrics_text()
        assert seen.value("vega_calls_total", kind="ask", agent="guide", status="ok") == 1
        assert seen.value("vega_calls_total", kind="model", agent="guide", status="ok") == 1
        assert round(seen.value("vega_cost_usd_total") * 1e9) == await rt.spent()
        for waited_for in ("limiter", "reserve", "settle"):
            assert seen.value("vega_wait_seconds_count", **{"for": waited_for}) == 1
        assert seen.value("vega_reservations_usd") == 0

    served(ScriptedModel(["hi"]), work)


def test_what_goes_on_is_seen() -> None:
    """While a call is in flight: its process, its reservation, its slot."""
    asked, answer = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedModel):
        async def ask(self, request: Any) -> Any:
            asked.set()
            await answer.wait()
            return await super().ask(request)

    async def work(rt: Runtime, url: str) -> None:
        asking = asyncio.ensure_future(_ask(rt, Agent("guide", model="any", max_tokens=10)))
        await asked.wait()
        during = await asyncio.to_thread(scrape, url)
        assert during.value("vega_calls_in_flight") == 1
        assert during.value("vega_reservations_usd") > 0
        assert during.value("vega_processes", phase="up") == 1
        answer.set()
        await asking
        after = await asyncio.to_thread(scrape, url)
        assert after.value("vega_calls_in_flight") == 0
        assert after.value("vega_reservations_usd") == 0
        assert after.value("vega_processes", phase="up") == 0

    served(Slow(["hi"]), work)


async def _ask(rt: Runtime, agent: Agent[Any]) -> None:
    await rt.ask(agent, "hello")


def test_refusals_and_restarts_are_counted() -> None:
    """Without anybody looking in."""
    lives = 0

    async def crashing() -> None:
        nonlocal lives
        lives += 1
        if lives < 3:
            raise ValueError("again")

    async def work(rt: Runtime, url: str) -> None:
        with pytest.raises(BudgetExceeded), rt.budget("$0.000001"):
            await rt.ask(Agent("poor", model="any", max_tokens=100_000), "hello")
        rt.spawn(crashing, supervise=Supervisor(max_restarts=5))
        await until(lambda: lives == 3)
        seen = await asyncio.to_thread(scrape, url)
        assert seen.value("vega_errors_total", error="BudgetExceeded") >= 1
        assert seen.value("vega_process_restarts_total") == 2
        assert seen.value("vega_cost_usd_total") == 0

    served(ScriptedModel(["hi"]), work)


def test_only_one_page_is_served() -> None:
    """And it is only read."""

    def status(url: str, method: str = "GET") -> int:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method=method)) as response:
                return response.status
        except HTTPError as error:
            error.close()
            return error.code

    async def work(rt: Runtime, url: str) -> None:
        root = url.removesuffix("/metrics")
        assert await asyncio.to_thread(status, f"{url}?a=1") == 200
        assert await asyncio.to_thread(status, url, "HEAD") == 200
        assert await asyncio.to_thread(status, f"{root}/") == 404
        assert await asyncio.to_thread(status, f"{root}/metrics/..") == 404
        assert await asyncio.to_thread(status, url, "POST") == 405

    served(ScriptedModel([]), work)


def test_a_listener_withstands_strangers() -> None:
    """Who floods it, sends no request, or far too much, is hung up on; the next one is answered."""

    async def work(rt: Runtime, url: str) -> None:
        host, port = url.removeprefix("http://").removesuffix("/metrics").split(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(20)]
        hung_up = asyncio.as_completed([reader.read() for reader, _ in silent])
        for _ in range(12):
            assert await next(hung_up) == b""
        for _, writer in silent:
            writer.close()
            await writer.wait_closed()
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"x" * 100_000)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert (await asyncio.to_thread(scrape, url)).value("vega_info") == 1

    served(ScriptedModel([]), work)


def test_a_taken_port_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The run goes on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        async def work(rt: Runtime, url: str) -> str:
            assert url == ""
            return (await rt.ask(Agent("guide", model="any", max_tokens=10), "hello")).text

        with caplog.at_level(logging.WARNING, "vegakit"):
            assert served(ScriptedModel(["hi"]), work, address) == "hi"
    assert caplog.messages[0].startswith(f"metrics are not served at {address}: ")
    assert caplog.messages[0].endswith("set telemetry.prometheus to another address")
