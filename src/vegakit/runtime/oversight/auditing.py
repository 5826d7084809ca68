"""What the audit is told of tools and of people: what was decided before, what came of it after."""

from os import PathLike

from msgspec import structs

from vegakit.policy import Interrupt
from vegakit.ports import Audit, Audited, AuditLevel, Clock
from vegakit.runtime.oversight.calls import ToolUse
from vegakit.store import SqliteAudit
from vegakit.telemetry import Redactor

__all__ = ["Auditing", "as_audit"]


def as_audit(given: "Audit | str | PathLike[str] | None") -> Audit | None:
    """Keys are hidden in a file that is named here."""
    if isinstance(given, str | PathLike):
        return SqliteAudit(given, Redactor(content=True).redact_json)
    return given


class Auditing:
    def __init__(self, audit: Audit, clock: Clock, user: str) -> None:
        self._audit, self._clock, self._user = audit, clock, user

    async def on_decided(self, use: ToolUse, decision: str) -> None:
        """Kept when this returns: the effect comes after."""
        made = structs.replace(self._entry(use), decision=decision, inputs=dict(use.arguments))
        await self._audit.append(made, use.level)

    async def on_done(self, use: ToolUse, status: str, result: str) -> None:
        made = structs.replace(self._entry(use), action="call", decision=status, result=result)
        await self._audit.append(made, use.level)

    async def on_answered(self, interrupt: Interrupt) -> None:
        """Who said what to which question, and what they were shown."""
        ask, by = interrupt.ask, interrupt.answered_by or ""
        said = type(interrupt.answer).__name__.lower()
        now, shown = self._clock.now(), ask.text
        entry = Audited(now, by, "answer", ask.id, self._user, inputs=shown, decision=said)
        await self._audit.append(entry, AuditLevel.DETAILED)

    def _entry(self, use: ToolUse) -> Audited:
        now, who = self._clock.now(), use.caller.process
        return Audited(now, who, "decide", use.name, self._user, trace_id=use.trace_id)

    async def aclose(self) -> None:
        await self._audit.aclose()
