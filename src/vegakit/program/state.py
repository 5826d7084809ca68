"""A whole program as one record, which turns to JSON and back between any two steps."""

from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from vegakit.agent import ToolOutcome, Turn
from vegakit.conversation import ModelRequest
from vegakit.effects import Effect
from vegakit.ids import EffectKey, ProgramId, ScopeId, TenantId
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
    "STATE_VERSION",
    "Bounds",
    "Call",
    "Family",
    "Flight",
    "Guard",
    "Phase",
    "Process",
    "Program",
    "Send",
    "Timer",
    "TimerKind",
]

STATE_VERSION = 1


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


class Send(Struct, omit_defaults=True):
    """One message to an agent, from its letter to its answer: a fiber.

    `part` is what it may spend; `touched` says that a tool did what must not be done twice.
    """

    turn: Turn
    part: Wallet
    scope: ScopeId
    stream: bool = False
    call: Call | None = None
    due: int = 0
    outcomes: dict[int, ToolOutcome] = {}
    repeats: dict[str, int] = {}
    touched: bool = False


class Process(Struct, omit_defaults=True, gc=False):
    """One process through all its lives; `ended` says how the last one ended.

    `family` is the group it stands in, empty if its supervisor is private; `memory` is what it
    knew at its last commit; `flying` are its effects under way, those of dead lives too."""

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


class Family(Struct, omit_defaults=True):
    """A supervisor with what its children are made of, None for the private one of a process;
    `above` is empty for one at the top."""

    supervisor: Supervisor
    specs: dict[str, ProcessSpec | GroupSpec] | None = None
    above: str = ""
    spawner: str = ""
    generation: int = 1


class Flight(Struct, frozen=True, omit_defaults=True):
    """An effect under way, and what is held for it."""

    effect: Effect
    path: str
    generation: int
    letter: int = 0
    index: int = -1
    held: int = 0


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
    a person wrote, may spawn more. `repeats` is how often one send may make the same tool call."""

    depth: int = 5
    width: int = 50
    living: int = 1_000
    repeats: int = 5


class Program(Struct, omit_defaults=True):
    """`recorded`: a journal keeps the answers, so `equals` counts equal messages to name each."""

    id: ProgramId
    v: int = STATE_VERSION
    tenant: TenantId = TenantId("local")
    bounds: Bounds = field(default_factory=Bounds)
    processes: dict[str, Process] = field(default_factory=dict)
    families: dict[str, Family] = field(default_factory=dict)
    roots: dict[str, None] = field(default_factory=dict)
    spawned: dict[str, dict[str, None]] = field(default_factory=dict)
    wallets: dict[str, Wallet] = field(default_factory=dict)
    guards: dict[str, Guard] = field(default_factory=dict)
    signals: Signals = field(default_factory=Signals)
    flights: dict[EffectKey, Flight] = field(default_factory=dict)
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
    equals: dict[str, int] = field(default_factory=dict)
    shutting_down: bool = False
    ending: str = ""
    over: bool = False
