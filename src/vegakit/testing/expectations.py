"""The comments by which a test program says what it expects; in a program in Python they begin with
`#`.

| comment                       | says                                                         |
|-------------------------------|--------------------------------------------------------------|
| `// reply: Paris`             | what the model answers next: text, or JSON as in a script    |
| `// reply "France": Paris`    | what it answers to a message that contains the text          |
| `// reply: {"crash": "why"}`  | its process crashes                                          |
| `// latency: 200ms`           | how long each answer takes, on virtual time                  |
| `// args: a.py 3`             | the arguments after the file name                            |
| `// budget: $1.00`            | what the program may spend                                   |
| `// allow: fs::read`          | what it may use at most; more lines allow more               |
| `// file: a.txt = "text"`     | a file of its project, its content a JSON string             |
| `// command "git diff": text` | what a command says; or JSON: `{"code": 1, "out": "no"}`      |
| `// answer: yes`              | what a person says to the next question                      |
| `// expect: Hello`            | the next line that it prints; spaces at its end do not count |
| `// expect result: 5`         | what main returns, as text                                   |
| `// expect time: 3s`          | how long it takes, on virtual time                           |
| `// expect calls: 3`          | how often a model is called                                  |
| `// expect spent: $0.000016`  | what it costs                                                |
| `// expect note: event hello` | the next thing it notes in its trace: event, span, attribute |
| `// error: Failed: no`        | the error that ends it, at this line, and how its reason begins |
| `// through: main`            | the error comes through a call at this line of this function;|
|                               | where one is named, all are                                  |
| `// diagnostic: unknown-name` | it is refused, with this at this line; or anywhere, as       |
|                               | `wrong-type in lib/a.vega:2`                                 |
| `// warning: unused-variable` | it is warned of at this line                                 |
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from vegakit.errors import UserError
from vegakit.lang import DURATION, value_of
from vegakit.policy import Denied, clean_path

_COMMENT = (
    r"\s*(?P<word>reply|latency|args|budget|allow|file|command|answer|expect(?: \w+)?|error|through"
    r'|diagnostic|warning)(?:\s+(?P<text>"(?:[^"\\]|\\.)*"))?\s*:(?:\s(?P<said>.*))?$'
)
_MARKED = {".vega": re.compile(f"//{_COMMENT}"), ".py": re.compile(f"#{_COMMENT}")}


@dataclass(frozen=True)
class ExpectedLine:
    """A text that is expected at a line."""

    line: int
    said: str


@dataclass
class Expectations:
    """All that a test program says of itself."""

    replies: list[Any] = field(default_factory=list[Any])
    matches: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    latency_ms: int = 0
    args: list[str] = field(default_factory=list[str])
    budget: str | None = None
    allow: list[str] | None = None
    files: dict[str, str] = field(default_factory=dict[str, str])
    commands: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    answers: list[str] = field(default_factory=list[str])
    printed: list[str] = field(default_factory=list[str])
    result: str | None = None
    time_ms: int | None = None
    calls: int | None = None
    spent: str | None = None
    notes: list[str] = field(default_factory=list[str])
    error: ExpectedLine | None = None
    through: list[ExpectedLine] = field(default_factory=list[ExpectedLine])
    diagnostics: list[ExpectedLine] = field(default_factory=list[ExpectedLine])
    warnings: list[ExpectedLine] = field(default_factory=list[ExpectedLine])


def read_expectations(text: str, file: str) -> Expectations:
    """Read the comments of a test program, or raise `UserError` with the line that is wrong."""
    expected = Expectations()
    for line, word, matched, said in _comments(text, file):
        try:
            _take(expected, line, word, matched, said if word == "expect" else said.strip())
        except (ValueError, KeyError, msgspec.DecodeError) as error:
            mark = "#" if file.endswith(".py") else "//"
            raise UserError(
                f"{file}:{line}: `{mark} {word}: {said}` cannot be read: {error}"
            ) from error
    if expected.replies and expected.matches:
        raise UserError(
            f"{file}: a reply in order (`reply:`) is never given beside replies to what a message "
            'holds (`reply "…":`); write all of them in one of the two ways'
        )
    return expected


def _comments(text: str, file: str) -> Iterator[tuple[int, str, str | None, str]]:
    comment = _MARKED[".py" if file.endswith(".py") else ".vega"]
    for number, line in enumerate(text.splitlines(), 1):
        found = comment.search(line)
        if found is not None:
            yield number, found["word"], found["text"], (found["said"] or "").rstrip()


def _take(e: Expectations, line: int, word: str, matched: str | None, said: str) -> None:
    match word:
        case "reply" if matched is not None:
            e.matches.setdefault(msgspec.json.decode(matched, type=str), []).append(
                _reply_value(said)
            )
        case "reply":
            e.replies.append(_reply_value(said))
        case "command":
            name = msgspec.json.decode(matched or "", type=str)
            e.commands.setdefault(name, []).append(_reply_value(said))
        case "file":
            name, _, content = said.partition("=")
            e.files[_path(name.strip())] = msgspec.json.decode(content.strip(), type=str)
        case "error":
            e.error = ExpectedLine(line, said)
        case "through":
            e.through.append(ExpectedLine(line, said))
        case "diagnostic" | "warning":
            (e.diagnostics if word == "diagnostic" else e.warnings).append(ExpectedLine(line, said))
        case _ if word.startswith("expect"):
            _expect(e, word.removeprefix("expect").strip(), said)
        case _:
            _set(e, word, said)


def _set(e: Expectations, word: str, said: str) -> None:
    match word:
        case "latency":
            e.latency_ms = _ms(said)
        case "args":
            e.args = said.split()
        case "budget":
            e.budget = said
        case "answer":
            e.answers.append(said)
        case _:
            e.allow = [*(e.allow or ()), *([said] if said != "nothing" else ())]


def _expect(e: Expectations, what: str, said: str) -> None:
    match what:
        case "":
            e.printed.append(said)
        case "result":
            e.result = said
        case "time":
            e.time_ms = _ms(said)
        case "calls":
            e.calls = int(said)
        case "spent":
            e.spent = said
        case "note":
            e.notes.append(said)
        case _:
            raise ValueError(f"nothing is known of `expect {what}`")


def _path(name: str) -> str:
    """Return the path of a file in the folder of the test. One that leads out of it would write
    over the files of whoever runs the test."""
    clean = clean_path(name)
    if isinstance(clean, Denied):
        inside = name.rpartition("/")[2] or "a.txt"
        raise ValueError(f"{clean.reason}; the folder of the test is its project: write {inside}")  # noqa: TRY004
    return clean


def _reply_value(said: str) -> Any:  # noqa: ANN401
    """Return a reply: text that begins like JSON is JSON."""
    return msgspec.json.decode(said) if said[:1] in ("{", "[", '"') else said


def _ms(said: str) -> int:
    read = value_of(DURATION, said)
    if isinstance(read, dict) and isinstance(ms := read["of"], int):
        return ms
    raise ValueError("a time is written like 200ms or 3s")
