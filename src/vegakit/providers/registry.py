"""The registry: build a model from its name. Only here are the providers' libraries loaded, so that
importing the package stays cheap.
"""

from typing import TYPE_CHECKING

from vegakit.errors import SettingsError
from vegakit.providers.access import ModelName, ProviderAccess, parse_model_name, script_path
from vegakit.providers.scripted import SCRIPTED_PRICE, ScriptedModel, read_script

if TYPE_CHECKING:
    from vegakit.providers.model import ProviderModel


def build_model(name: str, access: ProviderAccess) -> "ProviderModel | ScriptedModel":
    """Return a `ports.Model` that opens nothing until it is asked; `aclose` lets go of its
    connections."""
    if path := script_path(name):
        return ScriptedModel(read_script(path), name, price=access.price or SCRIPTED_PRICE)
    parsed = parse_model_name(name)
    try:
        from vegakit.providers.model import ProviderModel, connect

        client = connect(parsed, access)
    except ImportError as error:
        raise _not_installed(parsed, error) from error
    return ProviderModel(parsed, access, client)


def _not_installed(name: ModelName, error: ImportError) -> SettingsError:
    return SettingsError(
        f"the model {name} needs a library that is not installed ({error.name or error}); "
        f"type: pip install 'vegakit[{name.provider.name}]'"
    )
