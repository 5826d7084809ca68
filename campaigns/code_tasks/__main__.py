"""Play the tasks of the coding agent, and print what went wrong.

python -m campaigns.code_tasks                 8 tasks, each killed at 2 of its steps
python -m campaigns.code_tasks full            all of them, killed at every step
python -m campaigns.code_tasks NAME …          those, killed at every step
python -m campaigns.code_tasks export FOLDER   write them as folders that other harnesses read

Every task is solved by the oracle, by its tool calls without Vega and without a sandbox, by `vega
code` in the sandbox, and by `vega code` with SIGKILL at a step and `--resume`. All four must leave
the same tree, byte by byte, and the verifier must accept it, and reject the tree at the beginning.
Vega runs no command without a sandbox; that is why the second way does without Vega.
"""

import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from campaigns.code_tasks.play import Kill, kills_of, oracle_faults, play
from campaigns.code_tasks.task import Task, load_tasks

USUAL_TASKS, USUAL_KILLS = 8, 2
AT_ONCE, SHOWN_EVERY = 2, 20


class Play(NamedTuple):
    """A task, and when it is killed."""

    task: Task
    kill: Kill | None


def chosen(words: list[str]) -> list[Play]:
    """Return what to play, in an order by a fixed chance, so that the first ones are of all kinds.
    The usual size is a part of the tasks, with some steps each."""
    tasks, chance = list(load_tasks().values()), random.Random(1)
    if words and words != ["full"]:
        tasks = [load_tasks()[name] for name in words]
    elif not words:
        tasks = tasks[:: len(tasks) // USUAL_TASKS][:USUAL_TASKS]
    found = list[Play]()
    for task in tasks:
        kills = kills_of(task) if words else chance.sample(kills_of(task), USUAL_KILLS)
        found += [Play(task, kill) for kill in (None, *kills)]
    chance.shuffle(found)
    return found


def main() -> int:
    """Play what the arguments choose."""
    words = sys.argv[1:]
    if words[:1] == ["export"]:
        for task in load_tasks().values():
            print(task.export(Path(words[1])))
        return 0
    plays = chosen(words)
    tasks = {play.task.name: play.task for play in plays}
    wrong, alike = list[str](), 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        exported = {name: task.export(Path(folder)) for name, task in tasks.items()}

        def judge(task: Task) -> list[str]:
            return oracle_faults(task, exported[task.name])

        def live(each: Play) -> list[str]:
            return play(each.task, exported[each.task.name], each.kill)

        wrong += [fault for faults in pool.map(judge, tasks.values()) for fault in faults]
        sound = len(tasks) - len({fault.partition(":")[0] for fault in wrong})
        for number, faults in enumerate(pool.map(live, plays), start=1):
            alike += not faults
            wrong += faults
            if faults or number % SHOWN_EVERY == 0:
                print(*faults, f"{number} of {len(plays)} played", sep="\n", flush=True)
    kills = sum(play.kill is not None for play in plays)
    print(*wrong[:20], sep="\n", end="\n" if wrong else "")
    print(
        f"{len(tasks)} tasks, {sound} sound by their oracle; {len(plays) - kills} played whole, "
        f"{kills} killed and resumed; {alike} of {len(plays)} solved alike; {len(wrong)} faults"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
