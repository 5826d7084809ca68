"""An agent that runs in circles: it makes the same tool call again and again in one send."""

from collections.abc import Sequence

from vegakit.agent import PlannedCall
from vegakit.errors import LimitReached
from vegakit.program.mail import Fell
from vegakit.program.state import Send
from vegakit.records import digest128

__all__ = ["runs_in_circles"]


def runs_in_circles(send: Send, calls: Sequence[PlannedCall], most: int) -> Fell | None:
    """Counts these calls in."""
    for plan in calls:
        word = digest128([plan.call.name, plan.call.arguments])
        send.repeats = send.repeats | {word: send.repeats.get(word, 0) + 1}
        if send.repeats[word] > most:
            return Fell(
                LimitReached.__name__,
                f"the agent called tool {plan.call.name} with the same arguments more than {most} "
                "times: it runs in circles; say in its instructions when to stop, or raise "
                "Bounds(repeats=…)",
            )
    return None
