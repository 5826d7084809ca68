"""Where an effect stands: its process, its message, its agent, and what its asker brought along."""

import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

from vegakit.effects import Effect
from vegakit.events import CallKind
from vegakit.ports import Tool
from vegakit.program import Machine, Mail
from vegakit.runtime.agents import Agent
from vegakit.runtime.processes.asked import Asks
from vegakit.runtime.processes.performing import Context
from vegakit.runtime.processes.registry import Registry
from vegakit.telemetry import Span, Tracer

__all__ = ["Places"]


class Places:
    """Implements `performing.Place`."""

    def __init__(self, machine: Machine, registry: Registry, asks: Asks, tracer: Tracer) -> None:
        self.machine = machine
        self._registry = registry
        self._asks = asks
        self._tracer = tracer
        self._span: Span | None = None
        self._variables = contextvars.copy_context()
        """Of who opened the program: a process that an alarm restarts is below that span."""

    def process_of(self, effect: Effect) -> str:
        return self.machine.state.flights[effect.key].path

    def message_of(self, effect: Effect) -> Any:  # noqa: ANN401
        return self._mail_of(effect).content

    def context_of(self, effect: Effect) -> Context:
        """What no ask of the host stands behind is below one span of the program."""
        context = self._asks.context_of(self._mail_of(effect).ask)
        if context is not None:
            return context
        if self._span is None:
            self._span = self._tracer.begin(CallKind.SPAN, "program")
        return Context(self._span)

    def agent_of(self, effect: Effect) -> Agent[Any]:
        process = self.machine.state.processes[self.process_of(effect)]
        return self._registry.agent(process.spec.body)

    def tool_of(self, effect: Effect, name: str) -> tuple[Tool, str]:
        """The tool, and who calls it."""
        body = self.machine.state.processes[self.process_of(effect)].spec.body
        who = self._registry.agent(body).name if self._registry.is_agent(body) else body
        return self._registry.tools(body)[name], who

    def function_of(self, name: str) -> Callable[..., Awaitable[Any]]:
        return self._registry.function(name)

    def variables_of(self, effect: Effect) -> contextvars.Context | None:
        """The context variables that it is carried out with; None those of whoever starts it."""
        flight = self.machine.state.flights[effect.key]
        if not flight.path:
            return self._variables  # the alarm rings for whoever comes next
        if not flight.letter:
            return None
        context = self._asks.context_of(self._mail_of(effect).ask)
        return None if context is None else context.variables

    def close(self) -> None:
        if self._span is not None:
            self._tracer.end(self._span)

    def _mail_of(self, effect: Effect) -> Mail:
        flight = self.machine.state.flights[effect.key]
        mailbox = self.machine.state.processes[flight.path].mailbox
        letter = None if mailbox is None else mailbox.taken(flight.letter)
        return Mail(None) if letter is None else letter.message
