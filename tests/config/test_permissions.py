"""Permissions and the audit, as `vega.toml` says."""

import pytest

from tests.config.house import House
from vegakit.errors import SettingsError
from vegakit.policy import PermissionMode, parse_permission

WRITTEN = """
[permissions]
mode = "read-only"
rules = ["allow fs::read src/**", "deny tool::pay"]
answer_within = "15m"
[audit]
path = "audit/night.db"
"""


def test_nothing_written_asks_nobody(house: House) -> None:
    """Tools run within their own grants, and nothing is audited."""
    settings = house.load()
    assert settings.permission_rules is None
    assert settings.audit_path is None


def test_rules_mode_and_time_are_read(house: House) -> None:
    """The audit lies where the file that names it lies."""
    house.user(WRITTEN)
    settings = house.load()
    rules = ("allow fs::read src/**", "deny tool::pay")
    assert settings.permission_rules == tuple(map(parse_permission, rules))
    assert settings.permissions.mode is PermissionMode.READ_ONLY
    assert settings.answer_within_ms == 900_000
    assert settings.audit_path == house.config_dir / "audit" / "night.db"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('rules = ["permit fs"]', "a permission is allow, ask or deny"),
        ('rules = ["allow not a name"]', "names no capability|only rules of fs"),
        ('mode = "yolo"', "expected one of ask, auto-in-sandbox, read-only"),
    ],
)
def test_a_wrong_rule_is_told_with_its_place(house: House, line: str, told: str) -> None:
    """Before anything runs."""
    path = house.user(f"[permissions]\n{line}\n")
    with pytest.raises(SettingsError, match=told) as refused:
        house.load()
    assert str(path) in str(refused.value)
