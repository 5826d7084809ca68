"""Tables become the rules that the policies work with."""

import pytest

from tests.config.house import House
from vegakit.config import ModelLimits, parse_backoff, parse_duration_ms, parse_rate
from vegakit.errors import ErrorClass, SettingsError
from vegakit.money import dollars
from vegakit.policy import (
    Backoff,
    BreakerRule,
    Rate,
    RateRule,
    RateStrategy,
    Resend,
    RetryBudgetRule,
    RetryRule,
)
from vegakit.prices import PriceRow, PriceTier
from vegakit.sdk import runtime_arguments


def test_the_defaults_are_the_policies_own(house: House) -> None:
    """They are written down twice, so they are compared."""
    assert house.load().limits_for("any:model") == ModelLimits(
        RateRule(), RetryRule(), RetryBudgetRule(), BreakerRule()
    )


LIMITS = """
[limits.default]
requests = "60 per 1m burst 10"
slots = 8
retry = { max_attempts = 5, total = "2m" }
[limits.openai]
tokens = "100000 per 1m"
slots = 4
[limits."openai:gpt-x"]
strategy = "reject"
slot_lease = "1h"
retry = { backoff = "exponential(1s, 1.5, 1m)", on = ["server"], resend_unknown = "never" }
breaker = { threshold = 2, reset_after = "1d", probes = 3 }
retry_budget = { share_percent = 0, stock = 1 }
queue_size = 7
"""


def test_every_word_reaches_its_rule(house: House) -> None:
    """The narrower name wins, word by word."""
    house.write(LIMITS)
    assert house.load().limits_for("openai:gpt-x") == ModelLimits(
        RateRule(
            requests=Rate(60, 60_000, 10),
            tokens=Rate(100_000, 60_000, 100_000),
            slots=4,
            strategy=RateStrategy.REJECT,
            queue_size=7,
            slot_lease_ms=3_600_000,
        ),
        RetryRule(
            5,
            Backoff(1_000, 1.5, 60_000),
            (ErrorClass.SERVER,),
            120_000,
            resend_unknown=Resend.NEVER,
        ),
        RetryBudgetRule(0, 1),
        BreakerRule(2, 86_400_000, 3),
    )


def test_names_that_are_not_asked_for_do_not_hold(house: House) -> None:
    """Another provider has the default only."""
    house.write(LIMITS)
    limits = house.load().limits_for("anthropic:claude-x")
    assert limits.rate == RateRule(requests=Rate(60, 60_000, 10), slots=8)
    assert limits.retry == RetryRule(max_attempts=5, total_ms=120_000)


def test_a_price_of_ones_own(house: House) -> None:
    """Per million tokens; what is cached costs what input costs unless it is said."""
    house.user('[prices."openai:mine"]\ninput = "$2.50"\noutput = "$10"\ncache_read = "$0.25"')
    input_, cached = dollars("$2.50"), dollars("$0.25")
    assert house.load().price("openai:mine") == PriceRow(
        "openai:mine", (PriceTier(input_, dollars("$10"), cached, input_),)
    )
    assert house.load().price("openai:other") is None


TIERS = """
[prices."a:long"]
input = "$3"
output = "$15"
per_call = "$0.01"
[[prices."a:long".tiers]]
above_input_tokens = 200_000
input = "$6"
output = "$22.50"
cache_write = "$7.50"
"""


def test_long_inputs_may_cost_more(house: House) -> None:
    """A tier for each size, and an amount for each call."""
    house.user(TIERS)
    row = house.load().price("a:long")
    assert row is not None
    assert row.per_call == dollars("$0.01")
    assert row.tiers[1] == PriceTier(
        dollars("$6"), dollars("$22.50"), dollars("$6"), dollars("$7.50"), 200_000
    )


def test_tiers_rise(house: House) -> None:
    """Otherwise it would be unclear which one holds."""
    path = house.user(TIERS + TIERS[TIERS.index("[[") :])
    with pytest.raises(SettingsError) as refusal:
        house.load()
    assert str(refusal.value).startswith(f'{path}:6: prices."a:long": tiers must rise')


@pytest.mark.parametrize(
    ("text", "ms"),
    [("100ms", 100), ("30s", 30_000), ("1m", 60_000), ("2h", 7_200_000), ("1d", 86_400_000)],
)
def test_durations(text: str, ms: int) -> None:
    """A whole number and a unit."""
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    "text", ["", "30", "0s", "-1s", "1.5s", "1 s", "1w", "30s\n", "٣s", "1h30m"]
)
def test_what_is_no_duration(text: str) -> None:
    """Doubtful ones are refused."""
    with pytest.raises(SettingsError, match="is not a duration; write it like '30s'"):
        parse_duration_ms(text)


def test_a_rate_without_a_burst() -> None:
    """A whole period's amount may come at once."""
    assert parse_rate("60 per 1m") == Rate(60, 60_000, 60)
    with pytest.raises(SettingsError, match="is not a rate"):
        parse_rate("60/1m")


def test_a_backoff() -> None:
    """Spelled as in the language."""
    assert parse_backoff("exponential(100ms, 2.0, 5s)") == Backoff()
    with pytest.raises(SettingsError, match="is not a backoff"):
        parse_backoff("linear(1s)")


def test_limits_of_a_provider_hold_for_each_of_its_formats(house: House) -> None:
    """`openai-chat` is a format of OpenAI; a table of its own is narrower."""
    house.write("[limits.openai]\nslots = 2\nqueue_size = 7\n[limits.openai-chat]\nslots = 3\n")
    find = runtime_arguments(house.load(), {"journal": None})["limits"]
    assert (find("openai-chat:gpt-x").rate.slots, find("openai:gpt-x").rate.slots) == (3, 2)
    assert find("openai-chat:gpt-x").rate.queue_size == 7
    assert find("a model of the program").rate.slots != 2
