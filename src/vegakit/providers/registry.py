"""The registry: build a model from its name, and take an agent of pydantic-ai apart. Only here are
codecs, the transport and that library loaded, so that importing the package stays cheap.
"""

from typing import TYPE_CHECKING

from vegakit.errors import SettingsError
from vegakit.providers.access import ModelName, ProviderAccess, parse_model_name, script_path
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
