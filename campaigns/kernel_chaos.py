"""A kernel whose servers and store die under load: `python -m campaigns.kernel_chaos [60 [25]]`.

Three servers, each a process of `vega serve`, stand on a PostgreSQL cluster of this campaign's own.
Clients that share no code with them submit processes, take, count and end them, and read all
events from their cursor. Meanwhile a server is killed every second or two and started again, and
the cluster is stopped as by a crash. A client that is cut off asks the next server. At the end:

- every process that was acknowledged has ended, once; what was counted for it is exact, also where
  a client had to ask again;
- the replies of concurrent counters on one process are in an order that fits what was acknowledged
  when (linearizable). A call that had to be repeated says what is left by then, so it counts for
  the sum alone;
- every reader has seen each event once, in order, over all kills it lived through.

A try of a stream is one reader across one kill. Prints its figures last; exits 1 when one is off.
"""

import http.client
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import Figure, at_least, at_most, show
from benchmarks.temporal_server import free_port

from campaigns.admission import scale
from campaigns.kernel_histories import Reply, is_linearizable
from campaigns.postgres_cluster import Cluster, cluster

__all__ = ["Server", "main", "make_token", "storm"]

SERVERS, SUBMITTERS, WORKERS, COUNTERS, SHARED = 3, 2, 6, 4, 3
RECOVERY_S, PATIENT_LOOKS = 15, 120
USES = 3
_LEASE_MS = 5_000
_PLENTY = 1_000_000
_ONE = {"model_calls": 1}
_CUT_OFF = (OSError, http.client.HTTPException, ValueError)


class Server:
    """A server that is killed and started again on its port."""

    def __init__(self, store: str, folder: Path, *words: str) -> None:
        """`words` are what else is typed after `vega serve`."""
        self.port, self._store, self._folder = free_port(), store, folder
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["serve", "--store", self._store, "--port", str(self.port), "--drain", "1s"]
        words += self._words
        with (self._folder / f"{self.port}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "vegakit", *words],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def wait(self) -> None:
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            with suppress(*_CUT_OFF), closing(connection):
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            assert self._process is not None
            assert self._process.poll() is None, (self._folder / f"{self.port}.log").read_text()
            time.sleep(0.05)

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait()


class Stand:
    """What all clients share: where the servers are, the token, whether to go on, and what they
    waited for."""

    def __init__(self, ports: list[int], token: str) -> None:
        self._ports, self._token = ports, token
        # Of its own: the threads of a storm in a test would draw from the one that others watch.
        self._random = random.Random()
        self.is_over = threading.Event()
        self.refused: Counter[str] = Counter()
        self.outages_s: list[float] = []

    def call(self, name: str, **fields: object) -> Any:
        """Ask one server after another until one has answered or the storm is over; a request that
        was cut off is sent again as it was."""
        body = json.dumps(fields).encode()
        began: float | None = None
        while not self.is_over.is_set():
            try:
                status, reply = self._ask(self.port(), name, body)
            except _CUT_OFF:
                status, reply = 0, {}
            if status == 200:
                if began is not None:
                    self.outages_s.append(time.monotonic() - began)
                return reply | {"was_repeated": began is not None}
            if status in (400, 404, 409):
                self.refused[name] += 1
                return {}
            began = began or time.monotonic()
            time.sleep(0.02)
        return {}

    def _ask(self, port: int, name: str, body: bytes) -> tuple[int, dict[str, Any]]:
        with self.opened(port, name, body) as response:
            return response.status, json.loads(response.read())

    @contextmanager
    def opened(self, port: int, name: str, body: bytes) -> Generator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        try:
            connection.request("POST", f"/v1/{name}", body, headers)
            yield connection.getresponse()
        finally:
            connection.close()

    def port(self) -> int:
        return self._random.choice(self._ports)


class Reader(threading.Thread):
    """Reads all events from its cursor, wherever there is a server."""

    def __init__(self, stand: Stand) -> None:
        super().__init__(daemon=True)
        self._stand = stand
        self.numbers: list[int] = []
        self.events: list[Any] = []
        self.resumed, self.missed = 0, 0

    def run(self) -> None:
        while not self._stand.is_over.is_set():
            with suppress(*_CUT_OFF):
                self._read()
            time.sleep(0.02)

    def _read(self) -> None:
        after = self.numbers[-1] if self.numbers else 0
        body = json.dumps({"after": after, "follow": True}).encode()
        with self._stand.opened(self._stand.port(), "watch_events", body) as response:
            number = 0
            self.resumed += bool(after) and response.status == 200
            while response.status == 200 and (line := response.readline()):
                if self._stand.is_over.is_set():
                    return
                if line.startswith(b"id: "):
                    number = int(line[4:])
                elif line.startswith(b"data: ") and line.endswith(b"\n"):
                    told = json.loads(line[6:])
                    if "number" not in told:  # an error of the stream, and its end
                        return
                    self.missed += told.get("missed", 0)
                    self.numbers.append(number)
                    self.events.append(told["event"])


class Load:
    """The clients of a storm, and what was acknowledged to them."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.submitted: set[str] = set()
        self.counted: dict[str, list[Reply]] = {f"shared{n}": [] for n in range(SHARED)}
        self.acknowledged: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.is_closing = threading.Event()
        self._numbers = count()
        for pid in self.counted:
            stand.call("create_process", pid=pid, quota={"model_calls": _PLENTY})

    def start(self) -> tuple[list[threading.Thread], list[threading.Thread]]:
        """Return the workers, who go on until all is worked off, and those that end before."""
        workers = [threading.Thread(target=self._work, args=(f"w{n}",)) for n in range(WORKERS)]
        others = [threading.Thread(target=self._submit) for _ in range(SUBMITTERS)]
        others += [threading.Thread(target=self._count, args=(f"c{n}",)) for n in range(COUNTERS)]
        for thread in (*workers, *others):
            thread.daemon = True
            thread.start()
        return workers, others

    def _submit(self) -> None:
        while not self.is_closing.is_set():
            pid = f"p{next(self._numbers)}"
            self.stand.call("submit", pid=pid, quota={"model_calls": USES})
            if self.stand.is_over.is_set():
                return
            self.submitted.add(pid)
            self.calls["submit"] += 1

    def _work(self, holder: str) -> None:
        while not self.stand.is_over.is_set():
            taken = self.stand.call("get_next_runnable", holder=holder, lease_ms=_LEASE_MS)
            self.calls["work"] += 1
            if "process" not in taken:
                time.sleep(0.05)
                continue
            pid = taken["process"]["pid"]
            for use in range(USES):
                self.stand.call("record_usage", pid=pid, usage_id=f"u{use}", usage=_ONE)
            self.stand.call("terminate_process", pid=pid, reason="done")
            self.calls["work"] += USES + 1

    def _count(self, name: str) -> None:
        for use in count():
            if self.is_closing.is_set():
                return
            pid, asked = f"shared{use % SHARED}", time.monotonic()
            reply = self.stand.call("record_usage", pid=pid, usage_id=f"{name} {use}", usage=_ONE)
            if self.stand.is_over.is_set():
                return
            self.calls["count"] += 1
            self.acknowledged[pid] += 1
            if not reply["was_repeated"]:
                left = reply["remaining"].get("model_calls", 0)
                self.counted[pid].append(Reply(asked, time.monotonic(), left))

    def off(self) -> dict[str, int]:
        """Return what is left of the quota of processes of which something else should be."""
        due = dict.fromkeys(self.submitted, 0)
        due |= {pid: _PLENTY - self.acknowledged[pid] for pid in self.counted}
        left = {
            pid: self.stand.call("check_quota", pid=pid)["remaining"].get("model_calls", 0)
            for pid in due
        }
        return {pid: left[pid] for pid in due if left[pid] != due[pid]}


class Storm(NamedTuple):
    """What is seen after a storm."""

    load: Load
    readers: list[Reader]
    kills: int
    crashes: int
    off: dict[str, int]
    living: set[str]
    """The processes that had not ended when all had been given the time to."""


def storm(seconds: float, readers: int, folder: Path) -> Storm:
    """Let servers and store die for so long, then wait until all is worked off."""
    with cluster() as database:
        store = f"postgresql://postgres@127.0.0.1:{database.port}/postgres"
        servers = [Server(store, folder) for _ in range(SERVERS)]
        for server in servers:
            server.start()
        for server in servers:
            server.wait()
        stand = Stand([server.port for server in servers], make_token(store, folder))
        watchers, load = [Reader(stand) for _ in range(readers)], Load(stand)
        workers, others = load.start()
        for reader in watchers:
            reader.start()
        try:
            kills, crashes = _chaos(seconds, servers, database)
            load.is_closing.set()
            for thread in others:
                thread.join(timeout=120)
            return _calm(load, watchers, kills, crashes)
        finally:
            stand.is_over.set()
            for server in servers:
                server.end()
            for thread in (*workers, *others, *watchers):
                thread.join(timeout=60)


def make_token(store: str, folder: Path, tenant: str = "acme") -> str:
    """By the command that a person types."""
    words = f"token create --tenant {tenant} --user ann --role operator --json --store".split()
    made = subprocess.run(
        [sys.executable, "-m", "vegakit", *words, store],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return json.loads(made.stdout)["token"]


def _calm(load: Load, watchers: list[Reader], kills: int, crashes: int) -> Storm:
    """Wait until all is worked off and read, and say what is seen then."""
    stand = load.stand
    living, looks = set(load.submitted), 0
    # Each by its own state: a count of all would take in the processes of the counters, too. To
    # look at thousands takes longer than the last of them do, so looks in vain are limited.
    while living and looks < PATIENT_LOOKS:
        before = len(living)
        for pid in tuple(living):
            if stand.call("get_process", pid=pid)["state"] == "terminated":
                living.discard(pid)
        looks = 0 if len(living) < before else looks + 1
        time.sleep(1.0 if living else 0.0)
    last = _last_event(stand)
    _wait(lambda: all(reader.numbers[-1] >= last for reader in watchers))
    return Storm(load, watchers, kills, crashes, load.off(), living)


def _wait(is_done: Callable[[], bool]) -> None:
    patience = time.monotonic() + 120
    while not is_done() and time.monotonic() < patience:
        time.sleep(0.2)


def _chaos(seconds: float, servers: list[Server], database: Cluster) -> tuple[int, int]:
    kills = crashes = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(random.uniform(0.5, 1.5))
        if kills % 8 == 4:
            database.stop()
            time.sleep(random.uniform(0.2, 1.5))
            database.start()
            crashes += 1
        victim = random.choice(servers)
        victim.end()
        kills += 1
        time.sleep(random.uniform(0, 0.5))
        victim.start()
        victim.wait()
    return kills, crashes


def _last_event(stand: Stand) -> int:
    """Nothing happens any more: the number that a whole reading ends with."""
    last = 0
    while True:
        body = json.dumps({"after": last}).encode()
        with stand.opened(stand.port(), "watch_events", body) as response:
            found = [int(line[4:]) for line in response if line.startswith(b"id: ")]
        if not found:
            return last
        last = found[-1]


def figures(seen: Storm) -> list[Figure]:
    """What must hold after a storm."""
    numbers = [reader.numbers for reader in seen.readers]
    whole = [*range(1, max(map(len, numbers), default=0) + 1)]
    lost = sum(len(set(whole) - set(one)) for one in numbers)
    doubled = sum(len(one) - len(set(one)) for one in numbers)
    events = seen.readers[0].events
    kinds = Counter((event["kind"], event["pid"]) for event in events)
    twice = sum(
        kinds[kind, pid] != 1
        for pid in seen.load.submitted
        for kind in ("process_created", "process_terminated")
    )
    wrong = sum(not is_linearizable(replies) for replies in seen.load.counted.values())
    counted = sum(map(len, seen.load.counted.values()))
    outages = sorted(seen.load.stand.outages_s) or [0.0]
    p95 = outages[int(0.95 * (len(outages) - 1))]
    none = [
        ("processes acknowledged and lost", len(seen.living)),
        ("processes made or ended twice", twice),
        ("processes whose count is off", len(seen.off)),
        ("shared counters that are not linearizable", wrong),
        ("events lost", lost),
        ("events doubled", doubled),
        ("events out of order", sum(one != sorted(one) for one in numbers)),
        ("events missed by the keeping of them", sum(reader.missed for reader in seen.readers)),
    ]
    tries = sum(reader.resumed for reader in seen.readers)
    return [
        Figure("servers killed", f"{seen.kills}"),
        Figure("crashes of PostgreSQL", f"{seen.crashes}"),
        Figure("calls acknowledged", f"{sum(seen.load.calls.values()):,}"),
        Figure("processes submitted", f"{len(seen.load.submitted):,}"),
        Figure("counted on shared processes", f"{counted:,}"),
        Figure("events", f"{len(whole):,}"),
        Figure("streams resumed from their cursor", f"{tries:,}"),
        *(Figure(name, f"{found}", "0", found == 0) for name, found in none),
        at_most(RECOVERY_S * scale(), p95, "s", "recovery, p95 of all outages of a client"),
        at_least(1, len(seen.load.submitted), "", "processes that went through"),
    ]


def main(seconds: int = 60, readers: int = 25) -> int:
    with tempfile.TemporaryDirectory() as folder:
        seen = storm(seconds, readers, Path(folder))
    found = figures(seen)
    print(show(found))
    if seen.load.stand.refused:
        print("refused:", dict(seen.load.stand.refused))
    return 0 if all(figure.holds for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
