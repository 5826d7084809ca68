"""From a name to a model; here the provider's libraries are loaded."""

from typing import TYPE_CHECKING

from vegakit.errors import SettingsError
from vegakit.models.access import ProviderAccess
from vegakit.models.naming import Wire, read_name, script_of
from vegakit.models.script import read_script
from vegakit.models.scripted import SCRIPTED_PRICE, ScriptedModel

if TYPE_CHECKING:
    from vegakit.models.model import ProviderModel

__all__ = ["build_model"]


def build_model(name: str, access: ProviderAccess) -> "ProviderModel | ScriptedModel":
    """A `ports.Model` that opens nothing until it is asked; `aclose` lets go of its connections."""
    if path := script_of(name):
        return ScriptedModel(read_script(path), name, price=access.price or SCRIPTED_PRICE)
    wire, model = read_name(name)
    try:
        from vegakit.models.clients import connect
        from vegakit.models.model import ProviderModel

        client = connect(wire, model, access)
    except ImportError as error:
        raise _not_installed(name, wire, error) from error
    return ProviderModel(wire, model, access, client)


def _not_installed(name: str, wire: Wire, error: ImportError) -> SettingsError:
    return SettingsError(
        f"the model {name} needs a library that is not installed ({error.name or error}); "
        f"type: pip install 'vegakit[{wire.provider}]'"
    )
