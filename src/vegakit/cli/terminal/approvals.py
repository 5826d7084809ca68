"""The exact action that a question is about, read from its text, for people to look at. Pure.

The text is the truth: who, the tool, its arguments as JSON, what they reach, and why it is asked.
A text that does not read so is shown as it is.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from vegakit.policy import escape_for_terminal, escape_text, wrap_escaped

_NAME = r'(?:"(?:[^"\\]|\\.)*"|[A-Za-z0-9_./#-]+)'
_HEAD = re.compile(rf"({_NAME}): ({_NAME}) (?=\{{)")
_DOES = " does "
MINUS = "\u2212"


class ShownAction(NamedTuple):
    """An action that is asked about: by whom, the tool with its arguments, what it reaches, and
    why."""

    agent: str
    tool: str
    arguments: Mapping[str, Any]
    reaches: str
    why: str


def read_action(text: str) -> ShownAction | None:
    """Return the action of a question; None if its text is another one."""
    head = _HEAD.match(text)
    if head is None:
        return None
    try:
        arguments, at = json.JSONDecoder().raw_decode(text, head.end())
        if not text.startswith(_DOES, at):
            return None
        _, end = json.JSONDecoder().raw_decode(text, at + len(_DOES))
    except ValueError:
        return None
    if not isinstance(arguments, dict) or not text.startswith(": ", end):
        return None
    who, tool = (name.strip('"') for name in head.groups())
    reaches = text[at + len(_DOES) : end]
    return ShownAction(who, tool, cast("dict[str, Any]", arguments), reaches, text[end + 2 :])


def exact_action(text: str) -> str:
    """Return what is done, without who asks: the same action of a later turn is the same."""
    head = _HEAD.match(text)
    return text if head is None else text[head.end(1) :]


def command_in(text: str) -> str:
    """Return the command of an action; empty if it is none."""
    action = read_action(text)
    command = action.arguments.get("command") if action else None
    return command if isinstance(command, str) else ""


def action_lines(action: ShownAction, width: int, *, ascii_only: bool) -> list[tuple[bool, str]]:
    """Return the whole of what an action is about as lines, each with whether it goes on from the
    line before. What would steer a terminal, or look like something else, is spelled."""
    made: list[tuple[bool, str]] = []
    for part in _parts(action):
        spelled = escape_for_terminal(escape_text(part), ascii_only=ascii_only)
        lines = wrap_escaped(spelled, width) or [""]
        made += [(number > 0, line) for number, line in enumerate(lines)]
    return made


def about(action: ShownAction) -> str:
    """Return what an action is about in a few words: its path, its command, or its first text."""
    return next((one for one in _ordered(action).values() if isinstance(one, str)), "")


def _ordered(action: ShownAction) -> dict[str, Any]:
    """Return the arguments, what they are about first: a question has them by the alphabet."""
    given = action.arguments
    return {name: given[name] for name in ("path", "command") if name in given} | dict(given)


def _parts(action: ShownAction) -> list[str]:
    given, made = _ordered(action), list[str]()
    for name, value in given.items():
        if action.tool == "edit" and _is_replacement(given) and name in {"old", "new"}:
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lead = "" if len(given) == 1 or name in {"command", "path"} else f"{name}: "
        made += f"{lead}{text}".split("\n")
    if action.tool == "edit" and _is_replacement(given):
        # Every line of both, also those that are the same: yes is for exactly this text.
        made += [f"{MINUS} {line}" for line in given["old"].split("\n")]
        made += [f"+ {line}" for line in given["new"].split("\n")]
    return made


def _is_replacement(given: Mapping[str, Any]) -> bool:
    return all(isinstance(given.get(which), str) for which in ("old", "new"))
