"""What runs by itself, what a person is asked about first, and what never runs (pure)."""

from vegakit.policy.permissions.dispatching import Asked, Attempt, dispatch
from vegakit.policy.permissions.rules import (
    AskFirst,
    Permission,
    PermissionMode,
    PermissionRule,
    Permissions,
    parse_permission,
    permit,
)

__all__ = [
    "AskFirst",
    "Asked",
    "Attempt",
    "Permission",
    "PermissionMode",
    "PermissionRule",
    "Permissions",
    "dispatch",
    "parse_permission",
    "permit",
]
