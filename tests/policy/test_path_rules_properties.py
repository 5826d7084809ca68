"""Globs against a matcher that tries everything, and touching against witnesses."""

from itertools import product

from hypothesis import given, strategies as st

from vegakit.policy import Denied, clean_path
from vegakit.policy.capability.paths import check_path_rule, path_fits, rules_touch


def texts(letters: str, longest: int) -> list[str]:
    lengths = range(1, longest + 1)
    made = ("".join(text) for n in lengths for text in product(letters, repeat=n))
    return [text for text in made if not text.endswith(".") and "**" not in text]


NAMES = st.sampled_from(texts("ab.", 4))
PATHS = st.lists(NAMES, max_size=4).map(lambda names: "/".join(names) or ".")
PARTS = st.just("**") | st.sampled_from(texts("ab.*", 4))
SPANS = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(lambda ends: (min(ends), max(ends)))
RULES = st.lists(PARTS, min_size=1, max_size=4).map("/".join)


def letters_fit(pattern: str, name: str) -> bool:
    if not pattern or not name:
        return not name and not pattern.strip("*")
    if pattern[0] == "*":
        return letters_fit(pattern[1:], name) or letters_fit(pattern, name[1:])
    return pattern[0] == name[0] and letters_fit(pattern[1:], name[1:])


def names_fit(parts: list[str], names: list[str]) -> bool:
    if not parts:
        return not names
    head, *rest = parts
    if head == "**":
        return names_fit(rest, names) or bool(
            names and names[0][0] != "." and names_fit(parts, names[1:])
        )
    if not names or (head[0] == "*" and names[0][0] == "."):
        return False
    return letters_fit(head, names[0]) and names_fit(rest, names[1:])


def naive_fits(rule: str, path: str) -> bool:
    return names_fit(rule.split("/"), [] if path == "." else path.split("/"))


@given(RULES, PATHS)
def test_matching_equals_trying_everything(rule: str, path: str) -> None:
    """The matcher that never goes back agrees with the one that tries every way."""
    check_path_rule(rule)
    assert clean_path(path) == path
    assert path_fits(rule, path) == naive_fits(rule, path)


@given(st.data(), PATHS, PATHS)
def test_rules_with_a_common_path_or_folder_touch(
    data: st.DataObject, folder: str, rest: str
) -> None:
    """Rules made from a path and from what lies in it, by putting stars into both, touch."""
    below = "/".join(name for name in (folder, rest) if name != ".") or "."
    one, other = data.draw(loosened(folder)), data.draw(loosened(below))
    assert path_fits(one, folder)
    assert path_fits(other, below)
    assert rules_touch(one, other)
    assert rules_touch(other, one)


@given(st.text(max_size=20) | st.text("./\\ ~$%\u202ea*", max_size=12))
def test_any_text_is_either_refused_or_has_one_safe_spelling(text: str) -> None:
    """A clean path is clean again, goes down only, and never leaves the root."""
    clean = clean_path(text)
    if isinstance(clean, Denied):
        return
    assert clean_path(clean) == clean
    assert clean == "." or not {"", ".", ".."} & set(clean.split("/"))


@st.composite
def loosened(draw: st.DrawFn, path: str) -> str:
    names = [] if path == "." else path.split("/")
    parts = [with_a_star(name, draw(SPANS)) for name in names]
    return with_two_stars(parts, *draw(SPANS))


def with_a_star(name: str, span: tuple[int, int]) -> str:
    """A star in place of a span, but never of the leading dot; sometimes none."""
    start, end = span
    if start > len(name) or (name.startswith(".") and start == 0):
        return name
    return name[:start] + "*" + name[end:]


def with_two_stars(parts: list[str], start: int, end: int) -> str:
    """`**` in place of a span of names, unless one of them is hidden."""
    if any(part.startswith(".") for part in parts[start:end]):
        return "/".join(parts)
    return "/".join([*parts[:start], "**", *parts[end:]])
