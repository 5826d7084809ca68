"""How much is tried: VEGA_HISTORIES schedules of each attack; and where the attacks are told."""

import os
from pathlib import Path

SCHEDULES = int(os.environ.get("VEGA_HISTORIES", "100"))
CORPORA = Path(__file__).parents[1] / "data" / "attacks"
