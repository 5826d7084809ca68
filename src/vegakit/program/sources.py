"""Programs that models wrote, as the state keeps them: their source, and what they printed."""

from vegakit.authoring import Refused
from vegakit.errors import ProgramChanged
from vegakit.program.bodies import AgentBody, Author, Code
from vegakit.program.state import Authored

__all__ = ["MOST_KEPT", "author_of", "keep_printed", "restore"]

MOST_KEPT = 16_000
"""Characters of a result, and of what was printed, that a model is told."""

_REFUSED_NOW = "a program of {tool} was accepted by another version, and is not by this one: {why}"


def author_of(code: Code, made: Authored) -> Author | None:
    agent = code.get(made.by)
    return agent.authors.get(made.tool) if isinstance(agent, AgentBody) else None


def restore(code: Code, made: Authored) -> None:
    """Its bodies, where a state was taken up by who did not accept it."""
    author = author_of(code, made)
    if author is None:
        return
    admitted = author.admit(made.source, made.language)
    if isinstance(admitted, Refused):
        raise ProgramChanged(_REFUSED_NOW.format(tool=made.tool, why=admitted.text))
    author.install(made.prefix, admitted)


def keep_printed(made: Authored | None, text: str) -> None:
    """One more than is told is kept, so that it can be said that there was more."""
    if made is not None and len(made.printed) <= MOST_KEPT:
        made.printed = f"{made.printed}{text}\n"[: MOST_KEPT + 1]
