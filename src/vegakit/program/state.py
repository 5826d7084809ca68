"""A whole program as one record, which turns to JSON and back between any two steps."""

from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from vegakit.agent import ToolOutcome, Turn
from vegakit.conversation import ModelRequest
from vegakit.effects import Effect
from vegakit.ids import EffectKey, ProgramId, ScopeId, TenantId
from vegakit.lang import Type
from vegakit.money import Money
from vegakit.policy import (
    Breaker,
    ExitReason,
    Mailbox,
    Permit,
    RateLimiter,
    Retry,
    Signals,
    Supervisor,
)
from vegakit.program.commands import GroupSpec, ProcessSpec
from vegakit.program.mail import Mail
from vegakit.program.wallet import Wallet

__all__ = [
    "DEFAULT_WINDOW",
    "STATE_VERSION",
    "Authored",
    "Bounds",
    "Call",
    "Course",
    "EarlyCall",
    "Family",
    "Fiber",
    "Flight",
    "Ghost",
    "Guard",
    "Phase",
    "Process",
    "Program",
    "Send",
    "Session",
    "Timer",
    "TimerKind",
    "Tried",
]

STATE_VERSION = 1

DEFAULT_WINDOW = 64
"""How many calls a compiled program may begin before it comes to them, where nobody says."""


class Phase(StrEnum):
    """Of one life: not living, living, asked to end, never to live again."""

    DOWN = "down"
    UP = "up"
    STOPPING = "stopping"
    OVER = "over"


class Call(Struct, omit_defaults=True):
    """The model call that a send is making: `permit` is of the agent's own breaker."""

    step: int
    request: ModelRequest
    retry: Retry
    worst_case: Money
    tokens: int
    occurrence: int = 0
    permit: Permit | None = None


class Tried(Struct, omit_defaults=True):
    """What lives that ended spent on a letter, and how often they made the call of each step: its
    part and its attempts are the same ones in the next life."""

    spent: int = 0
    calls: dict[int, int] = {}


class Send(Struct, omit_defaults=True):
    """One message to an agent, from its letter to its answer: a fiber.

    `part` is what it may spend, taken from `session` if it stands in one; `answer` is the type it
    was asked for; `touched` says that a tool did what must not be done twice; `pieces` are the text
    of its latest call as it came; `failed` are the effects behind the tool calls that failed among
    `outcomes`.
    """

    turn: Turn
    part: Wallet
    scope: ScopeId
    stream: bool = False
    session: str = ""
    answer: Type | None = None
    call: Call | None = None
    due: int = 0
    outcomes: dict[int, ToolOutcome] = {}
    failed: tuple[EffectKey, ...] = ()
    repeats: dict[str, int] = {}
    touched: bool = False
    pieces: tuple[str, ...] = ()
    tried: Tried = field(default_factory=Tried)
    programs: int = 0
    tries: int = 0
    wait_for_budget: bool = False


class EarlyCall(Struct, omit_defaults=True):
    """What a fiber has begun and not come to yet: a send to the process `to`, in `session`, with
    what it could cost, and what it took and cost if it is answered. `memory` is what that process
    remembered before it; `effects` are those that were begun for it, all of them speculative, of
    which `calls` are of models."""

    to: str = ""
    session: str = ""
    worst: int = 0
    took_ms: int = 0
    charged: int = 0
    remembers: bool = False
    memory: Any = None
    effects: list[EffectKey] = []
    calls: int = 0


class Course(Struct, omit_defaults=True):
    """How the calls of a fiber overlap. `begun` is when each began, and how long the chain of calls
    was that it waited for. `chain_ms` is of the answer that the fiber goes on with."""

    begun: dict[str, tuple[int, int]] = {}
    chain_ms: int = 0
    longest_ms: int = 0
    answered_ms: int = 0


class Fiber(Struct, omit_defaults=True):
    """One run of a compiled function, from its letter to its answer.

    `vm` is its machine: alive, or a `VmState` as it was written, of the module with the digest
    `code`. `inside` are the sessions that sends under way stand in, `answers` the types that they
    were asked for, `sleeping` when who sleeps wakes, `watching` who waits for the end of a process,
    `looking` who looks at the budget while calls given up are under way; `touched` says that the
    world was changed in a way not to be repeated."""

    vm: Any
    code: str = ""
    inside: dict[str, str] = {}
    answers: dict[str, Type] = {}
    sleeping: dict[str, int] = {}
    watching: dict[str, str] = {}
    touched: bool = False
    looking: dict[str, Any] = {}
    course: Course = field(default_factory=Course)


class Session(Struct, omit_defaults=True):
    """A budget around some of what a process does. `inside` is the session around it; `sends` are
    those that stand in it and are not answered. When it is over, it is closed as soon as there are
    none and nothing is held in it. A loop in it that may cost more than `confirm` asks a person; no
    more than `speculate` is begun early in it."""

    owner: str
    inside: str = ""
    over: bool = False
    sends: int = 0
    confirm: int | None = None
    speculate: int | None = None


class Process(Struct, omit_defaults=True, gc=False):
    """One process through all its lives; `ended` says how the last one ended.

    `family` is the group it stands in, empty if its supervisor is private; `memory` is what it
    knew at its last commit; `flying` are its effects under way, those of dead lives too; `tried`
    is of letters that an earlier life had begun. One that lives `once` is over when its only
    message is answered."""

    spec: ProcessSpec
    family: str = ""
    spawner: str = ""
    generation: int = 0
    phase: Phase = Phase.DOWN
    since_ms: int = 0
    alerted: bool = False
    ended: ExitReason | None = None
    flying: dict[EffectKey, None] | None = None
    mailbox: Mailbox[Mail] | None = None
    sends: dict[int, Send] | None = None
    memory: Any = None
    later: dict[str, tuple[str, str]] | None = None
    session: str = ""
    fibers: dict[int, Fiber] | None = None
    tried: dict[int, Tried] | None = None
    scope: ScopeId = ScopeId("")
    once: bool = False


class Authored(Struct, omit_defaults=True):
    """A program that a model wrote, of the process that runs it. `by` is the body of the agent,
    whose `tool` admitted it; its own bodies have names that begin with `prefix`. `ask` is the word
    that its answer carries."""

    by: str
    tool: str
    prefix: str
    source: str
    language: str
    ask: str
    calls: int = 0
    printed: str = ""


class Family(Struct, omit_defaults=True):
    """A supervisor with what its children are made of, None for the private one of a process;
    `above` is empty for one at the top."""

    supervisor: Supervisor
    specs: dict[str, ProcessSpec | GroupSpec] | None = None
    above: str = ""
    spawner: str = ""
    generation: int = 1


class Flight(Struct, frozen=True, omit_defaults=True):
    """An effect under way, and what is held for it; `ask` is the word that its answer carries."""

    effect: Effect
    path: str
    generation: int
    letter: int = 0
    index: int = -1
    held: int = 0
    ask: str = ""
    session: str = ""


class Ghost(Struct, frozen=True, omit_defaults=True):
    """An effect that was given up, and begun again before it has landed: its outcome comes first,
    and is nobody's. `is_waste` as in `doomed`."""

    flight: Flight
    is_waste: bool = False


class Guard(Struct, omit_defaults=True):
    """An agent's own protection, shared by all processes of that agent."""

    breaker: Breaker | None = None
    limiter: RateLimiter | None = None


class TimerKind(StrEnum):
    FAMILY = "family"
    SEND = "send"
    POST = "post"
    STUCK = "stuck"
    DEADLINE = "deadline"


class Timer(Struct, frozen=True, array_like=True, order=True):
    due_ms: int
    turn: int
    kind: TimerKind
    of: str
    letter: int = 0


class Bounds(Struct, frozen=True):
    """Against runaways. `depth`, `width` and `living` are of what processes spawn; the host, which
    a person wrote, may spawn more. Of processes for one question only `depth` is bounded. `repeats`
    is how often one send may make the same tool call, `slice` how much fuel a compiled program
    burns before others have their turn. `window` is how many of its calls it may begin before it
    comes to them, and `ceiling` the cap over the whole program that is held elsewhere. `raised` is
    what a person added to its budgets when the run went on: a cap that was met by calls that were
    cut off must not stop it for ever."""

    depth: int = 5
    width: int = 50
    living: int = 1_000
    repeats: int = 5
    slice: int = 10_000
    window: int = 0
    ceiling: int | None = None
    raised: int = 0


class Program(Struct, omit_defaults=True):
    """`recorded`: a journal keeps the answers, so `equals` counts equal messages to name each.
    `replaying`: it goes on, and every answer so far was recorded by an earlier process.
    `leaving` are effects that were cancelled and have not landed, with the ask they were for;
    `doomed` those of them that are waste; `ghosts` those that were begun again meanwhile.
    `given_up` is how often each speculative effect was."""

    id: ProgramId
    v: int = STATE_VERSION
    tenant: TenantId = TenantId("local")
    bounds: Bounds = field(default_factory=Bounds)
    processes: dict[str, Process] = field(default_factory=dict)
    families: dict[str, Family] = field(default_factory=dict)
    roots: dict[str, None] = field(default_factory=dict)
    spawned: dict[str, dict[str, None]] = field(default_factory=dict)
    wallets: dict[str, Wallet] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    authored: dict[str, Authored] = field(default_factory=dict)
    guards: dict[str, Guard] = field(default_factory=dict)
    signals: Signals = field(default_factory=Signals)
    flights: dict[EffectKey, Flight] = field(default_factory=dict)
    leaving: dict[EffectKey, str] = field(default_factory=dict)
    doomed: dict[EffectKey, None] = field(default_factory=dict)
    ghosts: dict[EffectKey, list[Ghost]] = field(default_factory=dict)
    given_up: dict[EffectKey, int] = field(default_factory=dict)
    early: dict[str, EarlyCall] = field(default_factory=dict)
    looking: dict[str, int] = field(default_factory=dict)
    asks: dict[str, tuple[str, int]] = field(default_factory=dict)
    timers: list[Timer] = field(default_factory=list)
    put_off: dict[int, Mail] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    turns: int = 0
    alarm: EffectKey | None = None
    alarm_ms: int | None = None
    alarms: int = 0
    living: int = 0
    recorded: bool = False
    replaying: bool = False
    equals: dict[str, int] = field(default_factory=dict)
    shutting_down: bool = False
    ending: str = ""
    over: bool = False
