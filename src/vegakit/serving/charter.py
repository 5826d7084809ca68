"""What a server may do for its clients: fixed when it starts. No request makes it wider."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from vegakit.authoring import May, lacking
from vegakit.lang import Manifest
from vegakit.money import Money

__all__ = ["Charter"]

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
class Charter:
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
        told = (
            *self._strangers(manifest),
            *lacking(manifest, self.may, frozenset()),
            *self._left_open(manifest),
            *self._written(manifest),
        )
        return list(dict.fromkeys(told))

    def _strangers(self, manifest: Manifest) -> Iterator[str]:
        granted = ", ".join(sorted(self.models)) or "none"
        for agent in manifest.agents:
            if agent.model not in self.models:
                yield f'agent {agent.name} names model "{agent.model}"; granted: {granted}'

    def _left_open(self, manifest: Manifest) -> Iterator[str]:
        for name, clause in _CLAUSES.items():
            granted = self._rules(name)
            if _OPEN & {*getattr(manifest, name)} and not _OPEN & {*granted}:
                inside = ", ".join(f'"{rule}"' for rule in granted) or "none"
                yield f"it {name} without saying what; write {clause} with some of: {inside}"

    def _written(self, manifest: Manifest) -> list[str]:
        """What may only be read, or fetched from, is not written or sent to."""
        rules = {"fs::write": self.writes, "net::post": self.posts}
        named = [name for name, granted in rules.items() if granted]
        outwards = May(named, tuple(self.writes), (), tuple(self.posts))
        strong = replace(_NOTHING, writes=manifest.writes, posts=manifest.posts)
        return lacking(strong, outwards, frozenset())

    def _rules(self, name: str) -> tuple[str, ...]:
        weak = {"reads": self.writes, "gets": self.posts}
        return (*getattr(self, name), *weak.get(name, ()))
