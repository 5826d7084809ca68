"""The two tables of hosts, row by row."""

import pytest

from vegakit.errors import InvalidRuleError
from vegakit.policy import Denied, Fetch, parse_url
from vegakit.policy.capability.hosts import check_host_rule, clean_fetch, hosts_allowing


@pytest.mark.parametrize(
    ("host", "port", "rules"),
    [
        ("example.com", 443, ["example.com", "example.com:443", "*.com", "*.com:443"]),
        ("a.b.com", 80, ["a.b.com:80", "*.b.com:80", "*.com:80"]),
        ("localhost", 8080, ["localhost:8080"]),
        ("[::1]", 443, ["[::1]", "[::1]:443"]),
    ],
)
def test_a_host_knows_the_rules_that_allow_it(host: str, port: int, rules: list[str]) -> None:
    """Itself, and a star for each label in front; without a port only on 443."""
    assert list(hosts_allowing(host, port)) == rules


@pytest.mark.parametrize(
    ("host", "clean"),
    [
        ("API.Example.com", "api.example.com"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("localhost", "localhost"),
        ("a-b.c0", "a-b.c0"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.nip.io", "127.0.0.1.nip.io"),
        ("1.2.3.4x", "1.2.3.4x"),
        ("::1", "[::1]"),
        ("[0:0::1]", "[::1]"),
        ("[FD00:EC2::254]", "[fd00:ec2::254]"),
        ("a" * 63 + ".com", "a" * 63 + ".com"),
        ("a." * 126 + "a", "a." * 126 + "a"),
    ],
)
def test_a_host_gets_its_one_spelling(host: str, clean: str) -> None:
    """Lower case, and the shortest form of an IPv6 address in brackets."""
    assert clean_fetch(Fetch("GET", host)) == Fetch("GET", clean, 443)


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("", "a host has 1 to 253 characters"),
        ("a." * 127, "a host has 1 to 253 characters"),
        ("bücher.example", "it is not ASCII; write the punycode form, like xn--..."),
        ("a b", "it holds white space or a control character"),
        ("evil\x00.example.com", "it holds white space or a control character"),
        ("a\x7f", "it holds white space or a control character"),
        ("example.com@evil.com", "what stands before an @ is no host"),
        ("example.com.", "it ends in a dot; write it without"),
        ("a..b", "a host is labels of letters, digits and - joined by dots"),
        (".a", "a host is labels of letters, digits and - joined by dots"),
        ("-a.com", "a host is labels of letters, digits and - joined by dots"),
        ("a-.com", "a host is labels of letters, digits and - joined by dots"),
        ("a_b.com", "a host is labels of letters, digits and - joined by dots"),
        ("*.example.com", "a host is labels of letters, digits and - joined by dots"),
        ("a/b", "a host is labels of letters, digits and - joined by dots"),
        ("[a]", "a host is labels of letters, digits and - joined by dots"),
        ("a" * 64, "a host is labels of letters, digits and - joined by dots"),
        ("0x7f.1", "an address is four decimal numbers, like 192.0.2.1"),
        ("2130706433", "an address is four decimal numbers, like 192.0.2.1"),
        ("0X7F000001", "an address is four decimal numbers, like 192.0.2.1"),
        ("0x", "an address is four decimal numbers, like 192.0.2.1"),
        ("127.1", "an address is four decimal numbers, like 192.0.2.1"),
        ("010.0.0.1", "an address is four decimal numbers, like 192.0.2.1"),
        ("1.2.3.256", "an address is four decimal numbers, like 192.0.2.1"),
        ("a.com.0", "an address is four decimal numbers, like 192.0.2.1"),
        ("example.com:80", "it is no IPv6 address"),
        ("[::1", "it is no IPv6 address"),
        ("::1]", "it is no IPv6 address"),
        ("[[::1]]", "it is no IPv6 address"),
        ("[fe80::1%eth0]", "an IPv6 address has no zone and hides no IPv4 address"),
        ("::ffff:127.0.0.1", "an IPv6 address has no zone and hides no IPv4 address"),
    ],
)
def test_a_doubtful_host_is_refused_with_the_reason(host: str, why: str) -> None:
    """What two programs could read as different hosts is refused."""
    verdict = clean_fetch(Fetch("GET", host))
    assert isinstance(verdict, Denied)
    assert verdict.reason.startswith("the host ")
    assert verdict.reason.endswith(f" is refused: {why}")


def test_a_method_is_upper_case_and_a_word() -> None:
    """`get` is GET; a method with a line break in it is refused."""
    assert clean_fetch(Fetch("get", "a.b")) == Fetch("GET", "a.b")
    assert clean_fetch(Fetch("x" * 20, "a.b")) == Fetch("X" * 20, "a.b")
    for method in ("", "GET\r\nX", "GE T", "x" * 21, "\u017fET"):
        verdict = clean_fetch(Fetch(method, "a.b"))
        assert isinstance(verdict, Denied)
        assert verdict.reason.startswith("the method ")
        assert verdict.reason.endswith(" is refused: a method is a word such as GET")


@pytest.mark.parametrize("port", [0, -1, 65_536])
def test_a_port_is_in_its_range(port: int) -> None:
    """A port has 16 bits and is not zero."""
    assert clean_fetch(Fetch("GET", "a.b", port)) == Denied(
        f"the port '{port}' is refused: a port is 1 to 65535"
    )
    assert clean_fetch(Fetch("GET", "a.b", 1)) == Fetch("GET", "a.b", 1)
    assert clean_fetch(Fetch("GET", "a.b", 65_535)) == Fetch("GET", "a.b", 65_535)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://example.com", "example.com", 443),
        ("HTTP://Example.com/a?b#c@d", "Example.com", 80),
        ("https://example.com:8443?x", "example.com", 8443),
        ("http://[::1]:80/", "[::1]", 80),
        ("https://a.b#@c", "a.b", 443),
        ("https:///x", "", 443),
    ],
)
def test_a_url_names_its_host_and_port(url: str, host: str, port: int) -> None:
    """The host is judged later, with all others; the port follows from the scheme."""
    assert parse_url("PUT", url) == Fetch("PUT", host, port)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://b\u00fccher.example/", "it is not ASCII; encode its path, write the host as xn--"),
        ("http://a.b/ c", "it holds white space, a control or a backslash"),
        ("http://a.b\\c", "it holds white space, a control or a backslash"),
        ("http://a.b/\x00", "it holds white space, a control or a backslash"),
        ("http://a.b/\x7f", "it holds white space, a control or a backslash"),
        ("http://a.b/%0D%0aX:y", "it hides a NUL or a line break"),
        ("http://a.b/%0A", "it hides a NUL or a line break"),
        ("http://a.b/%0d", "it hides a NUL or a line break"),
        ("http://a.b/%00", "it hides a NUL or a line break"),
        ("http://u:p@a.b/", "what stands before an @ is no host"),
        ("http://a.b@c.d", "what stands before an @ is no host"),
        ("file:///etc/passwd", "it is not http(s)://host[:port]/..."),
        ("ftp://a.b/", "it is not http(s)://host[:port]/..."),
        ("xhttp://a.b/", "it is not http(s)://host[:port]/..."),
        ("http:/a.b/", "it is not http(s)://host[:port]/..."),
        ("http://a.b:x/", "it is not http(s)://host[:port]/..."),
        ("http://a.b:443.c.d/", "it is not http(s)://host[:port]/..."),
        ("http://::1/", "it is not http(s)://host[:port]/..."),
    ],
)
def test_a_doubtful_url_is_refused_with_the_reason(url: str, why: str) -> None:
    """Only http and https, only ASCII, and nothing that parsers read differently."""
    verdict = parse_url("GET", url)
    assert isinstance(verdict, Denied)
    assert verdict.reason.startswith(f"the URL {url!a} is refused: {why}")


@pytest.mark.parametrize(
    "rule",
    ["example.com", "*.example.com", "*.a.b.c:65535", "localhost:1", "127.0.0.1", "[::1]:80"],
)
def test_a_rule_names_a_host_in_its_one_spelling(rule: str) -> None:
    """A host, all hosts below a name, or either on one port."""
    check_host_rule(rule)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("", "'' is no host rule; write host, "),
        ("a.b:", "is no host rule"),
        ("a.b:080", "is no host rule"),
        ("a.b:123456", "is no host rule"),
        ("::1", "is no host rule"),
        ("https://a.b", "is no host rule"),
        ("*", "allows no host: the host '\\*' is refused"),
        ("a.*.b", "allows no host"),
        ("a@b", "allows no host: .* before an @"),
        ("0x7f.1", "allows no host: .* four decimal numbers"),
        ("Example.com", "'Example.com' allows no host; write it as 'example.com'"),
        ("[0::1]", r"write it as '\[::1\]'"),
        ("*.com", r"'\*.com': after '\*.' comes a name such as example.com"),
        ("*.localhost", "comes a name such as example.com"),
        ("*.1.2.3.4", "comes a name such as example.com"),
        ("*.[::1]", "comes a name such as example.com"),
        ("a.b:65536", "'a.b:65536': a port is 1 to 65535"),
    ],
)
def test_a_rule_that_cannot_hold_is_an_error(rule: str, why: str) -> None:
    """No star for everything, none for a whole top-level domain, none for addresses."""
    with pytest.raises(InvalidRuleError, match=why):
        check_host_rule(rule)
