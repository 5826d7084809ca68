"""How one provider is reached."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from vegakit.prices import PriceRow

__all__ = ["ProviderAccess"]


@dataclass(frozen=True, slots=True)
class ProviderAccess:
    """`key` is read for every call and not kept. `price` goes before every list. Shown without what
    may hold a secret."""

    key: Callable[[], str | Awaitable[str]] = field(repr=False)
    base_url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    proxy: str | None = field(default=None, repr=False)
    price: PriceRow | None = None
