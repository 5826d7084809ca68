"""The providers: one module each, whose `PROVIDER` is its record. A module that is put here is
found; nothing else has to name it.
"""

from importlib import import_module
from pkgutil import iter_modules

from vegakit.providers.provider import ProviderRecord

PROVIDERS: tuple[ProviderRecord, ...] = tuple(
    import_module(f"{__name__}.{module.name}").PROVIDER for module in iter_modules(__path__)
)
"""By name of their modules."""

__all__ = ["PROVIDERS"]
