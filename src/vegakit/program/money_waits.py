"""Sends of compiled programs that wait for money which others of the program hold (pure).

| a send whose amount                                  | it                                    |
|------------------------------------------------------|---------------------------------------|
| fits, and no other send waits for that wallet        | takes it                              |
| exceeds what the wallet has not spent                | is refused: it can never fit          |
| fits when others settle, or others wait there        | waits, first come first served        |
| waits last, while nothing else could free money      | is refused with both sums             |

A speculative send does not wait: it is not begun where it may not fit. A send never waits for a
call that it is made inside of.
"""

from collections.abc import Iterator

from vegakit.effects import AskHuman, CallModel, CallTool
from vegakit.money import Money, format_money
from vegakit.program.bodies import FiberBody
from vegakit.program.core import Core
from vegakit.program.messages import MessageFailed
from vegakit.program.state import MoneyWait, ProcessRecord, TimerKind
from vegakit.program.wallets import Wallets, budget_exceeded


class MoneyWaits:
    """The line of the sends that wait for money."""

    def __init__(self, core: Core, wallets: Wallets) -> None:
        self._core = core
        self._wallets = wallets

    def takes(
        self, path: str, process: ProcessRecord, message_id: int, amount: Money, session: str
    ) -> bool:
        """Let a send wait for an amount, and return whether it has to."""
        line = self._core.state.short
        key = f"{path}|{message_id}"
        if key in line and line[key].generation == process.generation:
            return True
        if not self._may_wait(process, message_id):
            return False
        behind = {wait.wallet for wait in line.values()}
        short = self._wallets.shortage(path, amount, session, behind)
        if short is not None:
            facts = path, message_id, process.generation, amount, session
            line[key] = MoneyWait(*facts, short[1])
        return short is not None

    def is_waiting(self, path: str) -> bool:
        """Return whether a send of the process waits."""
        return any(wait.path == path for wait in self._core.state.short.values())

    def next(self) -> tuple[MoneyWait, MessageFailed | None] | None:
        """Return the next send that does not wait any more, and why it fails if it is refused."""
        line = self._core.state.short
        blocked: set[str] = set()
        for key, wait in [*line.items()]:
            process = self._core.state.processes.get(wait.path)
            entry = process and process.mailbox and process.mailbox.taken(wait.message_id)
            if not entry or process is None or process.generation != wait.generation:
                del line[key]
            elif wait.wallet not in blocked:
                short = self._wallets.shortage(wait.path, wait.amount, wait.session, blocked)
                if short is None:
                    return line.pop(key), None
                blocked.add(short[1])
        if not line or self._may_free_money(next(reversed(line.values())).path):
            return None
        _, wait = line.popitem()
        short = self._wallets.shortage(wait.path, wait.amount, wait.session, ())
        return wait, None if short is None else _refused(wait.amount, *short)

    def _may_wait(self, process: ProcessRecord, message_id: int) -> bool:
        """Return whether a fiber has sent the message and comes to it in the program."""
        entry = None if process.mailbox is None else process.mailbox.taken(message_id)
        sender = self._core.state.processes.get(entry.message.sender) if entry else None
        if sender is None or not isinstance(self._core.body_of(sender), FiberBody):
            return False
        return self._core.speculates(process, message_id) is None

    def _may_free_money(self, path: str) -> bool:
        """Return whether anything is under way that may free money, except calls that wait for this
        process."""
        state = self._core.state
        above = set(self._ancestors(path))
        return any(
            isinstance(flight.effect.request, CallModel | CallTool | AskHuman)
            and flight.path not in above
            for flight in state.effects_in_flight.values()
        ) or any(
            timer.kind is not TimerKind.DEADLINE and not self._core.is_stale(timer)
            for timer in state.timers
        )

    def _ancestors(self, path: str) -> Iterator[str]:
        while path := self._core.state.processes[path].spawner:
            yield path


def _refused(amount: Money, name: str, _: str, held: Money) -> MessageFailed:
    others = (
        f"{name}: {format_money(held)} of it is held by parts of the program that wait as well, "
        "so this call, which began to wait last, is refused and the others continue"
    )
    return budget_exceeded("the next call could cost", amount, others)
