"""What the code of a written program may touch at most, and what of its manifest is not inside.

A rule that the source leaves open (`may [fs::read]` without paths) is cut to what is granted. One
that it names has to lie inside. Whoever opens files, hosts and commands holds the program to the
grant itself, exactly; here it is told in time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from vegakit.errors import UserError
from vegakit.lang import Manifest
from vegakit.policy import (
    Allowed,
    Fetch,
    Grant,
    ReadPath,
    RunCommand,
    Use,
    decide,
    rule_within,
)

__all__ = ["May", "lacking"]

_WILD = frozenset("*?[")
_OPEN = frozenset({"*", "**"})
_NEEDS = {
    "paths": ("fs::read", "fs::write"),
    "commands": ("process::exec",),
    "hosts": ("net::get", "net::post"),
}


@dataclass(frozen=True)
class May:
    """`paths`, `commands` and `hosts` are rules as in `@tool`; `people`: it may ask persons."""

    capabilities: Sequence[str] = ()
    paths: Sequence[str] = ()
    commands: Sequence[str] = ()
    hosts: Sequence[str] = ()
    people: bool = False

    def __post_init__(self) -> None:
        grant = self.grant
        for name, capabilities in _NEEDS.items():
            used = any(_names(grant, capability) for capability in capabilities)
            if getattr(self, name) and not used:
                wanted = " or ".join(f'"{capability}"' for capability in capabilities)
                raise UserError(
                    f"May({name}=…) grants nothing alone; add capabilities=[…] with {wanted}"
                )

    @cached_property
    def grant(self) -> Grant:
        return Grant(
            tuple(self.capabilities),
            paths=tuple(self.paths),
            commands=tuple(self.commands),
            hosts=tuple(self.hosts),
        )


def lacking(manifest: Manifest, may: May, known: frozenset[str]) -> list[str]:
    """A line for each thing that is not inside, with what to write instead. `known` are names that
    the manifest calls unknown and that were given all the same."""
    told: list[str] = []
    for name, capability, clause, rules in _TOUCHED:
        wished: tuple[str, ...] = getattr(manifest, name)
        if wished and not _names(may.grant, capability):
            told.append(f"{capability} is not granted ({_granted(may)}); take out what needs it")
            continue
        for rule in wished:
            if rule not in _OPEN and not _FITS[rules](may.grant, capability, rule):
                inside = ", ".join(f'"{one}"' for one in getattr(may, rules)) or "none"
                told.append(f'{clause} ["{rule}"] is not inside what is granted: write {inside}')
    told += [
        f"{name} is not granted ({_granted(may)}); take out what needs it"
        for name in manifest.unknown
        if name not in known and not _names(may.grant, name)
    ]
    told += [f'use mcp "{name}" is not granted; ask a given agent' for name in manifest.servers]
    if manifest.asks_people and not may.people:
        told.append("human:: asks a person, which is not granted; return the question instead")
    return told


_TOUCHED = (
    ("reads", "fs::read", "allowed_paths", "paths"),
    ("writes", "fs::write", "allowed_paths", "paths"),
    ("gets", "net::get", "allowed_hosts", "hosts"),
    ("posts", "net::post", "allowed_hosts", "hosts"),
    ("commands", "process::exec", "allowed_commands", "commands"),
)


def _names(grant: Grant, capability: str) -> bool:
    return isinstance(decide(Grant(grant.capabilities), Use(capability)), Allowed)


def _granted(may: May) -> str:
    return f"granted: {', '.join(may.capabilities) or 'nothing'}"


def _path_fits(grant: Grant, capability: str, rule: str) -> bool:
    rule = rule.removeprefix("/project/")
    if rule in grant.paths:
        return True
    if _WILD.isdisjoint(rule):
        reading = Grant(("fs::read",), paths=grant.paths)
        return isinstance(decide(reading, ReadPath(rule)), Allowed)
    folders = [one.removesuffix("**") for one in grant.paths if one == "**" or one.endswith("/**")]
    return ".." not in rule.split("/") and any(map(rule.startswith, folders))


def _host_fits(grant: Grant, capability: str, rule: str) -> bool:
    host, _, port = rule.partition(":")
    if rule in grant.hosts:
        return True
    if host.startswith("*") or not (port or "443").isdecimal():
        return False
    reading = Grant(("net::get",), hosts=grant.hosts)
    return isinstance(decide(reading, Fetch("GET", host, int(port or 443))), Allowed)


def _command_fits(grant: Grant, capability: str, rule: str) -> bool:
    if rule in grant.commands:
        return True
    if "*" not in rule:
        return isinstance(decide(grant, RunCommand(tuple(rule.split()))), Allowed)
    return any(rule_within(rule, one) for one in grant.commands)


_FITS: dict[str, Callable[[Grant, str, str], bool]] = {
    "paths": _path_fits,
    "hosts": _host_fits,
    "commands": _command_fits,
}
