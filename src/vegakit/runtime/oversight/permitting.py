"""Which tool calls run by themselves, which a person is asked about, and which never run.

The rules decide at the moment of the call, with what the tool declares and the arguments at hand.
They stand in the do-half, next to the call: what is bound to an approval (the tool's schema, files
it would run, the rules in force) is read there again, just before the action.
"""

from collections.abc import Sequence

from vegakit.errors import InvalidRuleError
from vegakit.ids import Digest
from vegakit.policy import (
    Allowed,
    AskFirst,
    Attempt,
    Denied,
    PermissionMode,
    PermissionRule,
    Permissions,
    Use,
    parse_permission,
    permit_call,
)
from vegakit.records import digest128
from vegakit.runtime.oversight.calls import ToolUse
from vegakit.runtime.oversight.questions import Proposed, Questions
from vegakit.tools import Rights, contents_of, rights_of

__all__ = ["Permitting", "mode_of", "permitting_from"]


class Permitting:
    """`ttl_ms` is how long a person may take; None: as confirmations do."""

    def __init__(
        self,
        rules: Sequence[str | PermissionRule] = (),
        mode: PermissionMode = PermissionMode.ASK,
        ttl_ms: int | None = None,
    ) -> None:
        self._rules = tuple(
            parse_permission(rule) if isinstance(rule, str) else rule for rule in rules
        )
        self._mode, self._ttl_ms = mode, ttl_ms

    def decide(self, use: ToolUse) -> Allowed | AskFirst | Denied:
        rights = rights_of(use.tool, use.arguments)
        permissions = self._permissions(rights)
        return permit_call(permissions, use.name, rights.wanted, sandboxed=rights.sandboxed)

    async def ask(self, use: ToolUse, questions: Questions) -> tuple[Allowed | Denied, str]:
        """Waits for a person: the verdict, and who gave it."""

        async def propose() -> Proposed:
            rights, verdict = rights_of(use.tool, use.arguments), self.decide(use)
            return Proposed(
                self._permissions(rights), await _attempt(use, rights, verdict), verdict
            )

        return await questions.permit(propose)

    def _permissions(self, rights: Rights) -> Permissions:
        return Permissions(rights.grant, self._mode, self._rules, self._ttl_ms)


def permitting_from(
    given: Permitting | Sequence[str] | None, mode: str | None
) -> Permitting | None:
    if isinstance(given, Permitting):
        return given
    if given is None and mode is None:
        return None
    return Permitting(given or (), PermissionMode.ASK if mode is None else mode_of(mode))


def mode_of(text: str) -> PermissionMode:
    try:
        return PermissionMode(text.replace("-", "_"))
    except ValueError:
        modes = ", ".join(mode.replace("_", "-") for mode in PermissionMode)
        raise InvalidRuleError(f"a mode is one of {modes}; got {text!r}") from None


async def _attempt(use: ToolUse, rights: Rights, verdict: Allowed | AskFirst | Denied) -> Attempt:
    caller = use.caller
    return Attempt(
        caller.place,
        caller.process,
        caller.agent,
        use.name,
        use.arguments,
        Digest(digest128(use.tool.spec)),
        Use("tool") if isinstance(verdict, Denied) else verdict.wanted,
        rights.sandboxed,
        await contents_of(use.tool, use.arguments),
    )
