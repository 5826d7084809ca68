"""What a resumed run says of the calls that were cut off, and what it adds."""

from typing import Any

import pytest

from vegakit.config import BudgetChange, ResumeTarget
from vegakit.errors import UserError
from vegakit.host import Agent, CutOffCalls, JournaledRun, Recovered, cut_off_message, takeover
from vegakit.ids import ProgramId
from vegakit.money import Money, dollars
from vegakit.ports import RunQuote, RunRecord
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import MemoryJournal


def resumed(due: str, **target: Any) -> JournaledRun:
    """A run whose twelve calls were cut off, which may cost so much together."""
    cut = CutOffCalls(12, dollars(due), dollars(due))
    run = RunRecord(ProgramId("p"), 0)
    return JournaledRun(MemoryJournal(), run, Recovered(cut=cut), ResumeTarget("p", **target))


def test_what_is_missing_is_added_to_the_nano_dollar() -> None:
    doubt = takeover(resumed("$0.0412"), None, "cap", dollars("$0.04"))
    assert doubt is not None
    assert doubt.missing == dollars("$0.0012")
    assert "to add $0.0012 and continue" in str(doubt.error)


def test_the_budget_of_the_user_is_not_raised_by_accepting() -> None:
    """`--yes` would be refused by it at the first call."""
    doubt = takeover(resumed("$0.10"), None, "cap", 0, dollars("$0.02"))
    assert doubt is not None
    assert not doubt.may_be_accepted
    assert "--yes" not in str(doubt.error)
    assert "raise it there or wait for its next period" in str(doubt.error)
    assert takeover(resumed("$0.10"), None, "cap", None, dollars("$0.10")) is None


@pytest.mark.parametrize(("due", "told"), [("$0.001", ""), ("$0.02", ", was $0.18")])
def test_a_maximum_that_looks_the_same_was_no_other(due: str, told: str) -> None:
    journaled = resumed(due)
    quote = RunQuote(at_most=dollars("$0.1741"), cut=dollars(due))
    assert cut_off_message(journaled, quote).count(", was") == bool(told)
    assert told in cut_off_message(journaled, quote)


def test_a_lower_cap_is_refused_and_not_said_to_be_kept() -> None:
    journaled = resumed("$0", budget=BudgetChange(dollars("$5"), is_more=False))
    with pytest.raises(UserError, match=r"which cannot be lowered to \$5.00") as refused:
        journaled.change_budget(Money(dollars("$10")))
    assert "keeps" not in str(refused.value)


@pytest.mark.parametrize("wait", [-3, float("nan")])
async def test_a_wait_for_money_is_no_negative_time(wait: float) -> None:
    async with Runtime(observable=False) as rt:
        with pytest.raises(UserError, match=r"wait_for_budget"):
            await rt.ask(Agent("a", model=ScriptedModel("x")), "?", wait_for_budget=wait)
