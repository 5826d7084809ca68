"""What a message cost in lives that ended: its part and its attempts are one over all of them."""

from vegakit.errors import AgentFailed
from vegakit.program.mail import Fell
from vegakit.program.state import Process, Tried

__all__ = ["asked_enough", "count", "leave", "take_up", "uncount"]


def leave(process: Process, letter: int, tried: Tried) -> None:
    """For the life that takes the letter next; those that nobody will take are forgotten."""
    mailbox, known = process.mailbox, (process.tried or {}) | {letter: tried}
    process.tried = {n: of for n, of in known.items() if mailbox is not None and mailbox.has(n)}


def take_up(process: Process, letter: int) -> Tried:
    known = process.tried or {}
    process.tried = {n: of for n, of in known.items() if n != letter} or None
    return known.get(letter, Tried())


def count(tried: Tried, step: int) -> None:
    tried.calls = tried.calls | {step: tried.calls.get(step, 0) + 1}


def uncount(tried: Tried, step: int) -> None:
    """A call that was cut off because our side died was not tried in vain."""
    tried.calls = tried.calls | {step: tried.calls.get(step, 1) - 1}


def asked_enough(path: str, asked: int) -> Fell:
    return Fell(
        AgentFailed.__name__,
        f"{path} ended while its model was asked, {asked} time{'s' * (asked > 1)}, and may not ask "
        "again; look why it ended, or raise max_attempts",
    )
