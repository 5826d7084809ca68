"""Commands are lists of words, never lines for a shell.

| in a rule      | stands for                                                                 |
|----------------|----------------------------------------------------------------------------|
| first word     | the program of exactly this name; `./npm` and `/tmp/npm` are not `npm`     |
| `test`         | the word itself                                                            |
| `*`            | one plain argument: no option (`-x`, `+x`), no `@file`, no `NAME=value`    |
| `**` at the end| any further arguments, also none                                           |

So `npm test` allows neither `npm testx` nor `npm test --prefix /etc`; `pytest -q **` allows every
run of pytest whose first argument is `-q`.

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
from vegakit.policy.capability.wanted import Denied, RunCommand

__all__ = ["check_command_rule", "clean_command", "command_fits", "parse_command", "rule_for"]

_MAX_RULE_CHARACTERS = 512
_MAX_WORDS = 1024
_MAX_CHARACTERS = 65_536

_BARE = r"""(?![~#])[^\s'"\\$`;&|<>(){}\[\]*?!]+"""
_BARE_WORD = re.compile(_BARE)
_NEXT_WORD = re.compile(rf"""(?:'([^']*)'|"([^"$`\\!]*)"|({_BARE}))(?:[ \t]+|\Z)""")
_PLAIN_ARGUMENT = re.compile(r"(?![-+@]|[A-Za-z_][A-Za-z0-9_]*=)[^\n\t]+")
_NOT_WORDS = "no shell reads it; write one command of plain or quoted words, not"
_TOO_LONG = f"it is longer than {_MAX_WORDS} words or {_MAX_CHARACTERS} characters"
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
    if "**" in arguments[:-1]:
        raise InvalidRuleError(f"{shown(rule)}: '**' is the last word of a rule, as in 'pytest **'")
    for word in arguments:
        if word not in {"*", "**"} and not _is_literal(word):
            raise InvalidRuleError(
                f"{shown(rule)}: {shown(word)} is no plain word; words stand one space apart, "
                "'*' is one argument and '**' any rest, as in 'pytest -q **'"
            )


def command_fits(rule: str, argv: tuple[str, ...]) -> bool:
    """Both clean."""
    words = rule.split()
    if words[-1] == "**":
        words.pop()
        argv = argv[: len(words)]
    return len(argv) == len(words) and all(map(_word_fits, words, argv))


def rule_for(argv: tuple[str, ...]) -> str:
    """Itself where that can be said, or else its program with any arguments."""
    itself = " ".join(argv)
    sayable = len(itself) <= _MAX_RULE_CHARACTERS and all(map(_is_literal, argv))
    return itself if sayable else f"{argv[0]} **"


def _word_fits(word: str, argument: str) -> bool:
    return bool(_PLAIN_ARGUMENT.fullmatch(argument)) if word == "*" else word == argument


def _is_literal(word: str) -> bool:
    return word.isprintable() and bool(_BARE_WORD.fullmatch(word))
