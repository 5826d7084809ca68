"""Effects: the requests of a program to the world, each with a name (base, pure).

An effect's key says *where in the program* it stands and *what* it asks, never *when* it
happened. Its place is the path of generations, the site in the source, the loop rounds around it
and its occurrence. Engines that number steps by arrival hand out wrong answers when independent
calls finish in another order.

    tenant / program / generation path / site / loop indices / occurrence   ── hash ──▶  place
    the request                                                             ── hash ──▶  digest
                                                              EffectKey = place.digest

What is begun speculatively depends on money and time, and differs from one host to the next. A
request that the program does not come to is therefore another effect than the one that it
makes at the same place: it is waste, never an answer to that, and never an error. Two requests
that the program did come to at one place, made by different code, are `ProgramChanged`. Requests
leave out what is at its default, so that a field added later changes no digest.
"""

from hashlib import blake2b
from operator import is_
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from vegakit.conversation import Message, ModelRequest
from vegakit.errors import ProgramChanged
from vegakit.ids import Digest, EffectKey, ProgramId, ScopeId, TenantId
from vegakit.money import Money, Period
from vegakit.records import canonical, digest128

__all__ = [
    "RACE",
    "WHOLE_INCARNATION",
    "AskHuman",
    "CallModel",
    "CallTool",
    "Cancel",
    "Commit",
    "Effect",
    "EffectPath",
    "EffectRequest",
    "HostAction",
    "Incarnation",
    "RunCoroutine",
    "SetTimer",
    "SharedBudget",
    "Site",
    "Start",
    "WatchProgram",
    "changed",
    "digest_of",
    "effect",
    "key_of",
    "place_of",
]


class Site(Struct, frozen=True, order=True):
    """The n-th effect written in a function."""

    function: str
    ordinal: int


class Incarnation(Struct, frozen=True, order=True):
    """One process on the way down to the effect; a restart is the next generation."""

    name: str
    generation: int


class EffectPath(Struct, frozen=True, order=True):
    """The place of an effect in its program."""

    tenant: TenantId
    program: ProgramId
    incarnations: tuple[Incarnation, ...]
    site: Site
    loop: tuple[int, ...] = ()
    occurrence: int = 0

    def __str__(self) -> str:
        incarnations = "/".join(
            f"{incarnation.name}#{incarnation.generation}" for incarnation in self.incarnations
        )
        loop = "".join(f"[{index}]" for index in self.loop)
        return f"{incarnations}/{self.site.function}:{self.site.ordinal}{loop}@{self.occurrence}"


class SharedBudget(Struct, frozen=True):
    """A budget for each `period`, of an agent that is known by `name`: whoever calls in its name
    spends from it, in every run and process on the same ledger."""

    name: str
    cap: Money
    period: Period
    on_exceed: str = "block"


class CallModel(Struct, frozen=True, tag=True, omit_defaults=True):
    """`worst_case` is the highest bill possible; `stream` records the answer in chunks. `attempts`
    counts those at the same answer before this one. While other calls hold the money of `scope`, it
    waits until nothing has moved there for `budget_wait_ms`. `tokens` is the most that it can take,
    input and answer together; `shared` are the budgets of agents that it draws on beside `scope`.
    None of these is part of what is asked."""

    request: ModelRequest
    worst_case: Money
    scope: ScopeId
    stream: bool = False
    attempts: int = 0
    budget_wait_ms: int = 0
    tokens: int = 0
    shared: tuple[SharedBudget, ...] = ()


class CallTool(Struct, frozen=True, tag=True, omit_defaults=True):
    """Call a tool. One that is `idempotent` may be called again after a crash."""

    tool: str
    arguments: Any
    scope: ScopeId
    idempotent: bool = False


RACE = "race::first"
"""The tool that says who was the first in a race. It is asked by who is, and says so, unless it is
recorded that another was."""


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


WHOLE_INCARNATION = "incarnation"
"""The site of a coroutine that takes no messages and runs as long as its process."""


class RunCoroutine(Struct, frozen=True, tag=True, omit_defaults=True):
    """Hand one message to a body that only the local host can run, such as a Python coroutine."""

    body: str
    message: Any


class WatchProgram(Struct, frozen=True, tag=True, omit_defaults=True):
    """Wait for the end of another program."""

    program: ProgramId


EffectRequest: TypeAlias = CallModel | CallTool | SetTimer | AskHuman | RunCoroutine | WatchProgram


class Effect(Struct, frozen=True, omit_defaults=True):
    """`code` is a digest of the code that asks; it does not name the effect, but tells an edited
    program from one that the world led another way. `again` is how often this program has begun it
    before and given it up: the ledger then has claims of it already."""

    key: EffectKey
    path: EffectPath
    digest: Digest
    request: EffectRequest
    deadline_ms: int | None = None
    priority: int = 2
    code: str = ""
    again: int = 0


class Start(Struct, frozen=True, tag=True, omit_defaults=True):
    """`speculative`: the program has not come to it yet, and may never."""

    effect: Effect
    speculative: bool = False


class Commit(Struct, frozen=True, tag=True):
    """The program has come to what was begun speculatively, and wants exactly that."""

    key: EffectKey


class Cancel(Struct, frozen=True, tag=True, omit_defaults=True):
    """`late`: a deadline has passed, and the asker is told so."""

    key: EffectKey
    late: bool = False


HostAction: TypeAlias = Start | Commit | Cancel


def key_of(path: EffectPath, digest: Digest) -> EffectKey:
    """Spelled out part by part: a field added to the path later must not move old keys."""
    incarnations = [[incarnation.name, incarnation.generation] for incarnation in path.incarnations]
    site = [path.site.function, path.site.ordinal]
    place = [path.tenant, path.program, incarnations, site, path.loop, path.occurrence]
    return EffectKey(f"{digest128(place)}.{digest}")


def place_of(key: EffectKey) -> str:
    """Return the part of a key that names the place, without the request."""
    return key.partition(".")[0]


# The digest of a long conversation, which grows by a few messages in every turn: what was hashed
# for the turn before is not hashed again. It is the same digest.


_FEW = 4
_BEFORE_MESSAGES = b'["CallModel",{"messages":['
"""How the canonical spelling of a request begins: its fields are in the order of their names."""

_HASHED: "dict[int, tuple[tuple[Message, ...], blake2b]]" = {}
"""The last long conversations by their first message, and the hash of all up to the last one."""
_KEPT = 16


def _long_digest(asked: ModelRequest, *, stream: bool) -> Digest:
    messages = asked.messages
    known, hashed = _HASHED.pop(id(messages[0]), ((), _HASH))
    # By identity: records that are equal may be spelled differently, as 1 and 1.0 are.
    if len(known) > len(messages) or not all(map(is_, known, messages)):
        known, hashed = (), _HASH
    hashed = hashed.copy()
    rest = memoryview(canonical(messages[len(known) :]))[1:-1]  # not copied: it may be megabytes
    if known and rest:
        hashed.update(b",")
    hashed.update(rest)
    while len(_HASHED) >= _KEPT:
        del _HASHED[next(iter(_HASHED))]
    _HASHED[id(messages[0])] = messages, hashed
    whole = hashed.copy()
    around = canonical(["CallModel", replace(asked, messages=()), stream])
    whole.update(around[len(_BEFORE_MESSAGES) :])
    return Digest(whole.hexdigest())


_HASH = blake2b(_BEFORE_MESSAGES, digest_size=16)


def digest_of(request: EffectRequest) -> Digest:
    """Return a digest of what is asked, not of what it may cost, who pays, or until when a person
    may answer: a new price list changes no answer, and a program that is resumed asks the same
    question."""
    match request:
        case CallModel(asked, stream=stream):
            if asked.settings.timeout_ms is not None:
                # How long to wait is not what is asked: who goes on may be more patient.
                asked = replace(asked, settings=replace(asked.settings, timeout_ms=None))
            if len(asked.messages) > _FEW:
                return _long_digest(asked, stream=stream)
            return Digest(digest128(["CallModel", asked, stream]))
        case CallTool(tool) if tool == RACE:  # who asks was the first: that is the answer
            return Digest(digest128(["CallTool", tool]))
        case CallTool(tool, arguments):
            return Digest(digest128(["CallTool", tool, arguments]))
        case AskHuman(kind, question, action=action):
            return Digest(digest128(["AskHuman", kind, question, action]))
        case _:
            return Digest(digest128(request))


def effect(
    path: EffectPath,
    request: EffectRequest,
    *,
    deadline_ms: int | None = None,
    priority: int = 2,
    code: str = "",
    is_unique: bool = False,
) -> Effect:
    """`is_unique`: nothing is recorded, and no other request can come to stand at its place, so
    that the place alone names it. To digest a long conversation takes longer than all else here."""
    digest = Digest("") if is_unique else digest_of(request)
    return Effect(key_of(path, digest), path, digest, request, deadline_ms, priority, code)


def changed(asked: Effect) -> ProgramChanged:
    """Return the error for a place whose recorded request is another one."""
    match asked.request:
        case CallTool(tool):
            what = f"calls {tool} with"
        case AskHuman():
            what = "asks a person"
        case _:
            what = "asks a model"
    names = [one.name.rstrip("~") for one in asked.path.incarnations]
    who = "/".join(name for name in names if " " not in name) or "it"
    return ProgramChanged(
        f"the program was changed since its run was recorded: what {who} {what} now differs from "
        "the recorded request there, so that the recorded answer does not belong to it; start a "
        "new run, or go back to the program that was recorded"
    )
