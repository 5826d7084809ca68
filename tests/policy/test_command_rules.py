"""The two tables of commands, row by row."""

import time

import pytest

from vegakit.errors import InvalidRuleError
from vegakit.policy import Denied, RunCommand, parse_command, rule_within
from vegakit.policy.capability.commands import (
    check_command_rule,
    clean_command,
    command_fits,
    command_is_meant,
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
    "rule",
    ["npm test", "pytest -q **", "find ***", "git show *", "a * b **", "x", "a " + "b" * 510],
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
        ("npm ****", "is no plain word"),
        ("npm *** test", "is the last word of a rule"),
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


DO_MORE = [
    ("git log **", "git log -1 --output=x"),
    ("git log **", "git log -c --output=x"),
    ("git diff **", "git diff --outp x"),
    ("git diff **", "git diff --no-index --ext-diff a b"),
    ("git grep **", "git grep -Otouch hello"),
    ("git grep **", "git grep --open-files-in-pager=touch hello"),
    ("git **", "git -c alias.x=!touch x"),
    ("git **", "git --config-env=core.fsmonitor=X status"),
    ("git **", "git --exec-path=. status"),
    ("git **", "git -C planted status"),
    ("git **", "git --git-dir planted status"),
    ("git * **", "git grep -O hello"),
    ("git ls-remote **", "git ls-remote --upload-pack=./c.sh ."),
    ("git ls-remote *", "git ls-remote ext::sh"),
    ("git archive **", "git archive --remote=. --exec=./c.sh HEAD"),
    ("git archive **", "git archive -o x HEAD"),
    ("git format-patch **", "git format-patch -1 -o x"),
    ("git bisect **", "git bisect run touch x"),
    ("git submodule **", "git submodule foreach touch"),
    ("git difftool **", "git difftool -y --extcmd=touch a b"),
    ("find **", "find . -exec touch x ;"),
    ("find **", "find . -delete"),
    ("find **", "find . -fprintf x y"),
    ("fd **", "fd a --exec-b touch"),
    ("rg **", "rg --pre ./c.sh a"),
    ("rg **", "rg --pre=./c.sh a"),
    ("tar -tf **", "tar -tf a.tar --to-command=touch"),
    ("tar -tf **", "tar -tf a.tar --checkpoint=1 --checkpoint-action=exec=touch"),
    ("tar -tf **", "tar -tf a.tar -I touch"),
    ("tar **", "tar tfI a.tar touch"),
    ("tar -tf *", "tar -tf host:x"),
    ("gtar **", "gtar --use-compress-program touch"),
    ("sed **", "sed -i s/x/y/ a"),
    ("sed **", "sed -ni 1p a"),
    ("sed -n * *", "sed -n 1w_x a"),
    ("sed -n * *", "sed -n 1etouch a"),
    ("sed * *", "sed s/a/touch/e a"),
    ("sed **", "sed -l 5 wx a"),
    ("awk * *", "awk BEGIN{system(\"touch\")} a"),
    ("awk *", "awk BEGIN{print>\"x\"}"),
    ("awk **", "awk -f x.awk a"),
    ("gawk **", "gawk -i inplace 1 a"),
    ("gawk **", "gawk -W exec=x.awk a"),
    ("sort **", "sort -o x a"),
    ("sort **", "sort -ro x a"),
    ("sort **", "sort --compress-prog=./c.sh a"),
    ("uniq **", "uniq a x"),
    ("xxd **", "xxd a x"),
    ("xargs **", "xargs -a a touch"),
    ("env **", "env A=b touch x"),
    ("env **", "env -S touch"),
    ("nice * *", "nice touch x"),
    ("timeout * *", "timeout 5 ./c.sh"),
    ("timeout * find **", "timeout 5 find . -delete"),
    ("env find **", "env find . -delete"),
    ("script **", "script -c touch"),
    ("flock * *", "flock a ./c.sh"),
    ("less **", "less -ox a"),
    ("man **", "man -P touch -l a"),
    ("vim **", "vim -es -c !touch"),
    ("zip **", "zip x a -T -TT touch"),
    ("rsync **", "rsync -ae touch a h:b"),
    ("ssh **", "ssh -o ProxyCommand=touch h"),
    ("make -n **", "make -n -f evil.mk"),
    ("make -n **", "make -n SHELL=./c.sh"),
    ("npm view **", "npm view --script-shell=./c.sh x"),
    ("curl **", "curl -o x file:a"),
    ("openssl dgst **", "openssl dgst -out x a"),
    ("python3 **", "python3 -c print()"),
    ("python3.12 **", "python3.12 -Ic print()"),
    ("python3 **", "python3 --check-hash-based-pycs always -c print()"),
    ("node **", "node --title x -e 1"),
    ("bash **", "bash -O extglob -c ls"),
    ("go **", "go test --exec ./c.sh"),
    ("openssl **", "openssl dgst --out x a"),
    ("git filter-branch **", "git filter-branch --tree-filter touch"),
    ("sh **", "sh -c ls"),
    ("bash **", "bash -lc ls"),
    ("perl **", "perl -ne print a"),
    ("node **", "node --eval 1"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "line"), DO_MORE)
def test_no_wildcard_stands_for_what_makes_a_program_do_more(rule: str, line: str) -> None:
    """Only a rule that spells the word does, or one that says it means everything."""
    argv = tuple(line.split(" "))
    assert command_fits(rule, argv) is False
    assert command_fits(f"{argv[0]} ***", argv) is True
    if rule_for(argv) == line:
        assert command_fits(line, argv) is True


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("git **", "git --no-pager log --oneline -n 5"),
        ("git log **", "git log -c -C --oneline --output-indicator-new=x"),
        ("git diff **", "git diff --stat -w HEAD~1 -- a"),
        ("git -C sub **", "git -C sub status -s"),
        ("git bisect **", "git bisect start"),
        ("find **", "find . -name *.py -type f -executable -newer a"),
        ("find . -exec **", "find . -exec touch x"),
        ("rg **", "rg -n --pretty a src"),
        ("sort **", "sort -rnk2 -t o a b"),
        ("sort -o * *", "sort -o x a"),
        ("tar **", "tar -tvf a.tar"),
        ("tar **", "tar xzf a.tar"),
        ("sed -n **", "sed -n 1,5p a example.txt w.txt"),
        ("sed **", "sed s/a/b/g;2d a"),
        ("awk **", "awk -F: -v a=1 {print($1,a)} x"),
        ("uniq **", "uniq -c -f 1 a"),
        ("env", "env"),
        ("timeout * pytest **", "timeout 5 pytest -c x -o y"),
        ("python3 -m pytest **", "python3 -m pytest -c x"),
        ("python3 tool.py **", "python3 tool.py -c -m -i"),
        ("python3 *", "python3 tool.py"),
        ("sh -c *", "sh -c ls"),
        ("make **", "make -j4 all"),
        ("unknown **", "unknown --exec -o -c x"),
    ],
)
def test_a_wildcard_stands_for_what_is_meant(rule: str, line: str) -> None:
    """Ordinary work needs no other rules, and a rule may spell what does more."""
    assert command_fits(rule, tuple(line.split(" "))) is True


@pytest.mark.parametrize(
    "argv",
    [("sh", "-c", "echo hi"), ("python3", "-c", "print( 1 )"), ("/bin/bash", "a b"), ("xargs", "")],
)
def test_nothing_suggests_all_of_a_program_that_runs_code(argv: tuple[str, ...]) -> None:
    """`sh **` would allow everything; whoever means that writes it unasked."""
    assert rule_for(argv) is None


@pytest.mark.parametrize(
    ("rule", "line", "meant"),
    [
        ("git push", "git push origin", True),
        ("git push **", "git push", True),
        ("git push ***", "git push", True),
        ("git push", "git -C . push", True),
        ("git push", "git --no-pager push", True),
        ("git push", "git --git-dir=x push", True),
        ("git push", "git --git-dir x --work-tree y push", True),
        ("git push", "git -c a.b=c push", True),
        ("git push", "git -c alias.x=push x", True),
        ("git push", "GIT push", True),
        ("git push", "git.exe push", True),
        ("git push", "env git push", True),
        ("git push", "env A=b -u C /usr/bin/git -C . push", True),
        ("git push", "nice -n 5 timeout 9 git push", True),
        ("git push", "xargs git push", True),
        ("git push", "sh -c true;git -C . push", True),
        ("git push", "find . -exec git push ;", True),
        ("git push --force", "git push origin --force", True),
        ("git push --force", "git push origin", False),
        ("git push", "git log push", False),
        ("git push", "git -C . log push", False),
        ("git push", "git commit -m push", False),
        ("git push", "echo git push", False),
        ("git push", "git", False),
        ("rm", "env rm -rf x", True),
        ("git * x", "git a x", True),
        ("git * x", "git a", False),
    ],
)
def test_a_denial_sees_through_options_and_programs_that_run_others(
    rule: str, line: str, meant: bool
) -> None:
    """Whoever denies a command means it however it is called."""
    assert command_is_meant(rule, tuple(line.split(" "))) is meant


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("git git " * 400 + "push", True),
        ("git -x " * 400, True),
        ("git " + "-x " * 100, True),
        ("git " * 16_000, True),
        ("echo " * 10_000, False),
        ("echo " * 10_000 + "git", True),
    ],
)
def test_a_long_script_is_denied_rather_than_looked_at_for_long(words: str, meant: bool) -> None:
    """It takes no more than twenty times as long as one of a tenth of the length."""

    def took(text: str) -> float:
        began = time.process_time()
        for _ in range(3):
            command_is_meant("git push", ("sh", "-c", text))
        return time.process_time() - began

    assert command_is_meant("git push", ("sh", "-c", words)) is meant
    assert took(words) < 20 * took(words[: len(words) // 10]) + 1.0


@pytest.mark.parametrize(
    ("rule", "granted", "within"),
    [
        ("git log **", "git **", True),
        ("git log -5", "git **", True),
        ("git **", "git **", True),
        ("git ***", "git **", False),
        ("git ***", "git ***", True),
        ("git -c **", "git **", False),
        ("find . -exec **", "find **", False),
        ("find . -exec **", "find ***", True),
        ("env sh **", "env **", False),
        ("git log **", "git diff **", False),
        ("git log **", "git log", False),
    ],
)
def test_a_rule_lies_within_another(rule: str, granted: str, within: bool) -> None:
    """What wildcards of the wider one do not stand for, the narrower one may not spell."""
    assert rule_within(rule, granted) is within
