"""What a scripted model answers: in turn, by text, by a function, or from a file.

    ["Hello", {"calls": [{"name": "add", "arguments": {"a": 1}}]}, "It is 1."]
                                                    in turn; running out is an error
    {"France": "Paris", "Spain": ["Hm.", "Madrid"], "": {"error": "overloaded"}}
                                                    by what the last user message contains
    lambda request: f"You have {len(request.tools)} tools."
                                                    worked out from the request
    "Hello"                                         every time

| a reply is            | the model                                                               |
|-----------------------|-------------------------------------------------------------------------|
| text                  | says it                                                                 |
| a dict, ScriptedReply | says its text or output, makes its calls, then raises its error         |
| a ModelReply          | answers with exactly it                                                 |
| a WorldError          | raises it                                                               |
| a function            | answers with what it returns for the request                            |

A file is JSON or TOML with `replies`, a list, or `matches`, a table from text to reply.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from vegakit.conversation import Finish, ModelReply, ModelRequest, Text, Usage, UserMessage
from vegakit.errors import ErrorClass, Phase, UserError, WorldError

__all__ = [
    "Chooser",
    "Said",
    "Script",
    "ScriptedAnswer",
    "ScriptedCall",
    "ScriptedReply",
    "Spelled",
    "chooser",
    "read_script",
    "spell",
]

_SHOWN = 200


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: Any = {}


class ScriptedReply(Struct, frozen=True, forbid_unknown_fields=True):
    """`output` is any JSON, said as text. `usage` not given is counted in words; None is not known.

    An `error` comes after what is said, as when a stream breaks; `phase` not given follows from it.
    """

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    output: Any = UNSET
    usage: Usage | UnsetType | None = UNSET
    finish: Finish | None = None
    error: ErrorClass | None = None
    phase: Phase | None = None
    retry_after_ms: int | None = None


Spelled: TypeAlias = ScriptedReply | ModelReply | WorldError
Said: TypeAlias = str | Mapping[str, Any] | Spelled
ScriptedAnswer: TypeAlias = Said | Callable[[ModelRequest], Said]
Chooser: TypeAlias = Callable[[ModelRequest], ScriptedAnswer]
Script: TypeAlias = (
    str
    | Spelled
    | Callable[[ModelRequest], Said]
    | Sequence[ScriptedAnswer]
    | Mapping[str, ScriptedAnswer | Sequence[ScriptedAnswer]]
)


def chooser(script: Script) -> Chooser:
    """Begins the script from its start; a list keeps its place in what is returned."""
    if not isinstance(script, Mapping):
        return _one_or_many(script)
    by_text = cast("Mapping[str, ScriptedAnswer | Sequence[ScriptedAnswer]]", script)
    return _by_text({text: _one_or_many(replies) for text, replies in by_text.items()})


def _one_or_many(replies: ScriptedAnswer | Sequence[ScriptedAnswer]) -> Chooser:
    if isinstance(replies, Sequence) and not isinstance(replies, str):
        return _in_turn([_checked(reply) for reply in cast("Sequence[ScriptedAnswer]", replies)])
    reply = _checked(replies)
    return lambda _: reply


def _in_turn(replies: Sequence[ScriptedAnswer]) -> Chooser:
    left = iter(replies)

    def choose(request: ModelRequest) -> ScriptedAnswer:
        for reply in left:
            return reply
        raise UserError(
            f"the script had {len(replies)} replies and all are used; the request that finds none "
            f"says {_last_text(request)[:_SHOWN]!r}; add a reply, or see why there is one more"
        )

    return choose


def _by_text(choosers: Mapping[str, Chooser]) -> Chooser:
    def choose(request: ModelRequest) -> ScriptedAnswer:
        said = _last_text(request)
        for text, chosen in choosers.items():
            if text in said:
                return chosen(request)
        known = ", ".join(map(repr, choosers)) or "nothing"
        raise UserError(
            f"the script has no reply to {said[:_SHOWN]!r}; it knows {known}; "
            "add a text that it contains, or '' for all others"
        )

    return choose


def _last_text(request: ModelRequest) -> str:
    """Of the user: the rounds of tool results that follow a question keep its text."""
    asked = [message for message in request.messages if isinstance(message, UserMessage)]
    parts = asked[-1].parts if asked else ()
    return "".join(part.text for part in parts if isinstance(part, Text))


def _checked(reply: ScriptedAnswer) -> ScriptedAnswer:
    """A misspelled reply shows when the model is made, not when it is asked."""
    return reply if callable(reply) else spell(reply)


def spell(reply: Said) -> Spelled:
    if isinstance(reply, str):
        return ScriptedReply(reply)
    if not isinstance(reply, Mapping):
        return reply
    try:
        return msgspec.convert(dict(reply), ScriptedReply)
    except msgspec.ValidationError as error:
        fields = ", ".join(ScriptedReply.__struct_fields__)
        raise UserError(
            f"{reply} is no reply of a script: {error}; a reply is text or has some of {fields}"
        ) from error


class _ScriptFile(Struct, forbid_unknown_fields=True):
    replies: list[Any] = []
    matches: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if bool(self.replies) == bool(self.matches):
            raise ValueError("a script has either `replies` or `matches`")


def read_script(path: str | Path) -> Script:
    """TOML by its name, else JSON."""
    read = tomllib.loads if Path(path).suffix == ".toml" else msgspec.json.decode
    try:
        content = read(Path(path).read_text("utf-8"))
        script: list[Any] | _ScriptFile = msgspec.convert(content, list[Any] | _ScriptFile)
    except OSError as error:
        raise UserError(
            f"the script {Path(path).absolute()} cannot be read: {error.strerror}; correct its "
            'name, or write it: a list of replies such as ["Hello"]'
        ) from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"the script {path} cannot be used: {error}; it is a list `replies`, or a table "
            "`matches` from text to reply"
        ) from error
    return (script.matches or script.replies) if isinstance(script, _ScriptFile) else script
