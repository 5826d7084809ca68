"""Every known attack by a URL is carried out: nothing is looked up, connected to or sent."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from tests.tools.confined.attacks import Attack, known
from tests.tools.confined.server import Names, Server, reply
from vegakit.errors import CapabilityDenied
from vegakit.policy import Grant
from vegakit.tools import Http
from vegakit.tools.http_requests import FetchResponse

KNOWN = known("url")
SAID = {name: attack for name, attack in KNOWN.items() if name != "url-025"}
"""All but the one whose URL is honest: what it leads to is not."""
HOSTS = ("allowed.com", "*.allowed.com", "api.github.com")
WEB = Grant(("net",), hosts=(*HOSTS, "allowed.com:80", "*.allowed.com:80"))
Staged: TypeAlias = Callable[[], Awaitable[None]]


async def unreachable(*_: object) -> FetchResponse:
    raise AssertionError("a request was sent")


async def must_refuse(
    url: str, method: str = "GET", grant: Grant = WEB, *, names: Names | None = None
) -> None:
    unasked = Names()
    http = Http(grant, resolve=names or unasked)
    http._send = unreachable
    with pytest.raises(CapabilityDenied):
        await http.fetch(method, url)
    assert unasked.asked == []


@pytest.mark.parametrize("attack", SAID.values(), ids=SAID)
async def test_an_attack_by_a_url_is_refused(attack: Attack) -> None:
    """As it is written, by every method; what needs a stage has one below."""
    for method in ("GET", "POST"):
        await must_refuse(attack["input"], method)
        await must_refuse(attack["input"].partition(" ")[0], method, Grant(("net",)))


async def redirect_to_metadata() -> None:
    moved = reply(status="302 Found", Location="http://169.254.169.254/")
    async with Server(moved) as server:
        names = Names(allowed_com=[["127.0.0.1"]])
        http = Http(server.grant("allowed.com"), resolve=names)
        with pytest.raises(CapabilityDenied, match=r"169\.254"):
            await http.fetch("GET", server.url("allowed.com", "/redirect"))
    assert len(server.heads) == 1


async def rebinding() -> None:
    """What was checked is connected to, whatever the name leads to a moment later."""
    names = Names(allowed_com=[["1.2.3.4"], ["127.0.0.1"]])
    http, connected = Http(WEB, resolve=names), list[object]()

    async def connect(*given: object) -> FetchResponse:
        connected.append(given[2])
        return FetchResponse("", 200, (), b"")

    http._send = connect
    await http.fetch("GET", "https://allowed.com/")
    assert (connected, names.asked) == ([["1.2.3.4"]], ["allowed.com"])
    await must_refuse("https://allowed.com/", names=names)


async def names_that_carry_secrets() -> None:
    for host in ("aWQ.evil.com", "SECRET.evil.com"):
        await must_refuse(f"http://{host}/")


async def posting_to_a_host_that_may_be_read() -> None:
    reading = Grant(("net::get",), hosts=HOSTS)
    await must_refuse("https://api.github.com/gists", "POST", reading)


async def another_host_header() -> None:
    async with Server(reply()) as server:
        http = Http(server.grant())
        for name in ("Host", "HOST", ":authority"):
            with pytest.raises(CapabilityDenied):
                await http.fetch("GET", server.url(), headers={name: "evil.com"})
    assert server.heads == []


async def another_port() -> None:
    await must_refuse("http://allowed.com:22/", "CONNECT")
    await must_refuse("https://allowed.com:22/")


async def no_rules() -> None:
    await must_refuse("https://allowed.com/", grant=Grant(("net",)))


STAGED: dict[str, Staged] = {
    "url-025": redirect_to_metadata,
    "url-026": rebinding,
    "url-033": names_that_carry_secrets,
    "url-034": names_that_carry_secrets,
    "url-036": posting_to_a_host_that_may_be_read,
    "url-038": another_host_header,
    "url-039": another_port,
    "url-040": another_host_header,
    "url-041": no_rules,
}


@pytest.mark.parametrize("attack_id", STAGED)
async def test_a_staged_attack_is_refused(attack_id: str) -> None:
    """What it describes is done, not only said."""
    assert attack_id in KNOWN
    await STAGED[attack_id]()


async def test_the_stage_lets_the_honest_pass() -> None:
    """So that the tests above can fail."""
    async with Server(reply()) as server:
        names = Names(allowed_com=[["127.0.0.1"]])
        http = Http(server.grant("allowed.com"), resolve=names)
        assert (await http.fetch("GET", server.url("allowed.com"))).status == 200
    with pytest.raises(AssertionError, match="a request was sent"):
        await must_refuse("https://allowed.com/", names=Names(allowed_com=[["1.2.3.4"]]))
