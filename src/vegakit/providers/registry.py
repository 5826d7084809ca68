"""The registry: build a model from its name, and take an agent of pydantic-ai apart. Only here are
codecs, the transport and that library loaded, so that importing the package stays cheap.
"""

from typing import TYPE_CHECKING

from vegakit.config import Settings
from vegakit.errors import SettingsError, did_you_mean
from vegakit.providers.access import (
    ModelName,
    ProviderAccess,
    parse_model_name,
    provider_names,
    provider_of_wire,
    script_path,
)
from vegakit.providers.scripted import SCRIPTED_PRICE, ScriptedModel

if TYPE_CHECKING:
    from vegakit.providers.model import ProviderModel
    from vegakit.providers.pydantic_ai_model import AgentParts, PydanticAIModel


def build_model(
    name: str, access: ProviderAccess
) -> "ProviderModel | PydanticAIModel | ScriptedModel":
    """Return a `ports.Model` that opens nothing until it is asked; `aclose` lets go of its
    connections."""
    if path := script_path(name):
        return ScriptedModel.from_file(path, name=name, price=access.price or SCRIPTED_PRICE)
    parsed = parse_model_name(name)
    if parsed.wire.codec is None:
        return _through_pydantic_ai(parsed, access)
    from vegakit.providers.model import ProviderModel

    return ProviderModel(parsed, parsed.wire.codec(), access)


def _through_pydantic_ai(name: ModelName, access: ProviderAccess) -> "PydanticAIModel":
    try:
        from vegakit.providers.pydantic_ai_model import PydanticAIModel

        return PydanticAIModel(name, access)
    except ImportError as error:
        raise SettingsError(
            f"the model {name} needs a library that is not installed ({error.name or error}); "
            f"type: pip install 'vegakit[pydantic-ai]' 'pydantic-ai-slim[{name.provider.name}]'"
        ) from error


def check_provider_tables(settings: Settings) -> None:
    """Raise `SettingsError` for a table of [providers] that no model reads. Without the error, a
    request meant for a server of the user's would go to the provider's own address."""
    for name, source in settings.sources_in("providers").items():
        if problem := _why_unread(name):
            raise SettingsError(f"{source}: no model reads [providers.{name}]: {problem}")


def _why_unread(name: str) -> str:
    if name in provider_names():
        return ""
    family = name.removesuffix("-responses")
    if provider := provider_of_wire(name) or (family if family in provider_names() else ""):
        return f"{name} is a wire format of {provider}; write [providers.{provider}]"
    fix = did_you_mean(name, provider_names())
    try:
        from vegakit.providers.pydantic_ai_model import has_provider
    except ImportError:
        return f"no provider has this name without vegakit[pydantic-ai]; {fix}"
    return "" if has_provider(name) else f"no provider has this name; {fix}"


def parts_of_agent(agent: object, *, name: str = "", model: str = "") -> "AgentParts":
    """Return the parts of a `pydantic_ai.Agent` in our words, or raise `UserError` with everything
    that cannot be carried over. A name and a model that are given take the place of its own."""
    try:
        from vegakit.providers.pydantic_ai_model import read_agent
    except ImportError as error:
        raise SettingsError(
            f"an agent of pydantic-ai needs a library that is not installed ({error.name or error})"
            "; type: pip install 'vegakit[pydantic-ai]'"
        ) from error
    return read_agent(agent, name, model)
