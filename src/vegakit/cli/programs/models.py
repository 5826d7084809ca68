"""What is known of the models that a program names, without a key and without a call."""

from functools import cache

from vegakit.config import Settings
from vegakit.errors import SettingsError
from vegakit.lang import AgentSpec, ModelTerms
from vegakit.models import ProviderAccess, build_model, provider_of
from vegakit.ports import Model

__all__ = ["PriceBook"]


class PriceBook:
    """`model`, where given, stands in for that of every agent."""

    def __init__(self, settings: Settings, model: str | None = None) -> None:
        self._settings = settings
        self._model = model
        self._known = cache(self._build)

    def __call__(self, spec: AgentSpec) -> ModelTerms | None:
        model = self._known(self._model or spec.model)
        if model is None or model.price is None:
            return None
        return ModelTerms(
            model.price,
            model.context_tokens,
            model.default_max_tokens,
            model.bound_input,
            self._settings.limits_for(model.name).retry.max_attempts,
        )

    def _build(self, name: str) -> Model | None:
        """None of a name that nobody knows: its price is not known either."""
        settings = self._settings
        try:
            model = settings.model(name)
            table = settings.provider(provider_of(model))
            price = settings.price(model)
            return build_model(model, ProviderAccess(_no_key, table.base_url, price=price))
        except SettingsError:
            return None


def _no_key() -> str:
    return ""
