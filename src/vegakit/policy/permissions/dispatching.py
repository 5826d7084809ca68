"""From an attempt to its execution: what must be asked about runs once, after this was approved.

| permission | its question             | dispatch | and                                        |
|------------|--------------------------|----------|--------------------------------------------|
| allow      |                          | Allowed  |                                            |
| deny       |                          | Denied   |                                            |
| ask        | not asked yet            | Asked    | it is opened, or Denied if it cannot be    |
| ask        | open                     | Asked    | dispatch again when it was answered        |
| ask        | approved, live, unused   | Allowed  | the approval is used up                    |
| ask        | anything else            | Denied   |                                            |

A question is named by its place in the program and by the digest of the whole attempt: tool,
arguments, schema, files, the rules in force. Change one, and it is another question, which nobody
has answered. A program that is resumed finds its own question again.

The host stores `interrupts` after each dispatch and before it acts on `Allowed`: then an approval
whose use was followed by a crash is used, and the action is not carried out twice. It performs
`Allowed.wanted` with the arguments of the attempt, and makes the attempt anew for each dispatch, so
that what changed while a person thought is seen.
"""

from typing import Any

from msgspec import Struct

from vegakit.ids import Digest, InterruptId, Pid
from vegakit.policy.capability.wanted import Allowed, Denied, Wanted
from vegakit.policy.interrupts import (
    Action,
    Ask,
    Interrupt,
    InterruptKind,
    InterruptRefusal,
    Interrupts,
    InterruptStatus,
)
from vegakit.policy.permissions.rules import AskFirst, Permissions, permit
from vegakit.records import canonical, digest128

__all__ = ["Asked", "Attempt", "dispatch", "follow"]

_SHOWN_CHARACTERS = 4_000


class Attempt(Struct, frozen=True):
    """`place` is where in the program it stands, such as its effect key; `schema` the digest of
    what the tool says of itself; `contents` those of the files it runs or sends, by path."""

    place: str
    owner: Pid
    principal: str
    tool: str
    arguments: Any
    schema: Digest
    wanted: Wanted
    sandboxed: bool = False
    contents: dict[str, Digest] = {}


class Asked(Struct, frozen=True, tag=True):
    """And not answered yet."""

    id: InterruptId


def dispatch(
    permissions: Permissions, attempt: Attempt, interrupts: Interrupts, now: int
) -> Allowed | Asked | Denied:
    verdict = permit(permissions, attempt.wanted, sandboxed=attempt.sandboxed)
    return follow(verdict, permissions, attempt, interrupts, now)


def follow(
    verdict: Allowed | AskFirst | Denied,
    permissions: Permissions,
    attempt: Attempt,
    interrupts: Interrupts,
    now: int,
) -> Allowed | Asked | Denied:
    """What comes of a permission that was decided elsewhere, as that of a whole tool call is."""
    if not isinstance(verdict, AskFirst):
        return verdict
    action = _action(permissions, attempt, verdict.wanted).digest
    question = InterruptId(f"{attempt.place}:{action}")
    standing = interrupts.by_id.get(question)
    if standing is None:
        return _asked(permissions, attempt, verdict, action, interrupts, now)
    if standing.status is InterruptStatus.PENDING:
        return Asked(question)
    if _of_one_program(standing.answered_by or "", attempt.owner):
        return Denied(f"{attempt.tool} was approved by {standing.answered_by}; ask a person")
    used = interrupts.use(question, action, now)
    return Allowed(verdict.wanted) if isinstance(used, Interrupt) else _refused(attempt, used)


def _action(permissions: Permissions, attempt: Attempt, wanted: Wanted) -> Action:
    in_force = Digest(digest128([permissions, wanted, attempt.sandboxed]))
    return Action(
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
    verdict: AskFirst,
    action: Digest,
    interrupts: Interrupts,
    now: int,
) -> Asked | Denied:
    expires_ms = None if permissions.ttl_ms is None else now + permissions.ttl_ms
    ask = Ask(
        InterruptId(f"{attempt.place}:{action}"),
        InterruptKind.CONFIRMATION,
        attempt.owner,
        _text(attempt, verdict),
        action,
        expires_ms,
    )
    opened = interrupts.open(ask, now)
    return Asked(ask.id) if isinstance(opened, Interrupt) else _refused(attempt, opened)


def _text(attempt: Attempt, verdict: AskFirst) -> str:
    """In ASCII: letters that look alike are told apart, and none turns the line around."""
    arguments = canonical(attempt.arguments).decode()
    if len(arguments) > _SHOWN_CHARACTERS:
        half = _SHOWN_CHARACTERS // 2
        left_out = f" ({len(arguments) - 2 * half:,} characters not shown) "
        arguments = arguments[:half] + left_out + arguments[-half:]
    wanted = canonical(verdict.wanted).decode()
    text = f"{attempt.principal}: {attempt.tool} {arguments} does {wanted}: {verdict.reason}"
    return ascii(text)[1:-1]


def _refused(attempt: Attempt, refusal: InterruptRefusal) -> Denied:
    return Denied(
        f"{attempt.tool} needs an approval of exactly this, unused and in time: {refusal}"
    )


def _of_one_program(who: str, owner: Pid) -> bool:
    """Programs do not approve what they ask for, not even through another of their processes."""
    return who.startswith(owner.partition("/")[0] + "/")
