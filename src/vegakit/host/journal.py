"""The run and its journal: what is claimed before an effect, recorded after it, and found again
when the run is resumed.
"""

import asyncio
import logging
import re
import secrets
import sys
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import structs

from vegakit.concurrency import run_to_completion
from vegakit.config import (
    CutOffTools,
    OnCutOff,
    ResumeTarget,
    environment_secrets,
    replay_target,
    take_resume,
)
from vegakit.effects import AskHuman, CallModel, CallTool, Effect, changed, place_of
from vegakit.errors import (
    AgentFailed,
    BudgetExceeded,
    CapabilityDenied,
    ErrorClass,
    Paused,
    ProgramChanged,
    SettingsError,
    StoreError,
    ToolCutOff,
    UserError,
    WorldError,
    causes_of,
)
from vegakit.events import Answered, EffectCancelled, EffectOutcome, Refused, Unknown, charged_for
from vegakit.host.recovery import Backlog, Recovered, recover, retry_store
from vegakit.ids import EffectKey, ProgramId, new_program_id
from vegakit.money import Money, format_money
from vegakit.policy import NotDisplayable, ScopeRule, escape_json
from vegakit.ports import (
    ClaimResult,
    Clock,
    Journal,
    Ledger,
    PastEffect,
    RunQuote,
    RunRecord,
    Store,
    Takeovers,
)
from vegakit.program import Bounds
from vegakit.records import digest128
from vegakit.store import MemoryStore, ReplayJournal

if TYPE_CHECKING:
    from vegakit.store import ReplyCache

# A run and its journal: begun or taken up again, and ended when it is done.


_LOG = logging.getLogger("vegakit")
NO_MODELS: Mapping[str, tuple[str, ...]] = {}


def as_journal(given: "Journal | str | PathLike[str] | None") -> Journal | None:
    """Return a journal that is given, or named by a file or a URL. Where the program is replayed, a
    runtime that has no journal is offline too."""
    if (which := replay_target()) is not None:
        return ReplayJournal(_opened(which.journal), which.run)
    return _opened(given) if isinstance(given, str | PathLike) else given


def _opened(place: "str | PathLike[str]") -> Journal:
    from vegakit.store import open_journal  # loads the backends, which a journal in memory does not

    return open_journal(place)


def as_ledger(
    given: "Ledger | str | PathLike[str] | None", journal: Journal | None
) -> Ledger | None:
    """Return a ledger that is given, or named by a file or a URL; else the one in the place of the
    journal, since money must outlive us as answers do."""
    if isinstance(given, str | PathLike):
        from vegakit.store import open_ledger

        return open_ledger(given)
    return given or (None if journal is None else journal.ledger())


def as_cache(given: "ReplyCache | str | PathLike[str] | None") -> "ReplyCache | None":
    """Return a cache of replies that is given, or named by its file."""
    if isinstance(given, str | PathLike):
        from vegakit.store import ReplyCache

        return ReplyCache(given)
    return given


def store_beside(journal: Journal | None) -> Store:
    """Return the documents in the place of the journal: what people are asked must outlive us."""
    return (None if journal is None else journal.store()) or MemoryStore()


class JournaledRun:
    """A run that is recorded. `undecided` are tool calls that were cut off and wait for a person's
    decision."""

    def __init__(
        self,
        journal: Journal,
        run: RunRecord,
        recovered: Recovered | None = None,
        which: ResumeTarget | None = None,
    ) -> None:
        self.journal = journal
        self.run = self._noted = self._before = run
        self.is_resumed = recovered is not None
        """An earlier process began it, and may have made attempts at its calls."""
        self.recovered = recovered or Recovered()
        self.undecided = self.recovered.undecided
        self.stays_quoted = False
        """Whether calls that were cut off are paid from the quote."""
        self.which = which or ResumeTarget()
        """The decisions of the person who resumed it."""
        if which is not None and which.decided not in ("", run.program):
            self.which = ResumeTarget(which.run, which.tools, which.alone)
        if self.is_resumed:
            self.run = structs.replace(run, takeovers=_takeovers(run, self.recovered))
        self.failed = 0
        """How many outcomes failed this run, and so are asked again when it goes on."""
        self.failed_of_old = False
        """All of them were recorded by a life before this one, which was killed before it could
        say so: nothing has been asked anew, so going on at once is what was wanted."""

    @classmethod
    async def begin(
        cls,
        journal: Journal,
        ledger: Ledger,
        now: int,
        runs: "ProcessRuns",
        resume: Callable[[str], Awaitable[Container[EffectKey]]],
        paid_repeats: int | None = None,
        sends: int | None = None,
        quote: RunQuote | None = None,
        budget: ScopeRule | None = None,
        models: Mapping[str, tuple[str, ...]] = NO_MODELS,
    ) -> "JournaledRun":
        """Begin a run, or take one up. `resume` is told which run goes on, and says what of it was
        not begun; `paid_repeats`, `sends`, `quote`, `budget` and `models` are what a new one keeps
        to."""
        program = new_program_id(now, secrets.token_bytes(10))
        rules: Any = {"paid_repeats": paid_repeats, "sends": sends, "quote": quote}
        rules |= {"budget": budget, "models": {**models}, "script": _script()}
        new = RunRecord(program, now, _command(), str(Path.cwd()), **rules)
        which = runs.target
        run = await (runs.begin(journal, new) if journal.shared else journal.begin(new))
        if run.program == program:
            # A new run has nothing to recover, and its journal may be long. Its spool may hold what
            # a run before it left, though: that is passed over, and a torn end of it cut off.
            await journal.kept()
            return cls(journal, run)
        not_started = await resume(run.program)
        tools = CutOffTools.ASK if which is None else which.tools
        recovered = await recover(journal, ledger, now, not_started, tools)
        return cls(journal, run, recovered, which)

    @property
    def takeovers(self) -> Takeovers:
        """Return the summary of the earlier lives."""
        return self.run.takeovers or Takeovers()

    @property
    def cut_before(self) -> Money:
        """Return the charges of the calls that earlier lives, except the last, cut off."""
        return Money(0) if self._before.takeovers is None else self._before.takeovers.charged

    @property
    def extension(self) -> Money:
        """Return how far the run may exceed its quote, for calls that were cut off."""
        return Money(0) if self.stays_quoted else self.takeovers.charged

    def quote(self, on_cut_off: str | None) -> RunQuote | None:
        """Return the quote of the run with the charges of the calls that were cut off."""
        self.stays_quoted = on_cut_off == OnCutOff.NEVER
        quoted = self.run.quote
        return None if quoted is None else structs.replace(quoted, cut=self.extension)

    def change_budget(self, cap: Money | None) -> None:
        """Change the budget as a person typed it. `cap` is the cap that the run started with."""
        if (change := self.which.budget) is None:
            return
        if change.is_more:
            self.add(change.amount)
            return
        if cap is None:
            raise UserError(
                f"the run has no cap of its own that {format_money(change.amount)} could replace; "
                f"add to its budgets: vega resume --budget '+{format_money(change.amount)}'"
            )
        spent = self.recovered.charged
        if cap <= change.amount < spent:
            raise UserError(
                f"the run has spent {format_money(spent)}, and a cap of "
                f"{format_money(change.amount)} is less; set a higher cap, or leave --budget out"
            )
        if change.amount < cap:
            raise UserError(
                f"the run began with a cap of {format_money(cap)}, which cannot be lowered to "
                f"{format_money(change.amount)}; leave --budget out, or set a higher cap"
            )
        self.run = structs.replace(self.run, raised=Money(change.amount - cap))

    def move(self, moved: Mapping[str, tuple[str, ...]], quote: RunQuote | None) -> None:
        """Replace the models of aliases. The new quote is added to the amount already spent."""
        self.run = structs.replace(self.run, moved={**moved})
        if quote is not None and quote.at_most is not None:
            spent = self.recovered.charged - self.takeovers.charged  # the quote adds these itself
            quote = structs.replace(quote, at_most=Money(quote.at_most + spent))
            self.run = structs.replace(self.run, quote=quote)

    def add(self, amount: Money) -> None:
        """Add to the budgets of the run."""
        self.run = structs.replace(self.run, raised=Money(self.run.raised + amount))

    def accept(self) -> None:
        """Record that a person accepts the charges of the calls that were cut off."""
        lives = self.takeovers
        lives = structs.replace(lives, accepted=lives.charged, fruitless=0)
        self.run = structs.replace(self.run, takeovers=lives)

    async def note(self, **changes: Any) -> None:  # noqa: ANN401
        """Write the changes to the record of the run."""
        self.run = structs.replace(self.run, **changes)
        if self.run != self._noted:
            self._noted = self.run
            await self.journal.note(self.run)

    def bounds(self, bounds: Bounds) -> Bounds:
        """Return the bounds of the run, with what a person added to its budget when it went on. It
        goes on by the rule it began with, or its recorded answers would not be found."""
        ceiling = None if bounds.ceiling is None else bounds.ceiling + self.run.raised
        return structs.replace(
            bounds,
            ceiling=ceiling,
            raised=self.run.raised,
            accepted=self.takeovers.accepted >= self.takeovers.charged,
            paid_repeats=self.run.paid_repeats,
            sends=self.run.sends,
        )

    async def reopen(self, error: BaseException, replayed: Container[EffectKey]) -> None:
        """Mark the outcomes that failed the run as not final: they are asked again when it goes
        on."""
        keys = [EffectKey(key) for key in causes_of(error)]
        self.failed = len(keys)
        # What was found lost when this life began is news to the program.
        old = [key for key in keys if key in replayed and key not in self.recovered.lost]
        self.failed_of_old = bool(keys) and len(old) == len(keys)
        refused = await self.journal.refused()
        # Of calls side by side that a budget refused, one fails the run; when that is asked again
        # with more money, the others must not be told of the old cap.
        more = refused if not set(refused).isdisjoint(keys) else ()
        await self.journal.reopen([*dict.fromkeys([*keys, *more])])
        if _is_changed(error):  # the decisions of the person were for another program
            self.run = self._before
            await self.note()

    async def decide_refused_anew(self) -> None:
        """Have what a budget refused be decided by what it holds now."""
        await self.journal.reopen(await self.journal.refused())

    async def unfinished_before(self) -> RunRecord | None:
        """Return the last unfinished run of the same command in the journal of its user, unless
        this is it or somebody carries it on: who starts a program anew may have meant to go on with
        it."""
        journal, mine = self.journal, self.run
        if self.is_resumed or not journal.shared:
            return None
        same = (mine.command, mine.folder)
        for run in reversed(await journal.runs()):
            is_same = (run.command, run.folder) == same and run.program != mine.program
            if is_same and run.ended_ms is None and not await journal.is_running(run):
                return run
        return None

    async def _has_nothing(self) -> bool:
        """Return whether nothing was asked that has an answer, a cost or an effect."""
        past = await self.journal.past(self.run.program)
        open_calls = (CallModel.__name__, None)
        is_empty = all((effect.kind, effect.outcome) == open_calls for effect in past)
        return is_empty and not self.failed_of_old

    async def is_last(self) -> bool:
        """Return whether no later run of this folder is unfinished in the journal of its user."""
        journal, mine = self.journal, self.run
        runs = await journal.runs() if journal.shared else ()
        others = (run for run in runs if run.folder == mine.folder and run.ended_ms is None)
        return all(run.started_ms <= mine.started_ms for run in others)

    def check_decided(self, effect: Effect) -> None:
        """End the run when it comes to a tool call that waits for a decision. That is not recorded:
        when the run goes on, the decision is there."""
        if effect.key not in self.undecided:
            return
        journal = self.journal
        file = "" if journal.shared else f" {journal.place or 'JOURNAL'}"
        assert isinstance(effect.request, CallTool)
        called = f"{effect.request.tool} with {_shown(effect.request.arguments)}"
        raise ToolCutOff(
            f"the tool {called} was being called when the run was cut off, and nobody knows "
            f"whether it was done; look, then type: vega resume{file} --resend to have it called "
            f"again, or: vega resume{file} --skip to go on without, when the program is told that "
            "the call failed"
        )

    def on_missing(self, count: int) -> None:
        """Warn that an edited script buys answers again: it does not ask for `count` of them."""
        run = self._before
        script = Path(sys.argv[0]).name
        if run.script and run.script != _script():
            new = f"vega gc {run.program[:12]}" if self.journal.shared else "name another journal"
            answers = "1 recorded answer does" if count == 1 else f"{count:,} recorded answers do"
            _LOG.warning(
                "%s was edited after run %s began, and %s not fit its questions: calls are bought "
                "again; to keep them, press Ctrl-C and undo the edit; to start a new run: %s",
                script,
                run.program[:12],
                answers,
                new,
            )

    async def give_up(self, now: int, refusal: str = "") -> None:
        """Record that it was not begun, so that nobody goes on with it."""
        await self.journal.end(now, is_given_up=True, refusal=refusal)
        self.run = structs.replace(self.run, is_given_up=True, refusal=refusal)

    async def end(self, now: int, *, is_done: bool, failure: BaseException | None = None) -> None:
        """Record the end. A run that did not come to its end can be taken up again, unless it was
        refused before it had made a call: there is nothing to go on with."""
        # Without its end the run counts as unfinished, which is what `vega resume` looks for.
        if is_done:
            await self.journal.end(now)
        elif (refusal := _refusal_in(failure)) and await self._has_nothing():
            await self.give_up(now, refusal)
        await self.journal.aclose()
        await self.journal.tidy(now)  # only now: it may forget this run, whose files were open


def _refusal_in(failure: BaseException | None) -> str:
    """Return why a run may not begin, behind a word for its state: its money, its rights, or a key
    or another setting that it lacks. A paused run waits for a person."""
    match failure:
        case Paused():
            return ""
        case BudgetExceeded():
            return f"refused: {failure}"
        case CapabilityDenied():
            return f"denied: {failure}"
        case SettingsError():
            return f"not set up: {failure}"
        case AgentFailed(__cause__=WorldError(error_class=ErrorClass.AUTH)):
            return f"not set up: {failure}"
        case _:
            return ""


def _is_changed(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return group.subgroup(ProgramChanged) is not None
    return isinstance(error, ProgramChanged)


def _takeovers(run: RunRecord, recovered: Recovered) -> Takeovers:
    """Return the earlier lives of a run that is taken up: the last one was fruitless if it lost
    calls and brought no reply."""
    cut = recovered.cut.total
    replies = recovered.replies
    before = run.takeovers
    if before is None or replies > before.replies:
        accepted = Money(0) if before is None else before.accepted
        return Takeovers(cut, accepted, replies)
    fruitless = before.fruitless + (cut > before.charged)
    return Takeovers(cut, before.accepted, replies, fruitless)


def _command() -> tuple[str, ...]:
    """Return how this process was started, by the interpreter that runs it: `python` may be another
    one where the run goes on, or none."""
    return (sys.executable or sys.orig_argv[0], *sys.orig_argv[1:])


def _script() -> str:
    """Return a digest of the Python script that this process runs; "" if it runs none."""
    script = Path(sys.argv[0])
    return digest128(script.read_text()) if script.suffix == ".py" and script.is_file() else ""


class ProcessRuns:
    """The runs that the runtimes of one program begin, in order. A program that is resumed repeats
    its steps, so its n-th run resumes the n-th one of the earlier life."""

    def __init__(self, target: ResumeTarget | None) -> None:
        self.target = target
        self._first = ProgramId("" if target is None else target.run)
        self._count = 0

    async def begin(self, journal: Journal, new: RunRecord) -> RunRecord:
        """Begin the next run in the journal of a user, or resume the one that has its number."""
        new = structs.replace(new, first=self._first, number=self._count)
        run = await journal.begin(new, await self._resumed(journal))
        self._first = self._first or run.program
        self._count += 1
        return run

    async def _resumed(self, journal: Journal) -> ProgramId | None:
        if self.target is None or not self.target.run:
            return None
        if self.target.alone:
            return self._first
        for run in await journal.runs():
            if self._first in (run.program, run.first) and run.number == self._count:
                return run.program
        return None


@cache
def runs_of_process() -> ProcessRuns:
    """Return the runs of this process: of a Python script, which makes its runtimes itself and is
    handed no `resume`."""
    return ProcessRuns(take_resume())


def _shown(arguments: Any) -> str:  # noqa: ANN401
    """Return a call whole, as in a question: who lets it be called again approves it."""
    text = escape_json(arguments, environment_secrets())
    return f"arguments that {text.partition(':')[0]}" if isinstance(text, NotDisplayable) else text


# Effects and the journal: what is claimed before, kept after, and when it belongs to the program.
#
# | the effect is       | its claim      | an answer       | any other outcome                    |
# |---------------------|----------------|-----------------|--------------------------------------|
# | committed           | is committed   | is recorded     | is recorded                          |
# | speculative         | is speculative | is recorded     | is set aside, and its claim dropped  |
# | … and then wanted   | becomes so     | stands          | is recorded now                      |
# | … and then given up | stays          | stays for later | what it cost is recorded at the end  |
#
# A refusal or a failure that was met ahead of its turn may not be met when its turn comes, in this
# life or in the next, so nobody may find it in the journal before the program has come to it.


class PastAnswers:
    """The answers of another run, and the results of its tools and people, by what was asked and in
    the order of its calls. Each is given once."""

    def __init__(self, effects: Sequence[PastEffect]) -> None:
        self._waiting: dict[tuple[str, str], deque[Answered]] = defaultdict(deque)
        self._given: dict[EffectKey, Answered] = {}
        for one in sorted(effects, key=_order):
            if isinstance(one.outcome, Answered):
                kept = structs.replace(one.outcome, charged=Money(0), kept=True)
                self._waiting[one.kind, one.digest].append(kept)

    @property
    def given(self) -> int:
        """Return how many were given."""
        return len(self._given)

    def leave_out(self, effects: Sequence[PastEffect]) -> None:
        """Leave out what a run has kept already."""
        for one in effects:
            waiting = self._waiting.get((one.kind, one.digest))
            if waiting and isinstance(one.outcome, Answered) and one.outcome.kept:
                waiting.popleft()

    def has(self, effect: Effect) -> bool:
        """Return whether there is an answer to this request."""
        return bool(self._waiting.get((type(effect.request).__name__, effect.digest)))

    def take(self, effect: Effect) -> Answered | None:
        """Return what this effect was answered, the same however often it is begun."""
        if (given := self._given.get(effect.key)) is not None or not self.has(effect):
            return given
        waiting = self._waiting[type(effect.request).__name__, effect.digest]
        answer = self._given[effect.key] = waiting.popleft()
        return answer


def _order(effect: PastEffect) -> tuple[Any, ...]:
    """In the order of the calls; what the run did not come to stands last. Calls of one moment are
    in the order of their places, numbers in them by value."""
    parts = _NUMBER.split(effect.path)
    place = [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
    return not effect.committed, effect.claimed_ms, place


_NUMBER = re.compile(r"(\d+)")
_LOOK_S = 0.05
_RECORDED = (AskHuman, CallModel, CallTool)
"""What costs money or a person's time, or touches the world; the rest is done again on resume."""


class _Held(NamedTuple):
    path: str
    event: asyncio.Event
    is_new: bool


class EffectRecorder:
    """The recorder of one host's effects in the journal. `None` as a journal keeps nothing. With a
    backlog a journal that is away costs nobody an outcome: it is written later."""

    def __init__(
        self,
        journal: Journal | None,
        clock: Clock | None = None,
        backlog: Backlog | None = None,
        sent: Callable[[Container[EffectKey]], set[EffectKey] | None] = lambda _: None,
    ) -> None:
        self._journal = journal
        self._clock, self._backlog = clock, backlog
        self.past: PastAnswers | None = None
        """Answers of another run, which whoever comes to an equal request has in the order of the
        program: so what is begun early has to wait."""
        self.missing: set[str] = set()
        """Places of the earlier life's answers that the program has not come to again."""
        self.on_missing: Callable[[int], None] = lambda _: None
        """Gets their number before a new call is sent all the same."""
        self._sent = sent
        self._held: dict[EffectKey, _Held] = {}
        self._tried: set[EffectKey] = set()
        self._seen = (0, 0, 0)
        self.replayed: set[EffectKey] = set()
        self._speculative: dict[EffectKey, Effect] = {}
        self._set_aside: dict[EffectKey, EffectOutcome] = {}
        self._changed: set[EffectKey] = set()
        self._unclaimed: set[EffectKey] = set()
        """New model calls: the gate claims them in the transaction that reserves for them."""
        self._abandoned: dict[EffectKey, tuple[Effect, Unknown]] = {}
        """Calls that were given up and cost something all the same."""
        self.is_ended = False
        """Whether the process is ending: it cuts off the calls in flight."""

    def begin(self, effect: Effect, *, speculative: bool) -> None:
        """Note an effect before its claim, which may be made later, when it has become
        committed."""
        if self._keeps(effect):
            self.forget(effect.key)
            self._abandoned.pop(effect.key, None)
            if speculative:
                self._speculative[effect.key] = effect

    async def claim(self, effect: Effect, now: int) -> EffectOutcome | None:
        """Claim an effect and return what is recorded of it; None means that it is to be carried
        out."""
        if self._journal is None or not self._keeps(effect):
            return None
        # The gate claims a new model call, in the transaction that reserves for it: one write less
        # for each call, and no claim of which the ledger knows nothing.
        if isinstance(effect.request, CallModel) and self._journal.is_new(effect.key):
            if (kept := await self._kept(self._journal, effect, now)) is None:
                self._unclaimed.add(effect.key)
            return kept
        found = await self._claimed(self._journal, effect, now)
        if found.changed:
            # A call ahead of its turn may have been guessed wrongly. Only when the program comes to
            # it is another request at this place a changed program.
            if effect.key not in self._speculative:
                raise changed(effect)
            self._changed.add(effect.key)
        if found.outcome is not None or effect.key not in self._speculative:
            self._meet(effect.key)
        if found.outcome is not None:
            self.replayed.add(effect.key)
            return found.outcome
        return await self._kept(self._journal, effect, now)

    async def _kept(self, journal: Journal, effect: Effect, now: int) -> EffectOutcome | None:
        """Return the answer of another run, as one of this."""
        past, is_call = self.past, isinstance(effect.request, CallModel)
        if past is None or not is_call or not past.has(effect):
            return None
        if effect.key in self._speculative:
            await self._hold(effect, is_new=False)
        answer = past.take(effect)
        if answer is not None:
            with journal.atomically():
                is_early = effect.key in self._speculative
                claim = journal.claim(effect, now, speculative=is_early)
                writes = claim, journal.record(effect.key, answer)
            for write in writes:
                await write
            self.replayed.add(effect.key)
        return answer

    async def wait_for_answered(self, effect: Effect) -> None:
        """Hold a new model call until the program has come to each answered call of its earlier
        life. An edited program meets its change before that."""
        if self.missing and isinstance(effect.request, CallModel):
            await self._hold(effect, is_new=True)

    async def _hold(self, effect: Effect, *, is_new: bool) -> None:
        """Hold a call: a new one as above, one that another run answered until the program comes
        to it."""
        if not self._held:
            asyncio.get_running_loop().call_later(_LOOK_S, self._look)
        held = self._held[effect.key] = _Held(str(effect.path), asyncio.Event(), is_new)
        try:
            await held.event.wait()
        finally:
            del self._held[effect.key]

    def _meet(self, key: EffectKey) -> None:
        self.missing.discard(place_of(key))
        if not self.missing:
            self._release(self._held_as_new())

    def _held_as_new(self) -> set[EffectKey]:
        return {key for key, held in self._held.items() if held.is_new}

    def _release(self, keys: Iterable[EffectKey]) -> None:
        for key in keys:
            self._held[key].event.set()

    def _look(self) -> None:
        """Release calls where nothing goes on but what is held and what waits for it. Of new calls
        it is those that the program has come to, and all when one of them has ended without a
        change. Of the others it is the first by its place: the program may wait for one of them,
        behind which others stand in line."""
        if not self._held:
            return
        asyncio.get_running_loop().call_later(_LOOK_S, self._look)
        before = self._seen
        self._seen = (len(self.replayed), len(self.missing), len(self._held))
        sent = self._sent(self._held)
        if sent is None or self._seen != before:
            return
        new = self._held_as_new()
        if reached := new - self._speculative.keys():
            if not self._tried:
                self.on_missing(len(self.missing))
            self._tried |= reached
            self._release(reached)
        elif self._tried - sent:
            self.missing.clear()
            self._release(new - self._changed)
        elif not sent and (others := self._held.keys() - new):
            self._release([min(others, key=lambda key: self._held[key].path)])

    async def _claimed(self, journal: Journal, effect: Effect, now: int) -> ClaimResult:
        speculative = effect.key in self._speculative
        if self._clock is None:
            return await journal.claim(effect, now, speculative=speculative)
        return await retry_store(
            self._clock, lambda: journal.claim(effect, now, speculative=speculative)
        )

    def record_of(self, effect: Effect) -> "CallRecord | None":
        """Return the row of a call, for who records an answer together with what it cost."""
        return None if self._journal is None else CallRecord(self, self._journal, effect)

    def is_unclaimed(self, key: EffectKey) -> bool:
        """Return whether nobody has claimed the effect."""
        return key in self._unclaimed

    def claim_now(self, journal: Journal, effect: Effect, now: int) -> Awaitable[ClaimResult]:
        """Claim an effect, which may have been committed since it was begun."""
        return journal.claim(effect, now, speculative=effect.key in self._speculative)

    def on_claimed(self, key: EffectKey) -> None:
        """Note that an effect is claimed."""
        self._unclaimed.discard(key)

    async def keep(self, effect: Effect, outcome: EffectOutcome) -> None:
        """Record the outcome of what was claimed. What was cancelled stays claimed: if a later
        incarnation of this host wants it after all, the ledger knows whether it was sent. What was
        cancelled by a deadline is recorded: its asker was told, and may have gone on."""
        journal, key = self._journal, effect.key
        if journal is None or not self._keeps(effect):
            return
        if isinstance(outcome, EffectCancelled) and not outcome.late:
            self._abandon(effect, outcome)
            return
        # A pause is no outcome: when the budget was raised and the run goes on, the call is made.
        if isinstance(outcome, Refused) and outcome.error == Paused.__name__:
            await _surely(journal.drop(key))
        elif key in self._speculative and not isinstance(outcome, Answered):
            self._set_aside[key] = outcome
            await _surely(journal.drop(key))
        else:
            if isinstance(effect.request, CallTool):
                _spool(journal, key, outcome)
            if key in self._unclaimed:  # it was refused before the gate came to claim it
                now = 0 if self._clock is None else self._clock.now()
                await _surely(self._claim_late(journal, effect, now))
            await self._record(journal, key, outcome)

    def is_speculative(self, key: EffectKey) -> bool:
        """Return whether the effect was begun before its turn and is not committed."""
        return key in self._speculative

    async def _claim_late(self, journal: Journal, effect: Effect, now: int) -> None:
        self._unclaimed.discard(effect.key)
        await self._claimed(journal, effect, now)

    def is_changed(self, key: EffectKey) -> Effect | None:
        """Return the effect if it must not be committed, because other code asked something else
        there."""
        return self._speculative.get(key) if key in self._changed else None

    async def commit(self, key: EffectKey, now: int) -> None:
        """Commit an effect: its claim becomes the program's, and an outcome that was set aside is
        recorded. It is to be begun at once: what is claimed after this must find it done."""
        effect = self._speculative.pop(key, None)
        outcome = self._set_aside.pop(key, None)
        self._meet(key)
        if key in self._held and not self._held[key].is_new:
            self._release([key])
        if self._journal is None:
            return
        if effect is None or outcome is None:
            await self._journal.commit(key)
            return
        # Both are queued at once: nothing that follows from it may be kept between them.
        await asyncio.gather(self._journal.claim(effect, now), self._journal.record(key, outcome))

    async def _record(self, journal: Journal, key: EffectKey, outcome: EffectOutcome) -> None:
        """Record an outcome, also if we are cancelled meanwhile: what it came to is known all the
        same. How the first writing went is not told then, so it is written once more, which changes
        nothing."""
        try:
            await journal.record(key, outcome)
        except StoreError as error:
            if self._backlog is None:
                raise
            self._backlog.put(lambda: journal.record(key, outcome), error)
        except asyncio.CancelledError:
            await _surely(self._record(journal, key, outcome))

    async def aclose(self) -> None:
        """Record what was spent on calls that were given up and not begun again: the account of the
        run must show it, and the program counts it in if it comes to them in another life."""
        abandoned, self._abandoned = self._abandoned, {}
        for effect, outcome in abandoned.values():
            assert self._journal is not None
            now = 0 if self._clock is None else self._clock.now()
            await self._journal.claim(effect, now, speculative=True)
            await self._record(self._journal, effect.key, outcome)

    def _abandon(self, effect: Effect, outcome: EffectOutcome) -> None:
        if (charged := charged_for(outcome)) and isinstance(effect.request, CallModel):
            early = effect.key in self._speculative
            self._abandoned[effect.key] = effect, Unknown(charged, again=early, cut=self.is_ended)

    def forget(self, key: EffectKey) -> None:
        """Forget an effect that is not wanted and has ended."""
        outcome = self._set_aside.pop(key, None)
        if outcome is not None and key in self._speculative:
            self._abandon(self._speculative[key], outcome)
        self._speculative.pop(key, None)
        self._changed.discard(key)
        self._unclaimed.discard(key)

    def _keeps(self, effect: Effect) -> bool:
        return self._journal is not None and isinstance(effect.request, _RECORDED)


class CallRecord:
    """The row of one call in the journal, for the gate: it records an answer together with what it
    cost."""

    __slots__ = ("_effect", "_journal", "_key", "_recorder", "atomically", "holds")

    def __init__(self, recording: EffectRecorder, journal: Journal, effect: Effect) -> None:
        self._recorder, self._journal, self._effect = recording, journal, effect
        self._key = effect.key
        self.atomically, self.holds = journal.atomically, journal.holds

    @property
    def is_unclaimed(self) -> bool:
        """Whether the call is new and the gate has to claim it."""
        return self._recorder.is_unclaimed(self._key)

    def claim(self, now: int) -> Awaitable[object]:
        """Return the write that claims the call."""
        return self._recorder.claim_now(self._journal, self._effect, now)

    def on_claimed(self) -> None:
        """Note that the call is claimed."""
        self._recorder.on_claimed(self._key)

    def make_place(self, length: int) -> None:
        """Allocate a place for the reply."""
        self._journal.make_place(self._key, length)

    def leave_place(self) -> None:
        """Give up that place."""
        self._journal.leave_place(self._key)

    def keep(self, attempt: int, bill: Money, outcome: EffectOutcome) -> None:
        """Keep the reply before anything is awaited."""
        self._journal.keep(self._key, attempt, bill, outcome)

    def record(self, outcome: EffectOutcome) -> Awaitable[None]:
        """Return the write that records the outcome."""
        return self._journal.record(self._key, outcome)


def _spool(journal: Journal, key: EffectKey, outcome: EffectOutcome) -> None:
    """Keep an outcome before anything is waited for: what a tool did must not be done again after
    `kill -9`."""
    try:
        journal.keep(key, 0, Money(0), outcome)
    except OSError as error:
        _LOG.warning("the outcome of a tool could not be spooled: %s", error)


async def _surely(work: Awaitable[None]) -> None:
    """Carry out a write, also if we are cancelled meanwhile: the outcome is known, and is told."""
    with suppress(asyncio.CancelledError):
        await run_to_completion(work)
