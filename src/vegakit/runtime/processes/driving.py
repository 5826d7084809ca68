"""Driving a program: the machine decides, a host does, and what comes of it goes back.

submit(command) ─▶ machine.step ─ Start, Commit, Cancel ─▶ host ─ events ─▶ machine.step ─▶ …
                        └─ answers, news ─▶ on_action
"""

import logging
from collections.abc import Callable, Iterable

from vegakit.effects import Cancel, Commit, Start
from vegakit.errors import UserError
from vegakit.ports import Host
from vegakit.program import Action, Event, Machine
from vegakit.vm import on_lookahead_bug

__all__ = ["Driver"]

_LOG = logging.getLogger("vegakit")


def _log_bug(what: str, error: Exception) -> None:
    _LOG.error("%s failed, which is a bug; the program goes on in order", what, exc_info=error)


on_lookahead_bug(_log_bug)


class Driver:
    """One for each program. `on_action` is told everything that is not for the host."""

    def __init__(self, machine: Machine, host: Host, on_action: Callable[[Action], None]) -> None:
        self.machine = machine
        self._host = host
        self._on_action = on_action
        self.failure: Exception | None = None
        """A machine or journal that failed: the program does not go on."""

    def submit(self, event: Event) -> list[Action]:
        """Steps at once. What the step wants done is begun when this returns, not before."""
        if self.failure is not None:
            raise self.failure
        actions = self.machine.step(event, self._host.now)
        for action in actions:
            if isinstance(action, Start):
                self._host.start(action.effect, speculative=action.speculative)
            elif isinstance(action, Commit):
                self._host.commit(action.key)
            elif isinstance(action, Cancel):
                self._host.cancel(action.key, late=action.late)
            else:
                self._on_action(action)
        return actions

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                self.submit_all(await self._host.next())
        except Exception as failure:
            self.fail(failure)
            raise

    def submit_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self.submit(event)

    def fail(self, failure: Exception) -> None:
        """What is for the user to put right says so to all who wait, and is no news for a log."""
        self.failure = failure
        if not isinstance(failure, UserError):
            _LOG.error("the program cannot go on", exc_info=failure)
