"""Histories of the example programs, kept as files: `python -m tests.durable.histories`.

That plays every scene on a real server and writes what Temporal recorded, one file for each run of
its workflow. Files that are there already say what programs of earlier days did: write them anew
only if the format of histories may change, and say so in docs/formats.md.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from benchmarks.temporal_server import temporal_server
from temporalio.client import WorkflowHistory

from tests.durable.scenes import SCENES, Scene
from tests.durable.stage import stage
from vegakit.durable import Deployment
from vegakit.program import Code
from vegakit.store import MemoryLedger

__all__ = ["FOLDER", "code_of", "queue_of_scene", "stored"]

FOLDER = Path(__file__).parents[1] / "data" / "histories"
_OF_THE_MACHINE = {"identity": "worker@localhost", "stackTrace": ""}


def queue_of_scene(name: str) -> str:
    """It is in the recorded start of a program, and names its code."""
    return f"scene-{name}"


def code_of(scene: Scene) -> Code:
    deployment = Deployment(scene.bodies(), MemoryLedger())
    return deployment.registry(deployment.runtime()).code


def stored(name: str) -> list[WorkflowHistory]:
    """All runs of one scene, the last one first."""
    files = sorted(FOLDER.glob(f"{name}.*.json"))
    return [WorkflowHistory.from_json(name, file.read_text()) for file in files]


async def record(address: str, name: str, scene: Scene, folder: Path) -> None:
    bodies, queue = scene.bodies(), queue_of_scene(name)
    async with stage(address, folder, bodies, queue=queue, budget=scene.budget) as here:
        program = await here.start(program_id=name, **scene.launch)
        await scene.play(program, *bodies)
        await program.stop()
        histories = await here.histories()
    for number, history in enumerate(histories):
        events = [json.dumps(_without_machine(event)) for event in history.to_json_dict()["events"]]
        lines = '{"events": [\n' + ",\n".join(events) + "\n]}\n"
        (FOLDER / f"{name}.{number}.json").write_text(lines)


def _without_machine(found: Any, key: str = "") -> Any:
    """Who recorded it, and where, is nobody's business."""
    if isinstance(found, dict):
        entries = cast("dict[str, Any]", found)
        if entries.get("kind") == "TASK_QUEUE_KIND_STICKY":
            entries = {**entries, "name": "sticky@localhost"}
        return {key: _without_machine(value, key) for key, value in entries.items()}
    if isinstance(found, list):
        return [_without_machine(value) for value in cast("list[Any]", found)]
    return _OF_THE_MACHINE.get(key, found)


def _wanted() -> Iterator[tuple[str, Scene]]:
    names = sys.argv[1:] or list(SCENES)
    return ((name, SCENES[name]) for name in names)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, temporal_server(Path(folder)) as server:
        for name, scene in _wanted():
            for old in FOLDER.glob(f"{name}.*.json"):
                old.unlink()
            place = Path(folder, name)
            place.mkdir()
            asyncio.run(record(server.address, name, scene, place))
            print(f"{len(list(FOLDER.glob(f'{name}.*.json')))} of {name}")


if __name__ == "__main__":
    main()
