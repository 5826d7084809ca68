"""The way from an attempt to its execution: what needs an approval runs once, after that was
given.

| permission | its question             | verdict  | and                                        |
|------------|--------------------------|----------|--------------------------------------------|
| allow      |                          | Allowed  |                                            |
| deny       |                          | Denied   |                                            |
| ask        | not asked yet            | Asked    | it is opened, or Denied if it cannot be    |
| ask        | open                     | Asked    | apply it again when it was answered        |
| ask        | approved, live, unused   | Allowed  | the approval is used up                    |
| ask        | anything else            | Denied   |                                            |

A question is named by its place in the program and by the digest of the whole attempt: tool,
arguments, schema, files, the rules in force. Change one, and it is another question, which
nobody has answered. A program that is resumed finds its own question again.

The host stores `interrupts` after each verdict and before it acts on `Allowed`: then an
approval whose use was followed by a crash is used, and the action is not carried out twice. It
performs `Allowed.wanted` with the arguments of the attempt, and makes the attempt anew for each
verdict, so that what changed while a person thought is seen.
"""

from typing import Any

from msgspec import Struct, to_builtins

from vegakit.ids import Digest, InterruptId, Pid
from vegakit.policy.capability.access import AccessRequest, Allowed, Denied
from vegakit.policy.interrupts import (
    ApprovableAction,
    Declined,
    Interrupt,
    InterruptKind,
    InterruptRefusal,
    InterruptRequest,
    Interrupts,
    InterruptStatus,
)
from vegakit.policy.permissions import NeedsApproval, Permissions
from vegakit.policy.safe_text import NotDisplayable, Secrets, escape_json, escape_text, quote_name
from vegakit.records import digest128

_NOT_DISPLAYABLE = (
    "nobody may approve what they are not shown whole and exactly, and the arguments of {} {}"
)


class Attempt(Struct, frozen=True):
    """`place` is where in the program it stands, such as its effect key; `schema` the digest of
    what the tool says of itself; `contents` those of the files it runs or sends, by path."""

    place: str
    owner: Pid
    principal: str
    tool: str
    arguments: Any
    schema: Digest
    wanted: AccessRequest
    sandboxed: bool = False
    contents: dict[str, Digest] = {}


class ApprovalPending(Struct, frozen=True, tag=True):
    """The question is open and not answered yet."""

    id: InterruptId


def apply_permission(
    verdict: Allowed | NeedsApproval | Denied,
    permissions: Permissions,
    attempt: Attempt,
    interrupts: Interrupts,
    now: int,
    secrets: Secrets | None = None,
) -> Allowed | ApprovalPending | Denied:
    """Turn a permission into a verdict: open its question, wait for it, or use up its approval. The
    permission may be that of a whole tool call. Secrets are shown by their names."""
    if not isinstance(verdict, NeedsApproval):
        return verdict
    text = _text(attempt, verdict, secrets)
    if isinstance(text, NotDisplayable):
        return Denied(_NOT_DISPLAYABLE.format(attempt.tool, text))
    action = _action(permissions, attempt, verdict.wanted).digest
    question = InterruptId(f"{attempt.place}:{action}")
    standing = interrupts.by_id.get(question)
    if standing is None:
        return _asked(permissions, attempt, text, action, interrupts, now)
    if standing.status is InterruptStatus.PENDING:
        return ApprovalPending(question)
    if _of_one_program(standing.answered_by or "", attempt.owner):
        return Denied(f"{attempt.tool} was approved by {standing.answered_by}; ask a person")
    if isinstance(standing.answer, Declined) and standing.answer.why:
        return Denied(f"{attempt.tool} was declined by a person: {standing.answer.why}")
    used = interrupts.use(question, action, now)
    if isinstance(used, Interrupt):
        return Allowed(verdict.wanted)
    return _refused(attempt, used, standing.status)


def _action(permissions: Permissions, attempt: Attempt, wanted: AccessRequest) -> ApprovableAction:
    in_force = Digest(digest128([permissions, wanted, attempt.sandboxed]))
    return ApprovableAction(
        attempt.tool,
        attempt.arguments,
        attempt.schema,
        in_force,
        attempt.principal,
        attempt.contents,
    )


def _asked(
    permissions: Permissions,
    attempt: Attempt,
    text: str,
    action: Digest,
    interrupts: Interrupts,
    now: int,
) -> ApprovalPending | Denied:
    expires_ms = None if permissions.ttl_ms is None else now + permissions.ttl_ms
    ask = InterruptRequest(
        InterruptId(f"{attempt.place}:{action}"),
        InterruptKind.CONFIRMATION,
        attempt.owner,
        text,
        action,
        expires_ms,
    )
    opened = interrupts.open(ask, now)
    return ApprovalPending(ask.id) if isinstance(opened, Interrupt) else _refused(attempt, opened)


def _text(
    attempt: Attempt, verdict: NeedsApproval, secrets: Secrets | None
) -> str | NotDisplayable:
    """The exact call: who, the tool and its arguments, each of which ends where it says it ends."""
    arguments = escape_json(attempt.arguments, secrets)
    wanted = escape_json(to_builtins(verdict.wanted), secrets)
    if isinstance(arguments, NotDisplayable):
        return arguments
    if isinstance(wanted, NotDisplayable):
        return wanted
    call = f"{quote_name(attempt.principal)}: {quote_name(attempt.tool)} {arguments}"
    return f"{call} does {wanted}: {escape_text(verdict.reason, secrets)}"


_NOT_GIVEN = {
    InterruptStatus.RESOLVED: "a person declined it",
    InterruptStatus.EXPIRED: "nobody answered in time",
    InterruptStatus.CANCELLED: "the question was withdrawn",
}
_WHY_NOT = {
    InterruptRefusal.ALREADY_USED: "the one that was given was used; it is for one call",
    InterruptRefusal.LATE: "the one that was given was not used in time",
    InterruptRefusal.TOO_MANY: "too many questions wait for an answer already",
    InterruptRefusal.MISLEADING_TEXT: "it holds characters that would show people something else",
}
"""Why a call was not approved, for people and for the model, by how its question stands."""


def _refused(
    attempt: Attempt,
    refusal: InterruptRefusal,
    status: InterruptStatus = InterruptStatus.PENDING,
) -> Denied:
    if refusal is InterruptRefusal.TOO_LONG:
        return Denied(_NOT_DISPLAYABLE.format(attempt.tool, NotDisplayable.TOO_LONG))
    is_open = refusal is InterruptRefusal.NOT_APPROVED
    why = _NOT_GIVEN.get(status) if is_open else _WHY_NOT.get(refusal)
    told = why or refusal.value.replace("_", " ")
    return Denied(f"{attempt.tool} needs an approval of exactly this, and {told}")


def _of_one_program(who: str, owner: Pid) -> bool:
    """Programs do not approve what they ask for, not even through another of their processes."""
    return who.startswith(owner.partition("/")[0] + "/")
