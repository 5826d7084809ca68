"""Programs that models write at run time: admitted, or refused with what to mend (pure).

source ─▶ check ─▶ manifest, agents inside the leave? ─▶ quote ─▶ Accepted
             └──────── Refused: what is wrong, and an edit that mends it
"""

from vegakit.authoring.admission import (
    LANGUAGES,
    MOST_BYTES,
    Accepted,
    Leave,
    TermsOf,
    admit,
    judge,
    poor,
)
from vegakit.authoring.looking import MOST_LINKS, Counting, Looked, Wish, counts_by, look, too_much
from vegakit.authoring.may import May, lacking
from vegakit.authoring.refusals import Refusal, Refused, refused

__all__ = [
    "LANGUAGES",
    "MOST_BYTES",
    "MOST_LINKS",
    "Accepted",
    "Counting",
    "Leave",
    "Looked",
    "May",
    "Refusal",
    "Refused",
    "TermsOf",
    "Wish",
    "admit",
    "counts_by",
    "judge",
    "lacking",
    "look",
    "poor",
    "refused",
    "too_much",
]
