"""Settings from files, environment and flags, for SDK and command line alike (edge, host).

One frozen `Settings`, made once by `load` and passed down; `explain` says where each value came
from. Only this room reads the environment. Keys are read when a call needs them, never kept. What a
project file may not decide for its user stands in `trust`.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.config.layers import (
        EXTENSION_FOLDERS as EXTENSION_FOLDERS,
        TRUST_RECORD as TRUST_RECORD,
        extension_files as extension_files,
        is_trusted as is_trusted,
        trusted_files as trusted_files,
        user_config_dir as user_config_dir,
        user_data_dir as user_data_dir,
    )
    from vegakit.config.loader import (
        carry_trust as carry_trust,
        check_answers_trusted as check_answers_trusted,
        check_python_trusted as check_python_trusted,
        default_toml as default_toml,
        ignored_settings as ignored_settings,
        load as load,
        sockets_dir as sockets_dir,
        trust as trust,
        user_budget as user_budget,
    )
    from vegakit.config.names import (
        EnvironmentKey as EnvironmentKey,
        KeyFunction as KeyFunction,
        KeySource as KeySource,
        SettingSource as SettingSource,
        SourceKind as SourceKind,
        config_schema as config_schema,
        environment_proxy as environment_proxy,
        environment_secrets as environment_secrets,
        environment_variable as environment_variable,
        form_of as form_of,
        hide_secrets_of_url as hide_secrets_of_url,
        toml_of as toml_of,
    )
    from vegakit.config.owners import (
        may_steer as may_steer,
        name_of_user as name_of_user,
        why_ignored as why_ignored,
    )
    from vegakit.config.settings import (
        CutOffTools as CutOffTools,
        ModelLimits as ModelLimits,
        OtlpTarget as OtlpTarget,
        ReplayTarget as ReplayTarget,
        ResumeTarget as ResumeTarget,
        SettingRow as SettingRow,
        Settings as Settings,
        UserBudget as UserBudget,
        environment_with as environment_with,
        explain as explain,
        has_light_background as has_light_background,
        replay_target as replay_target,
        replay_variables as replay_variables,
        resume_target as resume_target,
        resume_variables as resume_variables,
        resuming as resuming,
        wants_colour as wants_colour,
    )
    from vegakit.config.tables import (
        Key as Key,
        LogFormat as LogFormat,
        McpTable as McpTable,
        OtlpProtocol as OtlpProtocol,
        PromptCache as PromptCache,
        ProviderTable as ProviderTable,
        parse_backoff as parse_backoff,
        parse_duration_ms as parse_duration_ms,
        parse_rate as parse_rate,
    )

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "layers": (
            "EXTENSION_FOLDERS TRUST_RECORD extension_files is_trusted trusted_files "
            "user_config_dir user_data_dir"
        ),
        "loader": (
            "carry_trust check_answers_trusted check_python_trusted default_toml "
            "ignored_settings load sockets_dir trust user_budget"
        ),
        "names": (
            "EnvironmentKey KeyFunction KeySource SettingSource SourceKind config_schema "
            "environment_proxy environment_secrets environment_variable form_of "
            "hide_secrets_of_url toml_of"
        ),
        "owners": "may_steer name_of_user why_ignored",
        "settings": (
            "CutOffTools ModelLimits OtlpTarget ReplayTarget ResumeTarget SettingRow Settings "
            "UserBudget environment_with explain has_light_background replay_target "
            "replay_variables resume_target resume_variables resuming wants_colour"
        ),
        "tables": (
            "Key LogFormat McpTable OtlpProtocol PromptCache ProviderTable parse_backoff "
            "parse_duration_ms parse_rate"
        ),
    },
)
