"""After a death: what the journal and the ledger know of calls that were cut off is joined.

| the journal says | the ledger says            | then                                             |
|------------------|----------------------------|--------------------------------------------------|
| recorded         | sent, or charged in full   | the ledger is settled by the recorded charge     |
| claimed, a model | sent, or charged           | Unknown is recorded, with what is charged        |
| claimed, a model | anything else              | nothing is under way: it goes on where it was    |
| claimed, a tool  | –                          | Unknown is recorded, unless it may be repeated,  |
|                  |                            | or waited for leave and so was not begun         |
| claimed, a       | –                          | it is asked again: the same question             |
| question         |                            |                                                  |
"""

from collections.abc import Container

from vegakit.effects import CallTool
from vegakit.events import Unknown
from vegakit.ids import EffectKey
from vegakit.money import Money
from vegakit.policy import Claim, ClaimState
from vegakit.ports import Begun, Journal, Ledger

__all__ = ["recover"]

_OPEN = (ClaimState.SENT, ClaimState.UNKNOWN)


async def recover(
    journal: Journal, ledger: Ledger, now: int, unbegun: Container[EffectKey] = ()
) -> dict[EffectKey, int]:
    """How many attempts were made at those calls that go on where they were."""
    for key, charged in await journal.charges():
        await _settle(ledger, key, charged, now)
    attempts: dict[EffectKey, int] = {}
    for begun in await journal.cut_off():
        outcome = None if begun.key in unbegun else await _outcome(ledger, begun, now)
        if outcome is not None:
            await journal.record(begun.key, outcome)
        else:
            await journal.drop(begun.key)
            attempts[begun.key] = len(await _claims(ledger, begun.key))
    return attempts


async def _settle(ledger: Ledger, key: EffectKey, charged: Money, now: int) -> None:
    claims = await _claims(ledger, key)
    if claims and claims[-1].state in _OPEN:
        await ledger.answer(key, len(claims), charged, now)


async def _outcome(ledger: Ledger, begun: Begun, now: int) -> Unknown | None:
    """None: it is not known to be under way."""
    if begun.kind == CallTool.__name__:
        return None if begun.repeatable else Unknown(Money(0))
    claims = await _claims(ledger, begun.key)
    was_sent = any(claim.state is ClaimState.SENT for claim in claims)
    for attempt, claim in enumerate(claims, 1):
        if claim.state in (ClaimState.RESERVED, ClaimState.SENT):
            await ledger.cut_off(begun.key, attempt, now)
    charged = sum(claim.charged for claim in await _claims(ledger, begun.key))
    return Unknown(Money(charged)) if was_sent or charged else None


async def _claims(ledger: Ledger, key: EffectKey) -> list[Claim]:
    """Of each attempt, the first first."""
    claims: list[Claim] = []
    while (claim := await ledger.claim(key, len(claims) + 1)) is not None:
        claims.append(claim)
    return claims
