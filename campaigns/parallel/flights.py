"""When each call of a program was in flight, on virtual time, noted at the machine that runs it.

A call is known by its ticket, `main:3[0.2]/check:1`: the calls of functions on the way down, each
with the rounds of the loops around it, and the site at its end.
"""

import asyncio
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from vegakit.lang import Module, Op, StepKind
from vegakit.vm import Vm, lookahead
from vegakit.vm.state import ProgramTask, TicketState
from vegakit.vm.values import Handle, ProgramFault

__all__ = ["Flight", "Flights", "Place", "Site", "flights_noted", "sites_of"]

_PART = re.compile(r"([^:/]+(?:::[^:/]+)*):(\d+)(?:\[([\d.]+)\])?(?:#[^/]*|~[^/]*)?")
_KINDS = {
    Op.ISSUE_SEND: StepKind.SEND,
    Op.SEND_STREAM: StepKind.SEND,
    Op.HOST: StepKind.CALL,
    Op.CALL: StepKind.FUNCTION,
}


class Site(NamedTuple):
    """Where a call stands in the source. `kind` counts tools of the program as functions, and
    those of others as calls."""

    line: int
    column: int
    kind: StepKind


class Place(NamedTuple):
    """One part of a ticket: the site in a function, and the rounds of the loops around it."""

    function: str
    ordinal: int
    rounds: tuple[int, ...]


@dataclass(slots=True)
class Flight:
    """One call, from where it began to where it was answered, failed or was given up. `process` is
    that which it asks, if it remembers."""

    places: tuple[Place, ...]
    began: float
    ended: float = -1.0
    is_used: bool = False
    process: str = ""


@dataclass
class Flights:
    """The calls of one run of `main`. `faults_at` is when the program first came to an error, or
    foresaw one, and `asked` what is in flight now."""

    done: list[Flight] = field(default_factory=list[Flight])
    asked: dict[str, Flight] = field(default_factory=dict[str, Flight])
    faults_at: float = float("inf")
    ended: float = 0.0

    @cached_property
    def used(self) -> list[Flight]:
        """Return those that the program came to."""
        return [one for one in self.done if one.is_used]

    def begin(self, ticket: str, asked: TicketState, process: str) -> None:
        if asked.kind in ("send", "stream", "host") and ticket.startswith("main:"):
            is_used = not asked.speculative
            self.asked[ticket] = Flight(places_of(ticket), _now(), is_used=is_used, process=process)

    def use(self, ticket: str) -> None:
        if ticket in self.asked:
            self.asked[ticket].is_used = True

    def end(self, ticket: str) -> None:
        flight = self.asked.get(ticket)
        if flight is not None and flight.ended < 0:
            flight.ended = _now()
            waits = (one for one in self.asked.values() if one.process == flight.process)
            if (
                flight.process
                and next(one for one in waits if one.ended < 0 or one is flight) is not flight
            ):
                flight.began = flight.ended  # it was given up before its turn came
            self.done.append(flight)
            self._take_next(flight)

    def _take_next(self, before: Flight) -> None:
        """Let messages to the same process begin no earlier than this: they are taken in turn."""
        flights = iter(self.asked.values())
        if before.process and any(one is before for one in flights):
            for one in flights:
                if one.process == before.process and one.ended < 0:
                    one.began = before.ended

    def forget(self, ticket: str) -> None:
        self.end(ticket)
        self.asked.pop(ticket, None)

    def close(self) -> None:
        self.ended = _now()
        for ticket in [*self.asked]:
            self.forget(ticket)


def places_of(ticket: str) -> tuple[Place, ...]:
    found: list[Place] = []
    for part in ticket.split("/"):
        match = _PART.match(part)
        assert match is not None, ticket
        rounds = tuple(map(int, match[3].split("."))) if match[3] else ()
        found.append(Place(match[1], int(match[2]), rounds))
    return tuple(found)


def _process(vm: Vm, asked: TicketState) -> str:
    to = "" if asked.older is None else asked.older.to
    return to if to and vm.remembers(asked.of, Handle(to)) else ""


def _now() -> float:
    return asyncio.get_running_loop().time()


def sites_of(module: Module) -> Mapping[str, Mapping[int, Site]]:
    """Return for each function where its sites are."""
    return {each.name: _sites(each) for each in module.functions}


def _sites(function: Any) -> dict[int, Site]:
    found: dict[int, Site] = {}
    for op, *operands in function.code:
        kind = _KINDS.get(Op(op))
        if kind is not None:
            site = function.sites[operands[-1]]
            found[site.ordinal] = Site(site.line, site.column, kind)
    return found


@contextmanager
def flights_noted() -> Generator[Flights]:  # noqa: C901  (a list of what is watched)
    """Note the calls of the program that runs meanwhile. Those of tools that agents call are left
    out, as their machines have other names of places."""
    noted = Flights()
    before = {name: getattr(Vm, name) for name in _WATCHED}
    foresees = lookahead.unwind
    own = {name for name in _WATCHED if name in Vm.__dict__}

    def ask(self: Vm, ticket: str, asked: TicketState) -> None:
        before["ask"](self, ticket, asked)
        noted.begin(ticket, asked, _process(self, asked))

    def use(self: Vm, task: ProgramTask, ticket: str, request: Any) -> bool:
        is_equal = before["use_speculative"](self, task, ticket, request)
        if is_equal:
            noted.use(ticket)
        return is_equal

    def forget(self: Vm, ticket: str) -> TicketState:
        noted.forget(ticket)
        return before["forget_asked"](self, ticket)

    def ending(name: str) -> Any:
        def end(self: Vm, ticket: str, *given: Any, **named: Any) -> bool:
            is_taken = before[name](self, ticket, *given, **named)
            if is_taken:
                noted.end(ticket)
            return is_taken

        return end

    def unwind(self: Vm, task: ProgramTask, fault: ProgramFault) -> bool:
        if task.name.startswith("main") and task.frames[0].place.startswith("main"):
            noted.faults_at = min(noted.faults_at, _now())
        return before["unwind"](self, task, fault)

    def foreseen(vm: Any, task: ProgramTask, fault: ProgramFault) -> bool:
        if task.frames[0].place.startswith("main"):
            noted.faults_at = min(noted.faults_at, _now())
        return foresees(vm, task, fault)

    def end_all(self: Vm, value: Any) -> None:
        if "main" in self.state.tasks and self.state.tasks["main"].frames[0].place == "main":
            noted.close()
        before["_end_all"](self, value)

    watching = {
        "ask": ask,
        "use_speculative": use,
        "forget_asked": forget,
        "unwind": unwind,
        "_end_all": end_all,
        **{name: ending(name) for name in ("answer", "fail", "end_stream")},
    }
    for name, watch in watching.items():
        setattr(Vm, name, watch)
    lookahead.unwind = foreseen
    try:
        yield noted
    finally:
        lookahead.unwind = foresees
        for name, old in before.items():
            if name in own:
                setattr(Vm, name, old)
            else:
                delattr(Vm, name)


_WATCHED = (
    "ask",
    "use_speculative",
    "forget_asked",
    "unwind",
    "_end_all",
    "answer",
    "fail",
    "end_stream",
)
