"""Keep what the agent of a session knows: instructions, mode, surroundings, its goal and its steps.

    the session begins ─▶ instructions are a part of every request
    a prompt           ─▶ told with it: what changed since
    a kill, resume     ─▶ told behind the next result: what changed meanwhile

What a request begins with never changes, so what changed can only be appended. It is kept with the
turn that told it: a turn that is undone takes it along, and it is told again.
"""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from vegakit.conversation import Media, Message, ToolMessage
from vegakit.errors import UserError
from vegakit.host import read_media
from vegakit.sage.context import changes, pinned_parts, read_instructions
from vegakit.sage.environment import environment_notes, environment_of
from vegakit.sage.events import MODES_TOLD, SageMode
from vegakit.sage.sessions import SageRecord, TurnRecord
from vegakit.sage.skills import SkillSet
from vegakit.sage.tools import IMAGE_TYPES


class Knowledge:
    """Knows what the agent was told until now. It is made from what is kept and from nothing else,
    so it is the same after a kill."""

    def __init__(self, folder: Path, record: SageRecord, skills: SkillSet) -> None:
        self._folder, self._system, self._skills = folder, record.system, skills
        self._instructions = record.told
        self._mode = SageMode.AUTO
        self._environment: dict[str, str] = {}
        self._goal = self._todo = ""
        self._news: dict[str, str] | None = None

    def learn(self, turn: TurnRecord) -> None:
        """Take in what was told with a turn that stands."""
        self._goal = self._goal or turn.said or turn.prompt
        self._instructions = self._instructions if turn.told is None else turn.told
        self._mode = turn.told_mode or self._mode
        self._environment = turn.environment or self._environment

    def finish(self, turn: TurnRecord) -> None:
        """Take in what a turn that has ended left: its list of steps."""
        self._todo = turn.todo or self._todo

    async def new_turn(
        self, prompt: str, media: tuple[Media, ...], mode: SageMode, now_ms: int, said: str = ""
    ) -> TurnRecord:
        """Return a turn whose text is the prompt, or what it stands for, with what changed since
        the last one."""
        now = await self._read()
        here = await asyncio.to_thread(environment_of, self._folder, now_ms)
        notes = [
            *([MODES_TOLD[mode]] if mode is not self._mode else ()),
            *environment_notes(self._environment, here),
            *changes(self._instructions, now),
        ]
        text = "\n\n".join([*notes, said or prompt])
        turn = TurnRecord(prompt, text, media=media, at_ms=now_ms, said=said)
        turn.told = now if now != self._instructions else None
        turn.told_mode = mode if mode is not self._mode else None
        turn.environment = here if here != self._environment else {}
        self.learn(turn)
        return turn

    async def look_again(self, turn: TurnRecord) -> None:
        """Look what changed while a turn was cut off that goes on now."""
        now = await self._read()
        known = self._instructions if turn.news is None else turn.news
        self._news = now if changes(known, now) else None

    def news_for(self, turn: TurnRecord) -> str:
        """Return what is told behind the next result of a turn, once; it is marked there, and is
        to be kept."""
        if self._news is None:
            return ""
        known = self._instructions if turn.news is None else turn.news
        turn.news, self._news = self._news, None
        return "\n\n".join(changes(known, turn.news))

    def settle_news(self, turn: TurnRecord) -> None:
        """Take the instructions for known if a result of the turn told them: a kill may have come
        between that result and its record."""
        if turn.news is not None:
            said = "".join(_results_in(turn.messages or turn.partial))
            if all(note in said for note in changes(self._instructions, turn.news)):
                turn.told = self._instructions = turn.news
            turn.news = None

    def pinned(self) -> dict[str, str]:
        """Return what stays word by word when the conversation is summed up."""
        mode = "" if self._mode is SageMode.AUTO else MODES_TOLD[self._mode]
        return pinned_parts(self._goal, self._system, self._instructions, self._todo, mode)

    async def _read(self) -> dict[str, str]:
        return await read_instructions(self._folder, self._skills.told())


def _results_in(messages: tuple[Message, ...]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, ToolMessage):
            yield from (result.content for result in message.results)


def read_images(images: Sequence[str | Path | Media]) -> list[Media]:
    """Return the images that go with a prompt, given as such or as files; it reads those, so call
    it in a thread."""
    found = [image if isinstance(image, Media) else read_media(image) for image in images]
    for image, media in zip(images, found, strict=True):
        if media.media_type not in IMAGE_TYPES:
            known = ", ".join(kind.removeprefix("image/") for kind in IMAGE_TYPES)
            named = "an image" if isinstance(image, Media) else image
            raise UserError(f"{named} is {media.media_type}; an image is one of {known}")
    return found
