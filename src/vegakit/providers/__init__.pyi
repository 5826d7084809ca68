from vegakit.providers.access import (
    ProviderAccess as ProviderAccess,
    ServerLimits as ServerLimits,
    account_variables as account_variables,
    is_model_name as is_model_name,
    key_formats as key_formats,
    missing_variables as missing_variables,
    needs_key as needs_key,
    provider_names as provider_names,
    provider_of as provider_of,
)
from vegakit.providers.admission import (
    ADMITTED as ADMITTED,
    RequestAdmission as RequestAdmission,
    admitted as admitted,
)
from vegakit.providers.answer import (
    BrokenError as BrokenError,
    Deadlines as Deadlines,
    HttpAnswer as HttpAnswer,
)
from vegakit.providers.catalog import (
    capped_price as capped_price,
    catalog_date as catalog_date,
    catalog_sources as catalog_sources,
    features_of as features_of,
    known_models as known_models,
    known_providers as known_providers,
    listed_price as listed_price,
    runs_provider_tools as runs_provider_tools,
)
from vegakit.providers.provider import ProviderRecord as ProviderRecord
from vegakit.providers.registry import (
    build_model as build_model,
    check_provider_tables as check_provider_tables,
    parts_of_agent as parts_of_agent,
)
from vegakit.providers.scripted import (
    SCRIPTED_PRICE as SCRIPTED_PRICE,
    ScriptedAnswer as ScriptedAnswer,
    ScriptedCall as ScriptedCall,
    ScriptedModel as ScriptedModel,
    ScriptedReply as ScriptedReply,
)
from vegakit.providers.token_bounds import InputCounting as InputCounting
from vegakit.providers.transport import ConnectionPool as ConnectionPool
