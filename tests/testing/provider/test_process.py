"""The provider as a process of its own, with its log in a file."""

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from vegakit.testing import Provider

KEYS = {"x-api-key": "sk-canary", "authorization": "Bearer sk-canary", "x-mine": "1"}


@contextmanager
def running(log: Path) -> Generator[tuple["subprocess.Popen[str]", str]]:
    command = [sys.executable, "-m", "vegakit.testing.provider", "--port", "0", "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def asked(url: str, text: str) -> Generator[http.client.HTTPResponse]:
    """The answer to a streamed question, as soon as it has begun."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
    with closing(
        http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_S)
    ) as line:
        line.request("POST", "/v1/messages", json.dumps(body), KEYS)
        with line.getresponse() as response:
            yield response


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_end(tmp_path: Path, number: signal.Signals) -> None:
    """What is in flight then is logged as stopped."""
    log = tmp_path / "log.jsonl"
    with running(log) as (process, url):
        with asked(url, "hi") as answer:
            answer.read()
        with asked(url, "slow"):
            process.send_signal(number)
            assert process.wait(PATIENCE_S) == 0
    assert [(line["event"], line["n"], line["status"]) for line in lines(log)] == [
        ("received", 1, "open"),
        ("ended", 1, "answered"),
        ("received", 2, "open"),
        ("ended", 2, "stopped"),
    ]


def test_the_file_knows_what_a_client_has_seen(tmp_path: Path) -> None:
    """Both lines are there when the answer is, even if the process is killed in that moment."""
    log = tmp_path / "log.jsonl"
    with running(log) as (process, url), asked(url, "hi") as answer:
        answer.read()
        process.kill()
    received, ended = lines(log)
    assert received["body"]["messages"] == [{"role": "user", "content": "hi"}]
    assert (received["text"], received["attempt"], received["api"]) == ("hi", 1, "anthropic")
    assert (ended["code"], ended["sent"]) == (200, 5)
    assert ended["ended_ms"] >= received["started_ms"]


def test_keys_stay_out_of_the_file(tmp_path: Path) -> None:
    """Other headers are in it; the file is added to, not begun anew."""
    log = tmp_path / "log.jsonl"
    for _ in range(2):
        with Provider(log=log).in_thread() as provider, asked(provider.url, "hi") as answer:
            answer.read()
    assert "sk-canary" not in log.read_text()
    assert [line["event"] for line in lines(log)] == ["received", "ended"] * 2
    assert lines(log)[0]["headers"]["x-mine"] == "1"
