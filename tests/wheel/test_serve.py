"""A kernel by the installed wheel: from an empty folder to a process in its queue."""

import json
import signal
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from campaigns.contract.stage import PATIENCE_S, Stage, stage

pytestmark = pytest.mark.timeout(600)


@contextmanager
def served(here: Stage) -> Generator[Callable[..., dict[str, Any]]]:
    """Yield what calls an operation of a served kernel, as a worker with the token that the printed
    line makes, or as somebody with another role."""
    server = here.start("vega", "serve", "--port", "0")
    assert server.stdout
    lines: dict[str, str] = {}
    for line in server.stdout:
        name, _, text = line.strip().partition(" ")
        lines[name] = text.strip()
        if name == "end":
            break
    url = lines["✓"].split()[-1]
    make_token = lines["token"].split()
    token = here.run_well(*make_token).out.strip()

    def call(operation: str, role: str = "", **fields: object) -> dict[str, Any]:
        other = here.run_well(*make_token, "--role", role).out.strip() if role else token
        headers = {"Authorization": f"Bearer {other}", "Content-Type": "application/json"}
        body = json.dumps(fields).encode()
        request = urllib.request.Request(f"{url}/v1/{operation}", body, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return json.load(response)

    yield call
    server.send_signal(signal.SIGTERM)
    assert here.end_of(server).code == 0


def test_a_kernel_is_served_and_called(wheel: Path) -> None:
    with stage(wheel, Stage) as here:
        with served(here) as call:
            assert call("submit", pid="p1")["state"] == "ready"
        assert (here.home / ".local/share/vega/kernel.db").is_file()


def test_no_worker_gets_a_process_with_an_open_question(wheel: Path) -> None:
    """Those behind it are handed out; it is when the question is answered."""
    with stage(wheel, Stage) as here, served(here) as call:
        for pid, priority in (("asks", "realtime"), ("behind", "low")):
            call("submit", pid=pid, priority=priority)
        question = {"kind": "confirmation", "question": "May I?", "action": "send"}
        call("create_interrupt", id="q", pid="asks", **question)
        assert call("get_next_runnable", holder="w")["process"]["pid"] == "behind"
        assert not call("get_next_runnable", holder="w").get("process")
        answer = {"id": "q", "answer": {"type": "Approved"}, "action": "send"}
        call("resolve_interrupt", "operator", **answer)
        assert call("get_next_runnable", holder="w")["process"]["pid"] == "asks"
