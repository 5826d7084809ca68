"""The tests of names and hosts can fail: each rule, broken on purpose, is found out."""

from collections.abc import Awaitable, Callable
from types import ModuleType

import pytest

from tests.tools.confined.server import Names
from tests.tools.confined.test_attacks_url import must_refuse, redirect_to_metadata
from tests.tools.confined.test_protected import test_what_is_sealed_is_sealed_in_every_spelling
from vegakit.policy import Allowed, Fetch, Grant
from vegakit.tools import (
    http,
    http_requests as messages,
    http_requests as reaching,
    protected_names as protected,
)


def allows_all(grant: Grant, wanted: Fetch) -> Allowed:
    return Allowed(wanted)


async def lead_inside() -> None:
    await must_refuse("https://allowed.com/", names=Names(allowed_com=[["127.0.0.1"]]))


async def ask_evil() -> None:
    await must_refuse("https://evil.com/", names=Names(evil_com=[["1.2.3.4"]]))


async def tunnel() -> None:
    await must_refuse("https://allowed.com/", "CONNECT", names=Names(allowed_com=[["1.2.3.4"]]))


FAULTS: list[tuple[ModuleType, str, object, Callable[[], Awaitable[None]]]] = [
    (reaching, "is_public", lambda address: True, lead_inside),
    (http, "redirect_of", lambda request, answer: None, redirect_to_metadata),
    (messages, "decide", allows_all, ask_evil),
    (messages, "_METHODS", {"GET", "CONNECT"}, tunnel),
]


@pytest.mark.parametrize(("room", "rule", "fault", "attack"), FAULTS)
async def test_a_broken_rule_lets_an_attack_pass(
    room: ModuleType,
    rule: str,
    fault: object,
    attack: Callable[[], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And is whole without the fault."""
    await attack()
    monkeypatch.setattr(room, rule, fault)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await attack()


@pytest.mark.parametrize(
    ("rule", "fault"),
    [("fold_path", lambda path: path), ("_NAMED", dict[str, protected.ProtectionKind]())],
)
def test_names_taken_as_they_are_spelled_are_found_out(
    rule: str, fault: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`.GIT` is `.git` on some systems."""
    monkeypatch.setattr(protected, rule, fault)
    with pytest.raises(AssertionError):
        test_what_is_sealed_is_sealed_in_every_spelling(".git/config")
