"""The commands of the terminal in one table, for `/`, for the palette, for help and for the docs,
and what the beginning of a word may be completed to. What a command does is in `actions`, by its
name. Pure."""

import re
from collections.abc import Sequence
from typing import NamedTuple


class SlashCommand(NamedTuple):
    """A command: its name, its arguments, what it does, and the key that does the same. What cannot
    be done while a turn works is `idle`; if it `waits`, it is done at the end of the turn."""

    name: str
    told: str
    arguments: str = ""
    key: str = ""
    idle: bool = False
    waits: bool = False

    @property
    def usage(self) -> str:
        """Return how it is typed."""
        return f"/{self.name} {self.arguments}".rstrip()


COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand("help", "show keys and commands", key="f1"),
    SlashCommand("undo", "take back the last turn, files and conversation", idle=True),
    SlashCommand("redo", "take back the last undo", idle=True),
    SlashCommand("rewind", "take back all after turn N", "N", idle=True),
    SlashCommand("open", "show the last diff or output whole", key="ctrl+o"),
    SlashCommand("cost", "show what was spent, reserved and is left"),
    SlashCommand("budget", "raise what the session may spend", "+$1", idle=True, waits=True),
    SlashCommand(
        "mode", "plan, ask or auto; without a name, list them", "MODE", idle=True, waits=True
    ),
    SlashCommand(
        "model", "ask another model; without a name, list them", "NAME", idle=True, waits=True
    ),
    SlashCommand(
        "compact", "sum up the conversation before the next prompt", idle=True, waits=True
    ),
    SlashCommand("stop", "stop the command that runs; the turn goes on", key="ctrl+x"),
    SlashCommand("tree", "show the agents, and what each may spend"),
    SlashCommand("kill", "stop the turn and all that it runs"),
    SlashCommand("sessions", "show the sessions of this folder, and go to one", key="ctrl+s"),
    SlashCommand("new", "begin a session; this one goes on"),
    SlashCommand("fork", "begin a session with this conversation", idle=True),
    SlashCommand("rename", "give this session another name", "NAME", idle=True, waits=True),
    SlashCommand("search", "find a text in the sessions of this folder", "TEXT"),
    SlashCommand("export", "write this session to a file as Markdown", "FILE"),
    SlashCommand("copy", "copy the last answer to the clipboard"),
    SlashCommand("clear", "clear the screen; the session keeps everything"),
    SlashCommand("pane", "show or hide the right pane", key="ctrl+b"),
    SlashCommand("theme", "dark or light", "NAME"),
    SlashCommand("plain", "leave, and go on in lines", idle=True),
    SlashCommand("quit", "leave; the session can be gone on with", key="ctrl+q"),
)
BY_NAME = {one.name: one for one in COMMANDS}
_OTHER_NAMES = {"resume": "sessions", "exit": "quit"}
"""What people of other terminals type."""

_USAGE_WIDTH = max(len(one.usage) for one in COMMANDS) + 3


def usage_column(usage: str) -> str:
    """Return how a command is typed, as wide as the longest, so that what they do is a column."""
    return usage.ljust(_USAGE_WIDTH)


KEYS: tuple[tuple[str, str], ...] = (
    ("Enter", "send the prompt; while a turn works it waits for its end"),
    ("Ctrl-J, Alt-Enter", "begin another line"),
    ("↑ ↓", "earlier prompts, on the first and the last line; first those that wait"),
    ("Ctrl-R", "search the prompts of this project"),
    ("Tab", "complete / and @; with a question open, move to it"),
    ("Esc", "stop the turn, have back what waits; twice ends all and leaves"),
    ("Ctrl-C", "stop the turn; what you typed stays. Twice leaves"),
    ("Ctrl-X", "stop the command that runs; the turn goes on"),
    ("PgUp PgDn, wheel", "scroll; Ctrl-End follows the end again"),
    ("Ctrl-O", "open the last diff or output whole"),
    ("Ctrl-K", "all commands"),
    ("Ctrl-S", "sessions"),
    ("Ctrl-B", "show or hide the right pane"),
    ("y a n e ?", "answer a question, once it was on the screen for 0.3 s"),
    ("Ctrl-Z", "suspend, if your shell can; fg comes back, and a turn goes on"),
    ("Ctrl-Q", "leave"),
)


def parse_command(text: str) -> tuple[SlashCommand, str] | None:
    """Return the command that a line is, and its argument; None if it is a prompt. A path such as
    `/etc/hosts` is no command."""
    if not text.startswith("/") or "\n" in text.strip():
        return None
    name, _, argument = text[1:].strip().partition(" ")
    found = BY_NAME.get(_OTHER_NAMES.get(name, name))
    return None if found is None else (found, argument.strip())


def help_lines() -> Sequence[tuple[str, str]]:
    """Return keys and commands, each with what it does."""
    return [*KEYS, ("", ""), *((one.usage, one.told) for one in COMMANDS)]


# Completion: a command after `/`, a path after `@`.


_MOST = 6
_PATH = re.compile(r"(?:^|\s)@([^\s@]*)$")
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_NAMED = re.compile(r"(?:^|\s)@?((?:[^\s'\"\\]|\\ )+|'[^']+'|\"[^\"]+\")")


class Candidate(NamedTuple):
    """A word that may be meant, with what is told of it; `text` is the whole line then."""

    shown: str
    told: str
    text: str


def candidates(before: str, paths: Sequence[str]) -> list[Candidate]:
    """Return what the text before the cursor may go on to."""
    if before.startswith("/") and "\n" not in before and " " not in before:
        fits = [one for one in COMMANDS if one.name.startswith(before[1:])]
        return [
            Candidate(usage_column(one.usage) + one.told, one.key, f"/{one.name} ")
            for one in fits[:_MOST]
        ]
    found = _PATH.search(before)
    if found is None:
        return []
    wanted, start = found[1], found.start(1)
    fits = ranked(wanted, paths)[:_MOST]
    return [Candidate(path, "", f"{before[:start]}{path} ") for path in fits]


def ranked(wanted: str, names: Sequence[str]) -> list[str]:
    """Return the names that hold the text, its words, or in their first word its letters in this
    order; the nearest first."""
    low = wanted.lower()
    scored = [
        (score, len(name), name) for name in names if (score := _score(low, name)) is not None
    ]
    return [name for _, _, name in sorted(scored)]


def _score(wanted: str, name: str) -> int | None:
    low = name.lower()
    base = low.rpartition("/")[2]
    for score, holds in enumerate((base.startswith(wanted), low.startswith(wanted), wanted in low)):
        if holds:
            return score
    if all(word in low for word in wanted.split()):
        return 3
    # Letters in their order may be those of a name; in a sentence they are found by chance.
    at, first = -1, low.split(maxsplit=1)[0] if low.strip() else ""
    for letter in wanted:
        at = first.find(letter, at + 1)
        if at < 0:
            return None
    return 4


def images_in(text: str) -> list[str]:
    """Return the paths of images that a prompt names: `@shot.png`, or a path that was pasted."""
    found = [one[1].rstrip("?!.,;:)") for one in _NAMED.finditer(text)]
    words = [word.strip("'\"").replace("\\ ", " ") for word in found]
    named = [word for word in words if word.lower().endswith(_IMAGES)]
    return list(dict.fromkeys(named))
