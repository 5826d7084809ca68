"""Spans over both protocols to receivers of OpenTelemetry's own, and collectors that fail."""

import asyncio
import logging
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from campaigns.telemetry_receivers import Received, grpc_receiver, http_receiver

from tests.config.house import House
from tests.patience import until
from tests.telemetry.calls import call, paid, run
from vegakit.config import OtlpProtocol, OtlpTarget
from vegakit.errors import SettingsError
from vegakit.telemetry import Redactor, open_sink, otel
from vegakit.telemetry.otel import OtelSink, open_otlp

RECEIVERS = {OtlpProtocol.GRPC: grpc_receiver, OtlpProtocol.HTTP: http_receiver}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def exported(target: OtlpTarget, count: int = 3) -> None:
    sink = OtelSink(endpoint=target)
    for number in range(count):
        sink.record(paid(number + 1))
    run(sink.aclose())


@pytest.mark.parametrize("protocol", RECEIVERS, ids=str)
def test_spans_arrive_over_both_protocols(protocol: OtlpProtocol) -> None:
    """All of them, once, with headers and resource; closing has sent everything."""
    with RECEIVERS[protocol]() as received:
        target = OtlpTarget(
            received.endpoint,
            protocol,
            {"X-Team": "blue"},
            {"service.name": "billing", "region": "eu"},
        )
        exported(target, 700)
        spans = received.spans
        assert len({span.span_id for span in spans}) == len(spans) == 700
        assert {span.name for span in spans} == {"chat claude"}
        assert spans[0].attributes["gen_ai.usage.output_tokens"] == 892
        assert spans[0].resource["service.name"] == "billing"
        assert spans[0].resource["region"] == "eu"
        assert {headers["x-team"] for headers in received.headers} == {"blue"}


def test_a_burst_is_not_dropped() -> None:
    """Twice as many as the library's own queue would hold."""
    with http_receiver() as received:
        sink = OtelSink(endpoint=received.endpoint)
        for number in range(4_000):
            sink.record(call(number + 1))
        run(sink.aclose())
        assert len(received.spans) == 4_000


# Collectors that fail.


@contextmanager
def nobody() -> Generator[Received]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    received = Received()
    received.endpoint = f"http://127.0.0.1:{port}"
    yield received


FAILING: dict[str, tuple[OtlpProtocol, Callable[[], AbstractContextManager[Received]]]] = {
    "down, http": (OtlpProtocol.HTTP, nobody),
    "down, grpc": (OtlpProtocol.GRPC, nobody),
    "refusing, http": (OtlpProtocol.HTTP, lambda: http_receiver(403)),
    "overloaded, http": (OtlpProtocol.HTTP, lambda: http_receiver(503)),
    "moved, http": (OtlpProtocol.HTTP, lambda: http_receiver(301)),
    "elsewhere, http": (OtlpProtocol.HTTP, lambda: http_receiver(307)),
    "refusing, grpc": (OtlpProtocol.GRPC, lambda: grpc_receiver(refuses=True)),
    "silent, http": (OtlpProtocol.HTTP, lambda: http_receiver(silent=True)),
    "another protocol": (OtlpProtocol.GRPC, http_receiver),
}


@pytest.mark.parametrize("how", FAILING)
def test_a_failing_collector_is_told_of_once(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """Closing ends soon and says how much is lost; the library's own lines are not repeated."""
    protocol, receiver = FAILING[how]
    with receiver() as received, caplog.at_level(logging.INFO):
        exported(OtlpTarget(received.endpoint, protocol), 1_000)
        where = received.endpoint
        first, last = [one.getMessage() for one in caplog.records if one.levelno > logging.INFO]
        assert first.startswith(f"the collector at {where} does not take all spans")
        assert last == f"1000 spans were not sent to the collector at {where}"
        assert {one.name for one in caplog.records} == {"vegakit"}


@pytest.mark.parametrize(
    ("protocol", "address"),
    [
        (OtlpProtocol.GRPC, "http://user:hush-hush@{}"),
        (OtlpProtocol.GRPC, "http://me:hush@{}"),
        (OtlpProtocol.HTTP, "http://{}/x?team=blue&api_key=hush"),
        (OtlpProtocol.HTTP, "http://{}/x?k=hush%2Dhush"),
    ],
)
def test_a_failing_collector_is_told_of_without_its_secrets(
    protocol: OtlpProtocol, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The library quotes the address."""
    with nobody() as received:
        exported(OtlpTarget(address.format(received.endpoint.partition("://")[2]), protocol))
    assert "does not take all spans (Transient error " in caplog.text
    assert "[redacted]" in caplog.text
    assert "hush" not in caplog.text


def test_a_failing_collector_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    """Who records never sends nor writes a batch, whatever waits: what is too much is dropped, and
    all of it is told at the end."""
    wrote: set[str] = set()
    with http_receiver(silent=True) as received:
        sink = OtelSink(endpoint=received.endpoint)
        write = sink._writer._write
        sink._writer._write = lambda *batch: (
            wrote.add(threading.current_thread().name),
            write(*batch),
        )[1]
        for number in range(12_000):
            sink.record(paid(number + 1))
            assert len(sink._writer._waiting) <= 10_000
        assert wrote <= {"vega traces"}
        processor: Any = sink._provider._active_span_processor._span_processors[0]
        assert processor._batch_processor._queue.maxlen == otel._MOST_WAITING
        run(sink.aclose())
    assert caplog.messages[-1].startswith("12000 spans were not sent to the collector")
    assert sum(one.levelno >= logging.WARNING for one in caplog.records) == 2


def test_a_collector_that_comes_back_gets_later_spans() -> None:
    """What failed is dropped, and nothing is stuck."""

    async def work() -> None:
        with nobody() as before:
            sink = OtelSink(endpoint=before.endpoint)
            delivery = sink._delivery
            assert delivery
            sink.record(paid(1))
            await until(lambda: delivery._is_away)
        port = int(before.endpoint.rpartition(":")[2])
        with http_receiver(port=port) as received:
            await until(lambda: received.spans or sink.record(paid(2)))
            assert not delivery._is_away
            await sink.aclose()

    asyncio.run(work())


# What the settings and OpenTelemetry's variables ask for.


def target_of(house: House, text: str = "", **environment: str) -> OtlpTarget | None:
    house.user(text)
    return house.load({}, **environment).otlp_target


def test_nothing_is_sent_unless_asked(house: House) -> None:
    """A service name alone names no collector."""
    assert target_of(house, OTEL_SERVICE_NAME="x") is None


@pytest.mark.parametrize(
    ("endpoint", "protocol", "chosen"),
    [
        ("http://c:4317", "", OtlpProtocol.GRPC),
        ("http://c:4318", "", OtlpProtocol.HTTP),
        ("http://c:4317/", "http/protobuf", OtlpProtocol.HTTP),
        ("https://c", "grpc", OtlpProtocol.GRPC),
        ("c:4317", "", OtlpProtocol.GRPC),
        ("http://c", "http/json", OtlpProtocol.HTTP),
    ],
)
def test_variables_choose_the_protocol(
    house: House, endpoint: str, protocol: str, chosen: OtlpProtocol
) -> None:
    """By OpenTelemetry's own names; a port says it if no variable does."""
    target = target_of(
        house, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_EXPORTER_OTLP_PROTOCOL=protocol
    )
    assert target
    assert target.protocol is chosen
    assert not target.is_required
    assert not target.is_whole


def test_variables_say_the_rest(house: House) -> None:
    """Headers and resource attributes are lists of pairs, percent-encoded."""
    target = target_of(
        house,
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="http://c/x",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://other",
        OTEL_EXPORTER_OTLP_HEADERS="authorization=Basic%20eA==, x-team = blue",
        OTEL_SERVICE_NAME="billing",
        OTEL_RESOURCE_ATTRIBUTES="service.name=no,deployment.environment.name=pro%20d",
    )
    assert target == OtlpTarget(
        "http://c/x",
        OtlpProtocol.HTTP,
        {"authorization": "Basic eA==", "x-team": "blue"},
        {"service.name": "billing", "deployment.environment.name": "pro d"},
        is_whole=True,
        is_required=False,
    )


def test_our_own_settings_say_the_same(house: House) -> None:
    """OpenTelemetry's variables go before files, and our own variables before those."""
    text = """
[telemetry]
otlp = "https://collector.example"
otlp_protocol = "grpc"
otlp_headers = { authorization = "Bearer x" }
service_name = "filed"
resource_attributes = { region = "eu" }
"""
    target = target_of(house, text, OTEL_SERVICE_NAME="given")
    assert target == OtlpTarget(
        "https://collector.example",
        OtlpProtocol.GRPC,
        {"authorization": "Bearer x"},
        {"region": "eu", "service.name": "given"},
    )
    ours = target_of(house, text, OTEL_SERVICE_NAME="g", VEGA_TELEMETRY_SERVICE_NAME="ours")
    assert ours
    assert ours.resource["service.name"] == "ours"
    assert "Bearer" not in repr(target)


@pytest.mark.parametrize(
    ("off", "is_off"),
    [
        ({"OTEL_SDK_DISABLED": "true"}, True),
        ({"OTEL_SDK_DISABLED": "false"}, False),
        ({"OTEL_TRACES_EXPORTER": "none"}, True),
        ({"OTEL_TRACES_EXPORTER": "Console, zipkin"}, True),
        ({"OTEL_TRACES_EXPORTER": "console, OTLP"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp_proto_http"}, False),
        ({"OTEL_TRACES_EXPORTER": " "}, False),
    ],
)
def test_variables_switch_it_off(house: House, off: dict[str, str], is_off: bool) -> None:
    """Whoever names the collector."""
    in_a_file = target_of(house, '[telemetry]\notlp = "http://c"', **off)
    by_a_variable = target_of(house, OTEL_EXPORTER_OTLP_ENDPOINT="http://c", **off)
    assert (in_a_file is None, by_a_variable is None) == (is_off, is_off)


GOOD, BAD = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/xyz"}


@pytest.mark.parametrize(
    ("environment", "wrong"),
    [
        (BAD, []),
        (BAD | GOOD, ["OTEL_EXPORTER_OTLP_PROTOCOL: "]),
        (BAD | GOOD | {"VEGA_TELEMETRY_OTLP_PROTOCOL": "grpc"}, []),
        (BAD | GOOD | {"OTEL_SDK_DISABLED": "true"}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "unix:///run/o"}, ["OTEL_EXPORTER_OTLP_ENDPOINT: "]),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "grpc://c:4317"},
            ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "],
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "unix:/x", "VEGA_TELEMETRY_OTLP": "http://c"}, []),
    ],
)
def test_a_variable_for_all_programs_stops_none_of_ours(
    house: House, environment: dict[str, str], wrong: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It is passed over, with a warning if spans would go by it."""
    settings = house.load({}, **environment)
    assert [why.partition("telemetry.")[0] for why in settings.unreadable] == wrong
    run(open_sink(settings, Redactor()).aclose())
    told = [line.getMessage() for line in caplog.records]
    assert told == [f"{why}; the variable is ignored" for why in settings.unreadable]


@pytest.mark.parametrize("setting", ['otlp = "unix:///x"', 'otlp_protocol = "http/xyz"'])
def test_a_setting_of_our_own_is_an_error(house: House, setting: str) -> None:
    """Whoever wrote it meant us."""
    with pytest.raises(SettingsError, match=r"telemetry\.otlp"):
        target_of(house, f"[telemetry]\n{setting}")


def test_a_variable_that_only_the_library_reads_stops_no_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even where our own settings name the collector."""
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many")
    assert open_otlp(OtlpTarget("http://c"), Redactor()) == []
    assert "(ValueError: OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT must be " in caplog.text


@pytest.mark.parametrize(
    ("path", "whole", "asked"),
    [
        ("", False, "/v1/traces"),
        ("/otlp", False, "/otlp/v1/traces"),
        ("/otlp/v1/traces", True, "/otlp/v1/traces"),
        ("/otlp?team=1", False, "/otlp/v1/traces?team=1"),
        ("/otlp?team=1", True, "/otlp?team=1"),
    ],
)
def test_an_address_is_completed(path: str, whole: bool, asked: str) -> None:
    """Unless it is the whole address; what is asked stays behind it."""
    with http_receiver() as received:
        exported(OtlpTarget(received.endpoint + path, is_whole=whole))
        assert set(received.paths) == {asked}


def test_a_missing_library_is_an_error_only_if_vega_was_asked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A variable that is meant for all programs does not stop this one."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.trace_exporter", None)
    asked = OtlpTarget("http://c:4317", OtlpProtocol.GRPC)
    with pytest.raises(SettingsError, match=r"type: pip install 'vegakit\[otel-grpc\]'"):
        open_otlp(asked, Redactor())
    told = OtlpTarget("http://c:4317", OtlpProtocol.GRPC, is_required=False)
    assert open_otlp(told, Redactor()) == []
    assert "pip install 'vegakit[otel-grpc]'; spans are not sent" in caplog.messages[0]


def test_headers_are_secrets() -> None:
    """A collector's password is hidden like a provider's key."""
    redactor = Redactor()
    for sink in open_otlp(OtlpTarget("http://127.0.0.1:9", headers={"x": "hush-hush-1"}), redactor):
        run(sink.aclose())
    assert redactor.redact("it is hush-hush-1") == "it is [redacted]"
