"""Links and monitors: who hears of the end of a process, and who ends with it.

| exit signal from another     | the receiver traps exits | it does not         |
|------------------------------|--------------------------|---------------------|
| normal                       | a message                | nothing             |
| any other reason             | a message                | ends, same reason   |
| kill                         | ends, killed             | ends, killed        |

What the links of a killed process hear is `killed`, a reason like any other, so it can be trapped.

A link is two-way, and there is one for a pair at most. A monitor is one-way; each has its own ref
and brings one Down, or none if it was taken back. To link to nobody brings the exit signal
`noproc`, to monitor nobody a Down of `noproc`, at once.

One end is spread until nobody else ends by it. The news goes out in this order: the process that
ended first tells its links, then its monitors, each in the order they were made; then the next one
does. Whoever has ended hears nothing more. So what passes between any two keeps its order.
"""

from collections.abc import Iterator
from typing import TypeAlias, TypeVar

from msgspec import Struct, field

from vegakit.policy.supervision.exits import ExitKind, ExitReason

__all__ = ["EndProcess", "SendDown", "SendExit", "Signal", "Signals"]


class EndProcess(Struct, frozen=True, tag=True):
    to: str
    reason: ExitReason


class SendExit(Struct, frozen=True, tag=True):
    """A message to a process that traps exits."""

    to: str
    sender: str
    reason: ExitReason


class SendDown(Struct, frozen=True, tag=True):
    """The message of a monitor."""

    to: str
    ref: str
    target: str
    reason: ExitReason


Signal: TypeAlias = EndProcess | SendExit | SendDown

T = TypeVar("T")

_NOPROC = ExitReason(ExitKind.NOPROC)
_KILLED = ExitReason(ExitKind.KILLED)


class Signals(Struct, omit_defaults=True):
    """Only who is tied has an entry, so `alive`, whether the target is, has to be handed in."""

    links: dict[str, dict[str, None]] = field(default_factory=dict)
    watched: dict[str, dict[str, str]] = field(default_factory=dict)
    watching: dict[str, dict[str, str]] = field(default_factory=dict)
    trapping: dict[str, None] = field(default_factory=dict)
    refs: int = 0

    def trap(self, pid: str, on: bool) -> None:
        if on:
            self.trapping[pid] = None
        else:
            self.trapping.pop(pid, None)

    def link(self, pid: str, other: str, *, alive: bool) -> list[Signal]:
        if not alive:
            return self.send_exit(other, pid, _NOPROC)
        if pid != other:
            self.links.setdefault(pid, {})[other] = None
            self.links.setdefault(other, {})[pid] = None
        return []

    def unlink(self, pid: str, other: str) -> None:
        _cut(self.links, pid, other)
        _cut(self.links, other, pid)

    def monitor(self, watcher: str, target: str, *, alive: bool) -> tuple[str, list[Signal]]:
        self.refs += 1
        ref = str(self.refs)
        if not alive:
            return ref, [SendDown(watcher, ref, target, _NOPROC)]
        self.watching.setdefault(watcher, {})[ref] = target
        self.watched.setdefault(target, {})[ref] = watcher
        return ref, []

    def demonitor(self, watcher: str, ref: str) -> None:
        target = _cut(self.watching, watcher, ref)
        if target is not None:
            _cut(self.watched, target, ref)

    def send_exit(self, sender: str, to: str, reason: ExitReason) -> list[Signal]:
        signal = self.received(sender, to, reason)
        if isinstance(signal, EndProcess):
            return self._spread(signal)
        return [] if signal is None else [signal]

    def kill(self, pid: str) -> list[Signal]:
        return self._spread(EndProcess(pid, _KILLED))

    def on_exited(self, pid: str, reason: ExitReason) -> list[Signal]:
        """It ended by itself; what it owes to others."""
        return self._spread(EndProcess(pid, reason))[1:]

    def received(self, sender: str, to: str, reason: ExitReason) -> EndProcess | SendExit | None:
        if to in self.trapping:
            return SendExit(to, sender, reason)
        return None if reason.kind is ExitKind.NORMAL else EndProcess(to, reason)

    def _spread(self, end: EndProcess) -> list[Signal]:
        signals: list[Signal] = [end]
        ended = {end.to}
        for news in signals:  # grows while it is walked
            if not isinstance(news, EndProcess):
                continue
            for signal in self.farewells(news.to, news.reason):
                if signal.to in ended:
                    continue
                signals.append(signal)
                if isinstance(signal, EndProcess):
                    ended.add(signal.to)
        return signals

    def farewells(self, pid: str, reason: ExitReason) -> Iterator[Signal]:
        """What one end means to those tied to it, and no further."""
        self.trapping.pop(pid, None)
        for ref, target in self.watching.pop(pid, {}).items():
            _cut(self.watched, target, ref)
        for peer in self.links.pop(pid, {}):
            _cut(self.links, peer, pid)
            signal = self.received(pid, peer, reason)
            if signal is not None:
                yield signal
        for ref, watcher in self.watched.pop(pid, {}).items():
            _cut(self.watching, watcher, ref)
            yield SendDown(watcher, ref, pid, reason)


def _cut(table: dict[str, dict[str, T]], pid: str, key: str) -> T | None:
    ties = table.get(pid)
    if ties is None:
        return None
    value = ties.pop(key, None)
    if not ties:
        del table[pid]
    return value
