"""macOS: profiles as they are kept in `tests/data/seatbelt`, and on a Mac what they hold.

`python -m tests.tools.sandbox.test_seatbelt` writes them anew.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.sandbox.stage import DATA, refusing
from vegakit.child_process import Children
from vegakit.concurrency import SteadyClock
from vegakit.errors import UserError
from vegakit.tools import SandboxLimits
from vegakit.tools.sandbox.selection import (
    SandboxKind,
    Seatbelt,
    open_sandbox,
    profile_of,
    with_ulimits,
)
from vegakit.tools.sandbox.workspace import WorkspaceScan

KEPT = DATA / "seatbelt"
FOUND = WorkspaceScan(
    frozen=[("linked",), ("sub", "bare.git")],
    hidden={(1, 2): (("config", (1, 3)), ("deep.pem", (1, 2)))},
    absent=[".git", "vega.toml"],
)
ODD = Path('/Users/ann/a "quoted" + (odd) näme')
PROFILES = {
    "writable": profile_of(Path("/Users/ann/project"), FOUND, private=Path("/private/tmp/home")),
    "readable": profile_of(
        Path("/Users/ann/project"), FOUND, writable=False, readable=[Path("/Users/ann/.pyenv")]
    ),
    "odd": profile_of(ODD, WorkspaceScan()),
}
TOKENS = re.compile(r'#?"(?:\\.|[^"\\])*"|[()]|[^\s()"#]+')
MAC = pytest.mark.skipif(sys.platform != "darwin", reason="Seatbelt is part of macOS")


@pytest.mark.parametrize("name", PROFILES)
def test_it_is_as_it_is_kept(name: str) -> None:
    assert (KEPT / f"{name}.sb").read_text("utf-8") == PROFILES[name] + "\n"


@pytest.mark.parametrize("name", PROFILES)
def test_each_line_is_one_rule(name: str) -> None:
    """No name gets out of its quotes."""
    for line in PROFILES[name].splitlines():
        words = TOKENS.findall(line)
        assert "".join(words) == re.sub(r'(#?"(?:\\.|[^"\\])*")|\s', r"\1", line)
        assert words[0] == "("
        assert words.count("(") == words.count(")")
        assert words[1] in {"version", "allow", "deny"}


def effect(profile: str, right: str, path: str) -> str:
    """As the manual says: the last rule that fits wins."""
    verdict = "deny"
    for line in profile.splitlines():
        what, _, rights = line.strip("()").partition(" ")
        if right not in rights.split(" (", maxsplit=1)[0]:
            continue
        for place in re.findall(r'\(subpath "(.*)"\)', line):
            plain = place.replace('\\"', '"')
            verdict = what if f"{path}/".startswith(f"{plain}/") else verdict
        for pattern in re.findall(r'#"(.*)"', line):
            verdict = what if re.search(pattern.replace('\\"', '"'), path) else verdict
    return verdict


@pytest.mark.parametrize(
    ("path", "read", "write"),
    [
        ("src/app.py", "allow", "allow"),
        (".git/hooks/pre-commit", "allow", "deny"),
        ("a/b/.GIT/config", "allow", "deny"),
        ("a/.vscode", "allow", "deny"),
        ("a/.env", "deny", "deny"),
        ("a/.env.local", "deny", "deny"),
        ("a/.env.example", "allow", "allow"),
        ("keys/Server.PEM", "deny", "deny"),
        (".aws/credentials", "deny", "deny"),
        (".config/gh/hosts.yml", "deny", "deny"),
        ("linked", "allow", "deny"),
        ("../.ssh/id_rsa", "deny", "deny"),
        ("agit/x", "allow", "allow"),
    ],
)
def test_names_are_as_protected_as_on_linux(path: str, read: str, write: str) -> None:
    """Absent ones, too, at any depth."""
    whole = str(Path("/Users/ann/project", path)) if ".." not in path else "/Users/ann/.ssh/id_rsa"
    profile = PROFILES["writable"]
    assert (effect(profile, "file-read*", whole), effect(profile, "file-write*", whole)) == (
        read,
        write,
    )
    assert effect(PROFILES["readable"], "file-write*", whole) == "deny"
    odd = str(ODD / path)
    if path not in {"linked", "../.ssh/id_rsa"}:
        assert effect(PROFILES["odd"], "file-write*", odd) == write


def test_limits_are_set_by_a_shell() -> None:
    limits = SandboxLimits(cpu_s=7, file_bytes=512 * 9, open_files=33)
    show = ["sh", "-c", "ulimit -c; ulimit -t; ulimit -f; ulimit -n"]
    said = subprocess.run(
        with_ulimits(limits, show), capture_output=True, text=True, check=True
    ).stdout
    assert said.split() == ["0", "7", "9", "33"]


@pytest.mark.skipif(sys.platform == "darwin", reason="it is there")
async def test_elsewhere_it_is_refused(tmp_path: Path) -> None:
    clock = SteadyClock()
    with pytest.raises(UserError, match="part of macOS"):
        await open_sandbox(Children(clock), clock, tmp_path, kind=SandboxKind.SEATBELT)


@pytest.mark.parametrize("kind", [SandboxKind.AUTO, SandboxKind.BUBBLEWRAP])
async def test_windows_is_refused_with_the_reason(
    kind: SandboxKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And with what to do."""
    monkeypatch.setattr(sys, "platform", "win32")
    clock = SteadyClock()
    with pytest.raises(UserError, match=r"no sandbox for Windows.*WSL 2 or in a Linux container"):
        await open_sandbox(refusing, clock, tmp_path, kind=kind)  # type: ignore[arg-type]


@MAC
async def test_on_a_mac(tmp_path: Path) -> None:
    """What it may and may not: the workflow runs this, no machine of ours has."""
    clock, outside = SteadyClock(), tmp_path / "outside"
    workspace = tmp_path / "workspace"
    for folder in (outside, workspace):
        folder.mkdir()
    (outside / "secret").write_text("canary")
    (workspace / ".env").write_text("canary")
    box = Seatbelt(Children(clock), clock, workspace)
    script = f"cat {outside}/secret .env; touch made; mkdir .git; touch {outside}/made; echo over"
    ran = await box.run(["sh", "-c", script], owner="test")
    assert ran.stdout == "over\n"
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert sorted(path.name for path in workspace.iterdir()) == [".env", "made"]
    net = await box.run(["sh", "-c", "exec 3<>/dev/tcp/127.0.0.1/22 || echo no"], owner="test")
    assert "no" in net.stdout


if __name__ == "__main__":
    KEPT.mkdir(exist_ok=True)
    for name, profile in PROFILES.items():
        (KEPT / f"{name}.sb").write_text(profile + "\n", "utf-8")
