"""Settings from files, environment and flags, for SDK and command line alike (edge, host).

One frozen `Settings`, made once by `load` and passed down; `explain` says where each value came
from. Only this room reads the environment. Keys are read when a call needs them, never kept. What a
project file may not decide for its user stands in `trust`.
"""

from vegakit.config.layers import user_data_dir
from vegakit.config.loader import check_code_trusted, default_toml, load, trust
from vegakit.config.names import (
    KeyFunction,
    KeySource,
    SettingSource,
    SourceKind,
    config_schema,
    environment_secrets,
    form_of,
    hide_secrets_of_url,
    toml_of,
)
from vegakit.config.settings import (
    CutOffTools,
    ModelLimits,
    ReplayTarget,
    ResumeTarget,
    SettingRow,
    Settings,
    environment_with,
    explain,
    replay_target,
    replay_variables,
    resume_target,
    resume_variables,
    wants_colour,
)
from vegakit.config.tables import (
    Key,
    McpTable,
    ProviderTable,
    parse_backoff,
    parse_duration_ms,
    parse_rate,
)

__all__ = [
    "CutOffTools",
    "Key",
    "KeyFunction",
    "KeySource",
    "McpTable",
    "ModelLimits",
    "ProviderTable",
    "ReplayTarget",
    "ResumeTarget",
    "SettingRow",
    "SettingSource",
    "Settings",
    "SourceKind",
    "check_code_trusted",
    "config_schema",
    "default_toml",
    "environment_secrets",
    "environment_with",
    "explain",
    "form_of",
    "hide_secrets_of_url",
    "load",
    "parse_backoff",
    "parse_duration_ms",
    "parse_rate",
    "replay_target",
    "replay_variables",
    "resume_target",
    "resume_variables",
    "toml_of",
    "trust",
    "user_data_dir",
    "wants_colour",
]
