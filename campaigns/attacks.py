"""The whole corpus of attacks, and the races (G12): `python -m campaigns.attacks [full]`.

Those by command, variable, path, URL and file are carried out and counted here; the others are
tests of their own parts, which are run. Exits 1 if one was allowed, did something outside, read a
secret, or was met by nobody.
"""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.runtime.test_attacks_budget import NOT_YET as BUDGET_NOT_YET
from tests.store.test_audit_attacks import NOT_YET as AUDIT_NOT_YET
from tests.tools.confined.attacks import FOLDER, known
from tests.tools.confined.test_attacks_data import NOT_HERE as DATA_NOT_HERE
from tests.tools.mcp.test_attacks import NOT_HERE as MCP_NOT_HERE

from campaigns.attacks_carried_out import CARRIED_OUT, Tally
from campaigns.races import TOOLS, Races, race_each_way
from vegakit.tools import best_opener, open_by_walk

__all__ = ["main"]

REPOSITORY = Path(__file__).parents[1]


class Tested(NamedTuple):
    """A class whose attacks are tests, and those that its part leaves to another."""

    tests: str
    elsewhere: int = 0


TESTED = {
    "data": Tested("tests/tools/confined/test_attacks_data.py", len(DATA_NOT_HERE)),
    "mcp": Tested("tests/tools/mcp/test_attacks.py", len(MCP_NOT_HERE)),
    "hitl": Tested("tests/policy/test_permission_attacks_properties.py"),
    "audit": Tested("tests/store/test_audit_attacks.py", len(AUDIT_NOT_YET)),
    "vega": Tested("tests/runtime/compiled/test_attacks_vega.py"),
    "sql": Tested("tests/kernel/test_attacks_web.py"),
    "web": Tested("tests/kernel/test_attacks_web.py"),
    "grpc": Tested("tests/kernel/test_attacks_grpc.py"),
    "redis": Tested("tests/kernel/test_attacks_grpc.py"),
    "budget": Tested("tests/runtime/test_attacks_budget.py", len(BUDGET_NOT_YET)),
    "contract": Tested("tests/vesper/test_node_hostile.py"),
}
STAGED_URLS = "tests/tools/confined/test_attacks_url.py"
HEAD = ("class", "literals", "refused", "contained", "allowed", "outside", "secrets", "elsewhere")


def by_tests(kind: str, histories: str) -> Tally:
    """A test that fails names its attack; one that names none counts for all."""
    literals, tested = len(known(kind)), TESTED[kind]
    failed = failing(tested.tests, histories)
    named = set(re.findall(rf"{kind}-\d+", failed))
    through = len(named) or (literals if failed else 0)
    met = literals - through - tested.elsewhere
    return Tally(literals, 0, met, 0, through, 0, tested.elsewhere)


def failing(tests: str, histories: str) -> str:
    words = [sys.executable, *"-m pytest -q -n0 --tb=line -rf -p no:cacheprovider".split(), tests]
    env = {**os.environ, "VEGA_HISTORIES": histories}
    ran = subprocess.run(
        [*words, "--timeout=0"],
        cwd=REPOSITORY,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout + ran.stderr if ran.returncode else ""


def tallies(histories: str) -> Iterator[tuple[str, Tally]]:
    for kind, carry_out in CARRIED_OUT.items():
        yield kind, asyncio.run(carry_out())
    for kind in TESTED:
        yield kind, by_tests(kind, histories)


def shown(name: str, tally: Tally, *, holds: bool) -> str:
    cells = "".join(f"{cell:>10}" for cell in tally)
    return f"{name:<10}{cells}  {'ok' if holds else 'SHORT'}"


def main(size: str = "") -> int:
    calls, histories = (100_000, "1000") if size == "full" else (2_000, "50")
    began, found = time.monotonic(), list[Tally]()
    print(f"{HEAD[0]:<10}{''.join(f'{word:>10}' for word in HEAD[1:])}", flush=True)
    for kind, tally in tallies(histories):
        print(shown(kind, tally, holds=tally.holds), flush=True)
        found.append(tally)
    # Sums do not judge: some classes count an attack as refused and as contained, both.
    is_met, total = all(tally.holds for tally in found), map(sum, zip(*found, strict=True))
    print(shown("all", Tally(*total), holds=is_met))
    uncounted = {path.stem for path in FOLDER.glob("*.jsonl")} - {*CARRIED_OUT, *TESTED}
    staged = not failing(STAGED_URLS, histories)
    ways = dict.fromkeys((best_opener(), open_by_walk))
    races = sum((race_each_way(tool, calls, way) for way in ways for tool in TOOLS), Races())
    print(f"staged URLs {'ok' if staged else 'SHORT'}; classes nobody counts: {len(uncounted)}")
    print(f"races: {races}; {time.monotonic() - began:.0f} s in all")
    return int(not is_met or not staged or bool(uncounted) or races.escapes > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
