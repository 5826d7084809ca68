"""Permissions row by row: modes, which rule wins, and what a rule is about."""

import pytest

from vegakit.errors import InvalidRuleError
from vegakit.policy import (
    AccessRequest,
    Allowed,
    Denied,
    Fetch,
    Grant,
    NeedsApproval,
    PermissionMode,
    Permissions,
    ReadPath,
    RunCommand,
    Use,
    WritePath,
    parse_permission,
)
from vegakit.policy.permissions import permit
from vegakit.records import from_json, to_json

EVERYTHING = Grant(
    ("fs", "process", "net", "db"),
    paths=("**", "**/.*", "**/.*/**"),
    commands=("git **", "pytest **"),
    hosts=("example.com", "example.com:80", "*.example.com"),
)
READ, WRITE = ReadPath("a/b.py"), WritePath("a/b.py")
GET, POST = Fetch("GET", "example.com"), Fetch("POST", "example.com")
RUN, QUERY = RunCommand(("pytest", "-q")), Use("db::query")


def word(
    *rules: str,
    wanted: AccessRequest,
    mode: PermissionMode = PermissionMode.ASK,
    sandboxed: bool = False,
    grant: Grant = EVERYTHING,
) -> str:
    permissions = Permissions(grant, mode, tuple(map(parse_permission, rules)))
    assert from_json(Permissions, to_json(permissions)) == permissions
    verdict = permit(permissions, wanted, sandboxed=sandboxed)
    return {Allowed: "allow", NeedsApproval: "ask", Denied: "deny"}[type(verdict)]


@pytest.mark.parametrize(
    ("mode", "read", "get", "inside", "outside"),
    [
        (PermissionMode.READ_ONLY, "allow", "ask", "deny", "deny"),
        (PermissionMode.ASK, "allow", "ask", "ask", "ask"),
        (PermissionMode.AUTO_IN_SANDBOX, "allow", "ask", "allow", "ask"),
    ],
)
def test_a_mode_decides_what_no_rule_is_about(
    mode: PermissionMode, read: str, get: str, inside: str, outside: str
) -> None:
    """The table, cell by cell."""
    for sandboxed, otherwise in ((True, inside), (False, outside)):
        assert word(wanted=READ, mode=mode, sandboxed=sandboxed) == read
        assert word(wanted=GET, mode=mode, sandboxed=sandboxed) == get
        for wanted in (WRITE, POST, RUN, QUERY):
            assert word(wanted=wanted, mode=mode, sandboxed=sandboxed) == otherwise


@pytest.mark.parametrize("mode", PermissionMode)
def test_no_rule_adds_to_a_grant(mode: PermissionMode) -> None:
    """What is not granted is denied, however it is allowed."""
    nothing = Grant()
    for wanted in (READ, WRITE, GET, POST, RUN, QUERY):
        rules = ("allow fs", "allow process", "allow net", "allow db")
        assert word(*rules, wanted=wanted, mode=mode, grant=nothing, sandboxed=True) == "deny"


@pytest.mark.parametrize("mode", PermissionMode)
@pytest.mark.parametrize("deny", ["deny fs", "deny fs::write **", "deny fs a"])
def test_a_deny_wins_over_every_allow(deny: str, mode: PermissionMode) -> None:
    """Also over one that is more specific, wherever it stands."""
    for rules in ((deny, "allow fs::write a/b.py"), ("allow fs::write a/b.py", deny)):
        assert word(*rules, wanted=WRITE, mode=mode, sandboxed=True) == "deny"


def test_the_most_specific_deny_is_told() -> None:
    """So that one knows which rule to take away."""
    rules = tuple(map(parse_permission, ("deny fs", "deny fs a/*.py", "deny fs a/**")))
    verdict = permit(Permissions(EVERYTHING, rules=rules), WRITE, sandboxed=True)
    assert verdict == Denied(
        "fs::write was asked; the rule 'deny fs a/*.py' covers it, and a denial always wins"
    )


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        (("allow fs", "ask fs a/**"), "ask"),
        (("ask fs", "allow fs a/**"), "allow"),
        (("ask fs a/**", "allow fs a/b.*"), "allow"),
        (("ask fs a/b.py", "allow fs **"), "ask"),
        (("allow fs", "ask fs::write"), "ask"),
        (("ask fs", "allow fs::write"), "allow"),
        (("allow fs a/b.py", "ask fs a/b.py"), "ask"),
        (("ask fs::write a/b.py", "allow fs::write a/b.py"), "ask"),
    ],
)
def test_of_allow_and_ask_the_more_specific_wins(rules: tuple[str, str], verdict: str) -> None:
    """Of two equally specific ones, asking; in whatever order."""
    assert word(*rules, wanted=WRITE) == word(*rules[::-1], wanted=WRITE) == verdict


def test_in_read_only_nothing_is_allowed_to_act() -> None:
    """A rule that allows it has no effect; one that allows a fetch has."""
    for rule, wanted in (("allow fs", WRITE), ("allow process", RUN), ("allow db", QUERY)):
        assert word(rule, wanted=wanted, mode=PermissionMode.READ_ONLY, sandboxed=True) == "deny"
    assert word("allow net", wanted=GET, mode=PermissionMode.READ_ONLY) == "allow"
    assert word("allow net", wanted=POST, mode=PermissionMode.READ_ONLY) == "deny"


@pytest.mark.parametrize(
    ("rule", "wanted", "verdict"),
    [
        # lies in it, hidden, in upper case
        ("deny fs secrets", ReadPath("secrets/a/key"), "deny"),
        ("deny fs secrets/**", ReadPath("secrets/.key"), "deny"),
        ("deny fs secrets/**", ReadPath("Secrets/key"), "deny"),
        ("deny fs **/*.pem", ReadPath("a/.b/c.pem"), "deny"),
        ("deny fs *.env", ReadPath(".env"), "deny"),
        ("deny fs .git", ReadPath(".git/config"), "deny"),
        ("deny fs .git", ReadPath("git/config"), "allow"),
        ("deny fs secrets", ReadPath("secrets2"), "allow"),
        # holds it
        ("deny fs a/b/c", WritePath("a/b"), "deny"),
        ("deny fs a/b/**", WritePath("a"), "deny"),
        ("deny fs .a/b", WritePath(".a"), "deny"),
        ("deny fs **/*.pem", WritePath("a"), "ask"),
        ("deny fs a/b", WritePath("."), "deny"),
        ("deny fs a/b/c", WritePath("a/d"), "ask"),
        ("deny fs a/b/c", ReadPath("a/b"), "allow"),
        # commands
        ("deny process::exec git push", RunCommand(("git", "push", "--force")), "deny"),
        ("deny process::exec git push **", RunCommand(("git", "push")), "deny"),
        ("deny process::exec git *", RunCommand(("git", "-x")), "deny"),
        ("deny process::exec git push", RunCommand(("git", "pull")), "ask"),
        ("deny process::exec git push", RunCommand(("git",)), "ask"),
        # hosts
        ("deny net example.com", Fetch("GET", "example.com", 80), "deny"),
        ("deny net *.example.com", Fetch("GET", "a.example.com"), "deny"),
        ("deny net example.com:80", GET, "ask"),
        # names
        ("deny db::query", Use("db"), "deny"),
        ("deny db", QUERY, "deny"),
        ("deny db::drop", QUERY, "ask"),
        ("deny net::get", POST, "ask"),
    ],
)
def test_a_deny_means_at_least_what_it_says(rule: str, wanted: AccessRequest, verdict: str) -> None:
    """Whatever could be the same thing by another name."""
    assert word(rule, wanted=wanted) == verdict


@pytest.mark.parametrize(
    ("rule", "wanted", "verdict"),
    [
        ("allow fs a/**", WritePath("a/.git"), "ask"),
        ("allow fs a", WritePath("a/b"), "ask"),
        ("allow fs A/**", WritePath("a/b"), "ask"),
        ("allow fs a/**", WritePath("a/b"), "allow"),
        ("allow process::exec pytest", RUN, "ask"),
        ("allow process::exec pytest **", RUN, "allow"),
        ("allow net example.com", Fetch("GET", "example.com", 80), "ask"),
        ("allow net example.com", POST, "allow"),
        ("allow db::query", Use("db"), "ask"),
        ("allow db", QUERY, "allow"),
    ],
)
def test_an_allow_means_exactly_what_it_says(
    rule: str, wanted: AccessRequest, verdict: str
) -> None:
    """Nothing beside it."""
    assert word(rule, wanted=wanted) == verdict


@pytest.mark.parametrize(
    "text",
    ["", "allow", "permit fs", "Allow fs", "allow fs /etc", "deny fs ../a", "allow db query",
     "allow process::exec a|b", "allow net http://a", "deny f-s"],
)  # fmt: skip
def test_a_rule_that_cannot_hold_is_refused(text: str) -> None:
    """When it is read, not when it should have protected."""
    with pytest.raises(InvalidRuleError):
        parse_permission(text)


def test_what_is_allowed_is_the_one_spelling_that_was_checked() -> None:
    """Perform that one."""
    rules = (parse_permission("allow fs a/**"),)
    wanted = WritePath("./a//b")
    assert permit(Permissions(EVERYTHING, rules=rules), wanted, sandboxed=True) == Allowed(
        WritePath("a/b")
    )
