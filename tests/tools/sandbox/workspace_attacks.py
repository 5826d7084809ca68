"""Attacks by a second process in the same workspace, carried out in a real sandbox.

| part         | what is done with it                                                            |
|--------------|---------------------------------------------------------------------------------|
| plant        | a sandboxed command, to its end                                                 |
| during, swap | a sandboxed command that lasts: prepares, then exchanges two names all the time |
| probe        | another sandboxed command, while the first lasts or after it                    |
| person       | afterwards, outside, as the person; and `git status` in every folder there is   |
| gone         | names that nobody may find there in the end                                     |

It came through if it said the canary, changed something outside or something guarded, left one of
its names, or stopped the next command.
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.runtime.children.processes import comes_true
from tests.tools.sandbox.project import make_project
from tests.tools.sandbox.stage import GIT, Box, boxed, tree_of
from vegakit.errors import UserError
from vegakit.tools import SandboxLimits

CANARY = "canary-4f1d9c"
BRIEF = SandboxLimits(wall_ms=60_000, processes=64)
TRIES = 4
SWAP = """python3 -I -c "
import ctypes, os, time
exchange, until = ctypes.CDLL(None).renameat2, time.monotonic() + 50
open('up', 'w').close()
while not os.path.exists('stop') and time.monotonic() < until:
    exchange(-100, b'{0}', -100, b'{1}', 2)
    os.sched_yield()
"
"""
GUARDED = ("config/.env", "top/deep/x.pem", "server.key", ".git/config", "nested/.git/config")
DOWN = """
import os, subprocess
while True:
    below = [n for n in os.listdir() if n.startswith("d")]
    if not below: break
    os.chdir(below[0])
subprocess.run(["git", "status"])
"""


def furnish(box: Box, attack: Mapping[str, Any]) -> None:
    make_project(box.workspace)
    (box.outside / "secret").write_text(CANARY)
    (box.outside / "person/.vscode").mkdir(parents=True)
    (box.outside / "person/.vscode/tasks.json").write_text("{}")
    (box.outside / "links").mkdir()
    (box.workspace / "links").mkdir()
    for name in ("linked", "links/0", "links/1"):
        (box.outside / name).write_text("as it was")
        os.link(box.outside / name, box.workspace / name)
    (box.workspace / "nested").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=box.workspace / "nested", env=GIT, check=True)
    (box.workspace / ".githooks").mkdir()
    (box.workspace / ".githooks/pre-commit").write_text("#!/bin/sh\n")
    for name in ("config/.env", "top/deep/x.pem", "server.key", *attack.get("secrets", ())):
        if not (attack.get("bare_top") and name.startswith("config/")):
            (box.workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (box.workspace / name).write_text(CANARY)
    for name, target in attack.get("links", {}).items():
        (box.workspace / target).write_text(CANARY)
        (box.workspace / name).symlink_to(target)


async def carried_out(attack: Mapping[str, Any], folder: Path) -> list[str]:
    """How it came through."""
    async with boxed(folder, BRIEF) as box:
        furnish(box, attack)
        before, guarded = tree_of(box.outside), _guarded(box)
        said = await _within(box, attack)
        nexts = await _said(box, "echo fine")
        came = ["it said the canary"] * (CANARY in said)
        came += ["it changed what is guarded"] * (_guarded(box) != guarded)
        came += [f"{name} is left" for name in attack.get("gone", ()) if _is_left(box, name)]
        came += [f"the next command said {nexts!r}"] * (nexts != "fine\n")
        await asyncio.to_thread(_as_person, box, attack)
        changed = {name for name, _ in before.items() ^ tree_of(box.outside).items()}
    return [*came, *(f"{name} outside is changed" for name in sorted(changed))]


async def came_through(attacks: Sequence[Mapping[str, Any]]) -> list[str]:
    found: list[str] = []
    for attack in attacks:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            came = await carried_out(attack, Path(folder))
            subprocess.run(["chmod", "-R", "u+rwx", folder], check=False, capture_output=True)  # noqa: ASYNC221
        found += [f"{attack['id']} ({attack['way']}: {attack['why']}): {each}" for each in came]
    return found


def is_possible(attack: Mapping[str, Any]) -> bool:
    return shutil.which(str(attack.get("needs", "sh"))) is not None


async def _within(box: Box, attack: Mapping[str, Any]) -> str:
    said = await _said(box, _aimed(box, attack.get("plant", "true")))
    probe = _aimed(box, attack.get("probe", "true"))
    if "during" not in attack:
        return said + await _said(box, probe)
    script = _aimed(box, attack["during"]) + "\n" + SWAP.format(*attack["swap"])
    lasting = asyncio.ensure_future(_said(box, script))
    up = (box.workspace / "up").exists
    await asyncio.to_thread(comes_true, lambda: up() or lasting.done(), 30)
    for _ in range(TRIES):
        said += await _said(box, probe)
    (box.workspace / "stop").touch()
    return said + await lasting


async def _said(box: Box, script: str) -> str:
    """Nothing if it was refused, which is one way to be safe from it."""
    with suppress(UserError):
        ran = await box.sh(script)
        return ran.stdout + ran.stderr
    return ""


def _as_person(box: Box, attack: Mapping[str, Any]) -> None:
    home = box.workspace.parent / "home"
    home.mkdir()
    keys = ("PATH", "CARGO_HOME", "RUSTUP_HOME")
    env = {**GIT, **{key: os.environ[key] for key in keys if key in os.environ}, "HOME": str(home)}
    env.setdefault("RUSTUP_HOME", str(Path("~/.rustup").expanduser()))
    script = _aimed(box, attack.get("person", "true"))
    _run(["bash", "-c", script], box.workspace, env)
    if attack.get("deep"):
        _run(["python3", "-c", DOWN], box.workspace, env)
    for path, names, _ in os.walk(box.workspace):
        if len(Path(path).relative_to(box.workspace).parts) > 3:
            names.clear()
        _run(["git", "status"], Path(path), env)


def _run(words: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
    with suppress(subprocess.TimeoutExpired, OSError):
        subprocess.run(
            words,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=60,
        )


def _aimed(box: Box, script: str) -> str:
    return script.replace("PWNED", str(box.outside / "PWNED")).replace("OUTSIDE", str(box.outside))


def _guarded(box: Box) -> dict[str, bytes]:
    """By content alone: a command may have moved a folder that it was allowed to move."""
    found: dict[str, bytes] = {}
    for name in GUARDED:
        with suppress(OSError):
            found[name] = (box.workspace / name).read_bytes()
    return found


def _is_left(box: Box, name: str) -> bool:
    path = box.workspace / name
    if path.is_dir():
        return any(path.iterdir())
    return path.is_symlink() or (path.exists() and path.stat().st_size > 0)
