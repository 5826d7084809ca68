"""What undo costs in a workspace of 5,000 files: `python -m benchmarks.undo`.

CPU time of this process. In each round a loop of a fixed number of steps is timed beside the
figures, and what they took is divided by how much slower than `CALIBRATED_MS` it was; the median of
the rounds is held against the limit. The best round without any scaling is shown beside it.
"""

import gc
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.timing import cpu_ms, slowness
from vegakit.sage import UndoStore, open_undo

__all__ = ["main"]

FILES, FOLDERS, CHANGED, ROUNDS = 5_000, 550, 50, 9
LIMITS_MS = {
    "full scan, nothing changed": 30.0,
    "turn that changes nothing": 1.0,
    f"end of a turn that changed {CHANGED}": 15.0,
    f"restore of {CHANGED}": 60.0,
}


def fill(root: Path) -> list[Path]:
    """5,000 files of some kilobytes, about nine in a folder."""
    chance = random.Random(1)
    folders = [root / f"d{number % 23}" / f"e{number}" for number in range(FOLDERS)]
    for folder in folders:
        folder.mkdir(parents=True)
    files = [folders[number % FOLDERS] / f"file_{number}.py" for number in range(FILES)]
    for file in files:
        file.write_bytes(chance.randbytes(chance.randrange(500, 6_000)))
    return files


Took = dict[str, list[tuple[float, float]]]
"""By name: CPU milliseconds, and how much slower the machine was then."""


def measure(root: Path, state: Path) -> Took:
    files = fill(root)
    took: Took = {}
    slower = slowness()

    def note(name: str, measured_ms: float) -> None:
        took.setdefault(name, []).append((measured_ms, slower))

    with open_undo(root, state) as undo:
        note("first recording", cpu_ms(undo.record))
        time.sleep(0.1)  # later stamps: what was just written is looked at once more
        undo.record()
        scan, idle, ended, restored = LIMITS_MS
        gc.collect()
        for number in range(ROUNDS):
            slower = slowness()
            full = cpu_ms(lambda: undo.record(full=True))
            note(scan, full)
            note(idle, cpu_ms(lambda: empty_turn(undo)))
            turn = undo.begin("edits")
            for file in files[number :: FILES // CHANGED][:CHANGED]:
                with file.open("ab") as out:
                    out.write(b"edited\n")
            note(ended, cpu_ms(lambda turn=turn: undo.end(turn)))
            # The full scan before the restore has its own figure.
            note(restored, cpu_ms(undo.undo) - full)
    with open_undo(root, state) as undo:
        note("a session that starts: open and full scan", cpu_ms(undo.record))
    return took


def empty_turn(undo: UndoStore) -> None:
    undo.end(undo.begin("nothing"))


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        found = measure(place / "work", place / "state")
    figures: list[Figure] = []
    for name, took in found.items():
        value = statistics.median(measured / slower for measured, slower in took)
        best = min(measured for measured, _ in took)
        limit = LIMITS_MS.get(name)
        figures.append(Figure(f"{name}, best round, as it is", f"{best:.2f} ms"))
        if limit is not None:
            shown = f"≤ {limit:g} ms"
            figures.append(Figure(f"{name}, scaled", f"{value:.2f} ms", shown, value <= limit))
    times = [slower for _, slower in found[next(iter(LIMITS_MS))]]
    figures.append(Figure("the machine was slower by", f"{min(times):.2f}–{max(times):.2f} x"))
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
