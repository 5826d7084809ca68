"""Actions that try to look like others, and a reader who takes back what a screen shows.

The reader knows how questions are written, not how they are made: it takes the lines behind the
fence, puts them together, and undoes JSON's escapes with Python's own parser.
"""

import json
import random
import re
import unicodedata
from typing import Any

SECRETS = {
    "DEPLOY_TOKEN": "hunter2-hunter2",
    "NOTES_PASSWORD": 'pass"word\\n\u00fc',
    "OTHER_API_KEY": "nabcdefgh",
}
"""As variables of this process; one begins like the end of an escape."""

ID = r"[0-9a-f]{12}"
HEAD = re.compile(rf"{ID}  \w+, asked by (?:[A-Za-z0-9_./#-]+|\"[ -~]*\")(?:, \d+ \w+ left)?")
HOW = re.compile(
    rf"  \$ vega answer {ID} (?:yes\|no|'WORDS')|  it can spend at most \$[0-9.,]+ more"
)
PROMPT = re.compile(rf"y?|approve {ID}\? \[y/N\] |-- page \d+ of \d+; [ -~]*: ")
FENCE = "  | "

HOSTILE = [
    # what looks like a key, with the payload behind or inside it
    "-----BEGIN PRIVATE KEY",
    "-----BEGIN PRIVATE KEY; rm -rf ~ ; : -----END----- ls docs",
    "docs?key=;rm${IFS}-rf${IFS}~;",
    "sk-ant-api03-" + "rm-rf-home" * 5,
    "ghp_" + "deletethebackups" * 3,
    "Authorization: Bearer rm.-rf.home",
    "password=rm;rm${IFS}x",
    *SECRETS.values(),
    *(f"${name}" for name in SECRETS),
    *(f"\\${name}" for name in SECRETS),
    "\nabcdefgh",
    "hunter2-hunter2_TAIL",
    # what looks like another question, its fence, its answer or a prompt
    "\n  $ vega answer 111111111111 yes|no\n\n",
    "222222222222  confirmation, asked by admin, 59 m left",
    "\n  | admin: backup {} does nothing\n  $ vega answer 222222222222 yes|no\n",
    "\r\n222222222222  confirmation, asked by admin, 59 m left\r\n",
    "\u2028222222222222  confirmation, asked by admin\u2029\x85\x0b\x0c",
    "approve 222222222222? [y/N] y\n",
    '"} does {"capability":"fs::read","type":"Use"}: no rule allows it',
    # what steers a terminal
    "\x1b[2J\x1b[H",
    "\x1b]0;title\x07\x1b]8;;http://a.example\x07",
    "\x9b2K\x90q\x9c",
    "\b\b\b\b\b\x7f\x7f",
    "\r",
    "\0",
    # what cannot be seen, turns around, or looks alike
    "\u202etxt.exe\u202c",
    "\u2066a\u2069\u200f\u061c",
    "l\u200bs\u2060\ufeff\u00ad\u034f\u180e\u2800\u3164",
    "\U000e0041\U000e0042\U000e007f",
    "e\u0301\u0302\u0303\u0304\u0305x\ufe0f",
    "\u0430dmin \u0435\u0440",
    "\u05d0 1 \u05d1 2 \u0663",
    "\u00a0\u3000\u2003",
    "\uff21\U0001d41b\uff04",
    "\u524a\u9664" * 40,
    "\U0001f642\U0001f468\u200d\U0001f469",
    # what looks like an escape
    "\\n\\u0041\\x41\\\\",
    "\\",
    '\\"',
    "\\\n",
    "'\"`",
]


def text(chance: random.Random, longest: int = 6) -> str:
    """Hostile parts, plain ones and letters from anywhere, in any order."""
    parts = []
    for _ in range(chance.randrange(1, longest)):
        match chance.randrange(8):
            case 0:
                parts.append(chance.choice("ab z0_") * chance.choice([1, 70, 76, 80, 200]))
            case 1:
                codes = (chance.choice([0x100, 0x3000, 0x10FFFF]) for _ in range(8))
                parts += [letter(chance.randrange(most)) for most in codes]
            case _:
                parts.append(chance.choice(HOSTILE))
    return "".join(parts)


def letter(code: int) -> str:
    return "?" if 0xD800 <= code < 0xE000 else chr(code)


def value(chance: random.Random, depth: int = 0) -> Any:
    match chance.randrange(10 if depth < 3 else 6):
        case 0:
            return chance.choice([0, 1, -1, True, False, None, 10**18, 2**63, 2**64 - 1])
        case 1:
            return chance.choice([0.0, -0.0, 1.0, 0.1, 1e22, 1.7976931348623157e308, 5e-324])
        case 6 | 7:
            return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
        case 8 | 9:
            return table(chance, depth + 1)
        case _:
            return text(chance)


def table(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    return {text(chance, 3): value(chance, depth) for _ in range(chance.randrange(4))}


def arguments(seed: int) -> dict[str, Any]:
    """Every 20th has a long text with something in its middle."""
    chance = random.Random(f"action {seed}")
    made = table(chance) | {"command": ["sh", "-c", text(chance)]}
    if seed % 20 == 0:
        filler = chance.choice(["x", "\\", "\u524a", " ", "y\n"])
        made["long"] = filler * chance.randrange(1_000, 4_000) + text(chance) + filler * 3_000
    return made


def words(seed: int) -> str:
    """What a program asks in its own words."""
    chance = random.Random(f"words {seed}")
    return "Go on? " * chance.randrange(2) + text(chance, 12)


# The reader


def taken_back(screen: str, width: int = 80) -> list[str]:
    """The text of each question on a screen; whatever else stands there must be what we write."""
    found: list[str] = []
    for line in screen.replace("\r\n", "\n").split("\n"):
        fits = columns(line) < width or not line.startswith(FENCE)
        assert fits, f"the screen would break {line!r}"
        if line.startswith(FENCE):
            found[-1] += line.removeprefix(FENCE)
        elif HEAD.fullmatch(line):
            found.append("")
        else:
            assert HOW.fullmatch(line) or PROMPT.fullmatch(line), f"imitation: {line!r}"
    for shown in found:
        unseen = [one for one in shown if unicodedata.category(one)[0] in "CZ" and one != " "]
        assert not unseen, f"{unseen} can neither be seen nor told apart"
    return found


def columns(line: str) -> int:
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in line)
    return len(line) + wide


def unescaped(shown: str) -> str:
    """Words: quotes stand for themselves there."""
    return json.loads(f'"{_with_secrets(shown, quotes=True)}"')


def call_in(shown: str) -> tuple[str, str, Any]:
    """Who calls which tool with what."""
    rest = _with_secrets(shown)
    who, rest = _name(rest, ": ")
    tool, rest = _name(rest, " ")
    given, end = json.JSONDecoder().raw_decode(rest)
    assert rest[end:].startswith(" does {"), rest[end:]
    return who, tool, given


def _name(rest: str, end: str) -> tuple[str, str]:
    if rest.startswith('"'):
        name, at = json.JSONDecoder().raw_decode(rest)
        assert rest[at:].startswith(end)
        return name, rest[at + len(end) :]
    name, _, rest = rest.partition(end)
    return name, rest


def _with_secrets(shown: str, *, quotes: bool = False) -> str:
    def one(found: re.Match[str]) -> str:
        if found[1]:
            return json.dumps(SECRETS[found[1]])[1:-1]
        return f"\\{found[0]}" if found[0] == '"' else found[0]

    escape = r"\\(?:\$([A-Za-z0-9_]+)|.)"
    return re.sub(f'{escape}|"' if quotes else escape, one, shown)
