"""What the world is asked to do, and how each asking is named (base, pure).

An effect's key says *where in the program* it stands, never *when* it happened: the path of
generations, the site in the source, the loop rounds around it and its occurrence. Engines that
number steps by arrival hand out wrong answers when independent calls finish in another order.

    tenant / program / generation path / site / loop indices / occurrence   ── hash ──▶  EffectKey
    the request                                                             ── hash ──▶  Digest

The same key with another digest is `ProgramChanged`, never an answer. Requests leave out what is at
its default, so that a field added later changes no digest.
"""

from typing import Any, TypeAlias

from msgspec import Struct

from vegakit.conversation import ModelRequest
from vegakit.errors import ProgramChanged
from vegakit.ids import Digest, EffectKey, ProgramId, ScopeId, TenantId
from vegakit.money import Money
from vegakit.records import digest128

__all__ = [
    "AskHuman",
    "CallModel",
    "CallTool",
    "Cancel",
    "Effect",
    "EffectPath",
    "HostAction",
    "Life",
    "Request",
    "RunForeign",
    "SetTimer",
    "Site",
    "Start",
    "WatchProgram",
    "check_same_request",
    "digest_of",
    "effect",
    "key_of",
]


class Site(Struct, frozen=True):
    """The n-th effect written in a function."""

    function: str
    ordinal: int


class Life(Struct, frozen=True):
    """One process on the way down to the effect; a restart is the next generation."""

    name: str
    generation: int


class EffectPath(Struct, frozen=True):
    tenant: TenantId
    program: ProgramId
    lives: tuple[Life, ...]
    site: Site
    loop: tuple[int, ...] = ()
    occurrence: int = 0

    def __str__(self) -> str:
        lives = "/".join(f"{life.name}#{life.generation}" for life in self.lives)
        loop = "".join(f"[{index}]" for index in self.loop)
        return f"{lives}/{self.site.function}:{self.site.ordinal}{loop}@{self.occurrence}"


class CallModel(Struct, frozen=True, tag=True, omit_defaults=True):
    """`worst_case` is the dearest bill possible; `stream` records the answer in chunks."""

    request: ModelRequest
    worst_case: Money
    scope: ScopeId
    stream: bool = False


class CallTool(Struct, frozen=True, tag=True, omit_defaults=True):
    tool: str
    arguments: Any
    scope: ScopeId
    repeatable: bool = False


class SetTimer(Struct, frozen=True, tag=True, omit_defaults=True):
    """Absolute, so that a resumed program waits for the same instant."""

    due_ms: int


class AskHuman(Struct, frozen=True, tag=True, omit_defaults=True):
    """Answered with True or False if it is a confirmation, with words if it is another kind of
    interrupt, and with None if nobody answered before `expires_ms`, which is absolute. What the
    answer permits is `action`, or the question itself."""

    kind: str
    question: str
    expires_ms: int | None
    action: Digest | None = None


class RunForeign(Struct, frozen=True, tag=True, omit_defaults=True):
    """Hand one message to a body that only the local host can run, such as a Python coroutine."""

    body: str
    message: Any


class WatchProgram(Struct, frozen=True, tag=True, omit_defaults=True):
    program: ProgramId


Request: TypeAlias = CallModel | CallTool | SetTimer | AskHuman | RunForeign | WatchProgram


class Effect(Struct, frozen=True):
    key: EffectKey
    path: EffectPath
    digest: Digest
    request: Request
    deadline_ms: int | None = None
    priority: int = 2


class Start(Struct, frozen=True, tag=True):
    effect: Effect


class Cancel(Struct, frozen=True, tag=True):
    key: EffectKey


HostAction: TypeAlias = Start | Cancel


def key_of(path: EffectPath) -> EffectKey:
    """Spelled out part by part: a field added to the path later must not move old keys."""
    lives = [[life.name, life.generation] for life in path.lives]
    site = [path.site.function, path.site.ordinal]
    place = [path.tenant, path.program, lives, site, path.loop, path.occurrence]
    return EffectKey(digest128(place))


def digest_of(request: Request) -> Digest:
    """Of what is asked, not of what it may cost, who pays, or until when a person may answer: a new
    price list changes no answer, and a program that is resumed asks the same question."""
    match request:
        case CallModel(asked, stream=stream):
            return Digest(digest128(["CallModel", asked, stream]))
        case CallTool(tool, arguments):
            return Digest(digest128(["CallTool", tool, arguments]))
        case AskHuman(kind, question, action=action):
            return Digest(digest128(["AskHuman", kind, question, action]))
        case _:
            return Digest(digest128(request))


def effect(
    path: EffectPath, request: Request, *, deadline_ms: int | None = None, priority: int = 2
) -> Effect:
    return Effect(key_of(path), path, digest_of(request), request, deadline_ms, priority)


def check_same_request(asked: Effect, recorded: Digest) -> None:
    if asked.digest != recorded:
        raise ProgramChanged(
            f"the request at {asked.path} differs from the recorded one, so its recorded answer "
            "does not belong to it; start a new run, or go back to the program that was recorded"
        )
