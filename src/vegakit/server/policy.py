"""What the server may do for its clients, and what clients may send.

The policy is fixed when the server starts and no request makes it wider: request fields can only
narrow it, and unknown fields are refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, json
from msgspec.structs import replace

from vegakit.lang import Manifest
from vegakit.money import Money
from vegakit.program import May, missing_rights

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
    """`reads` and `writes` are globs from `root`, `gets` and `posts` hosts. What may be written may
    be read, and where something may be sent, something may be fetched. `models` are the names that
    agents may have; `all_runtimes`: ps and kill reach what this server did not start."""

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
    def may(self) -> May:
        """For both directions together; `outside` tells them apart."""
        rights = {
            "fs::read": self._rules("reads"),
            "fs::write": self.writes,
            "net::get": self._rules("gets"),
            "net::post": self.posts,
            "process::exec": self.commands,
        }
        return May(
            [name for name, rules in rights.items() if rules],
            self._rules("reads"),
            tuple(self.commands),
            self._rules("gets"),
            self.people,
        )

    def outside(self, manifest: Manifest) -> list[str]:
        """A line for each thing that is not inside. A rule that the source leaves open is outside
        unless all is granted: nobody cuts it later."""
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
            if agent.model not in self.models:
                yield f'agent {agent.name} names model "{agent.model}"; granted: {granted}'

    def _open_rules(self, manifest: Manifest) -> Iterator[str]:
        for name, clause in _CLAUSES.items():
            granted = self._rules(name)
            if _OPEN & {*getattr(manifest, name)} and not _OPEN & {*granted}:
                inside = ", ".join(f'"{rule}"' for rule in granted) or "none"
                yield f"it {name} without saying what; write {clause} with some of: {inside}"

    def _write_violations(self, manifest: Manifest) -> list[str]:
        """What may only be read, or fetched from, is not written or sent to."""
        rules = {"fs::write": self.writes, "net::post": self.posts}
        named = [name for name, granted in rules.items() if granted]
        outwards = May(named, tuple(self.writes), (), tuple(self.posts))
        strong = replace(_NOTHING, writes=manifest.writes, posts=manifest.posts)
        return missing_rights(strong, outwards, frozenset())

    def _rules(self, name: str) -> tuple[str, ...]:
        weak = {"reads": self.writes, "gets": self.posts}
        return (*getattr(self, name), *weak.get(name, ()))


# What clients may ask for, field by field: anything else is refused. Schemas are made from these.
#
# No field widens what the server was started with; `budget` of a run only narrows it.


class ProgramRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Either `source` or `path`."""

    source: Annotated[str, Meta(description="the text of a program")] = ""
    path: Annotated[
        str, Meta(description="or its file, from the folder of the project", max_length=1_000)
    ] = ""
    language: Annotated[
        Literal["vega", "python"], Meta(description="of `source`; a file says it by its name")
    ] = "vega"


class RunRequest(ProgramRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    arguments: Annotated[
        tuple[Any, ...], Meta(description='of its main, as JSON; money is text like "$1.50"')
    ] = ()
    budget: Annotated[
        str, Meta(description="what this run may spend at most, such as $0.50", max_length=40)
    ] = ""


class PsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    at: Annotated[str, Meta(description="another runtime of this user, if that is granted")] = ""


class InterruptsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class KillRequest(Struct, frozen=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(description="as ps shows it", min_length=1, max_length=1_000)]
    at: Annotated[str, Meta(description="another runtime of this user, if that is granted")] = ""


class CardRequest(Struct, frozen=True, forbid_unknown_fields=True):
    language: Annotated[Literal["vega", "python"], Meta(description="to write programs in")] = (
        "vega"
    )


ServerRequest: TypeAlias = (
    ProgramRequest | RunRequest | PsRequest | KillRequest | CardRequest | InterruptsRequest
)


def schema_of(kind: type[ServerRequest]) -> dict[str, Any]:
    _, parts = json.schema_components([kind])
    return parts[kind.__name__]
