"""What is said of a wrong file, word for word: where, what, and what to write."""

from pathlib import Path

import pytest

from tests.tools.yaml_tools.stage import ECHO, refusal, written

EXEC = '["process::exec"]'
GOLDEN: dict[str, tuple[tuple[str, str], str]] = {
    "unknown key": (
        ("description:", "descripton:"),
        "3: 'descripton' is not known; did you mean description?",
    ),
    "unknown word of a parameter": (
        ("{type: string}", "{type: string, max_length: 3}"),
        "5: 'max_length' is not known; did you mean maxLength?",
    ),
    "missing": (
        ("    description: Say it.\n", ""),
        ("2: entry 1: Object missing required field `description`; its keys are: name, "
        "description, parameters, command, http, python, capabilities, allowed_paths, "
        "allowed_hosts, idempotent, timeout_ms"),
    ),
    "type": (
        ("type: string", "type: text"),
        "5: type: Invalid enum value 'text'; write for example type: string",
    ),
    "array without items": (
        ("type: string", "type: array"),
        "5: an array says what is in it; add items: {type: string}",
    ),
    "word of another type": (
        ("type: string", "type: string, minimum: 3"),
        "5: minimum says nothing about a string; take it out",
    ),
    "default": (
        ("type: string", "type: string, default: 3"),
        "5: the default does not fit its parameter: Expected `str`, got `int`",
    ),
    "enum": (
        ("type: string", "type: string, enum: [1]"),
        "5: an enum lists texts of a string or whole numbers of an integer; this is a string",
    ),
    "shell": (
        ('[echo, "{word}"]', '"echo {word}"'),
        ("6: command: Expected `array`, got `str`; write for example command: "
        '["pytest","-q","{path}"]'),
    ),
    "no such parameter": (
        ('"{word}"', '"{wrd}"'),
        "6: say: {wrd} is no parameter; did you mean word?",
    ),
    "unused": (
        ('"{word}"', "hello"),
        "4: say: the parameter word is used nowhere; write {word} where it goes",
    ),
    "reaching into a value": (
        ('"{word}"', '"{word.__class__}"'),
        "6: say: '{word.__class__}': braces hold the name of a parameter, as in {path}",
    ),
    "open brace": (
        ('"{word}"', '"{word}{"'),
        ("6: say: '{word}{': Single '{' encountered in format string; write {{ for a brace that "
        "is meant"),
    ),
    "program from the model": (
        ('[echo, "{word}"]', '["{word}"]'),
        "6: say: the first word is the program itself, not a parameter",
    ),
    "program by path": (
        ("[echo,", "[/bin/echo,"),
        "6: say: '/bin/echo ***' allows no command: a program is named, not given by its path",
    ),
    "no capability": (
        (EXEC, "[]"),
        "6: say: process::exec was asked; nothing is granted; add capabilities [process::exec]",
    ),
    "more than is granted": (
        (EXEC, '["process::exec", "fs::write"]'),
        ("7: say: for the whole file fs::write was asked; process::exec, net, fs::read is granted; "
        "add capabilities [fs::write]"),
    ),
    "two kinds": (
        ("command:", "python: a:b\n    command:"),
        "2: say: a tool has one of command, http, python; this one has command and python",
    ),
    "no kind": (
        ('    command: [echo, "{word}"]\n', ""),
        "2: say: a tool has one of command, http, python; this one has none",
    ),
    "rules of its own": (
        ("capabilities:", "allowed_hosts: [evil.example]\n    capabilities:"),
        "7: say: allowed_hosts says nothing about command; take it out",
    ),
    "host from the model": (
        ('command: [echo, "{word}"]', 'http: {url: "https://{word}/x"}'),
        "6: say: a URL begins with its host written out, as in https://api.example.com/{item}",
    ),
    "host completed by the model": (
        ('command: [echo, "{word}"]', 'http: {url: "https://api.example.com{word}/x"}'),
        "6: say: a URL begins with its host written out, as in https://api.example.com/{item}",
    ),
    "host not granted": (
        (f'command: [echo, "{{word}}"]\n    capabilities: {EXEC}',
         'http: {url: "https://evil.example/{word}"}\n    capabilities: ["net::get"]'),
        ("6: say: host 'evil.example' was asked; allowed_hosts are: 'api.example.com'; add "
        'allowed_hosts ["evil.example"] in the grant this one was cut from'),
    ),
    "module not offered": (
        ('parameters:\n      word: {type: string}\n    command: [echo, "{word}"]',
         "python: os:system"),
        ("4: say: functions of os are not offered to files; pass ToolFile(..., modules=[\"os\"]) "
        "if you trust whoever writes this file with them"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_a_message_says_where_what_and_what_to_write(name: str, tmp_path: Path) -> None:
    (old, new), said = GOLDEN[name]
    assert old in ECHO
    assert refusal(tmp_path, ECHO.replace(old, new)) == f"tools.yaml:{said}"


def test_the_file_that_the_messages_are_about_is_right(tmp_path: Path) -> None:
    assert len(written(tmp_path, ECHO).load()) == 1


def test_two_tools_have_two_names(tmp_path: Path) -> None:
    said = refusal(tmp_path, ECHO + ECHO.removeprefix("tools:\n"))
    assert said == "tools.yaml:8: say is the name of two tools; rename one"


def test_a_command_without_a_sandbox_is_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path, ECHO, sandbox=None)
    assert said.startswith("tools.yaml:6: say: commands run in a sandbox, and none was given")


def test_without_a_grant_nothing_is_granted(tmp_path: Path) -> None:
    assert "nothing is granted" in refusal(tmp_path, ECHO, grant=None)


def test_what_is_not_utf_8_is_told_with_its_line(tmp_path: Path) -> None:
    said = refusal(tmp_path, ECHO.encode() + b"# \xff\n")
    assert said == "tools.yaml:8: this is not UTF-8; save the file as UTF-8"


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    assert len(written(tmp_path, ECHO.replace("\n", "\r\n")).load()) == 1


def test_an_empty_file_is_told(tmp_path: Path) -> None:
    assert refusal(tmp_path, "") == "tools.yaml:1: the file is empty; begin with `tools:`"


def test_an_alias_is_refused_also_without_its_anchor(tmp_path: Path) -> None:
    said = refusal(tmp_path, ECHO.replace("Say it.", "*it"))
    assert said == "tools.yaml:3: aliases are not followed; write the value out"
