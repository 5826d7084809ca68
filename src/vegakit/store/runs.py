"""The runs in a journal, seen from outside: summed up and listed, which writes nothing; and what a
place to store things in offers.

A place is the path of a file, or a URL whose scheme says which backend it is of. A backend is a
folder beside this module and a row of the table in `registry`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from vegakit.events import EffectOutcome, charged_for
from vegakit.ids import ProgramId
from vegakit.money import Money
from vegakit.ports import Journal, KeptOutcome, Ledger, RunRecord, Store, TenantStore
from vegakit.records import from_json
from vegakit.store.journal import ForgottenRuns, outcome_of
from vegakit.store.seals import RowSeals


class RunSummary(Struct, frozen=True):
    """`cut_off` are calls without an outcome: of a run that goes on, they are in flight. A question
    to a person is none, and neither is a call whose answer only the spool has. `lost` is
    how much of what was spent is for calls that brought no answer: they were cut off, or timed
    out. `kept` are answers that another run bought."""

    run: RunRecord
    ended_ms: int | None
    is_running: bool
    recorded: int
    cut_off: int
    spent: Money
    lost: Money = Money(0)
    kept: int = 0


class RecordedCall(Struct, frozen=True):
    """A model call that a run made and recorded. `process` is the last name in the path of the
    process that called; `output_tokens` is None where there was no answer, or nobody counted."""

    program: ProgramId
    process: str
    charged: Money
    output_tokens: int | None
    is_cut: bool


class RecordedEffect(Struct, frozen=True):
    """An effect as it stands in a journal: its path in the program, and its outcome, None if it was
    cut off or goes on."""

    path: str
    kind: str
    outcome: EffectOutcome | None


class Backend(NamedTuple):
    """The operations of one kind of place, each of which takes the place as its first argument."""

    ledger: Callable[[str], Ledger]
    journal: Callable[..., Journal]
    """Open a journal; `shared` and `keep` are those of `SqlJournal`."""
    runs: Callable[[str], list[RunSummary]]
    """Return the runs of a journal, the first first, without writing to it."""
    calls: Callable[[str], list[RecordedCall]]
    """Return the model calls of a journal. What a run has kept is no call of it: the run that
    bought the answer made that."""
    effects: Callable[[str, str], list[RecordedEffect]]
    """Return the effects of the run that is named second, in no order."""
    forget: Callable[..., ForgottenRuns]
    """Forget runs that have ended, by age and size."""
    size: Callable[[str], int | None]
    """Return how many bytes a journal takes; None where nothing is recorded yet."""
    tenants: Callable[[str], TenantStore]
    """Open the state that servers share."""
    stores: Callable[[str], tuple[Store, ...]]
    """Open the documents of a place: those of its journal first, then those that all share."""


class RunQueries:
    """The statements by which a journal is read from outside. `number` and `text` give the SQL for
    a field of a JSON column by its path; `own` is the condition on the user's runs."""

    def __init__(
        self, number: Callable[..., str], text: Callable[..., str], own: str = "TRUE"
    ) -> None:
        charged, tokens = number("charged"), number("value", "usage", "output_tokens")
        # It is written only where it is true, which each backend spells in its own way.
        kept = text("kept")
        self.runs = f"""
            SELECT program, ended_ms, run, seal, recorded, cut_off, spent, lost, kept
            FROM runs LEFT JOIN (
                SELECT program,
                    SUM(CASE WHEN outcome IS NULL AND kind <> 'AskHuman' THEN 1 ELSE 0 END)
                        AS cut_off,
                    SUM(CASE WHEN {text("type")} <> 'Refused' THEN 1 ELSE 0 END) AS recorded,
                    SUM(CASE kind WHEN 'CallModel' THEN {charged} END) AS spent,
                    SUM(CASE {text("type")} WHEN 'Unknown' THEN {charged} END) AS lost,
                    COUNT({kept}) AS kept
                FROM effects GROUP BY program
            ) AS figures USING (program) WHERE {own} ORDER BY program
        """  # noqa: S608  (our words)
        self.calls = f"""
            SELECT program, path, {charged}, {tokens}, {text("value", "finish")}
            FROM effects JOIN runs USING (program)
            WHERE kind = 'CallModel' AND outcome IS NOT NULL AND {kept} IS NULL AND {own}
        """  # noqa: S608
        self.effects = f"""
            SELECT path, kind, outcome FROM effects JOIN runs USING (program)
            WHERE program = ? AND {own}
        """  # noqa: S608
        self._unrecorded = f"""
            SELECT key FROM effects JOIN runs USING (program)
            WHERE program = ? AND outcome IS NULL AND {own}
        """  # noqa: S608
        self.ended = f"""
            SELECT program, ended_ms FROM runs
            WHERE ended_ms IS NOT NULL AND {own} ORDER BY ended_ms
        """  # noqa: S608

    def unrecorded(
        self,
        file: Any,  # noqa: ANN401
        spooled: Callable[[str], list[KeptOutcome]],
        program: str,
    ) -> list[EffectOutcome]:
        """Return the outcomes of a run that only its spool has."""
        keys = file.execute(self._unrecorded, (program,)).fetchall()
        kept = (one for one in spooled(program) if (one.key,) in keys)
        return [one.outcome for one in kept if one.program == program]


SIZE = """
    SELECT SUM(LENGTH(key) + LENGTH(path) + LENGTH(digest) + COALESCE(LENGTH(outcome), 0))
    FROM effects WHERE program = ?
"""
"""About what the rows of a run hold."""


def summaries(
    rows: Iterable[tuple[Any, ...]],
    seals: RowSeals,
    is_running: Callable[[RunRecord], bool],
    spooled: Callable[[str], Sequence[EffectOutcome]],
) -> list[RunSummary]:
    """Return the runs, the first first. A run tells which command is started again to resume it, so
    it must be sealed by us. `spooled` returns the outcomes of a run that only its spool has."""
    found: list[RunSummary] = []
    for program, ended_ms, text, seal, *figures in rows:
        [row] = seals.checked("runs", [(program, ended_ms, text, seal)])
        run = from_json(RunRecord, row[2])
        living = ended_ms is None and is_running(run)
        recorded, cut_off, spent, lost, kept = (int(figure or 0) for figure in figures)
        more = spooled(program) if cut_off and ended_ms is None and not living else ()
        money = Money(spent + sum(map(charged_for, more))), Money(lost)
        calls = recorded + len(more), cut_off - len(more)
        found.append(RunSummary(run, ended_ms, living, *calls, *money, kept))
    return found


def recorded_effect(row: tuple[Any, ...]) -> RecordedEffect:
    """Return a row of `RunQueries.effects`."""
    path, kind, outcome = row
    return RecordedEffect(path, kind, outcome_of(outcome))


def recorded_call(row: tuple[Any, ...]) -> RecordedCall:
    """Return a row of `RunQueries.calls`. A path `main#1/A~#1/send …` is of `A~`."""
    program, place, charged, tokens, finish = row
    process_path = place.partition("/send ")[0]
    process = process_path.rpartition("/")[2].rpartition("#")[0]
    return RecordedCall(program, process, Money(int(charged or 0)), tokens, finish == "length")
