"""Driving a program: the machine decides, a host does, and what comes of it goes back.

submit(command) ─▶ machine.step ─ Start, Cancel ─▶ host ─ events ─▶ machine.step ─▶ …
                        └─ answers, news ─▶ on_action
"""

import logging
from collections.abc import Callable

from vegakit.effects import Cancel, Start
from vegakit.ports import Host
from vegakit.program import Action, Event, Machine

__all__ = ["Driver"]

_LOG = logging.getLogger("vegakit")


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
                self._host.start(action.effect)
            elif isinstance(action, Cancel):
                self._host.cancel(action.key)
            else:
                self._on_action(action)
        return actions

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                for event in await self._host.next():
                    self.submit(event)
        except Exception as failure:
            self.failure = failure
            _LOG.exception("the program cannot go on")
            raise
