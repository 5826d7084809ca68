"""Where an effect stands: its process, its message, its agent, and what its asker brought along."""

import contextvars
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from vegakit.conversation import ModelReply, ToolCall
from vegakit.effects import Effect
from vegakit.events import Answered, CallKind, EffectOutcome
from vegakit.ports import Tool
from vegakit.program import AgentBody, Machine, Mail, source_in
from vegakit.runtime.agents import Agent
from vegakit.runtime.processes.asked import Asks
from vegakit.runtime.processes.performing import Context
from vegakit.runtime.processes.registry import Registry
from vegakit.telemetry import Span, Tracer

if TYPE_CHECKING:
    from vegakit.runtime.authored.authors import HostAuthor

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

    async def admit_ahead(self, effect: Effect, outcome: EffectOutcome) -> None:
        """Programs that a model has just sent are looked at elsewhere before the machine decides on
        them: it does so at once, and nothing else goes on meanwhile."""
        if not isinstance(outcome, Answered) or not isinstance(outcome.value, ModelReply):
            return
        authors, path = self._authors_of(effect)
        for name, author in authors.items():
            calls = (part for part in outcome.value.message.parts if isinstance(part, ToolCall))
            given = [source_in(call.arguments) for call in calls if call.name == name]
            written = [(one[0], one[1]) for one in given if not isinstance(one, str)]
            await author.admit_ahead(written, path)

    def warm(self, effect: Effect) -> None:
        """While the model still thinks."""
        for author in self._authors_of(effect)[0].values():
            author.warm()

    def _authors_of(self, effect: Effect) -> "tuple[Mapping[str, HostAuthor], str]":
        flight = self.machine.state.flights.get(effect.key)
        process = None if flight is None else self.machine.state.processes.get(flight.path)
        body = None if process is None else self._registry.code.get(process.spec.body)
        if flight is None or not isinstance(body, AgentBody):
            return {}, ""
        return cast("Mapping[str, HostAuthor]", body.authors), flight.path

    def close(self) -> None:
        if self._span is not None:
            self._tracer.end(self._span)

    def _mail_of(self, effect: Effect) -> Mail:
        flight = self.machine.state.flights[effect.key]
        mailbox = self.machine.state.processes[flight.path].mailbox
        letter = None if mailbox is None else mailbox.taken(flight.letter)
        return Mail(None) if letter is None else letter.message
