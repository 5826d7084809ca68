"""The cost of a call: the most it could be, and what it was (base, pure).

Prices are nano-dollars per million tokens. A tier replaces the row's prices for the whole call
once its input passes a size (long-context pricing). Before the call nobody knows how much of the
input is read from or written to a cache, so the worst case takes the most expensive way each token
could go.
"""

from msgspec import Struct

from vegakit.conversation import Usage
from vegakit.errors import InvalidMoneyError
from vegakit.money import Money, cost, dollars

__all__ = [
    "DEFAULT_SEND_BUDGET",
    "PAID_REPEATS",
    "PriceRow",
    "PriceTier",
    "bill",
    "paid_repeats",
    "worst_case",
]


DEFAULT_SEND_BUDGET = dollars("$0.50")
"""What a send to an agent with tools may spend where nobody says."""

PAID_REPEATS = 20
"""Of a hundred quoted sends, so many may be repeated and paid once more where nobody says."""
_LEAST_REPEATS = 2
"""A run of few sends, too, survives a call that times out and one that a kill cut off."""


def paid_repeats(sends: int, percent: int) -> int:
    """Return how many repeats that may be billed a run of so many quoted sends may make, all its
    sends together. What is known to be unbilled is not counted."""
    return max(_LEAST_REPEATS, -(-sends * percent // 100)) if percent else 0


class PriceTier(Struct, frozen=True):
    """Holds for calls of more than `above_input_tokens`."""

    input: Money
    output: Money
    cache_read: Money
    cache_write: Money
    above_input_tokens: int = 0


class PriceRow(Struct, frozen=True):
    """`tiers` rise by size; the first holds from the first token on."""

    model: str
    tiers: tuple[PriceTier, ...]
    per_call: Money = Money(0)

    def reachable(self, input_tokens: int) -> list[PriceTier]:
        """Return the tiers that a call of at most so many tokens may be billed by."""
        if len(self.tiers) == 1:
            return [*self.tiers]
        first, *longer = self.tiers
        return [first, *(tier for tier in longer if input_tokens > tier.above_input_tokens)]


def worst_case(row: PriceRow, input_tokens: int, max_tokens: int) -> Money:
    """Return the highest bill possible, over every tier that the input may reach, since its count
    is itself an upper bound."""
    return max(
        _total(row, (input_tokens, _most_expensive_input(tier)), (max_tokens, tier.output))
        for tier in row.reachable(input_tokens)
    )


def bill(row: PriceRow, usage: Usage) -> Money:
    """Return what a call costs by the tokens it was billed for."""
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    plain = usage.input_tokens - read - written
    counts = (plain, read, written, usage.output_tokens)
    if any(type(count) is not int or count < 0 for count in counts):
        raise InvalidMoneyError(f"a provider reported impossible usage of {row.model}: {usage}")
    tier = row.reachable(usage.input_tokens)[-1]
    return _total(
        row,
        (plain, tier.input),
        (read, tier.cache_read),
        (written, tier.cache_write),
        (usage.output_tokens, tier.output),
    )


def _most_expensive_input(tier: PriceTier) -> Money:
    return max(tier.input, tier.cache_read, tier.cache_write)


def _total(row: PriceRow, *charges: tuple[int, Money]) -> Money:
    """Rounded up once, so that no bill within the bounds passes the worst case."""
    total = 0
    for tokens, price in charges:
        total += tokens * price
    return Money(cost(1, Money(total)) + row.per_call)
