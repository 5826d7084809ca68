"""The calls of one answer, set going at once: by the host, or by a fiber of this program.

A tool that is written in Vega runs in a process below the agent's own, so that it ends with it and
spends from its wallet. So does a program that its model has just written.
"""

from collections.abc import Iterator

from vegakit.agent import CallTools, PlannedCall, ToolOutcome
from vegakit.effects import CallTool
from vegakit.policy import sanitise
from vegakit.program.actions import SpawnRefused
from vegakit.program.authored import Programs
from vegakit.program.bodies import AgentBody
from vegakit.program.commands import Spawn
from vegakit.program.core import Core
from vegakit.program.lives import Lives
from vegakit.program.mail import Fell, Mail, Outcome
from vegakit.program.paths import child_path
from vegakit.program.spawning import Spawning
from vegakit.program.state import Process, Send
from vegakit.vm import restored, text_of

__all__ = ["ToolRounds"]

_NOT_WANTED = Fell("Cancelled", "nobody waits for the answer any more")


class ToolRounds:
    def __init__(self, core: Core, lives: Lives, spawning: Spawning, programs: Programs) -> None:
        self._core = core
        self._programs = programs
        self._lives = lives
        self._spawning = spawning

    def start(
        self,
        path: str,
        process: Process,
        letter: int,
        send: Send,
        action: CallTools,
        deadline_ms: int | None,
    ) -> Iterator[tuple[int, ToolOutcome]]:
        """Gives the outcomes of those that could not even begin."""
        body = self._core.body_of(process)
        assert isinstance(body, AgentBody)
        send.due, send.outcomes, send.failed = len(action.calls), {}, ()
        for plan in action.calls:
            if plan.call.name in body.authors:
                place = path, process, letter, action.step, plan, deadline_ms
                if (told := self._programs.begin(*place)) is not None:
                    yield plan.index, told
                continue
            send.touched |= plan.call.name not in body.repeatable
            if plan.call.name in body.fibers:
                failed = self._begin_fiber(path, process, letter, action.step, plan, deadline_ms)
                if failed is not None:
                    yield plan.index, failed
            else:
                self._start(path, process, letter, send, action.step, plan, deadline_ms)

    def outcome_of(self, path: str, ask: str, outcome: Outcome) -> ToolOutcome:
        """Harmless to read: a program may give on what it read anywhere."""
        if (told := self._programs.on_heard(path, ask, outcome)) is not None:
            return told
        if isinstance(outcome, Fell):
            return ToolOutcome(sanitise(f"{outcome.error}: {outcome.reason}"), is_error=True)
        return ToolOutcome(sanitise(text_of(restored(outcome.value))))

    def withdraw(self, path: str, letter: int, send: Send) -> None:
        for index in range(send.due):
            place = self._core.state.asks.get(f"{path}|{letter}.{index}")
            if place is not None:
                self._lives.withdraw(*place, _NOT_WANTED)
        self._programs.withdraw(path, letter, send)

    def _start(
        self,
        path: str,
        process: Process,
        letter: int,
        send: Send,
        step: int,
        plan: PlannedCall,
        deadline_ms: int | None,
    ) -> None:
        body = self._core.body_of(process)
        assert isinstance(body, AgentBody)
        name = plan.call.name
        self._core.start(
            path,
            process,
            CallTool(name, plan.call.arguments, send.scope, name in body.repeatable),
            "send",
            letter,
            (step, plan.index),
            index=plan.index,
            deadline_ms=deadline_ms,
            priority=body.priority,
        )

    def _begin_fiber(
        self,
        path: str,
        process: Process,
        letter: int,
        step: int,
        plan: PlannedCall,
        deadline_ms: int | None,
    ) -> ToolOutcome | None:
        body = self._core.body_of(process)
        assert isinstance(body, AgentBody)
        name = plan.call.name
        below = child_path(path, process.generation, name)
        if below not in self._core.state.processes:
            made = self._spawning.spawn(Spawn(body.fibers[name], name, path))
            if isinstance(made, SpawnRefused):
                return ToolOutcome(f"{made.error}: {made.reason}", is_error=True)
        mailbox = process.mailbox
        taken = None if mailbox is None else mailbox.taken(letter)
        said = str(letter) if taken is None else taken.message.name or str(letter)
        word = f"{letter}.{plan.index}"
        name, session = f"{said} {step} {plan.index}", (process.sends or {})[letter].session
        mail = Mail(plan.call.arguments, word, path, deadline_ms, name, session=session)
        self._core.post(below, mail)
        return None
