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
from vegakit.authoring.may import May, lacking
from vegakit.authoring.refusals import Refusal, Refused, refused

__all__ = [
    "LANGUAGES",
    "MOST_BYTES",
    "Accepted",
    "Leave",
    "May",
    "Refusal",
    "Refused",
    "TermsOf",
    "admit",
    "judge",
    "lacking",
    "poor",
    "refused",
]
