"""Hosts against a label-by-label model and the standard library's URL parser."""

from urllib.parse import urlsplit

from hypothesis import given, strategies as st

from vegakit.policy import Denied, Fetch, parse_url
from vegakit.policy.capability.hosts import check_host_rule, clean_fetch, hosts_allowing

HOSTS = st.lists(st.sampled_from(["a", "b", "com"]), min_size=1, max_size=4).map(".".join)
PORTS = st.sampled_from([80, 443, 8080])
ENDINGS = st.sampled_from(["", ":80", ":443"])
NAMES = st.lists(st.sampled_from(["a", "b", "com"]), min_size=2, max_size=3).map(".".join)
RULES = st.tuples(st.sampled_from(["", "*."]), NAMES, ENDINGS).map("".join)


def allows(rule: str, host: str, port: int) -> bool:
    name, _, rule_port = rule.partition(":")
    labels, wanted = name.split("."), host.split(".")
    if int(rule_port or 443) != port:
        return False
    if labels[0] != "*":
        return labels == wanted
    return len(wanted) >= len(labels) and wanted[-len(labels) + 1 :] == labels[1:]


@given(RULES, HOSTS, PORTS)
def test_listing_rules_equals_reading_labels(rule: str, host: str, port: int) -> None:
    """A rule is among those that allow a host exactly if its labels say so."""
    check_host_rule(rule)
    assert (rule in hosts_allowing(host, port)) == allows(rule, host, port)


@given(st.text("aA1x0.:-[]@/#?\\ %", max_size=16))
def test_a_url_that_is_taken_means_the_same_host_to_others(rest: str) -> None:
    """Where a URL is accepted with its host, the standard library reads the same host and port."""
    parsed = parse_url("GET", f"http://{rest}")
    clean = parsed if isinstance(parsed, Denied) else clean_fetch(parsed)
    if isinstance(clean, Fetch):
        other = urlsplit(f"http://{rest}")
        assert clean_fetch(Fetch("GET", other.hostname or "", other.port or 80)) == clean


@given(st.text(max_size=12), st.text("0123456789abcdefx.:[]", max_size=16))
def test_any_text_is_either_refused_or_has_one_spelling(method: str, host: str) -> None:
    """A clean fetch is clean again, and its host is a rule's host."""
    clean = clean_fetch(Fetch(method or "GET", host))
    if isinstance(clean, Fetch):
        assert clean_fetch(clean) == clean
        check_host_rule(clean.host)
