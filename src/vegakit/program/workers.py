"""What each kind of body does for the processes that have it; by default nothing."""

from vegakit.events import EffectOutcome
from vegakit.program.core import Core
from vegakit.program.mail import Heard, Outcome, ours
from vegakit.program.state import Flight, Process

__all__ = ["Worker"]


class Worker:
    """What `begin`, `work`, `on_outcome`, `on_heard` and `on_timer` raise crashes the process."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def begin(self, path: str, process: Process) -> None:
        """A life begins."""

    def work(self, path: str, process: Process) -> None:
        """Take letters, as many as it handles at once."""

    def on_outcome(
        self, path: str, process: Process, flight: Flight, outcome: EffectOutcome
    ) -> None:
        """Of an effect of this life, already settled."""

    def settle(self, path: str, process: Process, flight: Flight, outcome: EffectOutcome) -> None:
        """Also of a life that is over or a letter that was given up: what it came to."""

    def on_heard(self, path: str, process: Process, ask: str, outcome: Outcome) -> None:
        """The answer to what this process asked."""
        self._core.post(path, ours(Heard(ask, outcome)))

    def on_timer(self, path: str, process: Process, letter: int) -> None: ...

    def drop(self, path: str, process: Process, letter: int) -> None:
        """One letter is given up."""

    def abandon(self, path: str, process: Process) -> None:
        """Every letter is given up: the life is over."""
