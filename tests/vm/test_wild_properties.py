"""Random code that the verifier lets through runs the same whole and in pieces, and always ends."""

from typing import Any
from zlib import crc32

from hypothesis import given, strategies as st
from msgspec.structs import replace

from tests.vm.snapshots import Fails, Host, Ran, Streams, echo, never, run
from tests.vm.wild import wild_module
from vegakit.lang import AgentSpec
from vegakit.lang.codegen.verifier import verify
from vegakit.vm import (
    AskBudget,
    CallHost,
    CancelRequest,
    CloseScope,
    EndProcesses,
    FiberRequest,
    OpenScope,
    Print,
    SendTo,
    SpawnAgent,
    Status,
    Watch,
)
from vegakit.vm.state import VmLimits

LIMITS = VmLimits(total_fuel=500, tasks=20, depth=12)
AGENTS = tuple(AgentSpec(name, "fast") for name in ("A", "B"))
ODD: tuple[Any, ...] = (
    *("x", 5, None, ["a"], {"file": "a"}, {"$": "money", "of": 5}, never, never, never),
    *(Fails("Timeout"), Fails("Nonsense"), Streams(("a", "b")), Streams(("c",), "Timeout")),
)


def host_of(seed: int) -> Host:
    """Sensible answers mostly; by the ticket, so that the order of the asking changes nothing."""

    def host(request: FiberRequest) -> Any:
        place = getattr(request, "ticket", "").partition("'")[0]
        chance = crc32(f"{seed} {place}".encode())
        if chance % 8 == 0 and not isinstance(request, SpawnAgent):
            return ODD[chance // 8 % len(ODD)]
        if isinstance(request, Watch):
            return "gone" if chance % 2 else never
        if isinstance(request, SpawnAgent):
            return f"/{request.ticket}"
        return [] if isinstance(request, SendTo) and request.answer else echo(request)

    return host


@given(st.integers(0, 2**48))
def test_wild_programs_run_the_same_in_pieces(seed: int) -> None:
    """Wants, fuel and outcome are one, whatever the answers."""
    module = wild_module(seed)
    assert verify(module) == []
    whole = run(module, host=host_of(seed), limits=LIMITS, rounds=300)
    pieces = run(module, host=host_of(seed), fuel=1, limits=LIMITS, stored=True, rounds=3_000)
    assert pieces == whole
    assert whole.step.status is not Status.RUNNING
    asked = [request.ticket for request in whole.requests if isinstance(request, _ANSWERED)]
    if whole.step.status is not Status.WAITING and len(asked) == len(set(asked)):
        _all_is_closed(whole)


@given(st.integers(0, 2**48), st.sampled_from([1, 3, 64]))
def test_looking_ahead_changes_nothing(seed: int, window: int) -> None:
    """Outcome and fuel are those of the run in order, also in pieces; what is printed too."""
    module = replace(wild_module(seed), agents=AGENTS)
    in_order = run(module, host=host_of(seed), limits=LIMITS, rounds=300)
    ahead = run(module, host=host_of(seed), limits=LIMITS, rounds=300, window=window)
    assert (ahead.step, ahead.fuel) == (in_order.step, in_order.fuel)
    assert _printed(ahead) == _printed(in_order)
    pieces = run(
        module, host=host_of(seed), fuel=1, limits=LIMITS, stored=True, rounds=3_000, window=window
    )
    assert (pieces.step, pieces.fuel, pieces.requests) == (ahead.step, ahead.fuel, ahead.requests)


def _printed(ran: Ran) -> list[str]:
    return [request.text for request in ran.requests if isinstance(request, Print)]


def _all_is_closed(ran: Ran) -> None:
    """Every scope that was opened is closed once; what has no answer is cancelled, and only that;
    no process is dropped twice."""
    granted, cancelled = (
        ran.granted,
        [w.ticket for w in ran.requests if isinstance(w, CancelRequest)],
    )
    opened = [w.ticket for w in ran.requests if isinstance(w, OpenScope) and granted.get(w.ticket)]
    assert sorted(w.scope for w in ran.requests if isinstance(w, CloseScope)) == sorted(opened)
    asked = [w.ticket for w in ran.requests if isinstance(w, _ANSWERED)]
    assert sorted(t for t in asked if t not in granted) == sorted(cancelled)
    dropped = [path for w in ran.requests if isinstance(w, EndProcesses) for path in w.paths]
    assert len(dropped) == len(set(dropped))


_ANSWERED = (SendTo, SpawnAgent, CallHost, Watch, OpenScope, AskBudget)
