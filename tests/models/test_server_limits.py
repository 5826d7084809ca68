"""What a provider says of its limits in its headers."""

from contextlib import suppress

import pytest

from tests.models.asking import (
    ANTHROPIC,
    AZURE,
    AZURE_CHAT,
    CHAT,
    RESPONSES,
    WIRES,
    WITH_LIMITS,
    ask,
    request,
    talk,
)
from vegakit.errors import WorldError
from vegakit.policy import Remaining
from vegakit.ports import Model
from vegakit.providers import ServerLimits, admitted
from vegakit.providers.access import parse_limits
from vegakit.providers.model import ProviderModel
from vegakit.testing import Failure, Provider, ProviderReply, Script

DATE = "Sun, 15 Nov 2026 12:00:00 GMT"
SAID = {
    ANTHROPIC: {
        "date": DATE,
        "anthropic-ratelimit-requests-remaining": "7",
        "anthropic-ratelimit-requests-reset": "2026-11-15T12:00:02Z",
        "anthropic-ratelimit-tokens-remaining": "900",
        "anthropic-ratelimit-tokens-reset": "2026-11-15T12:00:30+00:00",
    },
    CHAT: {
        "x-ratelimit-remaining-requests": "7",
        "x-ratelimit-reset-requests": "2s",
        "x-ratelimit-remaining-tokens": "900",
        "x-ratelimit-reset-tokens": "30s",
    },
}
SAID.update(dict.fromkeys((RESPONSES, AZURE, AZURE_CHAT), SAID[CHAT]))
HEARD = ServerLimits(Remaining(7, 2_000), Remaining(900, 30_000))


@pytest.mark.parametrize("name", WITH_LIMITS)
def test_each_provider_is_understood(name: str) -> None:
    """In its own words."""
    assert parse_limits(SAID[name]) == HEARD


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("0s", 0),
        ("20ms", 20),
        ("120ms", 120),
        ("1s20ms", 1_020),
        ("7.66s", 7_660),
        ("0.0001s", 1),
        ("1m", 60_000),
        ("59", 59_000),
        ("6m0s", 60_000),
        ("23h59m59.5s", 60_000),
    ],
)
def test_a_duration_is_read_exactly(written: str, ms: int) -> None:
    """Parts of a millisecond count as one; nobody waits longer than a minute for a word."""
    said = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": written}
    assert parse_limits(said) == ServerLimits(Remaining(0, ms), None)


@pytest.mark.parametrize("written", ["", "soon", "-1s", "s", "1s1m", "²s", "9" * 20, "1.s"])
def test_a_duration_that_is_none_is_not_heard(written: str) -> None:
    """It fails no call."""
    said = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": written}
    assert parse_limits(said) is None


@pytest.mark.parametrize("left", ["", "-1", "many", "1.5", "9" * 5_000])
def test_a_count_that_is_none_is_not_heard(left: str) -> None:
    """The other of the two still is."""
    said = {**SAID[CHAT], "x-ratelimit-remaining-requests": left}
    assert parse_limits(said) == ServerLimits(None, HEARD.tokens)


@pytest.mark.parametrize(
    "changes",
    [
        {"date": ""},
        {"date": "today"},
        {"date": "Sun, 15 Nov 2026 12:00:00 -0000"},
        {
            "anthropic-ratelimit-requests-reset": "2026-11-15T12:00:02",
            "anthropic-ratelimit-tokens-reset": "",
        },
    ],
    ids=str,
)
def test_a_time_without_its_date_is_not_heard(changes: dict[str, str]) -> None:
    """Our own clock is not asked."""
    assert parse_limits({**SAID[ANTHROPIC], **changes}) is None


def test_a_time_that_has_passed_is_now() -> None:
    """A limit that is whole again limits nothing."""
    past = {"anthropic-ratelimit-requests-reset": "2026-11-15T11:59:59Z"}
    heard = parse_limits({**SAID[ANTHROPIC], **past})
    assert heard == ServerLimits(Remaining(7, 0), HEARD.tokens)


def hear(name: str, script: Script, *, stream: bool = False) -> list[ServerLimits]:
    """What was told by the first piece of an answer."""
    heard: list[ServerLimits] = []

    async def conversation(model: Model, _: Provider) -> None:
        assert isinstance(model, ProviderModel)
        model.subscribe_limits(heard.append)
        pieces = model.stream(request())
        with admitted(), suppress(WorldError):
            await (anext(pieces) if stream else model.ask(request()))
        await pieces.aclose()

    talk(name, script, conversation)
    return heard


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", WITH_LIMITS)
def test_limits_are_told_with_every_answer(name: str, stream: bool) -> None:
    """Of a stream at its beginning, not at its end."""
    assert hear(name, ProviderReply("one two", headers=SAID[name]), stream=stream) == [HEARD]


@pytest.mark.parametrize("name", WITH_LIMITS)
def test_limits_are_told_with_a_failure(name: str) -> None:
    """A refusal is when they matter most."""
    assert hear(name, Failure(429, headers=SAID[name])) == [HEARD]


@pytest.mark.parametrize("name", WIRES)
def test_a_provider_that_says_nothing_tells_nothing(name: str) -> None:
    """Not even that nothing is left."""
    assert hear(name, "one") == []


def test_nobody_need_listen() -> None:
    """The answer comes all the same."""
    said, _ = ask(CHAT, ProviderReply("one", headers=SAID[CHAT]))
    assert said.message.text == "one"
