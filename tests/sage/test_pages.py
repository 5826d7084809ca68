"""A page as text, and names that fit a glob: right, and in time that grows with the length."""

import codecs
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from vegakit.errors import ToolFailed
from vegakit.sage.tools.globs import compile_glob
from vegakit.sage.tools.pages import _CHARSETS, read_page, text_of_page

PAGES = {
    "<p>One</p>Two &amp; &lt;b&gt;": "One\nTwo & <b>",
    "<head><title>x</title></head><body>seen": "seen",
    "<head><title>x</title><body>seen": "seen",
    "a<script>if (a<b) { '</p>' }</SCRIPT >b": "ab",
    "a<style>b": "a",
    "a<svg><svg></svg>b</svg>c<svg/>d": "acd",
    "a<svg></head></svg>b": "ab",
    "a<!-- <p> --!> --->b<!-->c<!doctype html>d<?php echo ?>e": "abcde",
    "a<b x='>' y=\">\" z = '>'>c</b>d": "acd",
    "a<b x=it's>c": "ac",
    'a<b x="c>d': "ad",
    "1 < 2 <3 << 4 </> 5 </ 6>7": "1 < 2 <3 << 4 5 7",
    "a<p": "a",
    "a<!-- b": "a",
    "a<![<![<!": "a",
    "&#" + "9" * 5_000 + "; &#xD800; &#0;": "&#" + "9" * 5_000 + "; &#xD800; &#0;",
    "": "",
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_its_text(page: str) -> None:
    assert text_of_page(page) == PAGES[page]


def test_a_long_page_is_cut_and_says_so() -> None:
    text = text_of_page("a " * 1_000_000 + "b<p>c")
    assert text.splitlines()[1:] == [
        "[the page has 2,000,005 characters; this is from the first 2,000,000]"
    ]


@pytest.mark.parametrize("charset", sorted(_CHARSETS))
def test_python_knows_each_charset(charset: str) -> None:
    assert read_page("a".encode(charset), f"text/plain; charset={charset}") == "a"
    assert codecs.lookup(charset)


@pytest.mark.parametrize(
    "charset", "undefined idna punycode unicode_escape utf-7 zlib rot13 oem nonsense ../x".split()
)
def test_any_other_charset_is_read_as_utf_8(charset: str) -> None:
    assert read_page(b"\xc3\xa9\xff\\n", f'text/plain; charset="{charset}"; x=y') == "é\ufffd\\n"


def test_characters_across_two_pieces_are_whole() -> None:
    text = "é" * 50_000
    assert read_page(b"a" + text.encode(), "text/plain") == "a" + text
    for order in ("utf-16", "utf-16le", "utf-16be"):
        body = text.encode(order)
        assert read_page(body, f"text/plain; charset={order}") == text
    marked = b"\xfe\xff" + text.encode("utf-16be")
    assert read_page(marked, "text/plain; charset=utf-16") == text
    assert read_page(b"a\xc3", "text/plain") == "a\ufffd"


@given(st.binary(), st.sampled_from(sorted(_CHARSETS)))
def test_any_bytes_are_text_in_each_charset(body: bytes, charset: str) -> None:
    read_page(body, f"text/html; charset={charset}")


@given(st.text("<>/!-?'\"= &#;abpsvg\n[") | st.binary())
def test_any_page_has_a_text(page: str | bytes) -> None:
    body = page if isinstance(page, bytes) else page.encode()
    assert "\n\n" not in read_page(body, "text/html")


# Globs.

FITS = [
    ("*.py", "a.py", True),
    ("*.py", "a/b.py", False),
    ("*.py", ".py", True),
    ("**/*.py", "a.py", True),
    ("**/*.py", ".github/a/b.py", True),
    ("src/**", "src/a/b", True),
    ("src/**/b", "src/b", True),
    ("src/**/b/*", "src/b/a/b/c", True),
    ("**/a/**/b", "x/a/y/a/z/b", True),
    ("**/a/**/b", "x/b/a", False),
    ("a?c", "abc", True),
    ("a?c", "a/c", False),
    ("*ab*ab", "ab", False),
    ("*ab*ab", "xabab", True),
    ("*a?b*b", "aabbxb", True),
    ("[id].ts", "[id].ts", True),
    ("*.{py,js}", "a.js", True),
    ("{a,b{c,d/e}}/x", "bd/e/x", True),
    ("{a,}b", "b", True),
    ("a,b", "a,b", True),
    ("**", "a/b", True),
    ("", "a", False),
]


@pytest.mark.parametrize(("pattern", "path", "fits"), FITS)
def test_a_glob_fits(pattern: str, path: str, *, fits: bool) -> None:
    assert compile_glob(pattern)(path) is fits


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("{a", "a brace without its other"),
        ("a}", "a brace without its other"),
        ("a**b", "alone between slashes"),
        ("**.py", "alone between slashes"),
        ("{a,b}" * 7, "more than 64 patterns"),
        ("{a{b,c}" + "{d,e}" * 9, "more than 64 patterns"),
        ("a" * 401, "at most 400 characters"),
    ],
)
def test_an_unclear_glob_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ToolFailed, match=re.escape(why)):
        compile_glob(pattern)


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_a_name_fits_as_a_regex_that_goes_back_and_forth_says(pattern: str, name: str) -> None:
    if "**" not in pattern:
        naive = pattern.replace("*", ".*").replace("?", ".")
        assert compile_glob(pattern)(name) is bool(re.fullmatch(naive, name))


@given(
    st.lists(st.sampled_from(["a", "b", "*", "**"]), min_size=1, max_size=7),
    st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=7),
)
def test_a_path_fits_as_all_ways_to_split_it_say(parts: list[str], names: list[str]) -> None:
    def fits(left: list[str], there: list[str]) -> bool:
        if not left:
            return not there
        if left[0] == "**":
            return any(fits(left[1:], there[at:]) for at in range(len(there) + 1))
        return bool(there) and left[0] in {"*", there[0]} and fits(left[1:], there[1:])

    assert compile_glob("/".join(parts))("/".join(names)) is fits(parts, names)


# How CPU time grows. An input of eight times the length may take 24 times as long, where what is
# quadratic takes 64 times: the ratio says the same on a slow machine and on a busy one.

_TIMES, _MOST = 8, 24
MARKS = [
    *("<a ", "<!--", "</", "<![", "<?", "&", "&#9", "&#x", "<!DOCTYPE [", "<script", "<script>"),
    *("<svg>", "</head>", '<a ="', "<a =' ", "<a = ", "<a b=\"'>", "<a x='\">", "<p>", "<", " \n"),
]


def growth(work: Callable[[int], object], size: int) -> float:
    def cpu_s(length: int) -> float:
        start = time.thread_time()
        work(length)
        return time.thread_time() - start

    short, long = (min(cpu_s(length) for _ in range(5)) for length in (size, _TIMES * size))
    return long / short


@pytest.mark.parametrize("mark", MARKS)
def test_the_time_of_a_page_grows_with_its_length(mark: str) -> None:
    assert growth(lambda size: text_of_page(mark * size), 250) < _MOST


@pytest.mark.parametrize("ends", [("<svg>", "</head>"), ("<head>", "</head>"), ("<!--", "-->")])
def test_the_time_of_elements_grows_with_their_number(ends: tuple[str, str]) -> None:
    assert growth(lambda size: text_of_page(ends[0] * size + ends[1] * size), 600) < _MOST


@pytest.mark.parametrize("charset", sorted(_CHARSETS))
def test_the_time_of_a_charset_grows_with_its_length(charset: str) -> None:
    body = b"\xff\x81a-" * 2_000
    kind = f"text/plain; charset={charset}"
    assert growth(lambda size: read_page(body[:size], kind), 1_000) < _MOST


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("*a", "a"), ("**/", "a/"), ("**/a/", "a/"), ("*?a", "a"), ("**/*a*/", "aa/")],
)
def test_the_time_of_a_glob_grows_with_pattern_and_path(pattern: str, path: str) -> None:
    """Eight times the stars may take eight times as long."""

    def match(stars: int) -> object:
        fits = compile_glob(pattern * stars + "x")
        return [fits(path * 240 + "b") for _ in range(9)]

    assert growth(match, 5) < _MOST
