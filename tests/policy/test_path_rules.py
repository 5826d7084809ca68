"""The two tables of paths, row by row."""

import pytest

from vegakit.errors import InvalidRuleError
from vegakit.policy import Denied, clean_path
from vegakit.policy.capability.paths import check_path_rule, path_fits, rules_touch


@pytest.mark.parametrize(
    ("rule", "path", "fits"),
    [
        ("src/a.py", "src/a.py", True),
        ("src/a.py", "src/a.pyc", False),
        ("src/a.py", "src/A.py", False),
        ("src", "src/a.py", False),
        ("src/a.py", "src", False),
        ("*.md", "a.md", True),
        ("*.md", "docs/a.md", False),
        ("*", "a", True),
        ("*", ".", False),
        ("a*", "a", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "axbxc", True),
        ("a*b*c", "acb", False),
        ("a*b*c", "abc", True),
        ("*ab*ab*", "aabxab", True),
        ("*ab*ab*", "abab", True),
        ("*ab*ab*", "aab", False),
        ("*aab*b", "aab", False),
        ("*b*b", "bb", True),
        ("xx*b*b*", "xxb", False),
        ("xx*b*b*", "xxbb", True),
        ("a*bc*cd", "abcd", False),
        ("a*bc*cd", "abccd", True),
        ("src/**", "src", True),
        ("src/**", "src/a", True),
        ("src/**", "src/a/b/c", True),
        ("src/**", "srcs/a", False),
        ("**", ".", True),
        (".", ".", True),
        (".", "a", False),
        ("**/x", "x", True),
        ("**/x", "a/b/x", True),
        ("**/x", "a/b/xx", False),
        ("**/x", "x/a", False),
        ("a/**/b/**/c", "a/b/b/d/c", True),
        ("a/**/b/**/c", "a/c/b", False),
        ("**/**/x", "x", True),
        ("app/[slug]/page.tsx", "app/[slug]/page.tsx", True),
        ("app/[slug]/page.tsx", "app/s/page.tsx", False),
    ],
)
def test_a_star_stays_in_its_name_and_two_stars_cross_names(
    rule: str, path: str, fits: bool
) -> None:
    """A rule says whole names, from the root to the end."""
    assert path_fits(rule, path) is fits


@pytest.mark.parametrize(
    ("rule", "path", "fits"),
    [
        ("**", ".env", False),
        ("**", "a/.git/config", False),
        ("*", ".env", False),
        ("*env", ".env", False),
        ("**/config", ".git/config", False),
        (".env", ".env", True),
        (".*", ".env", True),
        (".*", "env", False),
        (".github/**", ".github/workflows/ci.yml", True),
        (".github/**", ".github/.cache/x", False),
        ("**/.git/**", "a/.git/config", True),
        ("**/.git/**", "a/.git/.x", False),
    ],
)
def test_a_wildcard_never_stands_for_a_leading_dot(rule: str, path: str, fits: bool) -> None:
    """Hidden names hold secrets and settings, so they are named or not reached."""
    assert path_fits(rule, path) is fits


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("src/a.py", "src/a.py"),
        ("./src//a.py", "src/a.py"),
        ("src/./a/", "src/a"),
        (".", "."),
        ("./", "."),
        ("a b/c-d/$e/@f/x=1,2;+&'(`)#!^{}[]", "a b/c-d/$e/@f/x=1,2;+&'(`)#!^{}[]"),
        ("..a/...b", "..a/...b"),
        (".env", ".env"),
        ("größe/日本", "größe/日本"),
        ("/".join("x" * 64), "/".join("x" * 64)),
        ("a" * 255, "a" * 255),
        ("a" * 255 + "/" + "b" * 255 + "/", "a" * 255 + "/" + "b" * 255),
    ],
)
def test_a_harmless_path_gets_its_one_spelling(text: str, path: str) -> None:
    """Empty names and single dots go; everything else stays as it is."""
    assert clean_path(text) == path


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty; the project root is '.'"),
        ("a/" * 256 + "b", "it is longer than 512 characters"),
        ("a\x00b", "it holds a control or invisible character"),
        ("a\nb", "it holds a control or invisible character"),
        ("a\u202eb", "it holds a control or invisible character"),
        ("a\u200bb", "it holds a control or invisible character"),
        *(
            (f"a{letter}b", "it holds a control or invisible character")
            for letter in "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180d\u180f\ufe00\ufe0f\U000e0100"
        ),
        ("a\ud800", "it holds a control or invisible character"),
        ("a\u00a0b", "it holds a control or invisible character"),
        ("\u2024\u2024/a", "it turns into another name when normalised; write it in NFKC form"),
        ("e\u0301", "it turns into another name when normalised; write it in NFKC form"),
        ("/etc/passwd", "it is absolute; name it from the project root"),
        ("//a", "it is absolute; name it from the project root"),
        ("..", "it steps upwards; name it from the project root"),
        ("../a", "it steps upwards; name it from the project root"),
        ("a/../b", "it steps upwards; name it from the project root"),
        ("a/..", "it steps upwards; name it from the project root"),
        ("-rf", "a first '-', '@' or '$' reads as something else than a name"),
        ("@a", "a first '-', '@' or '$' reads as something else than a name"),
        ("$HOME/a", "a first '-', '@' or '$' reads as something else than a name"),
        *(
            (f"a{letter}b", r"""one of \ : % ~ * ? " < > | makes it another path to some program""")
            for letter in r"""\:%~*?"<>|"""
        ),
        ("a./b", "a name ends in a dot or space, which some systems drop"),
        ("a/b.", "a name ends in a dot or space, which some systems drop"),
        ("a /b", "a name ends in a dot or space, which some systems drop"),
        ("a/b ", "a name ends in a dot or space, which some systems drop"),
        ("a/...", "a name ends in a dot or space, which some systems drop"),
        (" a", "a name starts with a space"),
        ("a/ b", "a name starts with a space"),
        ("a" * 256, "a name is longer than 255 bytes"),
        ("b/" + "é" * 128, "a name is longer than 255 bytes"),
        ("/".join("x" * 65), "it is deeper than 64 names"),
    ],
)
def test_a_doubtful_path_is_refused_with_the_reason(text: str, why: str) -> None:
    """What two programs could read differently is not decided, it is refused."""
    verdict = clean_path(text)
    assert isinstance(verdict, Denied)
    assert verdict.reason.startswith("the path ")
    assert verdict.reason.endswith(f" is refused: {why}")


def test_a_refusal_shows_code_points_and_not_the_whole_novel() -> None:
    """The text that turns a line around is shown as an escape, and cut after 80 characters."""
    assert clean_path("a\u202eb") == Denied(
        "the path 'a\\u202eb' is refused: it holds a control or invisible character"
    )
    long, longer = clean_path("/" + "a" * 79), clean_path("/" + "a" * 80)
    assert isinstance(long, Denied)
    assert isinstance(longer, Denied)
    assert f"'/{'a' * 79}' is" in long.reason
    assert f"'/{'a' * 79}...' is" in longer.reason


@pytest.mark.parametrize(
    "rule", ["**", "*", ".", "src/**", "*.md", "**/x/*_test.py", ".*", "..*", ".github/**", "日本"]
)
def test_a_rule_that_can_fit_is_accepted(rule: str) -> None:
    """Stars stand wherever a name could."""
    check_path_rule(rule)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("", "'' allows no path: it is empty"),
        ("/project/**", r"'/project/\*\*' allows no path: it is absolute"),
        ("src/../**", "steps upwards"),
        ("src/a?", "makes it another path"),
        ("*.", "ends in a dot"),
        ("src/", "'src/' has an empty or '.' name in it; write 'src/"),
        ("./src", "has an empty or '.' name"),
        ("src//a", "has an empty or '.' name"),
        ("src/**.py", r"'src/\*\*.py': '\*\*' stands alone between slashes, as in"),
        ("a**", "stands alone"),
        ("***", "stands alone"),
        ("*" * 300, "longer than 255 bytes"),
        ("*/" * 256 + "*", "longer than 512 characters"),
    ],
)
def test_a_rule_that_cannot_fit_is_an_error(rule: str, why: str) -> None:
    """A rule nobody can satisfy is a mistake of its author, told at once."""
    with pytest.raises(InvalidRuleError, match=why):
        check_path_rule(rule)


@pytest.mark.parametrize(
    ("one", "other", "touch"),
    [
        ("src/**", "docs/**", False),
        ("src/**", "src/a.py", True),
        ("src/*.py", "src/*.md", False),
        ("src/a*", "src/*b", True),
        ("src/ab*", "src/ac*", False),
        ("src/a*", "src/ab*", True),
        ("src/*ab", "src/*b", True),
        ("src/*b", "src/*ab", True),
        ("src/*ab", "src/*cb", False),
        ("src/a*x*b", "src/ab*y*ab", True),
        ("src/a.py", "src/*.py", True),
        ("src/a.py", "src/*.md", False),
        ("src/a", "src/a", True),
        ("src/a", "src/b", False),
        ("src", "src/a/b", True),
        ("*", "src/a", True),
        (".", "src/a", True),
        (".env", "*", False),
        (".*", ".env", True),
        ("SRC/**", "src/**", True),
        ("src/STRASSE", "src/straße", True),
        ("**/*.py", "**/*.md", True),
        ("a/**/x", "b/**/x", False),
        ("a/b/**", "*/c/**", False),
        ("a/b/**", "*/b/**", True),
    ],
)
def test_rules_touch_when_one_path_can_be_in_the_other(one: str, other: str, touch: bool) -> None:
    """Everything before `**` is compared, name by name, whatever the case of letters."""
    assert rules_touch(one, other) is touch
    assert rules_touch(other, one) is touch
