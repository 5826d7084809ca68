"""Requests of tools: to the hosts of their grant, at addresses that were checked."""

import asyncio
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.tools.confined.server import Names, Server, reply
from vegakit.errors import CapabilityDenied, ErrorClass, LimitReached, UserError, WorldError
from vegakit.policy import Grant
from vegakit.tools import Http
from vegakit.tools.http_requests import FetchResponse, is_public

LOOPBACK = Names(allowed_com=[["127.0.0.1"]])


async def unreachable(*_: object) -> FetchResponse:
    raise AssertionError("a request was sent")


async def test_an_allowed_host_answers() -> None:
    """The server is asked by the name that was checked; nothing packed is asked for."""
    async with Server(reply(X_Seen="yes")) as server:
        http = Http(server.grant("allowed.com"), resolve=LOOPBACK)
        url = server.url("ALLOWED.com", "/a?b=c#d")
        answer = await http.fetch("GET", url, headers={"Authorization": "Bearer x"})
    assert (answer.status, answer.body, answer.header("x-seen")) == (200, b"hello", "yes")
    lines = server.heads[0].split("\r\n")
    assert lines[0] == "GET /a?b=c HTTP/1.1"
    assert f"Host: allowed.com:{server.port}" in lines
    assert {"Accept-Encoding: identity", "Authorization: Bearer x"} <= set(lines)


def test_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    monkeypatch.delitem(sys.modules, "vegakit.tools.http_transport", raising=False)
    with pytest.raises(UserError, match=r"httpcore2.*pip install 'vegakit\[http\]'"):
        Http(Grant())


async def test_a_body_is_sent_by_who_may_post() -> None:
    """`net::get` alone sends none."""
    async with Server(reply(status="201 Created")) as server:
        answer = await Http(server.grant()).fetch("POST", server.url(), body=b"abc")
        assert answer.status == 201
        reading = Http(server.grant(capabilities=("net::get",)))
        for method in ("POST", "put", "DELETE"):
            with pytest.raises(CapabilityDenied, match="net::post"):
                await reading.fetch(method, server.url())
    assert len(server.heads) == 1
    assert "Content-Length: 3" in server.heads[0]


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "GET /", "PROPFIND"])
async def test_odd_methods_are_refused(method: str) -> None:
    """A tunnel would pass what nobody checks."""
    async with Server(reply()) as server:
        with pytest.raises(CapabilityDenied):
            await Http(server.grant()).fetch(method, server.url())
    assert server.heads == []


@pytest.mark.parametrize(
    "header",
    ["Host", "host", "Content-Length", "Transfer-Encoding", "Proxy-Authorization", "Upgrade"],
)
async def test_headers_that_steer_a_request_are_refused(header: str) -> None:
    """They would name another host, or hide a second request in the first."""
    async with Server(reply()) as server:
        with pytest.raises(CapabilityDenied, match=header):
            await Http(server.grant()).fetch("GET", server.url(), headers={header: "evil.com"})
        with pytest.raises(CapabilityDenied, match="one line of ASCII"):
            await Http(server.grant()).fetch("GET", server.url(), headers={"X": "a\r\nHost: b"})
    assert server.heads == []


@pytest.mark.parametrize(
    "address",
    """
    127.0.0.1 127.9.9.9 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.100.100.200
    168.63.129.16 192.0.0.192 198.18.0.1 224.0.0.1 255.255.255.255 ::1 :: fe80::1 fe80::1%1 fc00::1
    fd00:ec2::254 fec0::1 ff02::1 ::ffff:127.0.0.1 ::127.0.0.1 2002:7f00:1:: 64:ff9b::7f00:1
    64:ff9b::a9fe:a9fe 2001:0:7f00:1:: 2001:db8::1
    """.split(),
)
async def test_a_name_does_not_lead_to_what_is_not_public(address: str) -> None:
    """Whoever owns the name decides where it leads."""
    names = Names(allowed_com=[[address]])
    http = Http(Grant(("net",), hosts=("allowed.com",)), resolve=names)
    http._send = unreachable
    with pytest.raises(CapabilityDenied, match=r"allowed.com leads to .*; add allowed_hosts"):
        await http.fetch("GET", "https://allowed.com/")
    assert names.asked == ["allowed.com"]


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f::1", "64:ff9b::808:808"])
def test_what_anybody_reaches_is_public(address: str) -> None:
    """The other side of the boundary."""
    assert is_public(address)


async def test_addresses_that_pass_are_tried_and_no_others() -> None:
    """Those that do not pass are left out, wherever they stand."""
    names = Names(allowed_com=[["10.0.0.1", "127.0.0.1", "::1"]])
    async with Server(reply()) as server:
        http = Http(server.grant("allowed.com"), resolve=names)
        assert (await http.fetch("GET", server.url("allowed.com"))).status == 200


async def test_a_name_is_looked_up_once_for_a_request() -> None:
    """A second answer would not be the one that was checked."""
    names = Names(allowed_com=[["127.0.0.1"], ["10.0.0.1"]])
    async with Server(reply()) as server:
        http = Http(server.grant("allowed.com"), resolve=names)
        await http.fetch("GET", server.url("allowed.com"))
        assert names.asked == ["allowed.com"]
        with pytest.raises(CapabilityDenied, match=r"10\.0\.0\.1"):
            await http.fetch("GET", server.url("allowed.com"))
    assert len(server.heads) == 1


async def test_a_redirect_is_followed_within_the_grant() -> None:
    """A POST becomes a GET, unless the status says to repeat it."""

    def answer(head: str) -> bytes:
        if "/old" in head:
            return reply(status="302 Found", Location="../new")
        if "/same" in head:
            return reply(status="307 Temporary Redirect", Location="new")
        return reply(head.split(maxsplit=1)[0].encode())

    async with Server(answer) as server:
        http = Http(server.grant())
        moved = await http.fetch("POST", server.url(path="/a/old"), body=b"x")
        assert (moved.url, moved.body) == (server.url(path="/new"), b"GET")
        assert (await http.fetch("PUT", server.url(path="/same"), body=b"x")).body == b"PUT"


@pytest.mark.parametrize(
    "place",
    [
        "http://169.254.169.254/latest/",
        "http://127.0.0.1/",
        "//evil.com/",
        "http://allowed.com@evil.com/",
        "file:///etc/passwd",
        "http://[",
        "gopher://127.0.0.1:6379/_FLUSHALL",
    ],
)
async def test_a_redirect_is_checked_like_any_request(place: str) -> None:
    """Nothing is looked up or connected to."""
    names = Names(allowed_com=[["127.0.0.1"]])
    async with Server(reply(status="302 Found", Location=place)) as server:
        http = Http(server.grant("allowed.com"), resolve=names)
        with pytest.raises(CapabilityDenied):
            await http.fetch("GET", server.url("allowed.com"))
    assert (len(server.heads), names.asked) == (1, ["allowed.com"])


async def test_keys_do_not_go_along_to_another_host() -> None:
    """Though it be allowed."""
    names = Names(allowed_com=[["127.0.0.1"]], other_com=[["127.0.0.1"]])

    def answer(head: str) -> bytes:
        to_other = f"http://other.com:{server.port}/"
        return reply() if "other.com" in head else reply(status="302 Found", Location=to_other)

    server = Server(answer)
    async with server:
        http = Http(server.grant("allowed.com", "other.com"), resolve=names)
        await http.fetch("GET", server.url("allowed.com"), headers={"X-Key": "secret"})
    assert ["secret" in head for head in server.heads] == [True, False]


async def test_redirects_end() -> None:
    """After the first request, five."""
    async with Server(reply(status="301 Moved", Location="/")) as server:
        with pytest.raises(LimitReached, match="redirect number 6"):
            await Http(server.grant()).fetch("GET", server.url())
    assert len(server.heads) == 6


async def test_too_many_bytes_are_not_received() -> None:
    """On both sides of the cap, told and untold lengths alike."""
    endless = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000
    async with Server(reply(b"x" * 100)) as told, Server(endless) as untold:
        grant = Grant(("net",), hosts=(f"127.0.0.1:{told.port}", f"127.0.0.1:{untold.port}"))
        assert len((await Http(grant, max_bytes=100).fetch("GET", told.url())).body) == 100
        for server in (told, untold):
            with pytest.raises(LimitReached, match="sent more than 99 bytes"):
                await Http(grant, max_bytes=99).fetch("GET", server.url())
        with pytest.raises(LimitReached, match="100 bytes are more than 99"):
            await Http(grant, max_bytes=99).fetch("POST", told.url(), body=b"x" * 100)


async def test_a_server_that_does_not_answer_is_left() -> None:
    """The connection is closed when time is up, and when the call is cancelled."""
    async with Server(b"") as server:
        with pytest.raises(WorldError, match="within 2000 ms") as late:
            await Http(server.grant(), timeout_ms=2_000).fetch("GET", server.url())
        assert late.value.error_class is ErrorClass.TIMEOUT
        await asyncio.wait_for(server.gone.wait(), PATIENCE_S)
        server.gone.clear()
        call = asyncio.ensure_future(Http(server.grant()).fetch("GET", server.url()))
        while len(server.heads) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        await asyncio.wait_for(server.gone.wait(), PATIENCE_S)


async def test_a_refused_connection_is_the_worlds() -> None:
    """So it may be tried again; nothing was sent."""
    async with Server(reply()) as server:
        pass
    with pytest.raises(WorldError, match=str(server.port)) as refused:
        await Http(server.grant()).fetch("GET", server.url())
    assert refused.value.error_class is ErrorClass.CONNECTION
    assert refused.value.phase == "nothing_sent"


async def test_the_proxies_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever sets them would see every request."""
    async with Server(reply()) as server, Server(reply()) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url())
        await Http(server.grant()).fetch("GET", server.url())
    assert (len(server.heads), len(proxy.heads)) == (1, 0)


@pytest.fixture
def allowed_com(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and a client's side of a certificate for allowed.com."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = ["-subj", "/CN=allowed.com", "-addext", "subjectAltName=DNS:allowed.com"]
    subprocess.run(
        ["openssl", *made.split(), *names, "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    serves = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serves.load_cert_chain(certificate, key)
    return serves, ssl.create_default_context(cafile=certificate)


async def test_the_certificate_must_be_that_of_the_checked_host(
    allowed_com: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    """Not that of the address, nor of another allowed name that leads there."""
    serves, trusts = allowed_com
    names = Names(allowed_com=[["127.0.0.1"]], other_com=[["127.0.0.1"]])
    async with Server(reply(), tls=serves) as server:
        grant = server.grant("allowed.com", "other.com")
        http = Http(grant, resolve=names, certificates=trusts)
        assert (await http.fetch("GET", server.url("allowed.com"))).status == 200
        for host in ("other.com", "127.0.0.1"):
            with pytest.raises(WorldError):
                await http.fetch("GET", server.url(host))
        with pytest.raises(WorldError):
            await Http(grant, resolve=names).fetch("GET", server.url("allowed.com"))
    assert len(server.heads) == 1


async def test_a_redirect_does_not_leave_https(
    allowed_com: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    """What was asked for in secret is not repeated in the open."""
    serves, trusts = allowed_com
    async with Server(reply()) as plain:
        moved = reply(status="302 Found", Location=plain.url())
        async with Server(moved, tls=serves) as server:
            hosts = (f"allowed.com:{server.port}", f"127.0.0.1:{server.port}")
            grant = Grant(("net",), hosts=(*hosts, f"127.0.0.1:{plain.port}"))
            http = Http(grant, resolve=LOOPBACK, certificates=trusts)
            with pytest.raises(CapabilityDenied, match="leaves https"):
                await http.fetch("GET", server.url("allowed.com"))
    assert plain.heads == []
