"""One way with one plan, in a process of its own, and what its provider saw, here in a thread."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from benchmarks.peers_programs.plans import MODEL, TOOLS
from vegakit.conversation import Usage
from vegakit.money import Money
from vegakit.prices import bill
from vegakit.providers import ProviderAccess, build_model
from vegakit.testing import (
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderToolCall,
    RequestStatus,
)

__all__ = ["PEERS_PYTHON", "SLOW_MS", "Killed", "Moment", "Seen", "Way", "killed", "seen"]

ROOT = Path(__file__).parents[2]
PEERS_PYTHON = ROOT / ".bench/programs/bin/python"
_OURS = "benchmarks.peers_programs.in_vega"
_THEIRS = "benchmarks.peers_programs.in_pydantic_ai"
_DURABLE = "benchmarks.peers_programs.in_dbos"
SLOW_MS, KILL_MS, QUICK_MS = 3_000, 500, 100
"""How long an answer takes: no model writes 1,250 tokens in less than the first."""
_PATIENCE_S = 240.0
_USAGE = Usage(30, 1_250)
"""Of each answer of the reader, whatever it says: a cent."""
_PRICE = build_model(f"openai-chat:{MODEL}", ProviderAccess(lambda: "any")).price


Moment: TypeAlias = Callable[[int, int], bool]
"""Of a kill, by how many asks have come to the provider and how many it has answered."""


class Way(NamedTuple):
    """`kind` is one of `in_pydantic_ai`, or `dbos`; our own has none."""

    name: str
    kind: str = ""

    def command(self, plan: str, url: str, folder: str) -> list[str]:
        if not self.kind:
            return [sys.executable, "-m", _OURS, plan, url, folder]
        if self.kind == "dbos":
            return [str(PEERS_PYTHON), "-m", _DURABLE, plan, url, folder]
        return [str(PEERS_PYTHON), "-m", _THEIRS, self.kind, plan, url, folder]


class Seen(NamedTuple):
    """`billed` is all that the provider began to answer for the reader, for a
    provider bills what it made though nobody waits for it."""

    asks: int
    billed: Money
    said: str
    error: str


class Killed(NamedTuple):
    """`again` were answered before the kill and were sent again after it; `cut` were in flight."""

    answered: int
    cut: int
    again: int
    cut_again: int
    new: int
    said: str
    error: str


def answer(request: ProviderRequest, delay_ms: int) -> ProviderReply:
    """The planner has tools; it sends the plan that it is asked for, and repeats what came back."""
    if not request.tools:
        return ProviderReply("It says so.", usage=_USAGE, delay_ms=delay_ms)
    if request.tool_results:
        return ProviderReply(_text(request.body["messages"][-1]["content"]), usage=Usage(30, 1))
    [name] = request.tools.keys() & TOOLS.keys()
    argument, plans = TOOLS[name]
    source = plans[request.text.removeprefix("plan ")]
    return ProviderReply(calls=[ProviderToolCall(name, {argument: source})], usage=Usage(30, 1))


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def seen(way: Way, plan: str, delay_ms: int = QUICK_MS) -> Seen:
    """Run to its end."""
    script = partial(answer, delay_ms=delay_ms)
    with tempfile.TemporaryDirectory() as folder, Provider(script).in_thread() as provider:
        process = _started(way, plan, provider.url, folder)
        said, error = process.communicate(timeout=_PATIENCE_S)
        asked = _asks(provider.requests)
    assert _PRICE is not None
    billed = Money(len(asked) * bill(_PRICE, _USAGE))
    return Seen(len(asked), billed, said.strip(), _last_line(error))


def killed(way: Way, plan: str, moment: Moment) -> Killed:
    """Killed by `kill -9` once the moment has come; then run again, to its end."""
    script = partial(answer, delay_ms=KILL_MS)
    with tempfile.TemporaryDirectory() as folder, Provider(script).in_thread() as provider:
        first = _started(way, plan, provider.url, folder)
        ends = time.monotonic() + _PATIENCE_S
        while first.poll() is None and time.monotonic() < ends:
            if moment(len(_asks(provider.requests)), len(_answered(provider.requests))):
                break
            time.sleep(0.005)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        before = _asks(provider.requests)
        done = {one.text for one in _answered(before)}
        again = _started(way, plan, provider.url, folder)
        said, error = again.communicate(timeout=_PATIENCE_S)
        after_it = Counter(one.text for one in _asks(provider.requests)[len(before) :])
    cut = {one.text for one in before} - done
    return Killed(
        len(done),
        len(cut),
        sum(after_it[text] for text in done),
        sum(after_it[text] for text in cut),
        sum(number for text, number in after_it.items() if text not in done | cut),
        said.strip(),
        _last_line(error),
    )


def _started(way: Way, plan: str, url: str, folder: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        way.command(plan, url, folder),
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": folder},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _asks(requests: list[ProviderRequest]) -> list[ProviderRequest]:
    return [one for one in list(requests) if not one.tools]


def _answered(requests: list[ProviderRequest]) -> list[ProviderRequest]:
    return [one for one in _asks(requests) if one.status is RequestStatus.ANSWERED]


def _last_line(error: str) -> str:
    lines = error.strip().splitlines()
    return lines[-1] if lines else ""
