"""Strings that passed the rules of other systems.

Left out, because no rule about names can stop them, only whoever performs the effect: links and
hard links, swaps between check and use, pipes and devices below the root; files of the project that
an allowed program runs by itself, such as build files; redirects, names that resolve to another
address, headers that name another host, and leaks through a host that is allowed.
"""

import json
from pathlib import Path
from typing import TypedDict

import pytest

from vegakit.errors import InvalidRuleError
from vegakit.policy import (
    Allowed,
    Denied,
    Fetch,
    Grant,
    ReadPath,
    RunCommand,
    WritePath,
    decide,
    parse_command,
    parse_url,
)


class Attack(TypedDict):
    id: str
    cls: str
    allow: str
    input: str


def attacks(kind: str) -> list[object]:
    lines = Path(__file__).with_name("data") / "capability_attacks.jsonl"
    found: list[Attack] = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
    return [pytest.param(attack, id=attack["id"]) for attack in found if attack["cls"] == kind]


WEB = Grant(("net",), hosts=("allowed.com", "*.allowed.com", "allowed.com:80", "*.allowed.com:80"))


def url_verdict(grant: Grant, url: str) -> Allowed | Denied:
    wanted = parse_url("GET", url)
    return decide(grant, wanted) if isinstance(wanted, Fetch) else wanted


def command_verdict(rule: str, line: str) -> Allowed | Denied:
    wanted = parse_command(line)
    if isinstance(wanted, Denied):
        return wanted
    try:
        return decide(Grant(("process::exec",), commands=(rule,)), wanted)
    except InvalidRuleError as error:
        return Denied(str(error))


@pytest.mark.parametrize("attack", attacks("path"))
def test_no_path_escapes_two_stars(attack: Attack) -> None:
    """The widest rule there is allows neither to read nor to write it."""
    everywhere = Grant(("fs",), paths=("**",))
    for path in (attack["input"], attack["input"].replace("$WS", "/project")):
        assert isinstance(decide(everywhere, ReadPath(path)), Denied)
        assert isinstance(decide(everywhere, WritePath(path)), Denied)


@pytest.mark.parametrize("attack", attacks("cmd"))
def test_no_command_rides_on_a_rule(attack: Attack) -> None:
    """The rule it tries to pass does not allow it."""
    assert isinstance(command_verdict(attack["allow"], attack["input"]), Denied)


@pytest.mark.parametrize("attack", attacks("cmd"))
def test_even_an_open_rule_runs_one_program_only(attack: Attack) -> None:
    """With `**` at its end a rule allows arguments, never a second command."""
    verdict = command_verdict(f"{attack['allow']} **", attack["input"])
    if isinstance(verdict, Allowed):
        assert isinstance(verdict.wanted, RunCommand)
        assert verdict.wanted.argv[0] == attack["allow"]


@pytest.mark.parametrize("attack", attacks("url"))
def test_no_url_reaches_another_host(attack: Attack) -> None:
    """Neither a look-alike nor an address passes for an allowed name."""
    assert isinstance(url_verdict(WEB, attack["input"]), Denied)


def test_an_empty_list_allows_nothing() -> None:
    """No rules means none, not all."""
    for url in ("https://allowed.com/", "http://127.0.0.1/"):
        assert isinstance(url_verdict(Grant(("net",)), url), Denied)


@pytest.mark.parametrize("url", ["https://allowed.com/x?y", "http://a.b.Allowed.com:80/#z"])
def test_the_honest_url_passes(url: str) -> None:
    """The rules of the attacks do allow what they are meant for."""
    assert isinstance(url_verdict(WEB, url), Allowed)


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("npm test", "npm test"),
        ("pytest **", "pytest -x 'tests/a.py::test[1]' -k \"not slow\""),
        ("git log **", "git log --oneline -n 5 HEAD~3..HEAD"),
        ("git commit -m *", "git commit -m 'Fix: the $PATH; (really)'"),
        ("rg **", "rg -n 'fn \\w+\\(' src"),
        ("cargo build --release", "cargo  build --release"),
    ],
)
def test_the_honest_command_passes(rule: str, line: str) -> None:
    """Quotes keep what would be syntax."""
    assert isinstance(command_verdict(rule, line), Allowed)
