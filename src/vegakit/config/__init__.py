"""Settings from files, environment and flags, for SDK and command line alike (edge, host).

One frozen `Settings`, made once by `load` and passed down; `explain` says where each value came
from. Only this room reads the environment. Keys are read when a call needs them, never kept. What a
project file may not decide for its user stands in `trust`.
"""

from vegakit.config.defaults import default_toml
from vegakit.config.explaining import Row, explain
from vegakit.config.files import user_data_dir
from vegakit.config.keys import KeyFunction, KeySource
from vegakit.config.loading import check_code_trusted, load, trust
from vegakit.config.replaying import (
    CutOffTools,
    Replayed,
    Resumed,
    environment_with,
    replay_variables,
    replayed,
    resume_variables,
    resumed,
)
from vegakit.config.rules import Limits
from vegakit.config.schema import config_schema, form_of
from vegakit.config.secrecy import held_secrets
from vegakit.config.settings import Settings
from vegakit.config.sources import Source, SourceKind, toml_of
from vegakit.config.tables import Key, McpTable, ProviderTable
from vegakit.config.terminal import wants_colour
from vegakit.config.texts import parse_backoff, parse_duration_ms, parse_rate

__all__ = [
    "CutOffTools",
    "Key",
    "KeyFunction",
    "KeySource",
    "Limits",
    "McpTable",
    "ProviderTable",
    "Replayed",
    "Resumed",
    "Row",
    "Settings",
    "Source",
    "SourceKind",
    "check_code_trusted",
    "config_schema",
    "default_toml",
    "environment_with",
    "explain",
    "form_of",
    "held_secrets",
    "load",
    "parse_backoff",
    "parse_duration_ms",
    "parse_rate",
    "replay_variables",
    "replayed",
    "resume_variables",
    "resumed",
    "toml_of",
    "trust",
    "user_data_dir",
    "wants_colour",
]
