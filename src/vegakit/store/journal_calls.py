"""The model calls that a journal holds, looked at from outside: nothing is written to it."""

from contextlib import closing
from pathlib import Path

from msgspec import Struct

from vegakit.ids import ProgramId
from vegakit.money import Money
from vegakit.store.sqlite_file import explained

__all__ = ["RecordedCall", "recorded_calls"]

_CALLS = """
    SELECT program, path, json_extract(outcome, '$.charged'),
        json_extract(outcome, '$.value.usage.output_tokens'),
        json_extract(outcome, '$.value.finish')
    FROM effects WHERE kind = 'CallModel' AND outcome IS NOT NULL
"""


class RecordedCall(Struct, frozen=True):
    """`process` is its last name in the path of the process that called; `output_tokens` is None
    where there was no answer, or nobody counted."""

    program: ProgramId
    process: str
    charged: Money
    output_tokens: int | None
    is_cut: bool


def recorded_calls(path: Path) -> list[RecordedCall]:
    """Of a file that `list_runs` can read."""
    import sqlite3

    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file:
            return [
                RecordedCall(
                    program, _process(place), Money(charged or 0), tokens, finish == "length"
                )
                for program, place, charged, tokens, finish in file.execute(_CALLS)
            ]
    except sqlite3.Error as error:
        raise explained(str(path), error) from error


def _process(place: str) -> str:
    """`main#1/A~#1/send …` is of `A~`."""
    lives = place.partition("/send ")[0]
    return lives.rpartition("/")[2].rpartition("#")[0]
