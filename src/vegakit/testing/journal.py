"""Checks of what every journal does, to be run against an empty one.

    @pytest.mark.parametrize("check", JOURNAL_CHECKS)
    def test_my_journal(check):
        asyncio.run(check(MyJournal()))

Each check leaves the journal to its caller to close.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from vegakit.conversation import ModelRequest, ModelSettings
from vegakit.effects import (
    CallModel,
    CallTool,
    Effect,
    EffectPath,
    EffectRequest,
    Incarnation,
    Site,
    effect,
)
from vegakit.errors import BugError, ErrorClass
from vegakit.events import Answered, Crashed, EffectOutcome, Failed, Refused, Unknown
from vegakit.ids import ProgramId, ScopeId, TenantId
from vegakit.money import Money
from vegakit.ports import ClaimResult, Journal, PastCall, RunRecord, UnfinishedEffect

JournalCheck: TypeAlias = Callable[[Journal], Awaitable[None]]

_FIRST, _SECOND = ProgramId("1"), ProgramId("2")
_MODEL = CallModel(ModelRequest("m", (), ModelSettings(1)), Money(9), ScopeId("s"))
_PAY = CallTool("pay", {"to": "me"}, ScopeId("s"))
_LOOK = CallTool("look", {}, ScopeId("s"), idempotent=True)


def _at(
    place: int, request: EffectRequest = _MODEL, program: ProgramId = _FIRST, code: str = ""
) -> Effect:
    path = EffectPath(TenantId("t"), program, (Incarnation("a", 1),), Site("f", place))
    return effect(path, request, code=code)


async def _kept(journal: Journal, effect: Effect, outcome: EffectOutcome) -> None:
    await journal.claim(effect, 0)
    await journal.record(effect.key, outcome)


async def _takes_up_the_unfinished_run(journal: Journal) -> None:
    first = RunRecord(_FIRST, 1, ("python", "a.py"), "/home")
    assert await journal.begin(first) == first
    assert await journal.begin(RunRecord(_SECOND, 2)) == first
    assert await journal.runs() == [first]


async def _begins_anew_after_the_end(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    await journal.end(5)
    assert await journal.begin(RunRecord(_SECOND, 7)) == RunRecord(_SECOND, 7)
    assert await journal.runs() == [RunRecord(_FIRST, 1, ended_ms=5), RunRecord(_SECOND, 7)]


async def _knows_nothing_of_what_was_never_claimed(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    assert await journal.find(_at(0).key) is None
    assert await journal.cut_off() == []
    assert await journal.calls() == []


async def _claims_once(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    assert await journal.claim(_at(0), 0) == ClaimResult()
    assert await journal.claim(_at(0), 1) == ClaimResult()
    assert await journal.find(_at(0).key) == (_at(0).digest, None)
    assert len(await journal.cut_off()) == 1


async def _answers_a_claim_by_what_was_recorded(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    await _kept(journal, _at(0), Answered({"said": "hi"}, Money(3)))
    assert await journal.claim(_at(0), 1) == ClaimResult(Answered({"said": "hi"}, Money(3)))


async def _keeps_requests_at_one_place_apart(journal: Journal) -> None:
    """A speculative request has no answer to what the program asks there."""
    await journal.begin(RunRecord(_FIRST, 1))
    await journal.claim(_at(0), 0, speculative=True)
    await journal.record(_at(0).key, Answered("ahead"))
    assert await journal.claim(_at(0, _PAY), 1) == ClaimResult()
    await journal.record(_at(0, _PAY).key, Answered("paid"))
    assert await journal.claim(_at(0), 2, speculative=True) == ClaimResult(Answered("ahead"))
    assert await journal.claim(_at(0, _PAY), 2) == ClaimResult(Answered("paid"))


async def _tells_that_other_code_asked_there(journal: Journal) -> None:
    """Only if the program had come to it."""
    await journal.begin(RunRecord(_FIRST, 1))
    await journal.claim(_at(0, code="old"), 0, speculative=True)
    assert await journal.claim(_at(0, _PAY, code="new"), 0, speculative=True) == ClaimResult()
    await journal.commit(_at(0).key)
    assert await journal.claim(_at(0, _PAY, code="new"), 1) == ClaimResult(None, changed=True)
    assert await journal.claim(_at(0, _LOOK, code="new"), 1, speculative=True) == ClaimResult(
        None, changed=True
    )
    assert await journal.claim(_at(1, code="new"), 1) == ClaimResult()


async def _lets_the_same_code_ask_something_else(journal: Journal) -> None:
    """Time and money may lead a program another way; what it had asked stays answered."""
    await journal.begin(RunRecord(_FIRST, 1))
    await _kept(journal, _at(0), Answered("yes"))
    assert await journal.claim(_at(0, _PAY), 1) == ClaimResult()
    assert await journal.claim(_at(0), 1) == ClaimResult(Answered("yes"))


async def _commits_nothing_unclaimed(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    await journal.commit(_at(0).key)
    assert await journal.find(_at(0).key) is None
    assert await journal.claim(_at(0, _PAY, code="new"), 1) == ClaimResult()


async def _reopens_what_failed_the_run(journal: Journal) -> None:
    """It is asked for again; what came after it is known, and may be asked otherwise."""
    await journal.begin(RunRecord(_FIRST, 1))
    await _kept(journal, _at(0, code="old"), Answered("kept"))
    await journal.claim(_at(1, code="old"), 1)
    await journal.record(_at(1).key, Failed(ErrorClass.SERVER, "down"))
    await journal.claim(_at(2, code="old"), 2)
    await journal.record(_at(2).key, Answered("after it"))
    await journal.reopen([_at(1).key])
    assert await journal.claim(_at(1, code="old"), 3, speculative=True) == ClaimResult()
    assert await journal.claim(_at(2, _PAY, code="new"), 3, speculative=True) == ClaimResult()
    assert await journal.claim(_at(2, code="old"), 3) == ClaimResult(Answered("after it"))
    assert await journal.claim(_at(0, _PAY, code="new"), 3) == ClaimResult(None, changed=True)


async def _keeps_every_kind_of_outcome(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    outcomes: tuple[EffectOutcome, ...] = (
        Answered(["ä", 1, None], Money(1)),
        Failed(ErrorClass.TIMEOUT, "late", charged=Money(2), attempts=3),
        Refused("BudgetExceeded", "too dear"),
        Unknown(Money(4)),
        Crashed("ZeroDivisionError: by nought"),
    )
    for place, outcome in enumerate(outcomes):
        await _kept(journal, _at(place), outcome)
    for place, outcome in enumerate(outcomes):
        assert await journal.find(_at(place).key) == (_at(place).digest, outcome)


async def _keeps_the_first_outcome(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    await _kept(journal, _at(0), Answered("first"))
    await journal.record(_at(0).key, Answered("second"))
    assert await journal.find(_at(0).key) == (_at(0).digest, Answered("first"))


async def _records_nothing_unclaimed(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    try:
        await journal.record(_at(0).key, Answered("lost"))
    except BugError:
        assert await journal.find(_at(0).key) is None
    else:
        raise AssertionError("an outcome without a claim was taken, or lost in silence")


async def _drops_claims_only(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    await journal.claim(_at(0), 0)
    await _kept(journal, _at(1), Answered("kept"))
    for place in range(3):
        await journal.drop(_at(place).key)
    assert await journal.find(_at(0).key) is None
    assert await journal.find(_at(1).key) == (_at(1).digest, Answered("kept"))
    assert await journal.claim(_at(0), 0) == ClaimResult()


async def _reopens_what_failed_a_run(journal: Journal) -> None:
    """The charge stays known; an effect without one is claimed as before; tools are forgotten, and
    calls that were refused, since they were not sent."""
    await journal.begin(RunRecord(_FIRST, 1))
    await _kept(journal, _at(0), Failed(ErrorClass.TIMEOUT, "late", charged=Money(2)))
    await _kept(journal, _at(1), Refused("BudgetExceeded", "too dear"))
    await _kept(journal, _at(2, _PAY), Answered("no such account"))
    await _kept(journal, _at(3), Answered("kept", Money(3)))
    await journal.claim(_at(4), 0)
    await _kept(journal, _at(6), Failed(ErrorClass.OVERLOADED, "busy"))
    await journal.reopen([_at(place).key for place in (0, 1, 2, 4, 5, 6)])
    await journal.reopen([_at(2, _PAY).key])
    assert await journal.find(_at(0).key) == (_at(0).digest, Unknown(Money(2), again=True))
    assert await journal.find(_at(1).key) is None
    assert await journal.find(_at(2, _PAY).key) is None
    assert await journal.find(_at(3).key) == (_at(3).digest, Answered("kept", Money(3)))
    assert await journal.find(_at(6).key) == (_at(6).digest, None)
    assert {begun.key for begun in await journal.cut_off()} == {_at(4).key, _at(6).key}


async def _reopens_nothing_of_another_run(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    await _kept(journal, _at(0), Refused("BudgetExceeded", "too dear"))
    await journal.end(2)
    await journal.begin(RunRecord(_SECOND, 3))
    await journal.reopen([_at(0).key])
    assert await journal.find(_at(0).key) == (_at(0).digest, Refused("BudgetExceeded", "too dear"))


async def _tells_what_was_cut_off(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    for place, request in enumerate((_MODEL, _PAY, _LOOK)):
        await journal.claim(_at(place, request), 0)
    await _kept(journal, _at(3), Answered("done"))
    await journal.claim(_at(4), 0, speculative=True)
    found = {begun.key: begun for begun in await journal.cut_off()}
    assert found == {
        _at(0).key: UnfinishedEffect(_at(0).key, str(_at(0).path), "CallModel", idempotent=False),
        _at(1, _PAY).key: UnfinishedEffect(
            _at(1, _PAY).key, str(_at(1).path), "CallTool", idempotent=False
        ),
        _at(2, _LOOK).key: UnfinishedEffect(
            _at(2, _LOOK).key, str(_at(2).path), "CallTool", idempotent=True
        ),
        _at(4).key: UnfinishedEffect(
            _at(4).key, str(_at(4).path), "CallModel", idempotent=False, speculative=True
        ),
    }


async def _tells_what_model_calls_came_to(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    await _kept(journal, _at(0), Answered("hi", Money(3)))
    await _kept(journal, _at(1), Refused("BudgetExceeded", "too dear"))
    await _kept(journal, _at(2, _PAY), Answered("paid"))
    await journal.claim(_at(3), 0)
    calls = {call.key: call for call in await journal.calls()}
    assert calls == {
        _at(0).key: PastCall(_at(0).key, str(_at(0).path), Answered("hi", Money(3))),
        _at(1).key: PastCall(_at(1).key, str(_at(1).path), Refused("BudgetExceeded", "too dear")),
    }


async def _keeps_runs_apart(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    await _kept(journal, _at(0), Answered("old", Money(3)))
    await journal.claim(_at(1), 0)
    await journal.end(2)
    await journal.begin(RunRecord(_SECOND, 3))
    assert await journal.cut_off() == []
    assert await journal.calls() == []
    assert await journal.claim(_at(0, program=_SECOND), 4) == ClaimResult()


async def _takes_many_at_once(journal: Journal) -> None:
    await journal.begin(RunRecord(_FIRST, 1))
    effects = [_at(place) for place in range(100)]
    found = await asyncio.gather(*(journal.claim(one, 0) for one in effects))
    assert found == [ClaimResult()] * 100
    await asyncio.gather(*(journal.record(one.key, Answered(one.key)) for one in effects))
    for one in effects:
        assert await journal.find(one.key) == (one.digest, Answered(one.key))


async def _reads_back_what_changed_between_claim_and_outcome(journal: Journal) -> None:
    """A journal that seals its rows must seal what they have become by then."""
    await journal.begin(RunRecord(_FIRST, 1))
    by_commit, by_claim, by_reopening, failed = (_at(place) for place in range(4))
    for one in (by_commit, by_claim):
        await journal.claim(one, 1, speculative=True)
    await journal.commit(by_commit.key)
    await journal.claim(by_claim, 2)
    await _reads_back_as_recorded(journal, by_commit)
    await _reads_back_as_recorded(journal, by_claim)
    await _kept(journal, failed, Refused("BudgetExceeded", "why"))
    await journal.claim(by_reopening, 3)
    await journal.reopen([failed.key])
    await _reads_back_as_recorded(journal, by_reopening)


async def _reads_back_as_recorded(journal: Journal, effect: Effect) -> None:
    await journal.record(effect.key, Answered(effect.key))
    assert await journal.find(effect.key) == (effect.digest, Answered(effect.key))


JOURNAL_CHECKS: tuple[JournalCheck, ...] = (
    _takes_up_the_unfinished_run,
    _begins_anew_after_the_end,
    _knows_nothing_of_what_was_never_claimed,
    _claims_once,
    _answers_a_claim_by_what_was_recorded,
    _keeps_requests_at_one_place_apart,
    _tells_that_other_code_asked_there,
    _lets_the_same_code_ask_something_else,
    _commits_nothing_unclaimed,
    _reopens_what_failed_the_run,
    _keeps_every_kind_of_outcome,
    _keeps_the_first_outcome,
    _records_nothing_unclaimed,
    _drops_claims_only,
    _reopens_what_failed_a_run,
    _reopens_nothing_of_another_run,
    _tells_what_was_cut_off,
    _tells_what_model_calls_came_to,
    _keeps_runs_apart,
    _takes_many_at_once,
    _reads_back_what_changed_between_claim_and_outcome,
)
