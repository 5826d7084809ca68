"""Find skills: folders with a `SKILL.md` that tells how a kind of task is done.

    .agents/skills/NAME/SKILL.md   .vega/skills   .claude/skills   of the workspace
    skills/NAME/SKILL.md           of the folder with the user's own settings

Only names and descriptions are told at the beginning; the rest is read when it is needed, by the
tool `read` with the path `@skill/NAME`. A skill of a repository is text of others: nothing of it
runs unless the agent runs it, in the sandbox and with the rights of the session. Skills of a folder
that the user has not trusted are ignored, and so is a skill of another user of the machine.
"""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from vegakit.config import SKILL_FOLDERS, find_trust, why_ignored
from vegakit.errors import CapabilityDenied, LimitReached, ToolFailed
from vegakit.policy import Grant, sanitise
from vegakit.tools import Files

SKILLS = "@skill/"
"""What the files of a skill are called. No file of a workspace has such a name."""
_FILE = "SKILL.md"
_MOST_SKILLS, _MOST_BYTES = 32, 200_000
_LONGEST_TOLD, _MOST_TOLD = 240, 6_000
"""Characters of one description, and of all together: they are paid for with every request."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_FIELD = re.compile(r"([A-Za-z][\w-]*):[ \t]*(.*)")
_READ = Grant(("fs::read",), paths=("**",))


class Skill(Struct, frozen=True):
    """A skill: its folder is `name` in `root`."""

    name: str
    description: str
    root: Path


class SkillSet(Struct, frozen=True):
    """The skills of a session by name, and why others were left out."""

    skills: dict[str, Skill] = {}
    notes: tuple[str, ...] = ()

    def told(self) -> str:
        """Return what the agent is told of them."""
        lines = [f"- {SKILLS}{skill.name}: {skill.description}" for skill in self.skills.values()]
        fits = [
            line for at, line in enumerate(lines) if sum(map(len, lines[: at + 1])) < _MOST_TOLD
        ]
        more = len(lines) - len(fits)
        return "\n".join(
            [*fits, *([f"- {more} more, which are not described here"] if more else [])]
        )

    async def content(self, path: str) -> bytes:
        """Return a file of a skill: `@skill/NAME` is its `SKILL.md`, `@skill/NAME/more.md` another
        one of its folder."""
        name, _, inside = path.removeprefix(SKILLS).partition("/")
        skill = self.skills.get(name)
        if skill is None:
            known = ", ".join(self.skills) or "none"
            raise ToolFailed(f"there is no skill {name[:80]!a}; there is: {known}")
        files = Files(skill.root, _READ, max_bytes=_MOST_BYTES)
        return await files.read(f"{name}/{inside or _FILE}")


NO_SKILLS = SkillSet()


async def find_skills(folder: Path, own: Path | None) -> SkillSet:
    """Return the skills of a workspace and of the user, whose own settings are in the folder `own`.
    The user's come first: no repository puts one of the same name in their place."""
    skills: dict[str, Skill] = {}
    notes: list[str] = []
    for root, is_own in await asyncio.to_thread(lambda: [*_roots(folder, own, notes)]):
        await _add(root, skills, notes, is_own=is_own)
    return SkillSet(skills, tuple(notes))


def _roots(folder: Path, own: Path | None, notes: list[str]) -> Iterator[tuple[Path, bool]]:
    if own is not None and (own / "skills").is_dir():
        yield (own / "skills").resolve(), True
    for name in SKILL_FOLDERS if find_trust(folder) else ():
        place = folder / name
        if not place.is_dir():
            continue
        # What a repository links to may be anywhere; the user's own links are their own affair.
        if place.resolve() != folder.resolve() / name:
            notes.append(f"{name}: left out, since it is a link; make it a folder")
        elif why := why_ignored(place):
            notes.append(why)
        else:
            yield place, False


async def _add(root: Path, skills: dict[str, Skill], notes: list[str], *, is_own: bool) -> None:
    try:
        entries = (await Files(root, _READ).list(".")).entries
    except (ToolFailed, CapabilityDenied, LimitReached, OSError) as error:
        notes.append(f"{root}: no skill of it is used: {error}")
        return
    for entry in sorted(entries, key=lambda one: one.name):
        name, place = entry.name, f"{root}/{entry.name[:80]}"
        if entry.kind == "file" or name.startswith("."):
            continue
        if not is_own and (why := await asyncio.to_thread(_why_ignored, root / name)):
            notes.append(why)
            continue
        if len(skills) >= _MOST_SKILLS:
            notes.append(f"{root}: only {_MOST_SKILLS} skills are used; remove some")
            return
        found = await _read(root, name)
        if isinstance(found, str):
            notes.append(f"skill {place} is left out: {found}")
        elif name in skills:
            notes.append(
                f"skill {place} is left out: there is one of this name in "
                f"{skills[name].root}; rename it"
            )
        else:
            skills[name] = found


def _why_ignored(skill: Path) -> str:
    return why_ignored(skill) or why_ignored(skill / _FILE)


async def _read(root: Path, name: str) -> Skill | str:
    """Return a skill, or why it is none."""
    if not _NAME.fullmatch(name):
        return "its folder's name must be of small letters, digits and hyphens, 64 at most"
    try:
        content = await Files(root, _READ, max_bytes=_MOST_BYTES).read(f"{name}/{_FILE}")
    except (ToolFailed, CapabilityDenied, LimitReached, OSError) as error:
        return str(error)
    try:
        head = front_matter(content.decode())
    except UnicodeDecodeError:
        return f"{_FILE} is not UTF-8; save it as such"
    fields = None if head is None else head[0]
    if fields is None:
        return f"{_FILE} must begin with lines between ---, with name: and description:"
    told = " ".join(sanitise(fields.get("description", ""), _MOST_BYTES).split())
    if not told:
        return f"{_FILE} has no description; add a line: description: …"
    if fields.get("name", name) != name:
        return f"{_FILE} names it {fields['name'][:80]!a}; give its folder the same name"
    cut = told if len(told) <= _LONGEST_TOLD else f"{told[:_LONGEST_TOLD]}…"
    return Skill(name, cut, root)


def front_matter(text: str) -> tuple[dict[str, str], str] | None:
    """Return the fields at the head of a file and the text after it, None if it has no such head.
    Not all of YAML: fields with a text on their line, in quotes or not, or on the indented lines
    that follow."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return None
    fields: dict[str, list[str]] = {}
    last: list[str] = []
    for at, line in enumerate(lines[1:], 2):
        if line.rstrip() == "---":
            return {name: _text(parts) for name, parts in fields.items()}, "\n".join(
                lines[at:]
            ).strip()
        if line[:1].isspace():
            last.append(line.strip())
        elif found := _FIELD.fullmatch(line.rstrip()):
            last = fields.setdefault(found[1], [])
            last.append("" if found[2] in _BLOCKS else found[2])
        elif line.strip() and not line.startswith("#"):
            return None
    return None


_BLOCKS = frozenset("> >- >+ | |- |+".split())


def _text(parts: list[str]) -> str:
    text = " ".join(part for part in parts if part)
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text
