"""A folder of nodes: their versions, what they depend on, what they need, and the lock file (host).

A node is named by its id, `price_order_v2`; without the version, `price_order` is the newest one.
Dependencies are what `metadata.dependencies` says, by either name, and the nodes that steps call.
What a name without a version came to is written down in `nodes.lock`, together with a hash of every
node, of all that it depends on, and of the compiler:

    price_order_v2 ──▶ fee (is fee_v3) ──▶ rate_card_v1       digest of one covers those behind it

A lock is stale as soon as one of these is not what it was. Until it is written again, names stand
for the versions that it has.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct, to_builtins

from vegakit.errors import SettingsError, UserError, did_you_mean
from vegakit.records import UNREADABLE_JSON, digest128
from vegakit.tools import write_output
from vegakit.vesper.node_files import NodeFile, find_nodes, load_node

LOCK_NAME = "nodes.lock"
_LOCK_FORMAT = 1
_VERSION = re.compile(r"(.+)_v([1-9][0-9]*)")
_NO_COMPILER = frozenset({"__init__.py", "confidence.py", "rollout.py"})
"""Of the package of contracts: they are about rollouts, and no part of a node."""


class NodeName(Struct, frozen=True, order=True):
    """The parts of an id: `pay_v10` is newer than `pay_v9`."""

    name: str
    version: int

    def __str__(self) -> str:
        return f"{self.name}_v{self.version}"


def name_of(node_id: str) -> NodeName:
    """Return the parts of the id of a node, which its file was refused without."""
    found = _VERSION.fullmatch(node_id)
    if found is None:
        raise UserError(f"{node_id!r} is no id of a node with its version; write it as pay_v1")
    return NodeName(found[1], int(found[2]))


@cache
def compiler_version() -> str:
    """Return a digest of the code that makes programs of nodes: it changes with every edit of it,
    whether somebody counts a version up or not."""
    folder = files("vegakit.contracts")
    parts = sorted(
        (each.name, each.read_bytes().hex())
        for each in folder.iterdir()
        if each.name.endswith(".py") and each.name not in _NO_COMPILER
    )
    return digest128(parts)[:16]


def node_digest(node: NodeFile) -> str:
    """Return a digest of what a file says; comments and blanks are no part of it."""
    return digest128(to_builtins(node.table))


def capabilities_of(node: NodeFile) -> tuple[str, ...]:
    """Return what a node says that it needs. All that asks for capabilities of a node asks here."""
    return node.table.security.capabilities_required


def dependencies_of(node: NodeFile) -> tuple[str, ...]:
    """Return the nodes that a node names as its dependencies, and those that it calls."""
    called = (each.node_id for each in node.program.callees)
    return (*dict.fromkeys((*node.table.metadata.dependencies, *called)),)


# The lock file.


class LockedNode(Struct, frozen=True):
    """A node as it was when the lock was written. `digest` is of its file, `whole` of that and of
    all that it depends on; `dependencies` are ids by the names that the file has for them."""

    id: str
    version: int
    digest: str
    whole: str
    dependencies: dict[str, str] = {}


class NodeLock(Struct, frozen=True):
    """The content of a lock file."""

    compiler: str
    nodes: tuple[LockedNode, ...]
    format: int = _LOCK_FORMAT

    def by_id(self) -> dict[str, LockedNode]:
        """Return its nodes by their ids."""
        return {each.id: each for each in self.nodes}


def read_lock(path: Path) -> NodeLock | None:
    """Return what a lock file says; None if there is none."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=NodeLock)
    except FileNotFoundError:
        return None
    except (OSError, *UNREADABLE_JSON) as error:
        raise _unreadable(path, str(error)) from None
    if found.format != _LOCK_FORMAT:
        raise _unreadable(path, f"its format is {found.format}")
    return found


def _unreadable(path: Path, why: str) -> UserError:
    return UserError(
        f"{path} is no lock of nodes: {why}; write it again, type: vega node deps --lock"
    )


# The repository.


class NodeDependency(Struct, frozen=True):
    """A node, and below it those that it depends on, by the names that it has for them."""

    id: str
    below: "dict[str, NodeDependency]" = {}


class Dependent(Struct, frozen=True):
    """A node that needs what was asked for. `through` are the nodes between, none if it names it
    itself."""

    id: str
    through: tuple[str, ...] = ()


class NodeRepository:
    """The nodes of a folder. What cannot be read is in `wrong`, and the others are there."""

    def __init__(
        self, folder: Path, nodes: Iterable[NodeFile], wrong: Iterable[UserError] = ()
    ) -> None:
        self.folder = folder
        self.nodes: dict[str, NodeFile] = {}
        self.wrong = [*wrong]
        for node in nodes:
            first = self.nodes.setdefault(node.program.node_id, node)
            if first is not node:
                self.wrong.append(
                    UserError(
                        f"{node.path} and {first.path} are both {node.program.node_id}; give one "
                        "of them another version"
                    )
                )
        self.lock = read_lock(self.lock_path)
        self._locked = {} if self.lock is None else self.lock.by_id()
        self._versions: dict[str, list[NodeName]] = {}
        for each in sorted(map(name_of, self.nodes)):
            self._versions.setdefault(each.name, []).append(each)

    @classmethod
    def at(cls, place: Path) -> "NodeRepository":
        """Read all nodes of a folder and of those in it; of a file, those of its folder."""
        folder = place if place.is_dir() else place.parent
        return cls.of_files(folder, find_nodes([folder]))

    @classmethod
    def of_files(cls, folder: Path, paths: Iterable[Path]) -> "NodeRepository":
        """Read the nodes of some files."""
        nodes, wrong = list[NodeFile](), list[UserError]()
        for path in paths:
            try:
                nodes.append(load_node(path))
            except SettingsError:  # of this machine, and so of all files
                raise
            except UserError as error:
                wrong.append(error)
        return cls(folder, nodes, wrong)

    @property
    def lock_path(self) -> Path:
        """Return where its lock is, or would be."""
        return self.folder / LOCK_NAME

    def versions(self) -> Mapping[str, list[NodeName]]:
        """Return the versions of each node by its name without one, the newest last."""
        return self._versions

    def find(self, word: str) -> NodeFile:
        """Return a node by its id, or the newest of its name."""
        known = self._resolved(word)
        if known is None:
            names = [*self.nodes, *self._versions]
            raise UserError(
                f"there is no node {word[:80]!a} in {self.folder}; {did_you_mean(word, names)}; to "
                f"see all of them, type: vega node list {self.folder}"
            )
        return self.nodes[known]

    def _resolved(self, word: str, locked: str = "") -> str | None:
        if locked in self.nodes:
            return locked
        if word in self.nodes:
            return word
        versions = self._versions.get(word)
        return None if versions is None else str(versions[-1])

    def direct(self, node_id: str, *, is_locked: bool = True) -> dict[str, str]:
        """Return the ids that a node depends on, by the names that it has for them; names without a
        version are those of the lock, if it has them."""
        node, found = self.nodes[node_id], dict[str, str]()
        kept = self._locked.get(node_id) if is_locked else None
        for word in dependencies_of(node):
            known = self._resolved(word, kept.dependencies.get(word, "") if kept else "")
            if known is None:
                raise UserError(
                    f"{node.path}:{self._line(node, word)}: {node_id} depends on {word[:80]!a}, "
                    f"which is not in {self.folder}; "
                    f"{did_you_mean(word, [*self.nodes, *self._versions])}"
                )
            found[word] = known
        return found

    def _line(self, node: NodeFile, word: str) -> int:
        try:
            lines = Path(node.path).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return 1
        spelled = re.compile(rf"\b{re.escape(word)}\b")
        after = next((n for n, line in enumerate(lines) if "dependencies" in line), 0)
        return next(
            (n + 1 for n, line in enumerate(lines) if n >= after and spelled.search(line)), 1
        )

    def tree(self, word: str, *, is_locked: bool = True) -> NodeDependency:
        """Return a node with all that it depends on, or raise `UserError` if that is a circle or is
        not there. A node that several depend on is one object: walk it once."""
        node_id = self.find(word).program.node_id
        return self._tree(node_id, (), {}, is_locked=is_locked)

    def _tree(
        self,
        node_id: str,
        above: tuple[str, ...],
        known: dict[str, NodeDependency],
        *,
        is_locked: bool,
    ) -> NodeDependency:
        if node_id in known:
            return known[node_id]
        if node_id in above:
            circle = " -> ".join([*above[above.index(node_id) :], node_id])
            raise UserError(
                f"{self.nodes[above[-1]].path}: these nodes depend on each other in a circle: "
                f"{circle}; take one of the dependencies out"
            )
        direct = self.direct(node_id, is_locked=is_locked)
        below = {
            word: self._tree(each, (*above, node_id), known, is_locked=is_locked)
            for word, each in direct.items()
        }
        known[node_id] = NodeDependency(node_id, below)
        return known[node_id]

    def in_order(self, word: str, *, is_locked: bool = True) -> list[str]:
        """Return a node and all that it depends on, each after those that it needs."""
        found: dict[str, None] = {}

        def take(tree: NodeDependency) -> None:
            if tree.id not in found:
                for each in tree.below.values():
                    take(each)
                found[tree.id] = None

        take(self.tree(word, is_locked=is_locked))
        return [*found]

    def digest(self, word: str, *, is_locked: bool = True) -> str:
        """Return a digest of a node, all that it depends on and the compiler: what was made of it
        is good for as long as this stays."""
        every = self.in_order(word, is_locked=is_locked)
        return digest128([compiler_version(), [node_digest(self.nodes[each]) for each in every]])

    # Who needs what.

    def needs(self, word: str) -> dict[str, tuple[str, ...]]:
        """Return the capabilities that a node needs, itself or below, and by which nodes."""
        found: dict[str, tuple[str, ...]] = {}
        for each in self.in_order(word):
            for capability in capabilities_of(self.nodes[each]):
                found[capability] = (*found.get(capability, ()), each)
        return found

    def who_needs(self, word: str) -> list[Dependent]:
        """Return the nodes that depend on a node or need a capability. A capability stands for all
        that begin with it: `database.write` for `database.write.orders`."""
        if self._resolved(word) is not None:
            wanted = self.find(word).program.node_id
            return [*self._dependents(wanted.__eq__)]
        every = {name for node in self.nodes.values() for name in capabilities_of(node)}
        if not any(_covers(word, name) for name in every):
            names = [*self.nodes, *self._versions, *every]
            raise UserError(
                f"{word[:80]!a} is neither a node in {self.folder} nor a capability that one of "
                f"them needs; {did_you_mean(word, names)}"
            )
        return [*self._dependents(lambda each: self._needs_itself(each, word), own=True)]

    def _needs_itself(self, node_id: str, capability: str) -> bool:
        return any(_covers(capability, each) for each in capabilities_of(self.nodes[node_id]))

    def _dependents(
        self, is_wanted: Callable[[str], bool], *, own: bool = False
    ) -> Iterator[Dependent]:
        for node_id in sorted(self.nodes, key=name_of):
            tree = self.tree(node_id)
            if own and is_wanted(node_id):
                yield Dependent(node_id)
            elif (way := _way_to(tree, is_wanted)) is not None:
                yield Dependent(node_id, way)

    # The lock.

    def locked(self) -> NodeLock:
        """Return the lock that would be written now: names without a version are the newest."""
        rows = [
            LockedNode(
                each,
                name_of(each).version,
                node_digest(self.nodes[each]),
                self.digest(each, is_locked=False),
                self.direct(each, is_locked=False),
            )
            for each in sorted(self.nodes, key=name_of)
        ]
        return NodeLock(compiler_version(), (*rows,))

    def write_lock(self) -> Path:
        """Write the lock of the folder as it is now."""
        lock = msgspec.json.format(msgspec.json.encode(self.locked()), indent=2) + b"\n"
        write_output(self.lock_path, lock, "make the folder writable")
        return self.lock_path

    def problems(self) -> list[UserError]:
        """Return what is wrong with the folder as a whole: files, dependencies, a stale lock."""
        found = [*self.wrong]
        for node_id in self.nodes:
            try:
                self.tree(node_id)
            except UserError as error:
                if str(error) not in map(str, found):
                    found.append(error)
        if self.lock is not None and not found and (why := self._stale()):
            found.append(
                UserError(
                    f"{self.lock_path} is stale: {why}; look at it, and to take it up, type: "
                    f"vega node deps --lock {self.folder}"
                )
            )
        return found

    def _stale(self) -> str:
        """Return in what the lock is not what would be written now; empty if in nothing."""
        assert self.lock is not None
        now, then = self.locked(), self._locked
        here = now.by_id()
        if gone := sorted({*then} - {*here}):
            return f"{gone[0]} is not there any more"
        for each in now.nodes:
            before = then.get(each.id)
            if before is None:
                return f"{each.id} is new"
            if before.digest != each.digest:
                return f"{each.id} has changed"
            for word, known in each.dependencies.items():
                if before.dependencies.get(word) != known:
                    return f"{word} of {each.id} is {known} now"
        return "" if now.compiler == self.lock.compiler else "the compiler has changed"


def _covers(wanted: str, capability: str) -> bool:
    return capability == wanted or capability.startswith((f"{wanted}.", f"{wanted}::"))


def _way_to(tree: NodeDependency, is_wanted: Callable[[str], bool]) -> tuple[str, ...] | None:
    """Return the shortest way to what is wanted below a node, without both ends; None if it is not
    there."""
    ways: list[tuple[tuple[str, ...], NodeDependency]] = [((), tree)]
    seen = {tree.id}
    for way, at in ways:  # grows while it is walked, level by level
        for each in at.below.values():
            if is_wanted(each.id):
                return way
            if each.id not in seen:
                seen.add(each.id)
                ways.append(((*way, each.id), each))
    return None
