"""Draws `docs/images/money-{light,dark}.svg` from real runs: `python -m benchmarks.money_picture`.

The same pages are asked by Vega and by Pydantic AI, each under a limit of $1, of a provider on
127.0.0.1 that counts what it bills. Vega is killed by `kill -9` in the middle and resumed. With
`--draw` only the drawing is made again, from the samples in `samples.json`.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from benchmarks.money_picture.drawing import Picture, draw
from benchmarks.money_picture.in_vega import CAP, MAX_TOKENS, MODEL, PAGES
from benchmarks.peers_programs.running import PEERS_PYTHON
from vegakit.conversation import Usage
from vegakit.prices import bill
from vegakit.providers import ProviderAccess, build_model
from vegakit.testing import Provider, ProviderReply, ProviderRequest, RequestStatus

__all__ = ["main"]

ROOT = Path(__file__).parents[2]
SAMPLES = Path(__file__).parent / "samples.json"
IMAGES = ROOT / "docs/images"
KILL_AFTER = 60
"""Answers that have arrived when the run is killed."""
DOWN_S = 0.5
PATIENCE_S = 120.0

Point: TypeAlias = tuple[float, float]


class VegaRun(NamedTuple):
    """What a run that was killed and resumed spent over time, and what the provider saw."""

    samples: list[tuple[float, float, float]]
    """Seconds, dollars spent, dollars reserved."""
    killed_s: float
    resumed_s: float
    kept: int
    """Answers in the journal when the run was resumed."""
    cut_off: int
    asked_again: int
    """Requests after the resume that the provider had already seen."""
    billed: float
    refusal: str


def usage_of(request: ProviderRequest) -> Usage:
    """Return the usage that the provider bills for a page, the same for everybody."""
    return Usage(30, random.Random(request.text).randint(300, MAX_TOKENS // 2))


def answer(request: ProviderRequest) -> ProviderReply:
    usage = usage_of(request)
    return ProviderReply("It says so.", usage=usage, delay_ms=120 + usage.output_tokens // 4)


def dollars_of(requests: list[ProviderRequest]) -> list[float]:
    price = build_model(f"openai-chat:{MODEL}", ProviderAccess(lambda: "any")).price
    assert price is not None
    return [bill(price, usage_of(request)) / 1e9 for request in requests]


def start(command: list[str], folder: str) -> "subprocess.Popen[str]":
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": folder, "XDG_DATA_HOME": folder}
    return subprocess.Popen(
        command,
        env=env,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_vega() -> VegaRun:
    with tempfile.TemporaryDirectory() as folder, Provider(answer).in_thread() as provider:
        samples = Path(folder) / "samples"
        module = "benchmarks.money_picture.in_vega"
        first = start([sys.executable, "-m", module, provider.url, str(samples)], folder)
        wait_for_answers(provider, first)
        first.send_signal(signal.SIGKILL)
        killed = time.time()
        first.communicate()
        before = list(provider.requests)
        time.sleep(DOWN_S)
        again = start([sys.executable, "-m", "vegakit", "resume", "run.db"], folder)
        resumed = time.time()
        said, told = again.communicate(timeout=PATIENCE_S)
        kept, cut_off = map(int, re.findall(r"(\d+) (?:calls recorded|cut off)", told)[:2])
        after = list(provider.requests)[len(before) :]
        rows = [tuple(map(float, line.split())) for line in samples.read_text().splitlines()]
        begin = rows[0][0]
        changes = [rows[0], *(row for before, row in pairwise(rows) if row[1:] != before[1:])]
        seen = {request.text for request in before}
        return VegaRun(
            samples=[
                (round(at - begin, 3), spent, round(max(0.0, CAP - spent - left), 9))
                for at, spent, left in [*changes, rows[-1]]
            ],
            killed_s=round(killed - begin, 3),
            resumed_s=round(resumed - begin, 3),
            kept=kept,
            cut_off=cut_off,
            asked_again=sum(request.text in seen for request in after),
            billed=sum(dollars_of(list(provider.requests))),
            refusal=said.strip().splitlines()[-1],
        )


def wait_for_answers(provider: Provider, process: "subprocess.Popen[str]") -> None:
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends and process.poll() is None:
        answered = sum(r.status is RequestStatus.ANSWERED for r in list(provider.requests))
        if answered >= KILL_AFTER:
            return
        time.sleep(0.005)
    raise SystemExit("the run ended before it could be killed")


def run_peer() -> tuple[list[Point], str]:
    """Return the dollars that the provider has billed over time, and how the peer ended."""
    came: list[float] = []

    def note(request: ProviderRequest) -> ProviderReply:
        came.append(time.time())
        return answer(request)

    with tempfile.TemporaryDirectory() as folder, Provider(note).in_thread() as provider:
        module = "benchmarks.money_picture.in_pydantic_ai"
        words = [MODEL, str(MAX_TOKENS), str(PAGES), provider.url]
        process = start([str(PEERS_PYTHON), "-m", module, *words], folder)
        said, _ = process.communicate(timeout=PATIENCE_S)
        requests = list(provider.requests)
        ends = sorted(
            (at - came[0] + answer(request).delay_ms / 1000, cost)
            for at, request, cost in zip(came, requests, dollars_of(requests), strict=True)
        )
    sums = accumulate(cost for _, cost in ends)
    return [
        (round(at, 3), round(billed, 9)) for (at, _), billed in zip(ends, sums, strict=True)
    ], said.strip()


def record() -> dict[str, Any]:
    run = run_vega()
    points, said = run_peer()
    versions = [sys.executable, "-c", "print(__import__('vegakit').__version__)"]
    peer = [str(PEERS_PYTHON), "-c", "print(__import__('pydantic_ai').__version__)"]
    commit = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": subprocess.check_output(commit, text=True).strip(),
        "command": "python -m benchmarks.money_picture",
        "vega": subprocess.check_output(versions, text=True).strip(),
        "pydantic_ai": subprocess.check_output(peer, text=True).strip(),
        "run": run._asdict(),
        "peer": points,
        "peer_said": said,
    }


def faults(samples: dict[str, Any]) -> list[str]:
    """Return what the picture shows that may not be."""
    run = VegaRun(**samples["run"])
    most = max(spent + reserved for _, spent, reserved in run.samples)
    return [
        *([f"spent and reserved came to ${most:.4f} of $1"] if most > CAP + 1e-9 else []),
        *(["answers of the journal were asked again"] if run.asked_again > run.cut_off else []),
        *([f"the provider billed ${run.billed:.4f}"] if run.billed > CAP + 1e-9 else []),
    ]


def main(words: list[str]) -> int:
    if "--draw" not in words:
        if not PEERS_PYTHON.exists():
            print("type: bash benchmarks/peers_programs/setup.sh")
            return 2
        SAMPLES.write_text(json.dumps(record()) + "\n")
    samples = json.loads(SAMPLES.read_text())
    run = VegaRun(**samples["run"])
    picture = Picture(
        samples=[(at, spent, reserved) for at, spent, reserved in run.samples],
        killed_s=run.killed_s,
        resumed_s=run.resumed_s,
        kept=run.kept,
        cut_off=run.cut_off,
        peer=[(at, billed) for at, billed in samples["peer"]],
        source=f"measured {samples['date']}, pydantic-ai {samples['pydantic_ai']}",
    )
    for theme in ("light", "dark"):
        (IMAGES / f"money-{theme}.svg").write_text(draw(picture, theme))
    short = faults(samples)
    print(*short, sep="\n")
    print(
        f"Vega: spent ${run.samples[-1][1]:.4f} of $1, billed ${run.billed:.4f}, "
        f"{run.kept} answers kept, {run.cut_off} calls cut off, {run.asked_again} of them "
        f"asked again; ended by: {run.refusal}"
    )
    print(f"Pydantic AI: billed ${samples['peer'][-1][1]:.4f}; ended by: {samples['peer_said']}")
    return int(bool(short))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
