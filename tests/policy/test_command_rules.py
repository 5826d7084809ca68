"""The two tables of commands, row by row."""

import pytest

from vegakit.errors import InvalidRuleError
from vegakit.policy import Denied, RunCommand, parse_command
from vegakit.policy.capability.command_rules import (
    check_command_rule,
    clean_command,
    command_fits,
    rule_for,
)


@pytest.mark.parametrize(
    ("rule", "argv", "fits"),
    [
        ("npm test", ("npm", "test"), True),
        ("npm test", ("npm", "testx"), False),
        ("npm test", ("npm", "test;", "rm"), False),
        ("npm test", ("npm", "test", "--prefix", "/etc"), False),
        ("npm test", ("npm",), False),
        ("npm test", ("./npm", "test"), False),
        ("npm test", ("/tmp/npm", "test"), False),
        ("npm test", ("NPM", "test"), False),
        ("pytest -q **", ("pytest", "-q"), True),
        ("pytest -q **", ("pytest", "-q", "-x", "", "a b"), True),
        ("pytest -q **", ("pytest", "-x", "-q"), False),
        ("pytest -q **", ("pytest",), False),
        ("pytest **", ("pytest",), True),
        ("pytest *", ("pytest", "tests/a.py::test[b]"), True),
        ("pytest *", ("pytest",), False),
        ("pytest *", ("pytest", "a", "b"), False),
        ("npm run * **", ("npm", "run", "build", "--watch"), True),
        ("npm run * **", ("npm", "run", "--watch"), False),
    ],
)
def test_a_rule_fits_word_for_word(rule: str, argv: tuple[str, ...], fits: bool) -> None:
    """Only `**` takes more words than are written."""
    assert command_fits(rule, argv) is fits


@pytest.mark.parametrize(
    "argument", ["", "-x", "--x", "-", "+x", "@file", "A=b", "_a1=", "a\nb", "a\tb"]
)
def test_a_star_is_no_option(argument: str) -> None:
    """What changes how a program runs is not a plain argument."""
    assert command_fits("make *", ("make", argument)) is False


@pytest.mark.parametrize("argument", ["all", "=b", "1a=b", "x-y", "a b", "*", "größe"])
def test_a_star_is_any_other_argument(argument: str) -> None:
    """An argument may hold anything that does not start like an option or an assignment."""
    assert command_fits("make *", ("make", argument)) is True


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("npm test", ("npm", "test")),
        ("  npm \t test ", ("npm", "test")),
        ("git commit -m 'it is $5; \"ok\"'", ("git", "commit", "-m", 'it is $5; "ok"')),
        ('git commit -m "it\'s (fine)" -q', ("git", "commit", "-m", "it's (fine)", "-q")),
        ("echo '' \"\"", ("echo", "", "")),
        ("git show HEAD~1 HEAD^ a#b x=1", ("git", "show", "HEAD~1", "HEAD^", "a#b", "x=1")),
        ("pytest tests/a.py::b -k größe", ("pytest", "tests/a.py::b", "-k", "größe")),
        ("", ()),
    ],
)
def test_a_line_without_shell_syntax_becomes_words(line: str, argv: tuple[str, ...]) -> None:
    """Quotes around a whole word are the only syntax there is."""
    assert parse_command(line) == RunCommand(argv)


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        *((f"echo a{letter}b c", f"a{letter}b c") for letter in ";&|<>(){}[]*?!$`'\""),
        ("echo a\\b c", "a\\\\b c"),
        ("echo ~", "~"),
        ("echo #", "#"),
        ("echo 'a'b", "'a'b"),
        ("echo a'b'", "a'b'"),
        *((f'echo "a{letter}b"', f'"a{letter}b"') for letter in "$`!"),
        ('echo "a\\b"', '"a\\\\b"'),
        ("echo 'open", "'open"),
    ],
)
def test_shell_syntax_is_refused_where_it_stands(line: str, rest: str) -> None:
    """Nothing is guessed: a line that a shell would change is not run at all."""
    verdict = parse_command(line)
    assert isinstance(verdict, Denied)
    start = f"the command {line!a} is refused: no shell reads it; write one command of plain or "
    assert verdict.reason.startswith(start)
    quote = '"' if "'" in rest and '"' not in rest else "'"
    shown = rest.replace("'", "\\'") if quote == "'" else rest
    assert verdict.reason.endswith(f" quoted words, not {quote}{shown}{quote}")


@pytest.mark.parametrize("letter", ["\n", "\r", "\x00", "\x1b", "\u202e", "\u00a0", "\u2028"])
def test_a_control_character_in_a_line_is_refused(letter: str) -> None:
    """A second line is a second command."""
    assert parse_command(f"npm{letter}test") == Denied(
        f"the command {f'npm{letter}test'!a} is refused: "
        "it holds a new line or another control character"
    )


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("a",) * 1025, "the command 'a' is refused: it is longer than 1024 words or 65536 char"),
        (("a", "b" * 65_536), "the command 'a' is refused: it is longer than 1024 words or"),
        (("A=b", "npm"), "the program 'A=b' is refused: an assignment before a command changes"),
        (("./npm",), "the program './npm' is refused: a program is named, not given by its path"),
        (("a\\b",), "a program is named, not given by its path"),
        (("",), "the program '' is refused: a program's name is letters, digits and _ . + -"),
        (("-x",), "a program's name is letters"),
        ((".",), "a program's name is letters"),
        (("npm\n",), "a program's name is letters"),
        (("n\u0440m",), "a program's name is letters"),
        (("a" * 65,), "a program's name is letters"),
        (("npm", "a\x00"), "the argument 'a\\x00' is refused: it holds a control or invisible"),
        (("npm", "a\r\n"), "holds a control or invisible"),
        (("npm", "a\u202e"), "holds a control or invisible"),
    ],
)
def test_words_that_deceive_are_refused(argv: tuple[str, ...], why: str) -> None:
    """A program is a plain name, and no argument hides what it is."""
    verdict = clean_command(RunCommand(argv))
    assert isinstance(verdict, Denied)
    assert why in verdict.reason


def test_no_words_are_no_command() -> None:
    """An empty line and an empty list say nothing to run."""
    assert parse_command(" \t ") == RunCommand(())
    assert clean_command(RunCommand(())) == Denied("the command is refused: it has no words")


@pytest.mark.parametrize(
    "argv",
    [
        ("g++-12", "-o", "a b", "two\n\tlines", "größe", ""),
        ("a",) * 1024,
        ("a", "b" * 65_535),
        ("a" * 64,),
        ("_x",),
        ("7z",),
    ],
)
def test_honest_words_stay_as_they_are(argv: tuple[str, ...]) -> None:
    """Arguments may have several lines, as commit messages do."""
    assert clean_command(RunCommand(argv)) == RunCommand(argv)


@pytest.mark.parametrize(
    "rule", ["npm test", "pytest -q **", "git show *", "a * b **", "x", "a " + "b" * 510]
)
def test_a_rule_of_plain_words_is_accepted(rule: str) -> None:
    """Literal words, single stars, and two stars at the end."""
    check_command_rule(rule)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("", "'' allows no command: a program's name"),
        ("**", "allows no command"),
        ("* test", "allows no command"),
        ("./npm test", "allows no command: a program is named, not given by its path"),
        ("A=b npm", "allows no command: an assignment"),
        ("npm  test", "'npm  test': '' is no plain word; words stand one space apart"),
        ("npm test ", "is no plain word"),
        ("npm test; rm", "'test;' is no plain word"),
        ("npm te*", r"'te\*' is no plain word; .*, as in 'pytest -q \*\*'$"),
        ("npm ***", "is no plain word"),
        ("npm ~", "is no plain word"),
        ("npm 'a'", "is no plain word"),
        ("npm a\tb", "is no plain word"),
        ("npm a\u200b", "is no plain word"),
        ("npm ** test", r"'npm \*\* test': '\*\*' is the last word of a rule, as in 'pytest \*\*'"),
        ("a " + "b" * 511, "is longer than 512 characters"),
    ],
)
def test_a_rule_that_cannot_fit_is_an_error(rule: str, why: str) -> None:
    """A rule is words that a command could have."""
    with pytest.raises(InvalidRuleError, match=why):
        check_command_rule(rule)


@pytest.mark.parametrize(
    ("argv", "rule"),
    [
        (("npm", "test"), "npm test"),
        (("npm", "a b"), "npm **"),
        (("npm", "*"), "npm **"),
        (("npm", ""), "npm **"),
        (("a", "b" * 510), "a " + "b" * 510),
        (("a", "b" * 511), "a **"),
    ],
)
def test_the_rule_to_add_is_the_command_itself_if_it_can_be_said(
    argv: tuple[str, ...], rule: str
) -> None:
    """A suggestion is always a rule that can be added and then fits."""
    assert rule_for(argv) == rule
    check_command_rule(rule)
    assert command_fits(rule, argv)
