"""Commands: rules that allow lists of words, and what is known of programs that write files or run
other programs (pure).

A rule allows exactly what it spells; a denial means at least what it spells.
"""

import re
from collections.abc import Collection
from typing import Final

from msgspec import Struct

from vegakit.errors import InvalidRuleError
from vegakit.policy.capability.access import (
    Ambiguities,
    Denied,
    RunCommand,
    first_ambiguity,
    refused,
    shown,
)

# A table of what common programs do with their arguments, so that a wildcard is harmless.
#
# `find **` is meant to look for files, yet `find . -delete` and `find . -exec sh x ;` fit it too.
# The table says with which arguments a program writes a file, runs something else or loads code;
# no wildcard stands for them, only a rule that spells them, or one that ends in `***`.
#
# | column    | the program ...                                                                   |
# |-----------|-----------------------------------------------------------------------------------|
# | `risky`   | writes, runs or loads something with these options                                |
# | `leading` | is led by these options alone before its first operand; any other there is risky  |
# | `valued`  | takes the word after these options as their value                                 |
# | `script`  | runs its first operand, which is harmless if it looks like this                   |
# | `refused` | writes, runs or loads something with operands that look like this                 |
# | `reads`   | reads that many operands and writes to the next one                               |
# | `runs`    | runs the program that stands after that many operands                             |
# | `ends`    | leaves what follows its code or first operand to that code, if a rule spells it   |
# | `carries` | is there to run other code: nothing suggests `**` for it, a denial looks into it  |
# | `hides`   | takes words like these to give a command another name                             |
#
# Letters may stand together (`-ro x`) and long options may be cut (`--outp`), as programs take
# them. It is no boundary: what is not in the table is not known, and the sandbox holds whatever
# runs.


class _Program(Struct, frozen=True):
    risky: str = ""
    leading: str | None = None
    valued: str = ""
    script: str = ""
    refused: str = ""
    reads: int | None = None
    runs: int | None = None
    ends: bool = False
    carries: bool = False
    hides: str = ""


_LINES = r"(\d+|\$)(,(\+?\d+|\$))?"
_SED_LINE = rf"(({_LINES}|/[^/\\\n]*/)?!?[pdq=]|({_LINES})?s/[^/\\\n]*/[^/\\\n]*/[gpIi0-9]*)"
_SHELL = _Program("-c -s --rcfile --init-file", ends=True, carries=True)
_RUNNER = _Program(runs=0, carries=True)
_EDITOR = _Program("-c -s -S -u -U -w -W -i --cmd --startuptime", refused=r"\+.*", carries=True)
_LOGIN = _Program("-o -F -E -S -D -J", valued="-i -p -P -l -b -c", runs=1, carries=True)

_PROGRAMS: Final[dict[str, _Program]] = {
    # looking at files
    "find": _Program(
        "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls", carries=True
    ),
    "fd": _Program("-x --exec -X --exec-batch", carries=True),
    "rg": _Program("--pre --hostname-bin"),
    "ag": _Program("--pager"),
    "bat": _Program("--pager"),
    "less": _Program("-o -O -k --log-file --LOG-FILE --lesskey-file", refused=r"\+.*"),
    "man": _Program("-P --pager -H --html -C --config-file -X -T -Z"),
    "sort": _Program("-o --output --compress-program", valued="-k -t -S -T"),
    "shuf": _Program("-o --output"),
    "iconv": _Program("-o --output"),
    "tree": _Program("-o"),
    "file": _Program("-C --compile"),
    "date": _Program("-s --set"),
    "diff": _Program("-l --paginate"),
    "uniq": _Program(valued="-f -s -w", reads=1),
    "xxd": _Program(valued="-l -s -c -g -o -n -len -seek -cols", reads=1),
    "xmllint": _Program("-o --output -output --shell -shell"),
    "sed": _Program(
        "-i --in-place -e --expression -f --file -l --line-length",
        script=rf"{_SED_LINE}(;{_SED_LINE})*",
    ),
    "awk": _Program(
        "-f --file -i --include -l --load -E --exec -e --source -o --pretty-print -p --profile "
        "-d --dump-variables -D --debug -W",
        valued="-v -F",
        refused=r"(?s).*(system|[|>@]).*",
    ),
    "yq": _Program("-i --inplace --in-place -s --split-exp"),
    "sqlite3": _Program("-cmd -init", refused=r"(?is).*(^\s*\.|load_extension|attach|into).*"),
    # archives, copies, networks
    "tar": _Program(
        "-I --use-compress-program --to-command --checkpoint-action -F --info-script "
        "--new-volume-script --rsh-command --rmt-command --index-file -g --listed-incremental",
        valued="-f -C -b -T -X",
        script=r"(?![A-Za-z]*[IFg][A-Za-z]*$).*",
        refused=r"[^/]+:.*",
    ),
    "zip": _Program("-T -TT --test --unzip-command"),
    "rsync": _Program("-e --rsh --rsync-path --log-file --write-batch -M --remote-option"),
    "ssh": _LOGIN,
    "scp": _Program("-S -o -F -D -J", carries=True),
    "sftp": _Program("-S -o -F -D -J -b", carries=True),
    "curl": _Program(
        "-o --output -O --remote-name --remote-name-all --output-dir -K --config -T --upload-file "
        "-D --dump-header -c --cookie-jar --trace --trace-ascii --stderr --etag-save --hsts "
        "--alt-svc --libcurl"
    ),
    "wget": _Program(
        "-O --output-document -o --output-file -a --append-output -e --execute --config "
        "--use-askpass --post-file --body-file --warc-file --save-cookies -P --directory-prefix"
    ),
    "openssl": _Program("-out -keyout -writerand -engine -provider -provider-path -config"),
    "tcpdump": _Program("-w -z"),
    "ip": _Program("-b -batch", refused="exec"),
    # versions and builds
    "git": _Program(
        "--output --output-directory --ext-diff --open-files-in-pager --upload-pack --receive-pack "
        "--exec --extcmd --tool --template --config --contents",
        leading="--no-pager -P --version --help -h --no-optional-locks --literal-pathspecs "
        "--no-replace-objects --no-lazy-fetch",
        valued="-C -c --git-dir --work-tree --namespace --exec-path --config-env --super-prefix",
        refused=r"(ext|fd)::.*",
        hides=r"(?i)\balias\.",
    ),
    "git grep": _Program("-O"),
    "git archive": _Program("-o"),
    "git format-patch": _Program("-o"),
    "git difftool": _Program("-x -t"),
    "git rebase": _Program("-x"),
    "git clone": _Program("-c -u"),
    "git bisect": _Program(refused="run|visualize|view"),
    "git filter-branch": _Program(
        "--setup --env-filter --tree-filter --index-filter --parent-filter --msg-filter "
        "--commit-filter --tag-name-filter"
    ),
    "git submodule": _Program(refused="foreach"),
    "git config": _Program(refused=r"!.*|(?i:alias|core|filter|diff|merge|credential)\..*"),
    "make": _Program(
        "-f --file --makefile --eval -C --directory -I --include-dir -E",
        refused=r"[A-Za-z_]\w*\s*[:+?!]*=.*",
    ),
    "npm": _Program("--script-shell --prefix -C --userconfig --globalconfig --node-options"),
    "go": _Program("-exec -toolexec -vettool -overlay -o -modfile"),
    "cargo": _Program("--config -Z --target-dir --manifest-path"),
    # runs the program named after its own options
    **dict.fromkeys(("nohup", "setsid", "busybox", "command", "exec", "eval", "ld.so"), _RUNNER),
    "env": _Program("-S --split-string", valued="-u --unset -C --chdir", runs=0, carries=True),
    "nice": _Program(valued="-n --adjustment", runs=0, carries=True),
    "ionice": _Program(valued="-c --class -n --classdata -p", runs=0, carries=True),
    "stdbuf": _Program(valued="-i -o -e --input --output --error", runs=0, carries=True),
    "time": _Program("-o --output", valued="-f --format", runs=0, carries=True),
    "watch": _Program(valued="-n --interval", runs=0, carries=True),
    "strace": _Program("-o --output", valued="-e -p -s -u -E", runs=0, carries=True),
    "xargs": _Program(
        valued="-a --arg-file -d --delimiter -E -I -L -n --max-args -P --max-procs -s",
        runs=0,
        carries=True,
    ),
    "parallel": _Program(valued="-j --jobs -a --arg-file", runs=0, carries=True),
    "sudo": _Program(valued="-u -g -h -p -C -D -R -T -U", runs=0, carries=True),
    "doas": _Program(valued="-u -C", runs=0, carries=True),
    "timeout": _Program(valued="-s --signal -k --kill-after", runs=1, carries=True),
    "flock": _Program("-c --command", valued="-w --timeout -E", runs=1, carries=True),
    "chroot": _Program(runs=1, carries=True),
    "unshare": _RUNNER,
    "script": _Program("-c --command -O -I -B -T", reads=0, carries=True),
    "npx": _RUNNER,
    "uvx": _RUNNER,
    # runs the code it is given
    **dict.fromkeys(("sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "pwsh"), _SHELL),
    **dict.fromkeys(("vim", "vi", "nvim", "ex", "view"), _EDITOR),
    "python": _Program("-c -m -i", valued="-W -X", ends=True, carries=True),
    "perl": _Program("-e -E -M -m -i -I -x", ends=True, carries=True),
    "ruby": _Program("-e -r -I -i -x", ends=True, carries=True),
    "node": _Program(
        "-e --eval -p --print -r --require --import --loader --experimental-loader -i",
        ends=True,
        carries=True,
    ),
    "deno": _Program(refused="eval|repl", carries=True),
    "bun": _Program("-e --eval -p --print -r --preload", carries=True),
    "php": _Program("-r -B -R -F -E -d -c", ends=True, carries=True),
    "lua": _Program("-e -l -i", ends=True, carries=True),
    "gdb": _Program("-ex -iex -x -ix --ex --eval-command --command --init-command", carries=True),
}  # fmt: skip

_SAME: Final = {
    "gawk": "awk", "mawk": "awk", "nawk": "awk", "gsed": "sed", "gtar": "tar", "bsdtar": "tar",
    "gfind": "find", "fdfind": "fd", "batcat": "bat", "gmake": "make", "nodejs": "node",
    "ripgrep": "rg", "slogin": "ssh", "genv": "env", "gtimeout": "timeout", "gxargs": "xargs",
}  # fmt: skip
_VERSION = re.compile(r"(?<=[a-z])[\d.]+$")
_BETWEEN_WORDS = re.compile(r"""[\s;&|()<>{}\[\],'"`$]+""")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_NOTHING_KNOWN = _Program()


def risky_word(argv: tuple[str, ...], opened: Collection[int]) -> str | None:
    """The first word that no wildcard may stand for, of those at `opened`, for which one does."""
    at = 0
    while at is not None:
        word, at = _risky_argument(argv, at, opened)
        if word is not None:
            return word
    return None


def carries(program: str) -> bool:
    """Whether it is there to run other code, so that `**` after it would allow everything."""
    return _row(program).carries


def hides_command(program: str, words: tuple[str, ...]) -> bool:
    """Whether a word gives a command of the program another name: nobody can say which one runs."""
    hides = _row(program).hides
    return bool(hides) and any(re.search(hides, word) for word in words)


def words_run_by(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Those in which a program that runs others is told what to run, as if no shell quoted them."""
    if not carries(argv[0]):
        return ()
    return tuple(filter(None, _BETWEEN_WORDS.split(" ".join(argv[1:]))))


def program_name(program: str) -> str:
    """Return the name of a program without its folder, in lower case."""
    return program.replace("\\", "/").rpartition("/")[2].casefold().removesuffix(".exe")


def _risky_argument(
    argv: tuple[str, ...], start: int, opened: Collection[int]
) -> tuple[str | None, int | None]:
    """Look at the arguments of the program at `start`: return a risky word, or where the program
    begins that it runs."""
    row, operands, value = _row(argv[start]), 0, False
    for at in range(start + 1, len(argv)):
        word = argv[at]
        if value or (row.runs is not None and _ASSIGNMENT.fullmatch(word)):
            value = False
            continue
        is_option = word.startswith("-") and word != "-"
        if not is_option and row.runs == operands:
            return (word, None) if at in opened else (None, at)
        risky = _is_risky(row, word, operands) if is_option else _is_bad(row, word, operands)
        if risky and at in opened:
            return word, None
        if row.ends and (risky or not is_option) and at not in opened:
            break
        value = word in row.valued.split()
        if not is_option:
            row = row if operands else _below(argv[start], word, row)
            operands += 1
    return None, None


def _is_bad(row: _Program, word: str, operands: int) -> bool:
    return (
        (row.reads is not None and operands >= row.reads)
        or bool(row.refused and re.fullmatch(row.refused, word))
        or bool(row.script and not operands and not re.fullmatch(row.script, word))
    )


def _is_risky(row: _Program, option: str, operands: int) -> bool:
    risky, name = row.risky.split(), option.partition("=")[0]
    if row.leading is not None and not operands:
        return option not in row.leading.split()
    if option.startswith("--"):
        return option != "--" and (
            any(one.startswith(name) for one in risky) or (len(name) > 3 and name[1:] in risky)
        )
    return name in risky or _has_letter(option[1:], risky, row.valued.split())


def _has_letter(letters: str, risky: list[str], valued: list[str]) -> bool:
    """Return whether a group of short options holds a risky one. After a letter that takes a value,
    the rest is that value."""
    for letter in letters:
        if f"-{letter}" in risky or f"-{letter}" in valued:
            return f"-{letter}" in risky
    return False


def _below(program: str, word: str, row: _Program) -> _Program:
    """Return the row for what follows a subcommand, whose options are its own: those of the program
    itself no longer apply."""
    if row.leading is None:
        return row
    below = _PROGRAMS.get(f"{_known(program)} {word}", _NOTHING_KNOWN)
    refused = "|".join(filter(None, (row.refused, below.refused)))
    return _Program(f"{row.risky} {below.risky}", refused=refused)


def _row(program: str) -> _Program:
    return _PROGRAMS.get(_known(program), _NOTHING_KNOWN)


def _known(program: str) -> str:
    """Return the name the table has for a program: `python3.12` is python."""
    name = program_name(program)
    name = _SAME.get(name, name)
    return name if name in _PROGRAMS else _VERSION.sub("", name)


# Commands are lists of words, never lines for a shell.
#
# | in a rule      | stands for                                                                 |
# |----------------|----------------------------------------------------------------------------|
# | first word     | the program of exactly this name; `./npm` and `/tmp/npm` are not `npm`     |
# | `test`         | the word itself                                                            |
# | `*`            | one plain argument: no option (`-x`, `+x`), no `@file`, no `NAME=value`    |
# | `**` at the end| any further arguments, also none                                           |
# | `***` at the end| the same, and those with which the program writes or runs something else  |
#
# So `npm test` allows neither `npm testx` nor `npm test --prefix /etc`; `pytest -q **` allows
# every run of pytest whose first argument is `-q`. No `*` or `**` stands for an argument with
# which a known program does something else than its name says (`programs.py`): `find **` does not
# allow `find . -delete`, `find . -delete` and `find ***` do.
#
# A denial means at least what it says: `git push` is also `git -C x push`, `env git push` and
# `git push` in a script for a shell.
#
# A line of text becomes words only if a shell would do nothing else with it:
#
# | in a line                                          | decided                                   |
# |----------------------------------------------------|-------------------------------------------|
# | `pytest -q tests`                                  | words between spaces or tabs              |
# | `git commit -m 'two words'`, `... -m "two words"`  | a word quoted as a whole, nothing expanded|
# | `--x='y'`, `e''cho`                                | refused: quotes inside a word             |
# | `; & | < > ( ) { } [ ] * ? ! $`, backtick, `\`     | refused outside quotes                    |
# | `$`, backtick, `\`, `!` in double quotes           | refused                                   |
# | `~` or `#` at the start of a word                  | refused: a home folder, a comment         |
# | a new line or any other control character          | refused                                   |
# | `A=b cmd`                                          | refused: no program has `=` in its name   |


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

_PROGRAM_AMBIGUITIES: Ambiguities = (
    (re.compile("=").search, "an assignment before a command changes what the command does"),
    (re.compile(r"[/\\]").search, "a program is named, not given by its path"),
    (
        lambda word: not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}", word),
        "a program's name is letters, digits and _ . + -",
    ),
)


def parse_command(line: str) -> RunCommand | Denied:
    """Split a line into words, or deny it if a shell could read it in another way."""
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
    """Return the command if it can be read in one way only, else a denial."""
    argv = wanted.argv
    if not argv:
        return Denied("the command is refused: it has no words")
    if len(argv) > _MAX_WORDS or sum(map(len, argv)) > _MAX_CHARACTERS:
        return refused("command", argv[0], _TOO_LONG)
    why = first_ambiguity(argv[0], _PROGRAM_AMBIGUITIES)
    if why is not None:
        return refused("program", argv[0], why)
    for word in argv:
        if not word.translate(_LINE_BREAKS).isprintable():
            return refused("argument", word, "it holds a control or invisible character")
    return wanted


def check_command_rule(rule: str) -> None:
    """Raise `InvalidRuleError` unless the rule allows a command that can be told exactly."""
    program, *arguments = rule.split(" ")
    why = first_ambiguity(program, _PROGRAM_AMBIGUITIES)
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
    starts = [at for at, word in enumerate(inner) if program_name(word) == program]
    if starts and (len(inner) > _MOST_LOOKED_AT or hides_command(program, inner)):
        return True
    if program_name(argv[0]) == program and (
        hides_command(program, argv) or _follow(rest, argv, 1)
    ):
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
