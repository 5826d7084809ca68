"""Commands are lists of words, never lines for a shell.

| in a rule      | stands for                                                                 |
|----------------|----------------------------------------------------------------------------|
| first word     | the program of exactly this name; `./npm` and `/tmp/npm` are not `npm`     |
| `test`         | the word itself                                                            |
| `*`            | one plain argument: no option (`-x`, `+x`), no `@file`, no `NAME=value`    |
| `**` at the end| any further arguments, also none                                           |
| `***` at the end| the same, and those with which the program writes or runs something else  |

So `npm test` allows neither `npm testx` nor `npm test --prefix /etc`; `pytest -q **` allows every
run of pytest whose first argument is `-q`. No `*` or `**` stands for an argument with which a known
program does something else than its name says (`programs.py`): `find **` does not allow
`find . -delete`, `find . -delete` and `find ***` do.

A denial means at least what it says: `git push` is also `git -C x push`, `env git push` and
`git push` in a script for a shell.

A line of text becomes words only if a shell would do nothing else with it:

| in a line                                          | decided                                   |
|----------------------------------------------------|-------------------------------------------|
| `pytest -q tests`                                  | words between spaces or tabs              |
| `git commit -m 'two words'`, `... -m "two words"`  | a word quoted as a whole, nothing expanded|
| `--x='y'`, `e''cho`                                | refused: quotes inside a word             |
| `; & | < > ( ) { } [ ] * ? ! $`, backtick, `\\`     | refused outside quotes                    |
| `$`, backtick, `\\`, `!` in double quotes           | refused                                   |
| `~` or `#` at the start of a word                  | refused: a home folder, a comment         |
| a new line or any other control character          | refused                                   |
| `A=b cmd`                                          | refused: no program has `=` in its name   |
"""

import re

from vegakit.errors import InvalidRuleError
from vegakit.policy.capability.doubts import Doubts, first_doubt, refused, shown
from vegakit.policy.capability.programs import (
    carries,
    hides_command,
    name_of,
    risky_word,
    words_run_by,
)
from vegakit.policy.capability.wanted import Denied, RunCommand

__all__ = [
    "check_command_rule",
    "clean_command",
    "command_fits",
    "command_is_meant",
    "parse_command",
    "risk_under",
    "rule_for",
    "rule_within",
]

_MAX_RULE_CHARACTERS = 512
_MAX_WORDS = 1024
_MAX_CHARACTERS = 65_536
_MOST_LOOKED_AT, _MOST_BETWEEN = 1_000, 64
"""Of the words of a script, and of those between two words of a denial."""

_BARE = r"""(?![~#])[^\s'"\\$`;&|<>(){}\[\]*?!]+"""
_BARE_WORD = re.compile(_BARE)
_NEXT_WORD = re.compile(rf"""(?:'([^']*)'|"([^"$`\\!]*)"|({_BARE}))(?:[ \t]+|\Z)""")
_PLAIN_ARGUMENT = re.compile(r"(?![-+@]|[A-Za-z_][A-Za-z0-9_]*=)[^\n\t]+")
_NOT_WORDS = "no shell reads it; write one command of plain or quoted words, not"
_TOO_LONG = f"it is longer than {_MAX_WORDS} words or {_MAX_CHARACTERS} characters"
_OPEN_ENDS = ("**", "***")
_LINE_BREAKS = str.maketrans("", "", "\n\t")

_PROGRAM_DOUBTS: Doubts = (
    (re.compile("=").search, "an assignment before a command changes what the command does"),
    (re.compile(r"[/\\]").search, "a program is named, not given by its path"),
    (
        lambda word: not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}", word),
        "a program's name is letters, digits and _ . + -",
    ),
)


def parse_command(line: str) -> RunCommand | Denied:
    if not line.expandtabs().isprintable():
        return refused("command", line, "it holds a new line or another control character")
    rest = line.strip()
    words: list[str] = []
    at = 0
    while at < len(rest):
        word = _NEXT_WORD.match(rest, at)
        if word is None:
            return refused("command", line, f"{_NOT_WORDS} {shown(rest[at:])}")
        words.extend(text for text in word.groups() if text is not None)
        at = word.end()
    return RunCommand(tuple(words))


def clean_command(wanted: RunCommand) -> RunCommand | Denied:
    argv = wanted.argv
    if not argv:
        return Denied("the command is refused: it has no words")
    if len(argv) > _MAX_WORDS or sum(map(len, argv)) > _MAX_CHARACTERS:
        return refused("command", argv[0], _TOO_LONG)
    why = first_doubt(argv[0], _PROGRAM_DOUBTS)
    if why is not None:
        return refused("program", argv[0], why)
    for word in argv:
        if not word.translate(_LINE_BREAKS).isprintable():
            return refused("argument", word, "it holds a control or invisible character")
    return wanted


def check_command_rule(rule: str) -> None:
    program, *arguments = rule.split(" ")
    why = first_doubt(program, _PROGRAM_DOUBTS)
    if why is not None:
        raise InvalidRuleError(f"{shown(rule)} allows no command: {why}")
    if len(rule) > _MAX_RULE_CHARACTERS:
        raise InvalidRuleError(f"{shown(rule)} is longer than {_MAX_RULE_CHARACTERS} characters")
    if not {*_OPEN_ENDS}.isdisjoint(arguments[:-1]):
        raise InvalidRuleError(f"{shown(rule)}: '**' is the last word of a rule, as in 'pytest **'")
    for word in arguments:
        if word not in {"*", *_OPEN_ENDS} and not _is_literal(word):
            raise InvalidRuleError(
                f"{shown(rule)}: {shown(word)} is no plain word; words stand one space apart, "
                "'*' is one argument and '**' any rest, as in 'pytest -q **'"
            )


def command_fits(rule: str, argv: tuple[str, ...]) -> bool:
    """Both clean."""
    return _shape_fits(rule, argv) and risk_under(rule, argv) is None


def risk_under(rule: str, argv: tuple[str, ...]) -> str | None:
    """The word for which no wildcard of the rule may stand, if its words fit otherwise."""
    words = rule.split()
    if words[-1] == "***" or not _shape_fits(rule, argv):
        return None
    spelled = {at for at, word in enumerate(words) if word not in {"*", "**"}}
    return risky_word(argv, {*range(len(argv))} - spelled)


def rule_within(rule: str, granted: str) -> bool:
    """Whether `granted`, which ends in any arguments, surely allows all that `rule` allows."""
    *head, end = granted.split()
    words = tuple(rule.split())
    if end not in _OPEN_ENDS or words[: len(head)] != tuple(head):
        return False
    if end == "***" or words[len(head) :] == ("**",):
        return True
    return words[-1] != "***" and risky_word(words, range(len(head), len(words))) is None


def command_is_meant(rule: str, argv: tuple[str, ...]) -> bool:
    """Whether a denial of `rule` is about it. Options may stand between the words, each with a
    value; what hides which command it is, is meant, and so is what is too long to be looked at."""
    first, *rest = rule.split()
    while rest and rest[-1] in _OPEN_ENDS:
        rest.pop()
    program, inner = first.casefold(), words_run_by(argv)
    starts = [at for at, word in enumerate(inner) if name_of(word) == program]
    if starts and (len(inner) > _MOST_LOOKED_AT or hides_command(program, inner)):
        return True
    if name_of(argv[0]) == program and (hides_command(program, argv) or _follow(rest, argv, 1)):
        return True
    return any(_follow(rest, inner, at + 1) for at in starts)


def rule_for(argv: tuple[str, ...]) -> str | None:
    """Itself where that can be said, or else its program with any arguments, if that says little
    more. None: only a rule that allows far more would fit."""
    itself, openly = " ".join(argv), f"{argv[0]} **"
    if len(itself) <= _MAX_RULE_CHARACTERS and all(map(_is_literal, argv)):
        return itself
    return openly if not carries(argv[0]) and command_fits(openly, argv) else None


def _follow(words: list[str], argv: tuple[str, ...], start: int) -> bool:
    """Whether the words stand from there on, with nothing but options and their values between; an
    option of the rule may stand anywhere. Counted is how many words may be found by now, and by the
    argument after the next, which an option may take as its value."""
    now, later = {0}, set[int]()
    for at, argument in enumerate(argv[start : start + _MOST_BETWEEN]):
        is_option = argument.startswith("-")
        after: set[int] = set()
        for found in now:
            if found == len(words):
                return True
            if words[found] in {"*", argument}:
                after.add(found + 1)
            if is_option or words[found].startswith("-"):
                after.add(found)
        skipped = now if is_option and "=" not in argument else set[int]()
        now, later = after | later, skipped
        if not now | later:
            return False
        if at == _MOST_BETWEEN - 1:
            return True
    return len(words) in now


def _shape_fits(rule: str, argv: tuple[str, ...]) -> bool:
    words = rule.split()
    if words[-1] in _OPEN_ENDS:
        words.pop()
        argv = argv[: len(words)]
    return len(argv) == len(words) and all(map(_word_fits, words, argv))


def _word_fits(word: str, argument: str) -> bool:
    return bool(_PLAIN_ARGUMENT.fullmatch(argument)) if word == "*" else word == argument


def _is_literal(word: str) -> bool:
    return word.isprintable() and bool(_BARE_WORD.fullmatch(word))
