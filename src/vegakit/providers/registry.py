"""The registry: build a model from its name. Only here are codecs and the transport loaded, so that
importing the package stays cheap.
"""

from typing import TYPE_CHECKING

from vegakit.errors import SettingsError
from vegakit.providers.access import ModelName, ProviderAccess, parse_model_name, script_path
from vegakit.providers.scripted import SCRIPTED_PRICE, ScriptedModel, read_script

if TYPE_CHECKING:
    from vegakit.providers.model import ProviderModel
    from vegakit.providers.pydantic_ai_model import PydanticAIModel


def build_model(
    name: str, access: ProviderAccess
) -> "ProviderModel | PydanticAIModel | ScriptedModel":
    """Return a `ports.Model` that opens nothing until it is asked; `aclose` lets go of its
    connections."""
    if path := script_path(name):
        return ScriptedModel(read_script(path), name, price=access.price or SCRIPTED_PRICE)
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
