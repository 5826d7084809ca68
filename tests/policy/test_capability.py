"""What a grant allows, what it denies and why, and what becomes of it when it is delegated."""

from collections.abc import Callable
from functools import partial

import pytest

from vegakit.errors import InvalidRecordError, InvalidRuleError
from vegakit.policy import (
    AccessRequest,
    Allowed,
    Denied,
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

READER = Grant(capabilities=("fs::read",), paths=("src/**", "*.md"))
TESTER = Grant(capabilities=("process::exec",), commands=("npm test", "pytest **"))
CALLER = Grant(capabilities=("net::get",), hosts=("b.com", "*.a.com:80"))
EVERYTHING = Grant(
    capabilities=("fs", "process", "net", "db"),
    paths=("**",),
    commands=("npm **",),
    hosts=("example.com",),
)


def reason(grant: Grant, wanted: AccessRequest) -> str:
    verdict = decide(grant, wanted)
    assert isinstance(verdict, Denied)
    return verdict.reason


@pytest.mark.parametrize(
    ("grant", "wanted", "performed"),
    [
        (READER, ReadPath("./src//a.py"), ReadPath("src/a.py")),
        (EVERYTHING, WritePath("a/"), WritePath("a")),
        (TESTER, RunCommand(("pytest", "-q", "-x")), RunCommand(("pytest", "-q", "-x"))),
        (CALLER, Fetch("get", "B.com"), Fetch("GET", "b.com", 443)),
        (CALLER, Fetch("HEAD", "x.a.com", 80), Fetch("HEAD", "x.a.com", 80)),
        (EVERYTHING, Fetch("DELETE", "example.com"), Fetch("DELETE", "example.com")),
        (EVERYTHING, Use("db::query"), Use("db::query")),
    ],
)
def test_what_is_allowed_comes_back_in_its_one_spelling(
    grant: Grant, wanted: AccessRequest, performed: AccessRequest
) -> None:
    """Whoever performs it performs what was checked."""
    assert decide(grant, wanted) == Allowed(performed)


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        (ReadPath("a"), "fs::read"),
        (WritePath("a"), "fs::write"),
        (RunCommand(("npm",)), "process::exec"),
        (Fetch("GET", "a.b"), "net::get"),
        (Fetch("head", "a.b"), "net::get"),
        (Fetch("POST", "a.b"), "net::post"),
        (Fetch("OPTIONS", "a.b"), "net::post"),
        (Use("db::query"), "db::query"),
    ],
)
def test_every_wish_needs_its_capability(wanted: AccessRequest, name: str) -> None:
    """Without the name nothing else counts, and the refusal says which clause to add."""
    assert (
        reason(Grant(), wanted)
        == f"{name} was asked; nothing is granted; add capabilities [{name}]"
    )
    assert reason(Grant(("a", "b")), wanted).startswith(f"{name} was asked; a, b is granted;")


@pytest.mark.parametrize(
    ("grant", "wanted", "asked", "allowed", "clause"),
    [
        (READER, ReadPath("docs/a.md"), "path 'docs/a.md'", "'src/**', '*.md'", "paths"),
        (Grant(("fs",)), WritePath("./a"), "path 'a'", "none", "paths"),
        (
            TESTER,
            RunCommand(("npm", "x")),
            "command 'npm x'",
            "'npm test', 'pytest **'",
            "commands",
        ),
        (CALLER, Fetch("GET", "a.b", 80), "host 'a.b:80'", "'b.com', '*.a.com:80'", "hosts"),
        (CALLER, Fetch("GET", "a.com", 80), "host 'a.com:80'", "'b.com', '*.a.com:80'", "hosts"),
        (CALLER, Fetch("GET", "x.b.com"), "host 'x.b.com'", "'b.com', '*.a.com:80'", "hosts"),
    ],
)
def test_a_refusal_says_what_was_asked_what_is_granted_and_what_to_add(
    grant: Grant, wanted: AccessRequest, asked: str, allowed: str, clause: str
) -> None:
    """An empty list allows nothing at all."""
    rule = asked.split("'")[1]
    assert reason(grant, wanted) == (
        f'{asked} was asked; allowed_{clause} are: {allowed}; add allowed_{clause} ["{rule}"]'
    )


def test_a_command_that_no_rule_can_say_is_offered_an_open_rule() -> None:
    """Its words are shown; what to add is its program with any arguments."""
    assert reason(TESTER, RunCommand(("ls", "a b"))) == (
        "command 'ls a b' was asked; allowed_commands are: 'npm test', 'pytest **'; "
        'add allowed_commands ["ls **"]'
    )


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (ReadPath("../a"), "the path '../a' is refused: it steps upwards"),
        (WritePath("/a"), "the path '/a' is refused: it is absolute"),
        (RunCommand(("./npm",)), "the program './npm' is refused"),
        (Fetch("GET", "a@b"), "the host 'a@b' is refused"),
        (Use("fs:read"), "the capability 'fs:read' is refused: a capability is up to 8 names"),
    ],
)
def test_doubtful_wishes_are_refused_whatever_is_granted(wanted: AccessRequest, why: str) -> None:
    """Nobody can grant what cannot be read in one way only."""
    assert reason(EVERYTHING, wanted).startswith(why)


@pytest.mark.parametrize(
    ("granted", "name", "allowed"),
    [
        ("fs", "fs", True),
        ("fs", "fs::read", True),
        ("fs", "fs::read::meta", True),
        ("fs::read", "fs::read::meta", True),
        ("fs::read", "fs", False),
        ("fs::read", "fs::write", False),
        ("fs", "fsx", False),
        ("fs", "fsx::read", False),
        ("fs::re", "fs::read", False),
        ("fs", "FS::read", False),
    ],
)
def test_a_name_covers_its_branch(granted: str, name: str, allowed: bool) -> None:
    """The tree is made of whole names, not of beginnings of text."""
    assert isinstance(decide(Grant((granted,)), Use(name)), Allowed) is allowed


@pytest.mark.parametrize(
    ("denial", "name", "allowed"),
    [
        ("fs::write", "fs::read", True),
        ("fs::write", "fs::write", False),
        ("fs::write", "fs::write::x", False),
        ("fs::write", "fs", False),
        ("fs", "fs::read", False),
        ("f", "fs::read", True),
    ],
)
def test_a_denial_always_wins(denial: str, name: str, allowed: bool) -> None:
    """It takes its branch away, also from whoever asks for more than the branch."""
    verdict = decide(Grant(("fs", "fs::write"), (denial,)), Use(name))
    told = f"{name} was asked; {denial} is denied, and a denial always wins: take it away"
    assert verdict == (Allowed(Use(name)) if allowed else Denied(told))


def test_a_delegated_grant_allows_what_both_allow() -> None:
    """The child reads below src because the parent may, and only text because it wished so."""
    child = delegate(READER, Grant(capabilities=("fs",), paths=("**/*.txt",)))
    assert decide(child, ReadPath("src/a/b.txt")) == Allowed(ReadPath("src/a/b.txt"))
    assert reason(child, ReadPath("src/a.py")) == (
        "path 'src/a.py' was asked; allowed_paths are: '**/*.txt'; add allowed_paths [\"src/a.py\"]"
    )
    assert reason(child, ReadPath("docs/b.txt")).endswith(
        'add allowed_paths ["docs/b.txt"] in the grant this one was cut from'
    )
    assert reason(child, WritePath("src/b.txt")) == (
        "fs::write was asked; fs::read is granted; add capabilities [fs::write]"
        " in the grant this one was cut from"
    )


def test_a_denial_of_the_parent_is_kept() -> None:
    """A child cannot wish a denial away."""
    child = delegate(Grant(("fs",), ("fs::write",)), Grant(("fs",)))
    assert "fs::write is denied" in reason(child, Use("fs::write"))
    assert isinstance(decide(child, Use("fs::read")), Allowed)


def test_delegation_remembers_each_grant_once() -> None:
    """A grant handed down through many hands does not grow by being repeated."""
    grandchild = delegate(delegate(EVERYTHING, READER), TESTER)
    assert grandchild == Grant(
        TESTER.capabilities, commands=TESTER.commands, within=(READER, EVERYTHING)
    )
    assert delegate(EVERYTHING, grandchild) == grandchild
    assert delegate(READER, READER) == READER
    assert delegate(grandchild, grandchild) == grandchild
    assert list(grandchild.links()) == [grandchild, READER, EVERYTHING]


def test_a_grant_is_json() -> None:
    """It comes back equal; a stored rule that does not hold is refused."""
    grant = delegate(EVERYTHING, delegate(READER, TESTER))
    assert from_json(Grant, to_json(grant)) == grant
    with pytest.raises(InvalidRecordError, match="it is absolute"):
        from_json(Grant, b'{"paths": ["/etc/**"]}')


@pytest.mark.parametrize(
    "name",
    [
        *("", "fs:", "fs::", "::fs", "fs:read", "fs.read", "1a", "fs::1", "é", "a b", "a\n", "*"),
        "::".join("abcdefghi"),
        "a" * 129,
    ],
)
def test_a_capability_is_names_joined_by_colons(name: str) -> None:
    """ASCII only, at most eight names and 128 characters."""
    with pytest.raises(InvalidRuleError, match=r" names no capability: a capability is up to"):
        Grant(capabilities=(name,))
    with pytest.raises(InvalidRuleError, match=r" names no capability: a capability is up to"):
        Grant(denials=(name,))
    for good in ("::".join("abcdefgh"), "a" * 128, "_A1::b_2"):
        assert Grant((good,)).capabilities == (good,)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (partial(Grant, paths=("a", "/b")), "'/b' allows no path"),
        (partial(Grant, commands=("a", "./b")), "'./b' allows no command"),
        (partial(Grant, hosts=("a.b", "*.c")), "comes a name such as example.com"),
        (partial(Grant, paths=("a",) * 257), "a grant holds at most 256 rules of a kind; got 257"),
    ],
)
def test_a_rule_that_cannot_hold_is_refused(broken: Callable[[], Grant], why: str) -> None:
    """Every rule is read once, when the grant is made."""
    with pytest.raises(InvalidRuleError, match=why):
        broken()
    assert len(Grant(paths=("a",) * 256).paths) == 256


@pytest.mark.parametrize(
    ("name", "near"), [("fs::wirte", "write"), ("net::gte", "get"), ("prcess::exec", "process")]
)
def test_a_misspelt_capability_is_refused(name: str, near: str) -> None:
    """A denial of it would protect nothing, and nobody would hear of it."""
    with pytest.raises(
        InvalidRuleError, match=f"there is no capability {name}; did you mean {near}"
    ):
        Grant((name,))


@pytest.mark.parametrize("name", ["db::write", "fs::list", "net::put", "git", "tool::reed"])
def test_tools_may_bring_capabilities_of_their_own(name: str) -> None:
    assert Grant((name,)).capabilities == (name,)
