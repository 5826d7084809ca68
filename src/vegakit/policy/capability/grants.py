"""Grants: what a tool, function or program may ask of the world, and how grants shrink by
delegation (pure).
"""

from collections.abc import Callable, Iterator
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from vegakit.errors import InvalidRuleError
from vegakit.policy.capability.access import (
    EXEC,
    GET,
    POST,
    READ,
    WRITE,
    AccessRequest,
    Allowed,
    Denied,
    Fetch,
    ReadPath,
    RunCommand,
    Use,
    WritePath,
    check_capability,
    clean_use,
    covers,
    shown,
)
from vegakit.policy.capability.commands import (
    check_command_rule,
    clean_command,
    command_fits,
    risk_under,
    rule_for,
)
from vegakit.policy.capability.hosts import check_host_rule, clean_fetch, hosts_allowing
from vegakit.policy.capability.paths import check_path_rule, clean_path, path_fits

# Capabilities: what a tool, function or program may ask of the world.
#
# A grant names capabilities in an open tree (`fs` covers `fs::read`) and, beside them, the paths,
# commands and hosts they may be used on. Nothing is granted that is not named: an empty list is
# "none", never "any".
#
# | wanted               | capability      | and                       |
# |----------------------|-----------------|---------------------------|
# | ReadPath             | `fs::read`      | a rule of `paths` fits    |
# | WritePath            | `fs::write`     | a rule of `paths` fits    |
# | RunCommand           | `process::exec` | a rule of `commands` fits |
# | Fetch, GET or HEAD   | `net::get`      | a rule of `hosts` fits    |
# | Fetch, other methods | `net::post`     | a rule of `hosts` fits    |
# | Use                  | its own name    |                           |
#
# A denial wins over every grant. It covers its branch of the tree, and whoever asks for a larger
# branch asks for the denied one too.
#
# Delegation only shrinks: a grant remembers the grants it was cut from, and all of them must
# agree. So what two globs have in common is never approximated.


_MAX_RULES = 256
_READING_METHODS = frozenset({"GET", "HEAD"})


class Grant(Struct, frozen=True):
    """`within` are the grants it was cut from; use `delegate`."""

    capabilities: tuple[str, ...] = ()
    denials: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    within: tuple["Grant", ...] = ()

    def __post_init__(self) -> None:
        _check_each(self.capabilities, check_capability)
        _check_each(self.denials, check_capability)
        _check_each(self.paths, check_path_rule)
        _check_each(self.commands, check_command_rule)
        _check_each(self.hosts, check_host_rule)

    def links(self) -> Iterator["Grant"]:
        """Itself and all it was cut from; what it allows, each of them allows alone."""
        yield self
        for grant in self.within:
            yield from grant.links()


def delegate(parent: Grant, requested: Grant) -> Grant:
    """Return the grant that allows exactly what both allow."""
    own = replace(requested, within=())
    above = {replace(link, within=()): None for link in (*requested.links(), *parent.links())}
    del above[own]
    return replace(own, within=tuple(above))


def decide(grant: Grant, wanted: AccessRequest) -> Allowed | Denied:
    """Return whether a grant allows a request, with the reason if it does not and what to add."""
    clean = _clean(wanted)
    if isinstance(clean, Denied):
        return clean
    for link in grant.links():
        objection = _name_objection(link, capability_of(clean)) or _rule_objection(link, clean)
        if objection is not None:
            cut = "" if link is grant else " in the grant this one was cut from"
            return Denied(objection + cut)
    return Allowed(clean)


def _clean(wanted: AccessRequest) -> AccessRequest | Denied:
    match wanted:
        case ReadPath(text) | WritePath(text):
            path = clean_path(text)
            return path if isinstance(path, Denied) else replace(wanted, path=path)
        case RunCommand():
            return clean_command(wanted)
        case Fetch():
            return clean_fetch(wanted)
        case Use():
            return clean_use(wanted)
        case _:
            assert_never(wanted)


def capability_of(wanted: AccessRequest) -> str:
    """Return the capability that a request needs."""
    match wanted:
        case ReadPath():
            return READ
        case WritePath():
            return WRITE
        case RunCommand():
            return EXEC
        case Fetch(method):
            return GET if method in _READING_METHODS else POST
        case Use(name):
            return name
        case _:
            assert_never(wanted)


def _name_objection(link: Grant, name: str) -> str | None:
    for denial in link.denials:
        if covers(denial, name) or covers(name, denial):
            return f"{name} was asked; {denial} is denied, and a denial always wins: take it away"
    if any(covers(granted, name) for granted in link.capabilities):
        return None
    granted = ", ".join(link.capabilities) or "nothing"
    return f"{name} was asked; {granted} is granted; add capabilities [{name}]"


def _rule_objection(link: Grant, wanted: AccessRequest) -> str | None:
    match wanted:
        case ReadPath(path) | WritePath(path):
            if any(path_fits(rule, path) for rule in link.paths):
                return None
            return _missing("path", path, path, "allowed_paths", link.paths)
        case RunCommand(argv):
            if any(command_fits(rule, argv) for rule in link.commands):
                return None
            return _missing_command(argv, link.commands)
        case Fetch(_, host, port):
            if any(rule in link.hosts for rule in hosts_allowing(host, port)):
                return None
            itself = next(hosts_allowing(host, port))
            return _missing("host", itself, itself, "allowed_hosts", link.hosts)
        case Use():
            return None
        case _:
            assert_never(wanted)


def _missing_command(argv: tuple[str, ...], rules: tuple[str, ...]) -> str:
    """Describe a command that no rule fits, with the word that a rule would have to spell out if
    one fits but for it."""
    risky = next(filter(None, (risk_under(rule, argv) for rule in rules)), None)
    why = f"; no wildcard stands for {shown(risky)}: with it {argv[0]} does more" if risky else ""
    to_add = rule_for(argv)
    said = _asked("command", " ".join(argv), "allowed_commands", rules) + why
    if to_add is None:
        return f"{said}; no narrow rule says this: put it into a script and allow that by name"
    return f'{said}; add allowed_commands ["{to_add}"]'


def _missing(subject: str, asked: str, to_add: str, clause: str, rules: tuple[str, ...]) -> str:
    return f'{_asked(subject, asked, clause, rules)}; add {clause} ["{to_add}"]'


def _asked(subject: str, asked: str, clause: str, rules: tuple[str, ...]) -> str:
    allowed = ", ".join(map(shown, rules)) or "none"
    return f"{subject} {shown(asked)} was asked; {clause} are: {allowed}"


def _check_each(rules: tuple[str, ...], check: Callable[[str], None]) -> None:
    if len(rules) > _MAX_RULES:
        raise InvalidRuleError(
            f"a grant holds at most {_MAX_RULES} rules of a kind; got {len(rules)}"
        )
    for rule in rules:
        check(rule)
