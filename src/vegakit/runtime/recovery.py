"""After a death: what the journal and the ledger know of calls that were cut off is joined.

What was kept and not recorded is recorded first; only what is then without an outcome was cut off.

| the journal says | the ledger says            | then                                             |
|------------------|----------------------------|--------------------------------------------------|
| kept             | sent, or charged in full   | recorded, and the ledger settled by its bill     |
| recorded         | sent, or charged in full   | the ledger is settled by the recorded charge     |
| claimed, and     | sent, or charged           | Unknown is recorded, with what is charged, to be |
| speculative      |                            | asked again whatever the rule: the program had   |
|                  |                            | not come to it                                   |
| claimed, a model | sent, or charged           | Unknown is recorded, with what is charged        |
| claimed, a model | anything else              | nothing is under way: it goes on where it was    |
| claimed, a tool  | –                          | if it may be repeated, or waited for leave and   |
|                  |                            | so was not begun, it is called; else as a person |
|                  |                            | has decided: it is called, Unknown is recorded,  |
|                  |                            | or the run stops when it comes to it             |
| claimed, a       | –                          | it is asked again: the same question             |
| question         |                            |                                                  |
"""

import logging
from collections.abc import Container

from msgspec import Struct, structs

from vegakit.config import CutOffTools
from vegakit.effects import CallTool
from vegakit.events import Unknown
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money, show
from vegakit.policy import Claim, ClaimState, Reserved
from vegakit.ports import Begun, Journal, Ledger, Run

__all__ = ["Recovered", "charge_missing", "claims_of", "recover"]

_LOG = logging.getLogger("vegakit")
_OPEN = (ClaimState.SENT, ClaimState.UNKNOWN)


class Recovered(Struct, frozen=True):
    """`lost` are the calls whose answers are lost, `undecided` the tool calls that were cut off and
    wait for a person's decision."""

    lost: frozenset[EffectKey] = frozenset()
    undecided: frozenset[EffectKey] = frozenset()


async def recover(
    journal: Journal,
    ledger: Ledger,
    now: int,
    unbegun: Container[EffectKey] = (),
    tools: CutOffTools = CutOffTools.ASK,
) -> Recovered:
    """`tools` is what a person has decided about tool calls that may not be repeated."""
    for kept in await journal.kept():
        if await journal.find(kept.key) is None:
            # SQLite drops the end of a damaged log, and with it what that call asked: without its
            # digest nobody could tell whether this reply belongs to the call that is made next.
            continue
        await journal.record(kept.key, kept.outcome)
        claim = await ledger.claim(kept.key, kept.attempt)
        if claim is not None and claim.state in _OPEN:
            await ledger.answer(kept.key, kept.attempt, kept.bill, now)
    for key, charged in await journal.charges():
        await _settle(ledger, key, charged, now)
    lost, undecided = set[EffectKey](), set[EffectKey]()
    for begun in await journal.cut_off():
        if begun.key not in unbegun and _needs_decision(begun) and tools is not CutOffTools.RESEND:
            if tools is CutOffTools.SKIP:
                lost.add(begun.key)
                await journal.record(begun.key, Unknown(Money(0)))
            else:
                undecided.add(begun.key)
            continue
        outcome = None if begun.key in unbegun else await _outcome(ledger, begun, now)
        if outcome is None:
            await journal.drop(begun.key)
        else:
            lost.add(begun.key)
            await journal.record(begun.key, structs.replace(outcome, again=begun.speculative))
    return Recovered(frozenset(lost), frozenset(undecided))


async def charge_missing(
    journal: Journal, ledger: Ledger, run: Run, scope: ScopeId, holder: HolderId, now: int
) -> Money:
    """Charge what the journal knows to be spent by a run and the ledger does not: its file was
    deleted, or another one is named now. `spent` of a scope never shrinks, whatever is pruned."""
    recorded = sum(charged for _, charged in await journal.charges())
    known = await ledger.scope(scope, now) if recorded else None
    missing = Money(max(0, recorded - (known.spent if known else 0)))
    if missing:
        key = EffectKey(f"rebuilt.{run.program}")
        attempt = len(await claims_of(ledger, key)) + 1
        reserved = await ledger.reserve(key, attempt, scope, Money(0), holder, now, sent=True)
        if isinstance(reserved, Reserved):
            await ledger.answer(key, attempt, missing, now)
        _LOG.warning(
            "the ledger did not know of %s that the journal says this run has spent, so it is "
            "charged now; was the ledger deleted, or another one named?",
            show(missing),
        )
    return missing


def _needs_decision(begun: Begun) -> bool:
    is_tool = begun.kind == CallTool.__name__
    return is_tool and not begun.repeatable and not begun.speculative


async def _settle(ledger: Ledger, key: EffectKey, charged: Money, now: int) -> None:
    """Bring the last attempt to what is recorded. A call that was cut off is recorded with what all
    its attempts were charged, which the ledger knows already: the sum must not be put on the last
    one, nor an attempt that is unknown be taken for answered."""
    claims = await claims_of(ledger, key)
    if not claims or claims[-1].state not in _OPEN:
        return
    earlier = sum(claim.charged for claim in claims[:-1])
    if earlier + claims[-1].charged != charged:
        bill = charged - earlier if charged > claims[-1].amount else charged
        await ledger.answer(key, len(claims), Money(bill), now)


async def _outcome(ledger: Ledger, begun: Begun, now: int) -> Unknown | None:
    """None: it is not known to be under way."""
    if begun.kind == CallTool.__name__:
        return None
    claims = await claims_of(ledger, begun.key)
    was_sent = any(claim.state is ClaimState.SENT for claim in claims)
    for attempt, claim in enumerate(claims, 1):
        if claim.state in (ClaimState.RESERVED, ClaimState.SENT):
            await ledger.cut_off(begun.key, attempt, now)
    charged = sum(claim.charged for claim in await claims_of(ledger, begun.key))
    return Unknown(Money(charged)) if was_sent or charged else None


async def claims_of(ledger: Ledger, key: EffectKey) -> list[Claim]:
    """Of each attempt, the first first."""
    claims: list[Claim] = []
    while (claim := await ledger.claim(key, len(claims) + 1)) is not None:
        claims.append(claim)
    return claims
