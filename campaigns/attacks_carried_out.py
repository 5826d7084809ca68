"""Attacks by command, variable, path, URL and file, carried out one by one and counted."""

import os
import shlex
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.tools.confined import test_attacks_path as paths
from tests.tools.confined.attacks import Attack, known
from tests.tools.confined.server import Names
from tests.tools.confined.test_attacks_url import SAID, WEB
from tests.tools.sandbox.project import make_project
from tests.tools.sandbox.stage import EXEC, Box, boxed, git, refusing, tree_of
from tests.tools.sandbox.workspace_attacks import came_through, is_possible
from tests.tools.yaml_tools.stage import written
from tests.tools.yaml_tools.test_attacks import BOUNDED, BY_ID

from vegakit.errors import CapabilityDenied, InvalidRuleError, VegaError
from vegakit.policy import Allowed, Denied, Grant, decide, parse_command
from vegakit.tools import Files, Http, SandboxLimits, ToolArgumentsError, best_opener, open_by_walk
from vegakit.tools.http_requests import FetchResponse
from vegakit.tools.sandbox.command import ExecTool
from vegakit.tools.tool_files import ToolFileError

__all__ = ["CARRIED_OUT", "Tally", "let_loose", "rides"]

BRIEF = SandboxLimits(wall_ms=2_000, processes=64)
CANARY = "canary-4f1d9c"


class Tally(NamedTuple):
    """How many are known; were refused before anything ran; ran, and did nothing outside; passed
    the rule they try to ride on; did something outside; read a secret; are another part's."""

    literals: int = 0
    refused: int = 0
    contained: int = 0
    allowed: int = 0
    outside: int = 0
    secrets: int = 0
    elsewhere: int = 0

    @property
    def holds(self) -> bool:
        met = max(self.refused, self.contained) + self.elsewhere
        return met >= self.literals > 0 and not self.allowed + self.outside + self.secrets


async def commands(kind: str) -> Tally:
    """Each is shown to a tool without a rule and to the rule that it names, and then run by a real
    shell in a project of its own, as if nobody had refused it."""
    attacks = known(kind).values()
    refused = [attack for attack in attacks if await _is_refused(attack["input"])]
    allowed = [attack for attack in attacks if rides(attack)]
    ran = [await _ran(attack) for attack in attacks]
    outside, secrets = (sum(column) for column in zip(*ran, strict=True))
    clean = sum(not any(each) for each in ran)
    return Tally(len(attacks), len(refused), clean, len(allowed), outside, secrets)


async def _is_refused(line: str) -> bool:
    tool = ExecTool(refusing, EXEC, owner="attacks")
    for command in (line, line.split()):
        try:
            await tool.call({"command": command}, None)
        except CapabilityDenied:
            continue
        return False
    return True


def rides(attack: Attack) -> bool:
    """On a rule for another command. What is the very command of its rule, as `make` in a project
    that somebody changed, is for the sandbox."""
    command, rule = parse_command(attack["input"]), attack.get("allow", "git")
    if isinstance(command, Denied) or attack["input"] == rule:
        return False
    try:
        return isinstance(decide(Grant(("process::exec",), commands=(rule,)), command), Allowed)
    except InvalidRuleError:
        return False


async def _ran(attack: Attack) -> tuple[bool, bool]:
    """Whether it did something outside, and whether it said a secret."""
    with tempfile.TemporaryDirectory() as folder:
        async with boxed(Path(folder), BRIEF) as box:
            make_project(box.workspace)
            (box.outside / "secret").write_text(CANARY)
            (box.workspace / ".env").write_text(f"KEY={CANARY}")
            return await let_loose(attack, box)


async def let_loose(attack: Attack, box: Box) -> tuple[bool, bool]:
    before, aim = tree_of(box.outside), str(box.outside / "PWNED")
    script = f"{attack.get('before', 'true')}\n{attack['input']}".replace("PWNED", aim)
    ran = await box.sh(f"cd {shlex.quote(str(box.workspace))}\n{script}")
    git(box.workspace, "status")
    return tree_of(box.outside) != before, CANARY in ran.stdout + ran.stderr


async def variables() -> Tally:
    """Given to a tool in three ways, and set for us, in the hope that a command gets them."""
    attacks = known("env").values()
    refused = [attack for attack in attacks if await _is_no_variable(attack["input"])]
    pairs = dict(attack["input"].partition("=")[::2] for attack in attacks)
    with tempfile.TemporaryDirectory() as folder:
        async with boxed(Path(folder), BRIEF) as box:
            said = await _said_with(box, pairs)
    arrived = [name for name in pairs if f"{name}=" in said and name not in {"PATH", "HOME"}]
    return Tally(
        len(attacks), len(refused), len(attacks) - len(arrived), 0, len(arrived), CANARY in said
    )


async def _said_with(box: Box, pairs: Mapping[str, str]) -> str:
    harmful = {"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "PYTHONHOME"}
    ours = {name: f"{value}{CANARY}" for name, value in pairs.items() if name not in harmful}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        return (await box.sh("env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'")).stdout
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


async def _is_no_variable(given: str) -> bool:
    tool = ExecTool(refusing, EXEC, owner="attacks", automatic=True)
    name, _, value = given.partition("=")
    arguments = (
        {"command": ["env"], "env": {name: value}},
        {"command": f"{given} env"},
        {"command": [given, "env"]},
    )
    for each in arguments:
        try:
            await tool.call(each, None)
        except (CapabilityDenied, ToolArgumentsError):
            continue
        return False
    return True


async def places() -> Tally:
    """By each way of opening folders, with each file tool, under the widest of grants."""
    tally = Tally(len(paths.KNOWN) + 1, elsewhere=1)  # the race is run by `races`
    for attack in paths.KNOWN.values():
        worst = [
            await _by_path(attack, way) for way in dict.fromkeys((best_opener(), open_by_walk))
        ]
        refused, outside, secrets = (any(column) for column in zip(*worst, strict=True))
        tally = tally._replace(
            refused=tally.refused + (not refused),
            outside=tally.outside + outside,
            secrets=tally.secrets + secrets,
        )
    return tally


async def _by_path(attack: Attack, way: paths.OpenFolder) -> tuple[bool, bool, bool]:
    """Whether a call came through, one did something outside, one read the secret."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = paths.prepared(attack, folder)
        before = paths.snapshot(folder)
        files = Files(folder / "ws", paths.WIDEST, open_folder=way)
        answers: list[object] = []
        for call in (files.read(path), files.write(path, b"PWNED"), files.list(path)):
            with suppress(VegaError):
                answers.append(await call)
        for call in (files.stat(path), files.remove(path)):
            with suppress(VegaError):
                await call
        return bool(answers), paths.snapshot(folder) != before, paths.SECRET in answers


async def requests() -> Tally:
    """As they are written; those that need a server are staged in the tests."""
    sent: list[object] = []

    async def send(*given: object) -> FetchResponse:
        sent.append(given)
        return FetchResponse("", 200, (), b"")

    refused, names = 0, Names()
    for attack in SAID.values():
        http = Http(WEB, resolve=names)
        http._send = send  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        try:
            await http.fetch("GET", attack["input"])
        except CapabilityDenied:
            refused += 1
    left = len(known("url")) - len(SAID)
    return Tally(len(known("url")), refused, 0, 0, len(sent) + len(names.asked), 0, left)


async def files() -> Tally:
    contents = {name: known("yaml")[name]["input"] for name in BY_ID}
    contents |= {name: make() for name, (make, _) in BOUNDED.items()}
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        for text in contents.values():
            try:
                written(Path(folder), text).load()
            except ToolFileError:
                refused += 1
        outside = len(tree_of(Path(folder)).keys() - {"tools.yaml"})
    return Tally(len(known("yaml")), refused, 0, len(contents) - refused, outside)


async def second_processes() -> Tally:
    """Each in a workspace of its own; one that needs a program that is not here is elsewhere."""
    attacks = [attack for attack in known("workspace").values() if is_possible(attack)]
    through = [each for attack in attacks for each in [await came_through([attack])] if each]
    secrets = sum(any("canary" in line for line in lines) for lines in through)
    return Tally(
        len(known("workspace")),
        contained=len(attacks) - len(through),
        outside=len(through) - secrets,
        secrets=secrets,
        elsewhere=len(known("workspace")) - len(attacks),
    )


CARRIED_OUT = {
    "cmd": lambda: commands("cmd"),
    "git": lambda: commands("git"),
    "env": variables,
    "path": places,
    "url": requests,
    "yaml": files,
    "workspace": second_processes,
}
