"""The quota's table, dimension by dimension."""

from typing import Any

import msgspec
import pytest

from vegakit.errors import InvalidRecordError, InvalidRuleError
from vegakit.money import dollars
from vegakit.policy import (
    Consumption,
    Dimension,
    Quota,
    QuotaExceeded,
    QuotaRule,
    RemainingBudget,
    SoftWallReached,
    WithinQuota,
)
from vegakit.records import from_json, to_json

SUMS = [d for d in Dimension if d not in {Dimension.CONTEXT_TOKENS, Dimension.WALL_MS}]
NAN = float("nan")


def usage(**amounts: Any) -> Consumption:
    return Consumption(**amounts)


def room(**amounts: Any) -> RemainingBudget:
    return RemainingBudget(**amounts)


def quota(**limits: Any) -> Quota:
    return Quota(QuotaRule(**limits), started_ms=1000)


def test_there_are_nine_dimensions_and_seven_of_them_add_up() -> None:
    """A rule limits each of them; a usage reports all but the time."""
    assert (len(Dimension), len(SUMS)) == (9, 7)
    assert set(RemainingBudget.__struct_fields__) == set(Dimension)
    assert set(Consumption.__struct_fields__) == set(Dimension) - {Dimension.WALL_MS}


@pytest.mark.parametrize("dimension", SUMS)
def test_a_sum_may_reach_its_limit_and_not_pass_it(dimension: Dimension) -> None:
    """Seven of ten are used: three more fit exactly, four do not."""
    process = quota(**{dimension: 10})
    process.record(usage(**{dimension: 3}))
    process.record(usage(**{dimension: 4}))
    assert process.check(usage(**{dimension: 3}), 1000) == WithinQuota()
    assert process.check(usage(**{dimension: 4}), 1000) == QuotaExceeded(dimension, 10, 7, 4)
    assert process.remaining(1000) == room(**{dimension: 3})


def test_the_context_is_the_largest_one_and_does_not_add_up() -> None:
    """Any number of calls may fill the context; none may be larger than it."""
    process = quota(context_tokens=100)
    process.record(usage(context_tokens=100))
    process.record(usage(context_tokens=60))
    assert process.used.context_tokens == 100
    assert process.check(usage(context_tokens=100), 1000) == WithinQuota()
    verdict = process.check(usage(context_tokens=101), 1000)
    assert verdict == QuotaExceeded(Dimension.CONTEXT_TOKENS, limit=100, used=100, wanted=101)
    assert process.remaining(1000) == room(context_tokens=100)


def test_a_context_that_was_too_large_leaves_no_room() -> None:
    """The limit was passed: nothing fits any more."""
    process = quota(context_tokens=100)
    process.record(usage(context_tokens=101))
    assert process.check(Consumption(), 1000) == QuotaExceeded(
        Dimension.CONTEXT_TOKENS, 100, 101, 0
    )
    assert process.remaining(1000) == room(context_tokens=0)


def test_the_hard_wall_time_ends_by_the_clock() -> None:
    """The last millisecond still fits a step; at the limit nothing does, whoever reports what."""
    process = quota(wall_ms=500)
    assert process.check(Consumption(), 1499) == WithinQuota()
    assert process.remaining(1499) == room(wall_ms=1)
    assert process.check(Consumption(), 1500) == QuotaExceeded(
        Dimension.WALL_MS, 500, used=500, wanted=1
    )
    assert process.remaining(1501) == room(wall_ms=0)


def test_the_soft_wall_time_warns_once() -> None:
    """The first step at or after it carries the warning, and is still within."""
    process = quota(soft_wall_ms=300, wall_ms=500)
    assert process.check(Consumption(), 1299) == WithinQuota()
    assert process.check(Consumption(), 1300) == WithinQuota(
        SoftWallReached(soft_wall_ms=300, used_ms=300)
    )
    assert process.check(Consumption(), 1301) == WithinQuota()


def test_a_warning_waits_for_a_step_that_fits() -> None:
    """A refused step does not use the warning up; there need be no hard wall time."""
    process = quota(soft_wall_ms=300, tool_calls=0)
    assert isinstance(process.check(usage(tool_calls=1), 1400), QuotaExceeded)
    assert process.check(Consumption(), 1450) == WithinQuota(SoftWallReached(300, 450))


def test_a_warning_given_is_remembered_in_storage() -> None:
    """A restart of the host does not warn again."""
    process = quota(soft_wall_ms=300)
    process.check(Consumption(), 1300)
    copy = from_json(Quota, to_json(process))
    assert copy == process
    assert copy.check(Consumption(), 1301) == WithinQuota()


def test_a_limit_that_is_not_set_is_no_limit() -> None:
    """Without a rule everything fits, and nothing is said about what remains."""
    process = quota()
    everything = usage(**dict.fromkeys(Consumption.__struct_fields__, 10**15))
    process.record(everything)
    assert process.check(everything, 10**15) == WithinQuota()
    assert process.remaining(10**15) == room()


def test_what_was_used_is_recorded_truly_above_the_limit() -> None:
    """An answer longer than asked is counted in full; then not even nothing fits."""
    process = quota(output_tokens=100, money=dollars("$1"))
    process.record(usage(output_tokens=130, money=dollars("$0.25")))
    assert process.used == usage(output_tokens=130, money=dollars("$0.25"))
    assert process.check(Consumption(), 1000) == QuotaExceeded(Dimension.OUTPUT_TOKENS, 100, 130, 0)
    assert process.remaining(1000) == room(output_tokens=0, money=dollars("$0.75"))


def test_a_limit_of_zero_allows_nothing_of_its_kind() -> None:
    """No tool calls means none; other things go on."""
    process = quota(tool_calls=0)
    assert process.check(usage(model_calls=5), 1000) == WithinQuota()
    assert process.check(usage(tool_calls=1), 1000) == QuotaExceeded(Dimension.TOOL_CALLS, 0, 0, 1)


def test_checking_uses_nothing_up() -> None:
    """Ten questions for the last call are ten times yes."""
    process = quota(model_calls=1)
    wanted = usage(model_calls=1)
    assert [process.check(wanted, 1000) for _ in range(10)] == [WithinQuota()] * 10
    assert process.used == Consumption()


def test_the_first_dimension_is_named_when_several_are_exceeded() -> None:
    """The order is that of the dimensions, and time comes last."""
    process = quota(wall_ms=0, money=0, iterations=0)
    both = usage(money=dollars(1), iterations=1)
    assert process.check(both, 1000) == QuotaExceeded(Dimension.ITERATIONS, 0, 0, 1)
    assert process.check(usage(money=1), 1000) == QuotaExceeded(Dimension.MONEY, 0, 0, 1)
    assert process.check(Consumption(), 1000) == QuotaExceeded(Dimension.WALL_MS, 0, 0, 1)


@pytest.mark.parametrize("amount", [-1, NAN, 1.0, float("inf"), True, "1", None])
@pytest.mark.parametrize("name", Consumption.__struct_fields__)
def test_only_whole_amounts_are_usage(name: str, amount: object) -> None:
    """Negative, NaN and fractions are refused before they can be recorded."""
    with pytest.raises(InvalidRecordError, match=f"at least 0; got {name}={amount!r}; report"):
        usage(**{name: amount})


def test_received_usage_is_checked_too() -> None:
    """A worker cannot report less than nothing."""
    with pytest.raises(InvalidRecordError, match="got model_calls=-1"):
        from_json(Consumption, b'{"model_calls": -1}')


@pytest.mark.parametrize("limit", [-1, NAN, 1.5, True])
@pytest.mark.parametrize("name", QuotaRule.__struct_fields__)
def test_only_whole_limits_are_a_rule(name: str, limit: object) -> None:
    """A NaN limit would never be exceeded."""
    with pytest.raises(InvalidRuleError, match=f"at least 0; got {name}={limit!r}; leave it out"):
        quota(**{name: limit})


def test_the_soft_wall_time_comes_before_the_hard_one() -> None:
    """A warning at the end would come too late."""
    assert QuotaRule(soft_wall_ms=499, wall_ms=500).soft_wall_ms == 499
    with pytest.raises(InvalidRuleError, match="soft_wall_ms=500 and wall_ms=500; make the soft"):
        QuotaRule(soft_wall_ms=500, wall_ms=500)


@pytest.mark.parametrize(
    "verdict",
    [WithinQuota(), WithinQuota(SoftWallReached(3, 4)), QuotaExceeded(Dimension.MONEY, 5, 4, 2)],
)
def test_verdicts_travel_as_json(verdict: WithinQuota | QuotaExceeded) -> None:
    """Each says which one it is, so that a reader can tell them apart."""
    assert msgspec.json.decode(to_json(verdict), type=WithinQuota | QuotaExceeded) == verdict


def test_what_remains_can_be_the_rule_of_a_child() -> None:
    """Its fields are those of a rule, so a part or all of it can be handed on."""
    process = quota(model_calls=5, wall_ms=500)
    process.record(usage(model_calls=2))
    child = from_json(QuotaRule, to_json(process.remaining(1100)))
    assert child == QuotaRule(model_calls=3, wall_ms=400)
