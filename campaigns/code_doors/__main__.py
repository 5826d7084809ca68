"""The doors of the coding agent: the same session by each, and what a cancel and a kill leave.

python -m campaigns.code_doors [full]
"""

import asyncio
import signal
import statistics
import sys

from campaigns.code_doors.checks import (
    ASKING,
    KILLED_AT,
    SERVING,
    cancel_to_silence,
    conformance,
    cost_faults,
    kill_faults,
    transcripts,
)
from campaigns.code_doors.doors import DOORS

LONGEST_CANCEL_S = 5.0
"""The command that is cancelled would take 31 s."""


async def _measured(*, is_full: bool) -> int:
    rows: list[tuple[str, str, list[str]]] = []
    for mode, names in (("auto", ("SDK", *DOORS)), ("ask", ASKING)):
        for name, faults in (await transcripts(names, mode)).items():
            rows.append((f"transcript by {name}, mode {mode}", "equal", faults))
    found = await conformance(30 if is_full else 3, 1)
    said = f"{found.messages} messages of {found.kinds} kinds fit the schema"
    rows.append(("ACP", said, found.faults))
    rows.append(("cost in usage_update, turn and ledger", "equal", await cost_faults()))
    for name in SERVING:
        cancels = [await cancel_to_silence(name) for _ in range(10 if is_full else 1)]
        took = [one.seconds for one in cancels]
        faults = [fault for one in cancels for fault in one.faults]
        if max(took) > LONGEST_CANCEL_S:
            faults.append(f"{max(took):.2f} s is more than {LONGEST_CANCEL_S:g} s")
        told = (
            f"{statistics.median(took):.2f} s median, {max(took):.2f} s at most, {len(took)} times"
        )
        rows.append((f"cancel to silence by {name}", told, faults))
    for name in SERVING:
        places = [*KILLED_AT] * 4 if is_full else ["edit"]
        faults = [fault for at in places for fault in await kill_faults(name, at)]
        rows.append(
            (f"kill -9 behind {name}", f"{len(places)} kills, nothing bought twice", faults)
        )
    short = 0
    for name, told, faults in rows:
        short += bool(faults)
        sign, what = ("FALLS SHORT", faults[0][:500]) if faults else ("holds", told)
        print(f"{sign:12} {name}: {what}")
    print(f"{len(rows) - short} of {len(rows)} hold")
    return int(short > 0)


if __name__ == "__main__":
    # A shell starts what is in its background with Ctrl-C ignored, and so would be what we cancel.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(asyncio.run(_measured(is_full="full" in sys.argv[1:])))
