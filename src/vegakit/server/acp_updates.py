"""Events of a session in the words of the Agent Client Protocol, version 1.

| event                          | what the editor is told                                       |
|--------------------------------|---------------------------------------------------------------|
| turn, of a session that is     | user_message_chunk                                            |
| loaded                         |                                                               |
| text                           | agent_message_chunk; of a sub-agent agent_thought_chunk       |
| tool_began                     | tool_call: kind, title, places, diff, input; of todo a plan   |
| tool_ended                     | tool_call_update: completed or failed, output                 |
| cost                           | usage_update: what the session has cost until now             |
| quote, compacted, waiting,     | agent_thought_chunk: progress for people                      |
| retry                          |                                                               |
| end                            | the answer to the prompt; what a person has to know of a turn |
|                                | that was stopped as agent_message_chunk                       |

What the protocol has no word for is in `_meta` under `vega`, as the event is written everywhere.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import msgspec

from vegakit.conversation import Media
from vegakit.errors import ToolFailed
from vegakit.money import format_money
from vegakit.policy import format_wait, sanitise
from vegakit.sage import (
    EndReason,
    FilePatch,
    SageCompacted,
    SageCost,
    SageEnd,
    SageEvent,
    SageMode,
    SageQuestion,
    SageQuote,
    SageRetry,
    SageText,
    SageToolBegan,
    SageToolEnded,
    SageTurn,
    SageWaiting,
    quote_text,
    read_patch,
)
from vegakit.server.json_rpc import INTERNAL_ERROR, INVALID_PARAMS, RpcError, object_of

Update: TypeAlias = dict[str, Any]

_KINDS: Final[Mapping[str, str]] = {
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "apply_patch": "edit",
    "glob": "search",
    "grep": "search",
    "map": "search",
    "shell": "execute",
    "git": "execute",
    "job": "execute",
    "run_program": "execute",
    "fetch": "fetch",
    "task": "think",
    "todo": "think",
}
_LONGEST_TITLE: Final = 120
_RAISE: Final = " To add to the budget, type: /budget $1"

STOP_REASONS: Final[Mapping[EndReason, str]] = {
    EndReason.DONE: "end_turn",
    EndReason.BUDGET: "max_turn_requests",
    EndReason.LOOP: "max_turn_requests",
    EndReason.LIMIT: "max_turn_requests",
    EndReason.INTERRUPTED: "cancelled",
}
"""An error is told as one. A budget is no refusal: an editor takes the prompt of one back."""

_MODES: Final[Mapping[SageMode, tuple[str, str]]] = {
    SageMode.PLAN: ("Plan", "Reads and answers; writes and commands are refused."),
    SageMode.ASK: ("Ask", "Asks before each write and command."),
    SageMode.AUTO: ("Auto", "Writes and runs commands unasked, in the folder and the sandbox."),
}

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "continue": ("Go on with the turn that was cut off, stopped or failed.", ""),
    "undo": ("Take back the last turn: what it wrote, and what was said in it.", ""),
    "redo": ("Give the last undo again.", ""),
    "budget": ("Add to what this session may spend.", "$1"),
}
"""What is typed as `/NAME`, what it does, and what it takes."""


# What a session offers.


def modes_of(current: str) -> dict[str, Any]:
    """Return the modes, and which one a session is in."""
    every = [{"id": str(mode), "name": name, "description": told} for mode, (name, told) in _rows()]
    return {"currentModeId": current, "availableModes": every}


def options_of(mode: str, model: str, models: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what may be chosen for a session: its mode, and a model by the names of the
    settings."""
    by_mode = [
        {"value": str(one), "name": name, "description": told} for one, (name, told) in _rows()
    ]
    names = {model: "", **models}
    by_model = [
        {"value": name, "name": name, **({"description": place} if place else {})}
        for name, place in names.items()
    ]
    return [
        _option("mode", "Mode", mode, by_mode),
        _option("model", "Model", model, by_model),
    ]


def _rows() -> Iterator[tuple[SageMode, tuple[str, str]]]:
    yield from _MODES.items()


def _option(key: str, name: str, current: str, options: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "select",
        "id": key,
        "name": name,
        "category": key,
        "currentValue": current,
        "options": options,
    }


def commands_update() -> Update:
    """Return the commands that may be typed as prompts."""
    made: list[dict[str, Any]] = []
    for name, (told, hint) in COMMANDS.items():
        takes = {"input": {"hint": hint}} if hint else {}
        made.append({"name": name, "description": told, **takes})
    return {"sessionUpdate": "available_commands_update", "availableCommands": made}


def chunk(kind: str, text: str, event: SageEvent | None = None) -> Update:
    """Return a piece of a message."""
    said = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    return said if event is None else said | {"_meta": {"vega": to_meta(event)}}


def to_meta(event: SageEvent) -> Any:  # noqa: ANN401
    """Return an event as JSON has it."""
    return msgspec.to_builtins(event)


# What a prompt brings.


def prompt_of(blocks: object) -> tuple[str, list[Media]]:
    """Return the text of a prompt and its images. What is linked is named, for the agent to read;
    what is embedded stands in the text."""
    if not isinstance(blocks, list):
        raise RpcError(INVALID_PARAMS, "session/prompt: prompt is a list of content blocks")
    texts, images = list[str](), list[Media]()
    for block in cast("list[Any]", blocks):
        kind = object_of(block).get("type")
        read = _BLOCKS.get(str(kind))
        if read is None:
            known = ", ".join(_BLOCKS)
            raise RpcError(INVALID_PARAMS, f"a content block is one of {known}; got {kind!r}")
        said = read(object_of(block))
        if isinstance(said, Media):
            images.append(said)
        else:
            texts.append(said)
    return "\n".join(texts).strip(), images


def _image(block: dict[str, Any]) -> Media:
    try:
        data = base64.b64decode(str(block["data"]), validate=True)
        return Media(str(block["mimeType"]), data)
    except (KeyError, binascii.Error, ValueError) as error:
        text = f"an image has data in base64 and mimeType: {error}"
        raise RpcError(INVALID_PARAMS, text) from None


def _embedded(block: dict[str, Any]) -> str:
    resource = object_of(block.get("resource"))
    uri, text = str(resource.get("uri", "")), resource.get("text")
    if not isinstance(text, str):
        raise RpcError(INVALID_PARAMS, f"only text can be embedded, and {uri[:200]} is none")
    return f'<resource uri="{uri}">\n{text}\n</resource>'


_BLOCKS: Final[Mapping[str, Callable[[dict[str, Any]], str | Media]]] = {
    "text": lambda block: str(block.get("text", "")),
    "image": _image,
    "resource": _embedded,
    "resource_link": lambda block: f"[{block.get('name', '')}]({block.get('uri', '')})",
}


# What happens in a turn.


class Updates:
    """Turns the events of one session into updates; knows the calls that have begun."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spent: float | None = None
        self._open: dict[str, SageToolBegan] = {}

    def of(self, event: SageEvent, *, is_past: bool = False) -> Iterator[Update]:
        """Yield what the editor is told of an event; of one that is past, as of a session that is
        loaded, also what its user said."""
        match event:
            case SageTurn() if is_past:
                yield chunk("user_message_chunk", event.prompt, event)
            case SageText():
                kind = "agent_thought_chunk" if event.task else "agent_message_chunk"
                yield chunk(kind, event.text, event if event.task else None)
            case SageToolBegan():
                self._open[event.id] = event
                yield {"sessionUpdate": "tool_call", "status": "in_progress", **self._call(event)}
                yield from _plan(event)
            case SageToolEnded():
                yield self._ended(event)
            case SageCost():
                yield from self._usage(event.spent_usd)
            case SageQuote() | SageCompacted() | SageWaiting() | SageRetry():
                yield chunk("agent_thought_chunk", f"{_PROGRESS[type(event)](event)}\n", event)
            case SageEnd():
                yield from self._stopped(event)
            case _:
                pass

    def call_of(self, question: SageQuestion) -> dict[str, Any]:
        """Return the call that a question is about, with the whole text of the question."""
        text = {"type": "content", "content": {"type": "text", "text": question.text}}
        began = self._open.get(question.call)
        unknown = SageToolBegan(f"question {question.id}", question.tool, None)
        call = self._call(began or unknown)
        content: list[Any] = call.get("content", [])
        return call | {"status": "pending", "content": [text, *content]}

    def _call(self, event: SageToolBegan) -> dict[str, Any]:
        arguments = object_of(event.arguments)
        call: dict[str, Any] = {
            "toolCallId": event.id,
            "title": _title(event.name, arguments),
            "kind": _KINDS.get(event.name, "other"),
            "rawInput": event.arguments,
            "_meta": {"vega": {"tool": event.name, "task": event.task}},
        }
        patches = _patches(event.name, arguments)
        places = [(one[0], None) for one in patches] or _place(arguments)
        if places:
            call["locations"] = [
                {"path": self._path(path)} | ({} if line is None else {"line": line})
                for path, line in places
            ]
        if patches:
            call["content"] = [
                {"type": "diff", "path": self._path(path), "oldText": old, "newText": new}
                for path, old, new in patches
            ]
        return call

    def _path(self, path: str) -> str:
        return str(self._folder / path)

    def _ended(self, event: SageToolEnded) -> Update:
        began = self._open.pop(event.id, None)
        update: Update = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": event.id,
            "status": "failed" if event.is_error else "completed",
            "rawOutput": event.result,
            "_meta": {"vega": {"tool": event.name, "task": event.task}},
        }
        diffs: list[Any] = [] if began is None else self._call(began).get("content", [])
        if event.is_error or not diffs:
            text = {"type": "text", "text": event.result}
            update["content"] = [{"type": "content", "content": text}]
        return update

    def _usage(self, spent: float | None) -> Iterator[Update]:
        """Yield what the session has cost, if that is news. How full the window of the model is,
        is not counted here, and 0 of 0 says so."""
        if spent is not None and spent != self._spent:
            self._spent = spent
            cost = {"amount": spent, "currency": "USD"}
            yield {"sessionUpdate": "usage_update", "used": 0, "size": 0, "cost": cost}

    def _stopped(self, event: SageEnd) -> Iterator[Update]:
        yield from self._usage(event.spent_usd)
        if event.reason in {EndReason.BUDGET, EndReason.LOOP, EndReason.LIMIT}:
            more = _RAISE if event.reason is EndReason.BUDGET else ""
            text = f"\n[stopped, {event.reason}: {sanitise(event.message)}.{more}]\n"
            yield chunk("agent_message_chunk", text, event)


def answer_to(event: SageEnd) -> dict[str, Any]:
    """Return the answer to a prompt, or raise what went wrong."""
    meta = {"vega": to_meta(event)}
    reason = STOP_REASONS.get(event.reason)
    if reason is None:
        raise RpcError(INTERNAL_ERROR, f"{event.error}: {sanitise(event.message)}", meta)
    return {"stopReason": reason, "_meta": meta}


def _title(name: str, arguments: dict[str, Any]) -> str:
    about = next((one for one in arguments.values() if isinstance(one, str)), "")
    first, _, more = about.strip().partition("\n")
    line = f"{name} {first}".strip()
    cut = len(line) > _LONGEST_TITLE or bool(more)
    return sanitise(f"{line[:_LONGEST_TITLE]}{'…' if cut else ''}")


def _place(arguments: dict[str, Any]) -> list[tuple[str, int | None]]:
    path, start = arguments.get("path"), arguments.get("start")
    if not isinstance(path, str) or not path or path.startswith("@"):
        return []
    return [(path, start if isinstance(start, int) else None)]


def _patches(name: str, arguments: dict[str, Any]) -> list[tuple[str, str | None, str]]:
    """Return what a call changes as it says itself: path, old text, new text."""
    path = arguments.get("path")
    match name:
        case "write" if isinstance(path, str):
            return [(path, None, str(arguments.get("content", "")))]
        case "edit" if isinstance(path, str):
            every: list[Any] = arguments.get("edits") or [arguments]
            edits = map(object_of, every)
            return [(path, str(one.get("old") or ""), str(one.get("new") or "")) for one in edits]
        case "apply_patch":
            try:
                return [_file_change(one) for one in read_patch(str(arguments.get("patch", "")))]
            except ToolFailed:
                return []
        case _:
            return []


def _file_change(patch: FilePatch) -> tuple[str, str | None, str]:
    if not patch.parts:
        return patch.path, None, patch.text
    lines = [line for part in patch.parts for line in part.lines]
    old, new = ("\n".join(text for sign, text in lines if sign in signs) for signs in (" -", " +"))
    return patch.path, old, new


def _plan(event: SageToolBegan) -> Iterator[Update]:
    items: Any = object_of(event.arguments).get("items")
    if event.name != "todo" or event.task or not isinstance(items, list):
        return
    steps = [*map(object_of, cast("list[Any]", items))]
    open_now = next((one for one in steps if not one.get("done")), None)
    entries = [
        {
            "content": str(one.get("text", "")),
            "priority": "medium",
            "status": "completed"
            if one.get("done")
            else ("in_progress" if one is open_now else "pending"),
        }
        for one in steps
    ]
    yield {"sessionUpdate": "plan", "entries": entries}


# Progress for people.


def _compacted(event: SageCompacted) -> str:
    size = f"{event.bytes_before:,} to {event.bytes_after:,} bytes"
    return f"The conversation was summed up, {size}."


def _waiting(event: SageWaiting) -> str:
    return f"Waiting for {event.what} for {format_wait(round(1000 * event.waited_s))} …"


def _retry(event: SageRetry) -> str:
    wait = format_wait(round(1000 * event.wait_s))
    return f"{sanitise(event.message)}; try {event.attempt} of {event.attempts} in {wait}"


_PROGRESS: Final[Mapping[type[SageEvent], Callable[[Any], str]]] = {
    SageQuote: lambda event: quote_text(event, format_money),
    SageCompacted: _compacted,
    SageWaiting: _waiting,
    SageRetry: _retry,
}
