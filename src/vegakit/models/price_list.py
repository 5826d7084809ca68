"""What a model costs, from the list that comes with genai-prices; it is never fetched.

The standard tier is what calls ask for (see `model`), so its prices hold. A cache that the list
does not price costs what input costs. A model that is not on the list, or lacks a price for input
or output, has no price.
"""

from decimal import ROUND_CEILING, Decimal
from functools import cache

from genai_prices import Usage, calc_price
from genai_prices.types import TieredPrices

from vegakit.money import NANOS, Money
from vegakit.prices import PriceRow, PriceTier

__all__ = ["listed_price"]


@cache
def listed_price(provider: str, model: str) -> PriceRow | None:
    try:
        prices = calc_price(Usage(), model, provider_id=provider).model_price
    except LookupError:
        return None
    if prices.input_mtok is None or prices.output_mtok is None:
        return None
    listed = (
        prices.input_mtok,
        prices.output_mtok,
        prices.cache_read_mtok or prices.input_mtok,
        prices.cache_write_mtok or prices.input_mtok,
    )
    sizes = {t.start for price in listed if isinstance(price, TieredPrices) for t in price.tiers}
    tiers = (
        PriceTier(*(_at(price, size) for price in listed), above_input_tokens=size)
        for size in sorted(sizes | {0})
    )
    return PriceRow(f"{provider}:{model}", tuple(tiers))


def _at(price: Decimal | TieredPrices, size: int) -> Money:
    """Nano-dollars per million tokens of a call above this size, rounded up."""
    if isinstance(price, TieredPrices):
        reached = [tier.price for tier in price.tiers if tier.start <= size]
        price = reached[-1] if reached else price.base
    return Money(int((price * NANOS).to_integral_value(ROUND_CEILING)))
