"""A fiber at work: where it runs, for which letter, and what its sessions and asks are called."""

from dataclasses import dataclass

from vegakit.policy import ExitKind, ExitReason
from vegakit.program.bodies import FiberBody
from vegakit.program.state import Fiber, Process
from vegakit.vm import Vm

__all__ = ["NORMAL", "Run"]

NORMAL = ExitReason(ExitKind.NORMAL)


@dataclass(slots=True)
class Run:
    path: str
    process: Process
    letter: int
    fiber: Fiber
    vm: Vm
    body: FiberBody
    exits: ExitReason = NORMAL

    @property
    def words(self) -> str:
        """What the words of its asks begin with."""
        return f"{self.path}|{self.letter}:"

    def session(self, scope: str) -> str:
        """Outside of all its own scopes: the one that the letter came with."""
        if scope:
            return f"{self.path}#{self.process.generation}|{self.letter}:{scope}"
        taken = None if self.process.mailbox is None else self.process.mailbox.taken(self.letter)
        return "" if taken is None else taken.message.session
