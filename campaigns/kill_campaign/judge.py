"""What a run left behind, judged from outside: plain `sqlite3`, and the provider's own log.

| fault          | means                                                                     |
|----------------|---------------------------------------------------------------------------|
| stuck          | the run cannot go on                                                      |
| changed        | an unchanged program was told that it changed                             |
| differs        | its output is not that of a run that nobody disturbed                     |
| bought again   | a reply that the gate had received was asked for again                    |
| recorded twice | one request is recorded as answered under two names                       |
| off            | the ledger does not hold what the provider billed and what was cut off    |
| reserved       | money is still set aside after the run is done                            |
| crashed        | a traceback was shown                                                     |
"""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from campaigns.kill_campaign.player import Played

__all__ = ["FAULTS", "Books", "Fault", "judge"]

FAULTS = (
    "stuck",
    "changed",
    "differs",
    "bought again",
    "recorded twice",
    "off",
    "reserved",
    "crashed",
)


class Fault(NamedTuple):
    kind: str
    detail: str


class Claim(NamedTuple):
    id: str
    amount: int
    state: str
    charged: int

    @property
    def is_unknown(self) -> bool:
        """Charged at its reservation: the provider never bills as much."""
        return self.charged == self.amount

    @property
    def is_billed(self) -> bool:
        return 0 < self.charged < self.amount


class Books:
    """The journal and the ledger of a home, wherever in it they lie."""

    def __init__(self, folder: Path) -> None:
        self.runs: list[Any] = []
        self.ended: list[int] = []
        self.claims: list[Claim] = []
        self.roots: list[tuple[int, int]] = []
        for path in sorted(folder.rglob("*.db")):
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
                self._read(file)

    def _read(self, file: sqlite3.Connection) -> None:
        try:
            found = file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            tables = {name for (name,) in found}
        except sqlite3.DatabaseError:
            return
        if "runs" in tables:
            self.runs += file.execute("SELECT * FROM runs").fetchall()
            ended = file.execute("SELECT ended_ms FROM runs WHERE ended_ms IS NOT NULL")
            self.ended += [at for (at,) in ended]
        if "claims" in tables:
            rows = file.execute("SELECT id, amount, state, charged FROM claims").fetchall()
            self.claims += [Claim(*row) for row in rows]
            found = file.execute("SELECT settled, reserved FROM scopes WHERE parent IS NULL")
            self.roots += found.fetchall()


_CHANGED = ("ProgramChanged", "differs from the recorded request", "its source was another")
"""Words by which a run is refused whose program is held for another one."""


def judge(played: Played, undisturbed: Played | None) -> list[Fault]:
    """`undisturbed` is None if the outputs are not to be compared."""
    faults = [*_tracebacks(played)]
    if played.trouble:
        kind = "changed" if any(said in played.trouble for said in _CHANGED) else "stuck"
        faults.append(Fault(kind, played.trouble))
    elif undisturbed is not None:
        for part in ("output", "result"):
            mine, right = played.page.get(part), undisturbed.page.get(part)
            if mine != right:
                faults.append(Fault("differs", f"{part}: {_parted(mine, right)}"))
    return [*faults, *_bought_again(played), *_account(played)]


def _tracebacks(played: Played) -> list[Fault]:
    lives = sorted((played.home.folder / "lives").glob("*.err"))
    said = [path.read_text(errors="replace") for path in lives]
    return [Fault("crashed", text[-800:]) for text in said if "Traceback (most recent" in text]


def _bought_again(played: Played) -> list[Fault]:
    """Both clocks are the machine's own."""
    received: dict[str, int] = {}
    if played.home.received.exists():
        for line in played.home.received.read_text().splitlines():
            name, at = line.split()
            received.setdefault(name, int(at))
    again = [
        request
        for request in played.desk.requests
        if request.came_ns > received.get(request.name, request.came_ns)
    ]
    return [Fault("bought again", f"{request.name} {request.text!r}") for request in again]


def _account(played: Played) -> list[Fault]:
    books, requests = Books(played.home.folder), played.desk.requests
    answered = [claim for claim in books.claims if claim.is_billed]
    unknown = [claim for claim in books.claims if claim.is_unknown]
    names = {request.name for request in requests if request.status == "answered"}
    bills = Counter(request.bill for request in requests if request.status == "answered")
    sent = sum(not request.status.startswith("failed") for request in requests)
    faults: list[Fault] = []
    if len(answered) > len(names):
        twice = f"{len(answered)} answers of {len(names)} requests"
        faults.append(Fault("recorded twice", twice))
    if above := [claim for claim in books.claims if claim.charged > claim.amount]:
        effect = above[0].id.partition("#")[0]
        tried = [claim for claim in books.claims if claim.id.startswith(effect)]
        faults.append(Fault("off", f"a call is charged above its reservation: {tried}"))
    if any(claim.state == "unknown" and not claim.is_unknown for claim in books.claims):
        faults.append(Fault("off", "a call that was cut off is not charged at its reservation"))
    if unbilled := Counter(claim.charged for claim in answered) - bills:
        faults.append(Fault("off", f"charged what nobody billed: {unbilled}"))
    if sent > len(answered) + len(unknown):
        seen = f"{sent} sent, {len(answered)} answered, {len(unknown)} unknown"
        faults.append(Fault("off", seen))
    charged = sum(claim.charged for claim in books.claims)
    settled = sum(settled for settled, _ in books.roots)
    if charged != settled:
        faults.append(Fault("off", f"settled {settled}, the calls come to {charged}"))
    left = sum(reserved for _, reserved in books.roots)
    live = [claim for claim in books.claims if claim.state == "sent"]
    if not played.trouble and (left or live):
        faults.append(Fault("reserved", f"{left} nano-dollars, {len(live)} calls"))
    return faults


def _parted(mine: Any, right: Any) -> str:
    if not (mine and right) or isinstance(mine, str):
        return f"{mine!r} instead of {right!r}"
    at = 0
    while at < min(len(mine), len(right)) and mine[at] == right[at]:
        at += 1
    return f"at {at} of {len(right)}: {mine[at : at + 2]} instead of {right[at : at + 2]}"
