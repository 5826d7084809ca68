"""The policy says what the server may do for its clients, and what clients may send.

The policy is fixed when the server starts and no request makes it wider: request fields can only
narrow it, and unknown fields are refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, json
from msgspec.structs import replace

from vegakit.lang import Manifest
from vegakit.money import Money
from vegakit.program import ProgramRights, missing_rights

# What a server may do for its clients: fixed when it starts. No request makes it wider.


_OPEN = frozenset({"*", "**"})
_NOTHING = Manifest((), (), (), (), (), (), (), (), (), asks_people=False)
_CLAUSES = {
    "reads": "allowed_paths",
    "writes": "allowed_paths",
    "gets": "allowed_hosts",
    "posts": "allowed_hosts",
    "commands": "allowed_commands",
}


@dataclass(frozen=True)
class ServerPolicy:
    """The rights of a server. `reads` and `writes` are globs from `root`, `gets` and `posts` hosts.
    What may be written may be read, and where something may be sent, something may be fetched.
    `models` are the names that agents may have; with `all_runtimes`, ps and kill reach what this
    server did not start."""

    root: Path
    budget: Money
    reads: Sequence[str] = ()
    writes: Sequence[str] = ()
    gets: Sequence[str] = ()
    posts: Sequence[str] = ()
    commands: Sequence[str] = ()
    people: bool = False
    models: frozenset[str] = field(default_factory=frozenset[str])
    all_runtimes: bool = False

    @property
    def may(self) -> ProgramRights:
        """The rights for both directions together; `outside` tells them apart."""
        rights = {
            "fs::read": self._rules("reads"),
            "fs::write": self.writes,
            "net::get": self._rules("gets"),
            "net::post": self.posts,
            "process::exec": self.commands,
        }
        return ProgramRights(
            [name for name, rules in rights.items() if rules],
            self._rules("reads"),
            tuple(self.commands),
            self._rules("gets"),
            self.people,
        )

    def outside(self, manifest: Manifest) -> list[str]:
        """Return a line for each thing that is not inside. A rule that the source leaves open is
        outside unless all is granted: nobody cuts it later."""
        lines = (
            *self._unknown_models(manifest),
            *missing_rights(manifest, self.may, frozenset()),
            *self._open_rules(manifest),
            *self._write_violations(manifest),
        )
        return list(dict.fromkeys(lines))

    def _unknown_models(self, manifest: Manifest) -> Iterator[str]:
        granted = ", ".join(sorted(self.models)) or "none"
        for agent in manifest.agents:
            for model in (agent.model, *agent.fallbacks):
                if model not in self.models:
                    yield f'agent {agent.name} names model "{model}"; granted: {granted}'

    def _open_rules(self, manifest: Manifest) -> Iterator[str]:
        for name, clause in _CLAUSES.items():
            granted = self._rules(name)
            if _OPEN & {*getattr(manifest, name)} and not _OPEN & {*granted}:
                inside = ", ".join(f'"{rule}"' for rule in granted) or "none"
                yield f"it {name} without saying what; write {clause} with some of: {inside}"

    def _write_violations(self, manifest: Manifest) -> list[str]:
        """Return what would be written or sent where only reading or fetching is granted."""
        rules = {"fs::write": self.writes, "net::post": self.posts}
        named = [name for name, granted in rules.items() if granted]
        outwards = ProgramRights(named, tuple(self.writes), (), tuple(self.posts))
        strong = replace(_NOTHING, writes=manifest.writes, posts=manifest.posts)
        return missing_rights(strong, outwards, frozenset())

    def _rules(self, name: str) -> tuple[str, ...]:
        weak = {"reads": self.writes, "gets": self.posts}
        return (*getattr(self, name), *weak.get(name, ()))


# What clients may ask for, field by field: anything else is refused. Schemas are made from these.
#
# No field widens what the server was started with; `budget` of a run only narrows it.


class McpPsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The request of `ps` for MCP: it may name another runtime."""

    at: Annotated[str, Meta(description="another runtime of this user, if that is granted")] = ""


class McpKillRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The request of `kill` for MCP: it may name another runtime, and always ends the whole tree,
    because a client has no supervisor's decision to wait for."""

    id: Annotated[str, Meta(description="as ps shows it", min_length=1, max_length=1_000)]
    at: Annotated[str, Meta(description="another runtime of this user, if that is granted")] = ""


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    """Return the JSON schema of a request: an object, with the types that its fields have."""
    _, parts = json.schema_components([kind], ref_template="#/$defs/{name}")
    own = parts.pop(kind.__name__)
    return {**own, "$defs": parts} if parts else own
