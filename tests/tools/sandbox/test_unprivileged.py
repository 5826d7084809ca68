"""The same tests as a user without rights, where rlimits stand for control groups."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
SHARE = os.environ.get("VEGA_SHARE_AS_NOBODY", "40")
"""Of each file, in percent: all of it was run with other rights already."""
ITSELF = "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"


def python_for_all() -> str:
    """That which runs us may lie in root's home."""
    system = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, system):
        tried = subprocess.run([*NOBODY, python, "-c", ITSELF], check=False, capture_output=True)
        if tried.returncode == 0:
            return python
    raise AssertionError(f"nobody can run {sys.executable} or {system}; install the second")


@pytest.mark.skipif(os.geteuid() != 0, reason="then all tests here run as such a user")
@pytest.mark.parametrize(
    "name",
    [
        "test_findings.py",
        "test_guards.py",
        "test_swaps.py",
        "test_workspace_races.py",
        "test_bombs.py",
    ],
)
def test_as_nobody(name: str) -> None:
    """Nothing that is refused to root's commands is open to those of another user."""
    place = Path("/tmp") / f"nobody-{os.getpid()}-{name}"
    paths = [REPOSITORY / "src", REPOSITORY, sysconfig.get_path("purelib")]
    env = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(map(str, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "VEGA_TEST_SHARE": SHARE,
    }
    plain = ["-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", f"--basetemp={place}"]
    ran = subprocess.run(
        [*NOBODY, python_for_all(), *plain, HERE / name],
        cwd=REPOSITORY,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    subprocess.run(["rm", "-rf", place], check=True)
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert " passed" in ran.stdout
    assert "skipped" not in ran.stdout or "control groups" in ran.stdout
