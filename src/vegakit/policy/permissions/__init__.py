"""What runs by itself, what a person is asked about first, and what never runs (pure)."""

from vegakit.policy.permissions.calls import permit_call
from vegakit.policy.permissions.dispatching import Asked, Attempt, dispatch, follow
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
    "follow",
    "parse_permission",
    "permit",
    "permit_call",
]
