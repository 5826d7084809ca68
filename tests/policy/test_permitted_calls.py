"""Whether a whole tool call runs: rules about the tool, and about all that it declares."""

import pytest

from vegakit.policy import (
    AccessRequest,
    Allowed,
    Denied,
    Grant,
    NeedsApproval,
    PermissionMode,
    Permissions,
    RunCommand,
    Use,
    parse_permission,
    permit_call,
)

READ, POST = Use("fs::read"), Use("net::post")
GRANT = Grant(("fs::read", "net::post", "process::exec"), commands=("git **",))
UNKNOWN = None


def verdict(
    rules: str,
    wanted: tuple[AccessRequest, ...] | None,
    mode: str = "ask",
    *,
    sandboxed: bool = False,
) -> str:
    parsed = tuple(map(parse_permission, filter(None, rules.split(", "))))
    permissions = Permissions(GRANT, PermissionMode(mode), parsed)
    decided = permit_call(permissions, "pay-now", wanted, sandboxed=sandboxed)
    return {Allowed: "allow", NeedsApproval: "ask", Denied: "deny"}[type(decided)]


@pytest.mark.parametrize(
    ("rules", "wanted", "expected"),
    [
        ("", (), "allow"),
        ("", (READ,), "allow"),
        ("", (READ, POST), "ask"),
        ("", UNKNOWN, "ask"),
        ("allow net", (READ, POST), "allow"),
        ("allow tool::pay_now", UNKNOWN, "allow"),
        ("allow tool::pay_now", (POST,), "allow"),
        ("allow tool", (POST,), "allow"),
        ("allow tool::pay", UNKNOWN, "ask"),
        ("ask tool::pay_now", (), "ask"),
        ("ask tool, allow tool::pay_now", (POST,), "allow"),
        ("deny tool::pay_now", (), "deny"),
        ("deny tool, allow tool::pay_now", (READ,), "deny"),
        ("allow tool::pay_now, deny net::post", (READ, POST), "deny"),
        ("allow tool::pay_now, deny net example.com", (POST,), "deny"),
        ("allow tool::pay_now, ask net::post", (POST,), "allow"),
        ("", (Use("mail"),), "deny"),
        ("allow tool::pay_now", (RunCommand(("rm", "x")),), "deny"),
    ],
)
def test_the_rule_that_names_the_tool_decides_unless_something_is_denied(
    rules: str, wanted: tuple[AccessRequest, ...] | None, expected: str
) -> None:
    """What a grant does not hold is denied too."""
    assert verdict(rules, wanted) == expected


def test_read_only_runs_nothing_but_reading() -> None:
    """Whatever is allowed."""
    assert verdict("allow tool", (READ,), "read-only") == "allow"
    assert verdict("allow tool", (POST,), "read-only") == "deny"
    assert verdict("allow tool", UNKNOWN, "read-only") == "deny"


def test_the_sandbox_lets_run_what_is_not_asked_about() -> None:
    """Only inside it, and only in its mode."""
    command = (RunCommand(("git", "status")),)
    assert verdict("", command, "auto-in-sandbox", sandboxed=True) == "allow"
    assert verdict("", command, "auto-in-sandbox") == "ask"
    assert verdict("", command, sandboxed=True) == "ask"
    assert verdict("ask process", command, "auto-in-sandbox", sandboxed=True) == "ask"
