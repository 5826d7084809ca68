"""The state of a whole program: one record that is JSON between any two steps (pure).

    room = cap - spent - held          held: calls in flight, parts of children, sends in flight

Only the program writes its wallets, so they need no locks and no leases: the most that a call could
cost is held before the call is started, and settled when its outcome arrives. A part is held as a
whole in the wallet it was taken from. So a call has to fit its own part only, and the sum still
fits the wallets above.

A path names one process in all its incarnations. What a restarted incarnation spawns gets another
path, so that a late outcome of the incarnation before cannot be taken for one of the new process.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct, field, structs

from vegakit.agent import ToolOutcome, Turn
from vegakit.conversation import ModelRequest
from vegakit.effects import Effect, Incarnation, SharedBudget
from vegakit.errors import Phase
from vegakit.events import Answered, Crashed, EffectCancelled, EffectOutcome, Failed
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
    SupervisorMachine,
)
from vegakit.prices import PAID_REPEATS
from vegakit.program.messages import MessageFailed, ProcessMessage
from vegakit.program.protocol import GroupSpec, ProcessSpec
from vegakit.value_types import Type

# Wallets: what a process may spend in all its incarnations.


class Wallet(Struct, omit_defaults=True, gc=False):
    """A wallet without a `cap` limits nothing and only counts. A `loose` wallet is not held as a
    whole in the wallet above: each of its calls is. Of `spent`, `wasted` went to speculative calls
    that were not used. `raised` is what a person added when the run was resumed: it may be spent
    beyond the cap, and is not held in the wallet above, which was raised as well. `spare` is what
    answers in it cost less than they were held for, and `slack` the most that something in it was
    held for and could not have cost. `cut` is what calls in it were charged that our own death cut
    off, where it is the quote of a program that a model wrote."""

    cap: Money | None = None
    spent: int = 0
    held: int = 0
    loose: bool = False
    wasted: int = 0
    raised: int = 0
    spare: int = 0
    slack: int = 0
    cut: int = 0

    @property
    def saved(self) -> int:
        """Return how much more the same answers could have cost. Under a cap the next of them has
        to fit beside those before it, with all that is held for it."""
        if self.cap is None:
            return self.spare
        return max(0, min(self.spare, self.cap - self.slack - self.spent))

    @property
    def room(self) -> Money | None:
        """Return what may still be spent, or None without a cap."""
        if self.cap is None:
            return None
        return Money(max(0, self.cap + self.raised - self.spent - self.held))

    def fits(self, amount: int) -> bool:
        """Return whether an amount can be held."""
        if self.cap is None:
            return True
        return self.spent + self.held + amount <= self.cap + self.raised

    def settle(self, held: int, charged: int) -> None:
        """Free what was held and charge what was billed."""
        self.held -= held
        self.spent += charged

    def save(self, held: int, charged: int, spare: int) -> None:
        """Count what was settled and could have cost `spare` more."""
        self.spare += spare
        self.slack = max(self.slack, held - charged - spare)


# The records of a program.


STATE_VERSION = 1

DEFAULT_WINDOW = 64
"""How many speculative calls a compiled program may have in flight, if nothing else is set."""


class ProcessPhase(StrEnum):
    """The phase of one incarnation: not running, running, told to end, or ended for good."""

    DOWN = "down"
    UP = "up"
    STOPPING = "stopping"
    OVER = "over"


class Call(Struct, omit_defaults=True):
    """The model call that a send is making; `permit` is the permit of the agent's own breaker.
    `unavailable` says of each model that was asked for this answer before why it gave none, and
    `given_up` are the effects that said so."""

    step: int
    request: ModelRequest
    retry: Retry
    worst_case: Money
    tokens: int
    occurrence: int = 0
    permit: Permit | None = None
    queued_ms: int = 0
    """Since when it waits for the agent's own limiter; 0 if it does not."""
    unavailable: tuple[str, ...] = ()
    given_up: tuple[EffectKey, ...] = ()
    owes: MessageFailed | None = None
    """What the send fails with if no paid repeat is left, of a call that is one and has not taken
    it from the pool yet."""


# The attempts at a message. The program owns the only count; the gate retries what it knows to be
# unbilled, and reports each attempt with the outcome.
#
# | what happened                                 | it counts                                    |
# |-----------------------------------------------|----------------------------------------------|
# | a request starts                              | one attempt                                  |
# | the gate retried it before it failed          | each of these attempts                       |
# | our own death cut it off, and it is resent    | none                                         |


class Attempts(Struct, omit_defaults=True):
    """The attempts at one message. `made` counts them by `step.model`; `paid` are the steps of
    which a call may have been billed, and `spent` is the cost of ended incarnations."""

    made: dict[str, int] = {}
    paid: tuple[int, ...] = ()
    spent: int = 0

    def of(self, step: int, model: int) -> int:
        """Return how often a step asked a model of the agent."""
        return self.made.get(f"{step}.{model}", 0)

    def add(self, step: int, model: int, count: int = 1) -> None:
        """Count attempts of a step at a model."""
        self.made = self.made | {f"{step}.{model}": self.of(step, model) + count}

    def on_outcome(self, step: int, model: int, outcome: EffectOutcome) -> None:
        """Count the retries that the gate reports."""
        if isinstance(outcome, Failed):
            self.add(step, model, outcome.attempts - 1)
        self.note_paid(step, is_paid=may_be_billed(outcome))

    def note_paid(self, step: int, *, is_paid: bool) -> None:
        """Note whether a call of this step may have been billed."""
        if is_paid and step not in self.paid:
            self.paid += (step,)


def may_be_billed(outcome: EffectOutcome) -> bool:
    """Return whether a call of this life may have been billed, so that one more is a paid
    repeat."""
    match outcome:
        case Failed():
            return outcome.phase is Phase.UNKNOWN or bool(outcome.charged or outcome.pieces)
        case Answered() | EffectCancelled() | Crashed():
            return True
        case _:
            return False


class Send(Struct, omit_defaults=True):
    """The work on one message to an agent. `part` is what it may spend, taken from `session` if it
    has one; `answer` is the requested type; `touched` says that a tool did something that must not
    be done twice; `pieces` are the streamed parts of the text of its latest call; `failed` are the
    effects behind the failed tool calls among `outcomes`; `model` is which of the agent's models it
    asks: once one was not available, the next is asked for the rest of the turn."""

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
    attempts: Attempts = field(default_factory=Attempts)
    programs: int = 0
    tries: int = 0
    budget_wait_ms: int = 0
    shared: tuple[SharedBudget, ...] = ()
    alerted: bool = False
    """It was told that it has spent more than its agent's budget, which only warns."""
    model: int = 0


class SpeculativeCallRecord(Struct, omit_defaults=True):
    """A speculative call of a fiber: a send to the process `to` in `session`, with the most it
    could cost, and, once it is answered, how long it took and what it was charged. `memory` is what
    that process remembered before the call. `effects` are the effects that were started for it;
    `calls` counts those that are model calls. One that is a `guess`, of the agent of
    this name, may cost `at_stake` in vain."""

    to: str = ""
    session: str = ""
    worst: int = 0
    took_ms: int = 0
    charged: int = 0
    remembers: bool = False
    memory: Any = None
    effects: list[EffectKey] = []
    calls: int = 0
    guess: str = ""
    at_stake: int = 0


class Guesses(Struct, omit_defaults=True):
    """The calls that were begun behind guards which were not decided. `at_stake` is what those may
    cost in vain, or have, that the program has not come to: `calls` in number, and `of_agents` by
    their names. `peak` is the most that ever was at stake."""

    at_stake: int = 0
    calls: int = 0
    peak: int = 0
    of_agents: dict[str, int] = field(default_factory=dict[str, int])


# What has no part that can hold others is not gone through by Python's collector, nor is a table of
# it. Tuples are, and a table of them is again after each collection that had found it free of them.


class CallBegan(Struct, frozen=True, array_like=True, gc=False):
    """When a call began, and how long the chain of calls is that it waited for."""

    at_ms: int
    chain_ms: int


class AskedAt(Struct, frozen=True, array_like=True, gc=False):
    """The process that an ask is for, and the number of its message."""

    path: str
    message_id: int


class CriticalPath(Struct, omit_defaults=True):
    """A record of how the calls of a fiber overlap. `begun` holds for each call when it began and
    after what. `chain_ms` belongs to the answer that the
    fiber continues with."""

    begun: dict[str, CallBegan] = {}
    chain_ms: int = 0
    longest_ms: int = 0
    answered_ms: int = 0


class Fiber(Struct, omit_defaults=True):
    """One run of a compiled function, started by a message. `vm` is its machine: a `Vm`, or a
    stored `VmState` of the module with the digest `code`. `inside` are the sessions of the sends in
    flight and `answers` their requested types; `sleeping` says when each sleeping task wakes;
    `watching` who waits for the end of a process; `budget_queries` are questions about the budget
    that wait until cancelled calls have landed. `withheld` are requests behind processes of which
    a slice has ended as many as it may. `touched` says that the run changed the world in a way that
    must not be repeated."""

    vm: Any
    code: str = ""
    inside: dict[str, str] = {}
    answers: dict[str, Type] = {}
    sleeping: dict[str, int] = {}
    watching: dict[str, str] = {}
    touched: bool = False
    budget_queries: dict[str, Any] = {}
    withheld: list[Any] = []
    critical_path: CriticalPath = field(default_factory=CriticalPath)


class MoneyWait(Struct, frozen=True, array_like=True, gc=False):
    """A send that waits until an amount fits the wallet of this key and those around it."""

    path: str
    message_id: int
    generation: int
    amount: Money
    session: str
    wallet: str


class BudgetSession(Struct, omit_defaults=True):
    """A budget around a part of what a process does. `inside` is the session around it; `sends`
    counts the sends in it without a result. After its end it is closed as soon as `sends` is 0 and
    nothing is held in it. A loop in it that may cost more than `confirm` needs an approval;
    speculative calls in it may cost no more than `speculate`. Where a call does not fit, it `asks`
    for more; what is spent in it is told once it is above `alert_at`. That of a stand-in took
    `repeats` from the pool, which it gives back if no more than `once` was spent."""

    owner: str
    inside: str = ""
    over: bool = False
    sends: int = 0
    confirm: int | None = None
    speculate: int | None = None
    asks: bool = False
    alert_at: int | None = None
    repeats: int = 0
    once: int = 0


class ProcessRecord(Struct, omit_defaults=True, gc=False):
    """One process in all its incarnations; `ended` says how the last one ended. `supervision` is
    the group it belongs to, empty if its supervisor is private; `memory` is its state at the last
    commit; `in_flight` are its effects, those of ended incarnations included; `attempts`
    belong to messages that an earlier incarnation had begun. A process with `once` ends when its
    only message is answered. `equals` counts the equal messages to it, and `numbered` are the names
    under which its children are numbered."""

    spec: ProcessSpec
    supervision: str = ""
    spawner: str = ""
    generation: int = 0
    phase: ProcessPhase = ProcessPhase.DOWN
    since_ms: int = 0
    alerted: bool = False
    ended: ExitReason | None = None
    in_flight: dict[EffectKey, None] | None = None
    mailbox: Mailbox[ProcessMessage] | None = None
    sends: dict[int, Send] | None = None
    memory: Any = None
    later: dict[str, tuple[str, str]] | None = None
    session: str = ""
    fibers: dict[int, Fiber] | None = None
    attempts: dict[int, Attempts] | None = None
    scope: ScopeId = ScopeId("")
    shared: tuple[SharedBudget, ...] = ()
    once: bool = False
    equals: dict[str, int] | None = None
    numbered: list[str] | None = None


class AuthoredProgram(Struct, omit_defaults=True):
    """A program that a model wrote, for the process that runs it. `by` is the body of the agent
    whose `tool` admitted it; the names of its own bodies start with `prefix`. `ask` identifies its
    result; `repeats` is what it was quoted with. One that `is_capped` has less than its quote.
    `guesses` is its own limit on them, if it has one, and `at_stake` the sum counted against it."""

    by: str
    tool: str
    prefix: str
    source: str
    language: str
    ask: str
    calls: int = 0
    printed: str = ""
    repeats: int | None = None
    is_capped: bool = False
    guesses: int | None = None
    at_stake: int = 0


class Supervision(Struct, omit_defaults=True):
    """A supervisor and the specs of its children, None for the private supervisor of a process;
    `above` is empty at the top."""

    supervisor: SupervisorMachine
    specs: dict[str, ProcessSpec | GroupSpec] | None = None
    above: str = ""
    spawner: str = ""
    generation: int = 1


class InFlightEffect(Struct, frozen=True, omit_defaults=True):
    """An effect in flight, and the money held for it; `ask` identifies its result, `span` is the
    span that a compiled program has opened around it."""

    effect: Effect
    path: str
    generation: int
    message_id: int = 0
    index: int = -1
    held: int = 0
    ask: str = ""
    session: str = ""
    span: str = ""


class SupersededEffect(Struct, frozen=True, omit_defaults=True):
    """An effect that was cancelled, and started again under the same key before its outcome
    arrived. That outcome arrives first and is dropped. `is_waste` says that its cost is waste."""

    flight: InFlightEffect
    is_waste: bool = False


class Guard(Struct, omit_defaults=True):
    """The breaker and rate limiter of an agent, shared by all its processes."""

    breaker: Breaker | None = None
    limiter: RateLimiter | None = None


class TimerKind(StrEnum):
    """The things a timer can wake."""

    SUPERVISOR = "supervisor"
    SEND = "send"
    POST = "post"
    STUCK = "stuck"
    DEADLINE = "deadline"


class Timer(Struct, frozen=True, array_like=True, order=True):
    """A timer; `turn` keeps those of one instant in the order they were set."""

    due_ms: int
    turn: int
    kind: TimerKind
    of: str
    message_id: int = 0


GUESSES_PERCENT = 5
MOST_GUESSES = 100_000_000
"""Ten cents: the highest limit of a run on guesses by default."""
LEAST_GUESSES = 2


class Bounds(Struct, frozen=True):
    """Bounds against runaway programs. `depth`, `width` and `living` bound what processes spawn;
    the host, which a person wrote, may spawn more. For processes that answer one message only
    `depth` is bounded. `repeats` is how often one send may make the same tool call, unless its turn
    compares results, as those of the coding agent do; `slice` how much fuel a compiled program uses
    before other processes have their turn. `window` is how many speculative calls it may have, and
    `ceiling` the cap on the whole program that is held elsewhere. `guesses` is the most that calls
    behind undecided guards may cost in vain, None for the default; `agent_guesses` is the same for
    the asks of agents by name, and `least_guesses` is how many may be begun at any price.
    `raised` is what a person added to its budgets when the run was resumed: a cap that was used up
    by interrupted calls must not stop the run for ever. Where it is `accepted`, programs that
    models wrote may spend beside their quotes what such calls were charged. `paid_repeats` is the
    pool of a quoted program in percent of its sends; None is the rule of runs from before there was
    one: only each agent's own `retry` bounds them. `sends` are those of the program that the host
    runs, by its quote with its arguments; None where the program itself says how many there are."""

    depth: int = 5
    width: int = 50
    living: int = 1_000
    repeats: int = 5
    slice: int = 10_000
    window: int = 0
    ceiling: int | None = None
    raised: int = 0
    accepted: bool = False
    paid_repeats: int | None = None
    sends: int | None = None
    guesses: int | None = None
    least_guesses: int = 0
    agent_guesses: dict[str, int] = {}

    def with_pool(self) -> "Bounds":
        """Return the bounds of a new run, which has a pool of paid repeats also where nobody says
        how large."""
        percent = PAID_REPEATS if self.paid_repeats is None else self.paid_repeats
        return structs.replace(self, paid_repeats=percent)

    def with_guesses(self, expected: int | None) -> "Bounds":
        """Return the bounds of a run with its limit on guesses. The default is a share of the
        `expected` cost, and two calls in any case."""
        if self.guesses is not None:
            return self
        share = MOST_GUESSES if expected is None else expected * GUESSES_PERCENT // 100
        limit = min(share, MOST_GUESSES)
        return structs.replace(self, guesses=limit, least_guesses=LEAST_GUESSES)


class RepeatPool(Struct, omit_defaults=True):
    """The repeats that a quoted program may pay: `used` of `size` are taken. `beyond` is what was
    paid for more of them, of the money that a person added."""

    size: int
    used: int = 0
    beyond: int = 0


class Program(Struct, omit_defaults=True):
    """The state of a program. With `recorded` a journal keeps the results, and equal messages are
    counted to name each: `equals` are those to processes that have ended and whose paths may be
    used again. `replaying` says that the run was resumed and has only seen
    recorded results so far. `cancelling` are effects that were cancelled and have not landed, with
    the ask they were for; `wasted_effects` those of them that are waste; `superseded` those that
    were started again in the meantime. `given_up` counts how often each speculative effect was
    cancelled. `pools` are the paid repeats of quoted programs, and `parked` the sends that
    wait for their turn to take one: process, message, and since when. `short` are the sends that
    wait for money, the first first. `saved` is how much less it
    has cost so far than the same answers could have: a quote is as much lower by now. `guesses` are
    the calls behind guards."""

    id: ProgramId
    v: int = STATE_VERSION
    tenant: TenantId = TenantId("local")
    bounds: Bounds = field(default_factory=Bounds)
    processes: dict[str, ProcessRecord] = field(default_factory=dict)
    supervisors: dict[str, Supervision] = field(default_factory=dict)
    roots: dict[str, None] = field(default_factory=dict)
    spawned: dict[str, dict[str, None]] = field(default_factory=dict)
    wallets: dict[str, Wallet] = field(default_factory=dict)
    sessions: dict[str, BudgetSession] = field(default_factory=dict)
    authored: dict[str, AuthoredProgram] = field(default_factory=dict)
    guards: dict[str, Guard] = field(default_factory=dict)
    signals: Signals = field(default_factory=Signals)
    effects_in_flight: dict[EffectKey, InFlightEffect] = field(default_factory=dict)
    cancelling: dict[EffectKey, str] = field(default_factory=dict)
    wasted_effects: dict[EffectKey, None] = field(default_factory=dict)
    superseded: dict[EffectKey, list[SupersededEffect]] = field(default_factory=dict)
    given_up: dict[EffectKey, int] = field(default_factory=dict)
    speculative: dict[str, SpeculativeCallRecord] = field(default_factory=dict)
    budget_queries: dict[str, int] = field(default_factory=dict)
    asks: dict[str, AskedAt] = field(default_factory=dict)
    timers: list[Timer] = field(default_factory=list)
    put_off: dict[int, ProcessMessage] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    turns: int = 0
    alarm: EffectKey | None = None
    alarm_ms: int | None = None
    alarms: int = 0
    living: int = 0
    recorded: bool = False
    replaying: bool = False
    equals: dict[str, int] = field(default_factory=dict)
    pools: dict[str, RepeatPool] = field(default_factory=dict)
    parked: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    short: dict[str, MoneyWait] = field(default_factory=dict)
    saved: int = 0
    guesses: Guesses = field(default_factory=Guesses)
    shutting_down: bool = False
    ending: str = ""
    over: bool = False

    @property
    def beyond(self) -> int:
        """Return what paid for more repeats than were quoted, of the money that a person added."""
        return sum(pool.beyond for pool in self.pools.values())


# Paths: `team#2/coder` is the coder that the second incarnation of team started.


def child_path(above: str, generation: int, name: str) -> str:
    """Return the path of a child. A restarted parent's children have its generation in theirs."""
    if not above:
        return name
    return f"{above}/{name}" if generation == 1 else f"{above}#{generation}/{name}"


def number_child(program: Program, path: str, above: str) -> int:
    """Return how many children were numbered under this path, this one included. The process above
    keeps the path, so that it is forgotten with that process."""
    number = program.numbers[path] = program.numbers.get(path, 0) + 1
    if above and number == 1:
        process = program.processes[above]
        process.numbered = [*(process.numbered or ()), path]
    return number


def forget_names(program: Program, path: str, process: ProcessRecord) -> None:
    """Forget what was counted for a process that is gone. Under a path that is numbered nobody
    comes again; under one that was chosen somebody may, and is told apart."""
    root = path.partition("/")[0].partition("#")[0]
    base, _, number = root.rpartition("-")
    is_numbered = root in program.numbers or (
        number.isdecimal() and program.numbers.get(base, 0) >= int(number)
    )
    if is_numbered:
        for child in process.numbered or ():
            program.numbers.pop(child, None)
    elif process.equals:
        program.equals |= process.equals


def name_of(path: str) -> str:
    """Return the last name of a path."""
    return path.rpartition("/")[2]


def wallet_key_of(path: str, process: ProcessRecord) -> str:
    """Return the key of the process's wallet. A group that is restarted keeps its money, so the
    wallets of a group have no generation."""
    if not process.supervision:
        return path
    steps, kept = path.split("/"), _steps_above(process)
    return "/".join([*steps[:kept], *(step.partition("#")[0] for step in steps[kept:])])


def root_of(path: str, process: ProcessRecord) -> str:
    """Return the outermost group that the process belongs to."""
    return "/".join(path.split("/")[: _steps_above(process) + 1])


def _steps_above(process: ProcessRecord) -> int:
    return process.spawner.count("/") + 1 if process.spawner else 0


def incarnations_of(path: str, generation: int) -> tuple[Incarnation, ...]:
    """Return the incarnations from the root down to this one."""
    above, _, name = path.rpartition("/")
    return (*_incarnations(above), Incarnation(name, generation))


@lru_cache(maxsize=1024)
def _incarnations(path: str) -> tuple[Incarnation, ...]:
    if not path:
        return ()
    steps = (step.partition("#") for step in path.split("/"))
    return tuple(Incarnation(name, int(generation or 1)) for name, _, generation in steps)


# The ask from outside behind what a process does.


_OF_MESSAGE = re.compile(r"\d+(?=[:.])")
"""`3:place` is an ask of a compiled program that works on its message 3, `3.0` one of an agent that
calls a tool written in Vega."""
_FARTHEST = 1_000
"""How many processes a message may have come through before nobody looks further."""


def origin_of(program: Program, path: str, message_id: int) -> tuple[str, str]:
    """Return the ask from outside that a message of a process comes from, through however many
    processes, and the innermost span that a compiled program has opened on the way; both are empty
    if there is none."""
    span = ""
    for _ in range(_FARTHEST):
        process = program.processes.get(path)
        taken = process.mailbox.taken(message_id) if process and process.mailbox else None
        if taken is None:
            break
        message = taken.message
        span = span or message.span
        if not message.sender:
            return message.ask, span
        number = _OF_MESSAGE.match(message.ask)
        if number is None:
            break
        path, message_id = message.sender, int(number[0])
    return "", span
