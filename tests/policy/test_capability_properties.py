"""Grants against plain sets: the model of a grant is everything it allows, in a small world.

What each rule allows is written out by hand and delegation is the intersection of two sets.
"""

from collections.abc import Sequence
from itertools import product

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule

from vegakit.policy import (
    AccessRequest,
    Allowed,
    Fetch,
    Grant,
    ReadPath,
    RunCommand,
    Use,
    WritePath,
    decide,
    delegate,
)
from vegakit.records import from_json, to_json

PATHS = {
    "**": {".", "a", "a/b", "a/b/c", "b"},
    "a/**": {"a", "a/b", "a/b/c"},
    "*": {"a", "b"},
    "**/b": {"a/b", "b"},
    "a/*": {"a/b"},
    "a/b/c": {"a/b/c"},
    "**/.h": {".h", "a/.h"},
    "a/.*": {"a/.h"},
}
COMMANDS: dict[str, set[tuple[str, ...]]] = {
    "npm": {("npm",)},
    "npm test": {("npm", "test")},
    "npm *": {("npm", "test")},
    "npm **": {("npm",), ("npm", "test"), ("npm", "test", "-x")},
}
HOSTS: dict[str, set[tuple[str, int]]] = {
    "a.com": {("a.com", 443)},
    "*.a.com": {("b.a.com", 443)},
    "*.a.com:80": {("b.a.com", 80)},
    "b.a.com:80": {("b.a.com", 80)},
}
METHODS = {"GET": "net::get", "HEAD": "net::get", "POST": "net::post", "PUT": "net::post"}
NAMES = """
    fs fs::read fs::write fs::read::x process process::exec net net::get net::post db db::query
""".split()

Thing = tuple[str, object]
"""The capability that is needed, and what it is needed for."""


def everything() -> dict[Thing, AccessRequest]:
    paths = sorted(set().union(*PATHS.values()))
    world: dict[Thing, AccessRequest] = {(name, None): Use(name) for name in NAMES}
    world |= {("fs::read", path): ReadPath(path) for path in paths}
    world |= {("fs::write", path): WritePath(path) for path in paths}
    world |= {("process::exec", argv): RunCommand(argv) for argv in set().union(*COMMANDS.values())}
    for (method, name), (host, port) in product(METHODS.items(), set().union(*HOSTS.values())):
        world[(name, (method, host, port))] = Fetch(method, host, port)
    return world


WORLD = everything()


def branch(name: str) -> set[str]:
    """The name and every name above it."""
    parts = name.split("::")
    return {"::".join(parts[:n]) for n in range(1, len(parts) + 1)}


def named(grant: Grant, name: str) -> bool:
    below = {other for other in grant.denials if name in branch(other)}
    return bool(branch(name) & set(grant.capabilities)) and not (
        below or branch(name) & set(grant.denials)
    )


def placed(grant: Grant, place: object) -> bool:
    match place:
        case None:
            return True
        case str():
            return any(place in PATHS[rule] for rule in grant.paths)
        case (("GET" | "HEAD" | "POST" | "PUT"), host, port):
            return any((host, port) in HOSTS[rule] for rule in grant.hosts)
        case _:
            return any(place in COMMANDS[rule] for rule in grant.commands)


def allowed_by(grant: Grant) -> frozenset[Thing]:
    return frozenset(thing for thing in WORLD if named(grant, thing[0]) and placed(grant, thing[1]))


def some(rules: Sequence[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.sampled_from([(), *product(rules), *product(rules, rules)])


GRANTS = st.builds(
    Grant,
    capabilities=some(NAMES),
    denials=st.just(()) | some(NAMES),
    paths=some(list(PATHS)),
    commands=some(list(COMMANDS)),
    hosts=some(list(HOSTS)),
)


class GrantsAgainstSets(RuleBasedStateMachine):
    grants = Bundle("grants")

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[Grant, frozenset[Thing]] = {}

    @rule(target=grants, grant=GRANTS)
    def a_grant_is_made(self, grant: Grant) -> Grant:
        self.model[grant] = allowed_by(grant)
        return grant

    @rule(target=grants, parent=grants, wished=grants)
    def a_grant_is_delegated(self, parent: Grant, wished: Grant) -> Grant:
        child = delegate(parent, wished)
        self.model[child] = self.model[parent] & self.model[wished]
        return child

    @rule(grant=grants)
    def everything_is_asked(self, grant: Grant) -> None:
        allowed = {thing for thing, wanted in WORLD.items() if self.allows(grant, wanted)}
        assert allowed == self.model[grant]

    def allows(self, grant: Grant, wanted: AccessRequest) -> bool:
        verdict = decide(grant, wanted)
        return isinstance(verdict, Allowed) and verdict.wanted == wanted

    @rule(grant=grants)
    def one_is_stored_and_loaded(self, grant: Grant) -> None:
        copy = from_json(Grant, to_json(grant))
        assert copy == grant
        assert hash(copy) == hash(grant)


TestGrants = GrantsAgainstSets.TestCase
