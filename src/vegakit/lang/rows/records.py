"""What something may touch, and when two such rows forbid another order.

| class       | has                                                 | may start              |
|-------------|-----------------------------------------------------|------------------------|
| pure        | nothing                                             | when its operands are  |
| revocable   | reads, gets, sends to agents that only read, spawns | early, unseen          |
| irrevocable | writes, posts, commands, prints, people, unknown    | after all before it    |
"""

from enum import StrEnum

from msgspec import Struct

from vegakit.lang.rows.paths import paths_touch
from vegakit.lang.steps import took

__all__ = ["NOTHING_TOUCHED", "Class", "Effects", "conflict", "joined"]


class Class(StrEnum):
    PURE = "pure"
    REVOCABLE = "revocable"
    IRREVOCABLE = "irrevocable"


class Effects(Struct, frozen=True, omit_defaults=True):
    """Globs of paths, hosts (`*` is any), commands, full names of agents, names of MCP servers.
    `unknown` are capabilities that nobody here knows, and tools from elsewhere."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    gets: frozenset[str] = frozenset()
    posts: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    sends: frozenset[str] = frozenset()
    spawns: frozenset[str] = frozenset()
    servers: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    prints: bool = False
    asks_people: bool = False

    @property
    def class_(self) -> Class:
        strong = self.writes or self.posts or self.commands or self.servers or self.unknown
        if strong or self.prints or self.asks_people:
            return Class.IRREVOCABLE
        mild = self.reads or self.gets or self.sends or self.spawns
        return Class.REVOCABLE if mild else Class.PURE

    @property
    def is_irrevocable(self) -> bool:
        return self.class_ is Class.IRREVOCABLE


NOTHING_TOUCHED = Effects()


def joined(one: Effects, other: Effects) -> Effects:
    if one is NOTHING_TOUCHED or other is NOTHING_TOUCHED:
        return other if one is NOTHING_TOUCHED else one
    took(2 + (len(one.sends) + len(other.sends) + len(one.reads) + len(other.reads)) // 16)
    return Effects(
        *(getattr(one, name) | getattr(other, name) for name in Effects.__struct_fields__)
    )


def conflict(one: Effects, other: Effects) -> bool:
    """Whether their order may be noticed in files or in the world; what is printed and asked stays
    in order anyway."""
    if one.class_ is Class.PURE or other.class_ is Class.PURE:
        return False
    if _conflicts_with_all(one) or _conflicts_with_all(other):
        return True
    return _touch(one.writes, other.reads | other.writes) or _touch(other.writes, one.reads)


def _conflicts_with_all(row: Effects) -> bool:
    return bool(row.posts or row.commands or row.servers or row.unknown)


def _touch(paths: frozenset[str], others: frozenset[str]) -> bool:
    took(1 + len(paths) * len(others))
    return any(paths_touch(one, other) for one in paths for other in others)
