"""Permissions: of what a grant allows, what runs by itself, what a person must approve first, and
what never runs (pure).
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from vegakit.errors import InvalidRuleError
from vegakit.policy.capability.access import (
    GET,
    READ,
    AccessRequest,
    Allowed,
    Denied,
    Fetch,
    ReadPath,
    RunCommand,
    Use,
    WritePath,
    check_capability,
    covers,
)
from vegakit.policy.capability.commands import check_command_rule, command_fits, command_is_meant
from vegakit.policy.capability.grants import Grant, capability_of, decide
from vegakit.policy.capability.hosts import check_host_rule, hosts_allowing
from vegakit.policy.capability.paths import check_path_rule, path_fits, rules_touch

# Permissions: of what a grant allows, what runs by itself and what a person is asked about.
#
#     allow process::exec pytest **      ask fs::write .github/**      deny fs secrets/**
#
# A rule names a capability and, after it, the paths, commands or hosts it is about; without them
# it is about all. What no rule is about is decided by the mode:
#
# | mode            | `fs::read` | `net::get` | else, in the sandbox | else, outside |
# |-----------------|------------|------------|----------------------|---------------|
# | read-only       | allow      | ask        | deny                 | deny          |
# | ask             | allow      | ask        | ask                  | ask           |
# | auto-in-sandbox | allow      | ask        | allow                | ask           |
#
# 1. What the grant does not allow is denied; no rule adds to a grant.
# 2. Any deny that fits wins; of several the most specific one is told.
# 3. In mode read-only nothing but reading runs, whatever is allowed.
# 4. Of the others the most specific wins; of two equally specific ones the stricter.
#
# To allow is to name exactly; to ask or deny is to mean at least. `deny fs secrets` also means
# what lies in it, hidden or in upper case, and about moving the folder that holds it; `deny
# process::exec git push` is about every push, with whatever options before it and in the words of
# `env` or a shell, `deny net example.com` about every port. A denied command can still be reached
# through a script or a name made up at run time: it is the sandbox that stops it, and a mode that
# asks about what no rule allows.


class Permission(StrEnum):
    """The three permissions: a call is made, a person is asked, or it is refused."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class PermissionMode(StrEnum):
    """The permission of calls that no rule fits."""

    READ_ONLY = "read-only"
    ASK = "ask"
    AUTO_IN_SANDBOX = "auto-in-sandbox"


_STRICTNESS = tuple(Permission)
_ELSE: Final[Mapping[PermissionMode, tuple[Permission, Permission]]] = {
    PermissionMode.READ_ONLY: (Permission.DENY, Permission.DENY),
    PermissionMode.ASK: (Permission.ASK, Permission.ASK),
    PermissionMode.AUTO_IN_SANDBOX: (Permission.ALLOW, Permission.ASK),
}
"""In the sandbox, and outside."""

_BY_DEFAULT = {READ: Permission.ALLOW, GET: Permission.ASK}
_CHECKS = {"fs": check_path_rule, "process": check_command_rule, "net": check_host_rule}


class PermissionRule(Struct, frozen=True):
    """A rule gives a permission to a capability, for all it covers or what it is about."""

    permission: Permission
    capability: str
    about: str = ""
    """Paths, commands or hosts, as in a grant; all of them if empty."""

    def __post_init__(self) -> None:
        check_capability(self.capability)
        check = _CHECKS.get(self.capability.partition("::")[0])
        if self.about and check is None:
            raise InvalidRuleError(
                f"only rules of fs, process and net are about something; got {str(self)!r}"
            )
        if self.about and check is not None:
            check(self.about)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.permission, self.capability, self.about)))


class Permissions(Struct, frozen=True):
    """`ttl_ms` is how long a person may take to answer; None: as interrupts of that kind do."""

    grant: Grant
    mode: PermissionMode = PermissionMode.ASK
    rules: tuple[PermissionRule, ...] = ()
    ttl_ms: int | None = None


class NeedsApproval(Struct, frozen=True, tag=True):
    """Allowed once a person approves exactly this."""

    wanted: AccessRequest
    reason: str


def parse_permission(text: str) -> PermissionRule:
    """Read a rule such as `deny fs secrets/**`."""
    permission, _, rest = str(text).partition(" ")
    capability, _, about = rest.partition(" ")
    if permission not in _STRICTNESS or not capability:
        raise InvalidRuleError(
            f"a permission is allow, ask or deny, a capability and what it is about, "
            f"such as 'deny fs secrets/**'; got {text!r}"
        )
    return PermissionRule(Permission(permission), capability, about)


def permit(
    permissions: Permissions, wanted: AccessRequest, *, sandboxed: bool
) -> Allowed | NeedsApproval | Denied:
    """Return the permission of one request: the grant decides first, then the rules (a deny before
    all, then the most specific), then the mode."""
    verdict = decide(permissions.grant, wanted)
    if isinstance(verdict, Denied):
        return verdict
    name = capability_of(verdict.wanted)
    fitting = [rule for rule in permissions.rules if _fits(rule, name, verdict.wanted)]
    rule = max(fitting, key=_rank, default=None)
    if rule is not None and rule.permission is Permission.DENY:
        return Denied(f"{name} was asked; the rule '{rule}' covers it, and a denial always wins")
    if permissions.mode is PermissionMode.READ_ONLY and name not in _BY_DEFAULT:
        return Denied(f"{name} was asked; in mode read-only nothing but reading runs")
    if rule is not None:
        return _verdict(rule.permission, verdict, f"the rule '{rule}' asks first")
    by_mode = _BY_DEFAULT.get(name, _ELSE[permissions.mode][0 if sandboxed else 1])
    return _verdict(by_mode, verdict, f"no rule allows it, and mode {permissions.mode} asks first")


def is_ruled(permissions: Permissions, wanted: AccessRequest) -> bool:
    """Whether any rule is about it; else the mode decides."""
    return any(_fits(rule, capability_of(wanted), wanted) for rule in permissions.rules)


def _verdict(permission: Permission, allowed: Allowed, reason: str) -> Allowed | NeedsApproval:
    return allowed if permission is Permission.ALLOW else NeedsApproval(allowed.wanted, reason)


def _rank(rule: PermissionRule) -> tuple[bool, int, bool, int, int]:
    """A deny before all, then the most specific: what it spells out, then how deep its name is."""
    return (
        rule.permission is Permission.DENY,
        len(rule.about.replace("*", "")),
        bool(rule.about) and "*" not in rule.about,
        rule.capability.count("::"),
        _STRICTNESS.index(rule.permission),
    )


def _fits(rule: PermissionRule, name: str, wanted: AccessRequest) -> bool:
    if rule.permission is Permission.ALLOW:
        return covers(rule.capability, name) and (not rule.about or _names(rule.about, wanted))
    related = covers(rule.capability, name) or covers(name, rule.capability)
    return related and (not rule.about or _means(rule.about, wanted))


def _names(about: str, wanted: AccessRequest) -> bool:
    match wanted:
        case ReadPath(path) | WritePath(path):
            return path_fits(about, path)
        case RunCommand(argv):
            return command_fits(about, argv)
        case Fetch(_, host, port):
            return about in hosts_allowing(host, port)
        case Use():
            return False
        case _:
            assert_never(wanted)


def _means(about: str, wanted: AccessRequest) -> bool:
    match wanted:
        case ReadPath(path):
            return _lies_in(about, path)
        case WritePath(path):
            return _lies_in(about, path) or _holds(path, about)
        case RunCommand(argv):
            return command_is_meant(about, argv)
        case Fetch(_, host, port):
            return about in {*hosts_allowing(host, port), *hosts_allowing(host, 443)}
        case Use():
            return True
        case _:
            assert_never(wanted)


def _lies_in(rule: str, path: str) -> bool:
    rule, names = _unhidden(rule), _unhidden(path).split("/")
    return any(path_fits(rule, "/".join(names[:end])) for end in range(1, len(names) + 1))


def _holds(path: str, rule: str) -> bool:
    """Whether moving or removing `path` would move or remove what the rule is about."""
    spelled_out = _unhidden(rule).partition("**")[0].rstrip("/")
    if path == ".":
        return True
    return path.count("/") < spelled_out.count("/") and rules_touch(spelled_out, _unhidden(path))


def _unhidden(path: str) -> str:
    """So that wildcards take hidden names too, in whatever case."""
    names = path.casefold().split("/")
    return "/".join(f"hidden {name}" if name[:1] == "." != name else name for name in names)


# A whole tool call is permitted by rules about the tool, and about all that it declares.
#
#     allow tool::search      ask tool::pay      deny tool::shell
#
# | rules about `tool::NAME` | of what it declares  | the call is                            |
# |--------------------------|----------------------|----------------------------------------|
# | deny                     | whatever             | denied                                 |
# | whatever                 | something is denied  | denied                                 |
# | allow or ask             |                      | as that rule says: it names the tool   |
# | none                     | something asks first | asked about                            |
# | none                     | all is allowed       | allowed                                |
# | none                     | it declares nothing  | as the mode says of what is unknown    |
#
# A tool that declares an empty list wants nothing of the world; one that declares nothing may want
# anything.


_ANY_TOOL = Grant(("tool",))
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]|^(?=\d)")


def permit_call(
    permissions: Permissions, tool: str, wanted: Sequence[AccessRequest] | None, *, sandboxed: bool
) -> Allowed | NeedsApproval | Denied:
    """`wanted` is what it declares to want for these arguments, None if it declares nothing."""
    named = Use(f"tool::{_NOT_IN_A_NAME.sub('_', tool)}")
    verdicts = [permit(permissions, one, sandboxed=sandboxed) for one in wanted or ()]
    mode = permissions.mode if wanted is None else PermissionMode.ASK
    as_tool = replace(permissions, grant=_ANY_TOOL, mode=mode)
    own = permit(as_tool, named, sandboxed=sandboxed)
    if denied := [one for one in (own, *verdicts) if isinstance(one, Denied)]:
        return denied[0]
    if wanted is None or is_ruled(permissions, named):
        return own
    return next((one for one in verdicts if isinstance(one, NeedsApproval)), Allowed(named))
