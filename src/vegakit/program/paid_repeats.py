"""Paid repeats: all sends of a quoted program take them from one pool, in the order of the program
(pure).

The quote counts each send once, and as many repeats as the pool has. A call is a repeat if the one
before it may have been billed: it timed out, broke off, or its answer was empty or did not fit.
What is known to be unbilled is tried again by the agent's rule alone. So is what our own death cut
off: a run that goes on has more to spend by what that was charged.

| the send that wants a repeat                | it                                              |
|---------------------------------------------|-------------------------------------------------|
| is speculative, or an older one is not over | waits for its turn                              |
| finds one in the pool                       | takes it                                        |
| finds none, but money that a person added   | takes of that                                   |
| finds none                                  | fails with what went wrong before               |

So the same sends find a repeat, however many are under way at once. How many sends there are, the
program says, or the quote of the run with its arguments. Where neither bounds them, there is no
pool: there only the rule of each agent bounds what it repeats.
"""

from msgspec.structs import replace

from vegakit.agent import AskModel, Summarise, call_failed
from vegakit.errors import AgentFailed, LimitReached
from vegakit.events import Failed, Refused, Unknown
from vegakit.ids import EffectKey
from vegakit.money import Money, dollars, format_money
from vegakit.prices import paid_repeats
from vegakit.program.bodies import AgentBody, FiberBody, StandInBody
from vegakit.program.core import Core
from vegakit.program.messages import MessageFailed
from vegakit.program.processes import Incarnations
from vegakit.program.state import Call, ProcessRecord, RepeatPool, TimerKind, may_be_billed

# Which calls are paid repeats, and what a send fails with that may not make one.


_CENT = dollars("$0.01")


def owed_by(
    path: str, action: AskModel | Summarise, paid: tuple[int, ...], *, has_tools: bool
) -> MessageFailed | None:
    """Return what a send fails with where its next step is a paid repeat and none is left. `paid`
    are the steps that were paid before its process ended. Each step of an agent with tools is
    counted by the quote, and so is none."""
    if action.step in paid:
        why = f"{path} ended after its model was asked"
        return MessageFailed(AgentFailed.__name__, why)
    if action.step == 0 or has_tools:
        return None
    failed = action.instead if isinstance(action, AskModel) else None
    if failed is None:
        return MessageFailed(LimitReached.__name__, f"{path} has to ask its model once more")
    return MessageFailed(failed.error, failed.reason, is_outage=failed.is_outage)


def lacks_repeat(
    outcome: Failed | Refused | Unknown, reason: str, cause: tuple[EffectKey, ...]
) -> MessageFailed | None:
    """Return what a send fails with if a call of this outcome may not be repeated; None if it needs
    no paid repeat."""
    if not may_be_billed(outcome):
        return None
    failed = call_failed(outcome)
    return MessageFailed(failed.error, reason, cause=cause, is_outage=failed.is_outage)


# The pools, and whose turn it is to take from one.


class RepeatPools:
    """The pools of the quoted programs in a state."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def of(self, path: str) -> RepeatPool | None:
        """Return the pool of the quoted program that a process is part of; None if there is
        none."""
        state = self._core.state
        percent, root = state.bounds.paid_repeats, self._root(path)
        if percent is None or root is None:
            return None
        if root not in state.pools:
            body = self._core.body_of(state.processes[root])
            assert isinstance(body, FiberBody)
            known = [body.module.sends, state.bounds.sends if self._is_the_run(root) else None]
            sends = min((count for count in known if count is not None), default=None)
            if sends is None:
                return None
            state.pools[root] = RepeatPool(paid_repeats(sends, percent))
        return state.pools[root]

    def _is_the_run(self, root: str) -> bool:
        """Return whether the host runs a program, and no process of the run does."""
        process = self._core.state.processes[root]
        authored = process.spec.quoted or root in self._core.state.authored
        return not process.spawner and not authored

    def draw(self, pool: RepeatPool, worst: int) -> bool:
        """Take a repeat that costs at most so much, if there is one."""
        if pool.used < pool.size:
            pool.used += 1
            return True
        if pool.beyond + worst <= self._core.state.bounds.raised:
            pool.beyond += worst
            return True
        return False

    def why_not(self, pool: RepeatPool, failure: MessageFailed, worst: Money) -> MessageFailed:
        """Return the failure of a send for which no repeat is left, of a call that could cost so
        much."""
        state = self._core.state
        none = "it may pay no repeats" if not pool.size else f"its {pool.size} are used up"
        if state.recorded:
            # A run keeps the rule that it began with, so only money helps it.
            more = Money(-(-(pool.beyond + worst - state.bounds.raised) // _CENT) * _CENT)
            cost = f"sent again it could cost {format_money(worst)}"
            fix = f"{cost}: vega resume --budget '+{format_money(more)}'"
        else:
            percent = state.bounds.paid_repeats
            fix = f"raise paid_repeats of Bounds, or of [bounds] in vega.toml, which is {percent}"
            fix += ", and run it again"
        why = f"the run has no paid repeat for it: {none}; {fix}"
        return replace(failure, reason=f"{failure.reason}; {why}")

    def _root(self, path: str) -> str | None:
        """Return the process that runs the quoted program."""
        state = self._core.state
        while (process := state.processes.get(path)) is not None:
            body = self._core.body_of(process)
            if isinstance(body, FiberBody) and self._is_program(path, process, body):
                return path if type(body) is FiberBody else None
            path = process.spawner
        return None

    def _is_program(self, path: str, process: ProcessRecord, body: FiberBody) -> bool:
        """Return whether a process runs a whole program, and not a tool or a part of one."""
        if body.function != body.module.main:
            return False
        if process.spec.quoted or path in self._core.state.authored or not process.spawner:
            return True
        above = self._core.body_of(self._core.state.processes[process.spawner])
        return not isinstance(above, FiberBody | AgentBody | StandInBody)


class PaidRepeats:
    """Gives repeats to sends, each in its turn."""

    def __init__(self, core: Core, incarnations: Incarnations) -> None:
        self._core = core
        self._incarnations = incarnations
        self._pools = RepeatPools(core)

    def take(
        self, path: str, process: ProcessRecord, message_id: int, call: Call
    ) -> MessageFailed | bool:
        """Take a repeat for a call that owes one, and return whether the call may be made now, or
        why the send fails. A send whose turn has not come is parked."""
        if call.owes is None:
            return True
        pool = self._pools.of(path)
        if pool is not None and not self._is_next(process, message_id):
            self._core.park(path, message_id)
            return False
        if pool is not None and not self._pools.draw(pool, call.worst_case):
            return self._pools.why_not(pool, call.owes, call.worst_case)
        call.owes = None
        return True

    def next_parked(self) -> tuple[str, int] | None:
        """Return the first parked send whose turn has come, or that is gone; it is parked no
        more."""
        state = self._core.state
        for key, (path, message_id, since_ms) in state.parked.items():
            process = state.processes.get(path)
            send = None if process is None else (process.sends or {}).get(message_id)
            if process is None or send is None or self._is_next(process, message_id):
                del state.parked[key]
                if process is not None and send is not None:
                    self._give_time(path, process, message_id, self._core.now - since_ms)
                return path, message_id
        return None

    def _give_time(self, path: str, process: ProcessRecord, message_id: int, waited: int) -> None:
        """Put off the deadline of a send by the time that it waited for its turn: in the order of
        the program it would have begun later."""
        taken = None if process.mailbox is None else process.mailbox.taken(message_id)
        call = (process.sends or {})[message_id].call
        if call is not None and call.retry.deadline_ms is not None:
            call.retry.deadline_ms += waited
        if process.mailbox is None or taken is None or taken.message.deadline_ms is None:
            return
        due_ms = taken.message.deadline_ms + waited
        process.mailbox.change(message_id, replace(taken.message, deadline_ms=due_ms))
        self._core.wake_at(due_ms, TimerKind.DEADLINE, path, message_id)

    def _is_next(self, process: ProcessRecord, message_id: int) -> bool:
        """Return whether all that comes before a send in the program is over, at every level: it
        may be of a tool that another send has called."""
        if self._core.speculates(process, message_id) is not None:
            return False
        while process.mailbox and (taken := process.mailbox.taken(message_id)) is not None:
            place = self._core.place_of(taken.message)
            if place is None:
                return True
            path, process, message_id, word = place
            worker = self._incarnations.workers[type(self._core.body_of(process))]
            if not worker.is_next(path, process, message_id, word):
                return False
        return True
