"""Calls whose text says what they reach, and whose rules do not cover it, in both syntaxes."""

import pytest

from vegakit.lang import Diagnostic, check_program
from vegakit.sdk import with_rules

VEGA = 'program may [{right}] {clause} ["{rule}"]\n{call};\n'
PYTHON = """from vegakit import program, vega


@program(may=["{right}"], {clause}=["{rule}"])
def main() -> None:
    {call}
"""
CASES = [
    ("net::get", "allowed_hosts", "a.com", 'http::get("https://{}/x")', "b.com", "b.com"),
    (
        "net::get",
        "allowed_hosts",
        "a.com",
        'http::get("https://{}/" + time::now())',
        "b.com",
        "b.com",
    ),
    ("net::get", "allowed_hosts", "a.com", 'http::get("http://{}/")', "a.com:81", "a.com:81"),
    ("net::post", "allowed_hosts", "a.com", 'http::post("https://{}/", "x")', "b.com", "b.com"),
    ("process::exec", "allowed_commands", "pytest **", 'exec("{}")', "git log", "git log"),
    (
        "process::exec",
        "allowed_commands",
        "git log",
        'exec::look("{}")',
        "git log -3",
        "git log -3",
    ),
    ("fs::read", "allowed_paths", "src/**", 'file::read("{}")', "docs/a.md", "docs/a.md"),
    ("fs::write", "allowed_paths", "src/**", 'file::write("{}", "x")', "docs/a.md", "docs/a.md"),
]


def told(text: str, file: str) -> list[Diagnostic]:
    return [
        one
        for one in with_rules(*check_program(text, file, lambda _: None))
        if one.code != "unused"
    ]


def program_of(suffix: str, right: str, clause: str, rule: str, call: str) -> str:
    if suffix == ".py":
        head, dot, rest = call.partition("(")
        call = f"vega.{head.replace('::', '.')}{dot}{rest.replace('time::', 'vega.time.')}"
    shape = VEGA if suffix == ".vega" else PYTHON
    return shape.format(right=right, clause=clause, rule=rule, call=call)


@pytest.mark.parametrize("suffix", [".vega", ".py"])
@pytest.mark.parametrize(("right", "clause", "rule", "call", "reached", "lacking"), CASES)
def test_it_is_told_with_the_rule_that_is_lacking(
    suffix: str, right: str, clause: str, rule: str, call: str, reached: str, lacking: str
) -> None:
    text = program_of(suffix, right, clause, rule, call.format(reached))
    [one] = told(text, f"main{suffix}")
    assert (one.code, one.severity, one.help) == (
        "never-allowed",
        "warning",
        f'add `"{lacking}"` to `{clause}`',
    )
    assert one.edit is not None
    assert told(text[: one.edit.at] + one.edit.text + text[one.edit.end :], f"main{suffix}") == []


@pytest.mark.parametrize(
    "call", ['file::read("src/a.py")', 'file::read("/project/src/a.py")', "file::read(time::now())"]
)
def test_what_is_covered_or_not_known_is_not_told(call: str) -> None:
    assert told(program_of(".vega", "fs::read", "allowed_paths", "src/**", call), "main.vega") == []


def test_a_command_that_no_rule_says_has_no_edit() -> None:
    text = program_of(
        ".vega", "process::exec", "allowed_commands", "sh **", "exec(\"sh -c 'a b'\")"
    )
    [one] = told(text, "main.vega")
    assert (one.edit, one.help) == (None, "put it into a script, and allow that")
