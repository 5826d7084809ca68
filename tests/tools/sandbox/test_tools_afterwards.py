"""What a person uses after an attacker's session: none of it runs what was planted.

Each is tried for real, twice: planted from within the sandbox, nothing runs; planted from outside,
it does, so that the tool is known to act on it. What is not installed is left out. `Makefile`,
`conftest.py`, `package.json` and the like run what they say by design: see `SECURITY.md`.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tools.sandbox.stage import GIT, Box, boxed

ENOUGH = 20
EVIL = "printf '#!/bin/sh\\ntouch PWNED\\nexec \"$@\"\\n' > evil; chmod +x evil"
MONITOR = "git config core.fsmonitor 'touch PWNED; false'"
HOOK = "printf '#!/bin/sh\\ntouch PWNED\\n' > {0}; chmod +x {0}"
COMMIT = "git commit -q --allow-empty -m x"
INIT = "git init -q"
PACKAGE = '{"name": "x", "version": "1.0.0", "scripts": {"test": "node -e 0"}}'


class Use(NamedTuple):
    """`before` is what the person did before, `use` what they do afterwards. `HOME` is another
    folder unless the words say that the workspace is one, as that of a person's dotfiles is."""

    needs: str
    before: str
    plant: str
    use: str


USES = {
    "git: a repository": Use("git", "true", f"{INIT}; {MONITOR}", "git status"),
    "git: one below": Use("git", "true", f"{INIT} s; cd s; {MONITOR}", "cd s; git status"),
    "git: a bare one": Use(
        "git",
        "true",
        f"{INIT} --bare s; cd s; git config core.bare false; git config core.worktree .; {MONITOR}",
        "cd s; git status",
    ),
    "git: by a file": Use(
        "git", "true", f"{INIT} --separate-git-dir=r s; cd s; {MONITOR}", "cd s; git status"
    ),
    "git: its settings": Use("git", INIT, MONITOR, "git status"),
    "git: its hooks": Use("git", INIT, HOOK.format(".git/hooks/pre-commit"), COMMIT),
    "git: a folder of hooks": Use(
        "git",
        f"{INIT}; git config core.hooksPath .githooks",
        f"mkdir -p .githooks; {HOOK.format('.githooks/pre-commit')}",
        COMMIT,
    ),
    "husky": Use(
        "git",
        f"{INIT}; git config core.hooksPath .husky",
        f"mkdir -p .husky; {HOOK.format('.husky/pre-commit')}",
        COMMIT,
    ),
    "git: included settings": Use(
        "git",
        f"{INIT}; git config include.path ../.gitconfig",
        "git config --file .gitconfig core.fsmonitor 'touch PWNED; false'",
        "git status",
    ),
    "git: settings at home": Use(
        "git",
        INIT,
        "mkdir -p .config/git; git config --file .config/git/config core.fsmonitor "
        "'touch PWNED; false'",
        "HOME=$PWD git status",
    ),
    "git: attributes": Use(
        "git",
        f"{INIT}; echo x > f; git config filter.x.clean 'touch PWNED; cat'",
        "echo '* filter=x' > .gitattributes",
        "git add f",
    ),
    "npm: its shell": Use(
        "npm",
        f"echo '{PACKAGE}' > package.json",
        f"{EVIL}; echo script-shell=./evil > .npmrc",
        "npm test --offline --silent",
    ),
    "npm: options of node": Use(
        "npm",
        f"mkdir s; echo '{PACKAGE}' > s/package.json",
        "cd s; echo \"require('fs').writeFileSync('PWNED', '')\" > e.js; "
        "echo node-options=--require=./e.js > .npmrc",
        "cd s; npm test --offline --silent",
    ),
    "vim: settings of a folder": Use(
        "vim",
        "true",
        "echo 'silent !touch PWNED' > .vimrc",
        "vim -es -N -u NONE -c 'if filereadable(\".vimrc\") | source .vimrc | endif' -c q",
    ),
    "gdb": Use(
        "gdb",
        "true",
        "echo 'shell touch PWNED' > .gdbinit",
        "gdb -batch -iex 'set auto-load safe-path /' -ex quit",
    ),
    "tmux": Use(
        "tmux",
        "true",
        "echo 'run-shell \"touch PWNED\"' > .tmux.conf",
        "HOME=$PWD timeout 5 tmux -S $PWD/sock start-server \\; new-session -d sleep 1; "
        "sleep 1; tmux -S $PWD/sock kill-server",
    ),
    "bash: interactive": Use(
        "bash", "true", "echo 'touch PWNED' > .bashrc", "HOME=$PWD bash -ic :"
    ),
    "bash: login": Use(
        "bash", "true", "echo 'touch PWNED' > .bash_profile", "HOME=$PWD bash -lc :"
    ),
    "bash: logout": Use(
        "bash", "true", "echo 'touch PWNED' > .bash_logout", "echo exit | HOME=$PWD bash -l"
    ),
    "dash: login": Use("dash", "true", "echo 'touch PWNED' > .profile", "HOME=$PWD dash -lc :"),
    "programs at home": Use(
        "bash",
        "true",
        f"mkdir -p .local/bin; {HOOK.format('.local/bin/ls')}",
        "PATH=$PWD/.local/bin:$PATH ls",
    ),
    "cargo": Use(
        "cargo",
        'mkdir src; echo > src/lib.rs; printf \'[package]\\nname="x"\\nversion="1.0.0"\\n\' '
        "> Cargo.toml",
        f"{EVIL}; mkdir -p .cargo; printf '[build]\\nrustc-wrapper=\"./evil\"\\n' "
        "> .cargo/config.toml",
        "cargo check --offline",
    ),
    "maven": Use(
        "mvn",
        "true",
        "mkdir -p .mvn; echo -Xlog:gc:file=PWNED > .mvn/jvm.config",
        "mvn -v",
    ),
    "pdb": Use(
        "python3",
        "echo 'x = 1' > x.py",
        "echo \"import os; os.system('touch PWNED')\" > .pdbrc",
        "echo q | python3 -m pdb x.py",
    ),
    "the debugger of perl": Use(
        "perl",
        "true",
        "echo 'system(\"touch PWNED\");' > .perldb; chmod 600 .perldb",
        "echo q | HOME=$PWD perl -d -e 1",
    ),
    "less": Use(
        "less",
        "echo x > f",
        "printf '#env\\nLESSOPEN=|touch PWNED; cat %%s\\n' > .lesskey",
        "HOME=$PWD TERM=dumb less f < /dev/null",
    ),
    "curl": Use(
        "curl",
        "echo x > f",
        "echo output=PWNED > .curlrc",
        "HOME=$PWD curl -s file://$PWD/f",
    ),
    "pip": Use(
        "pip",
        "true",
        "mkdir -p .config/pip; printf '[global]\\nlog=PWNED\\n' > .config/pip/pip.conf",
        "HOME=$PWD pip cache dir",
    ),
    "docker": Use(
        "docker",
        "true",
        f"mkdir -p .docker/cli-plugins; {HOOK.format('.docker/cli-plugins/docker-x')}",
        "HOME=$PWD docker --help",
    ),
}
TRIED = [name for name, use in USES.items() if shutil.which(use.needs)]


def as_person(box: Box, script: str) -> None:
    home = box.workspace.parent / "home"
    home.mkdir(exist_ok=True)
    keys = ("PATH", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME")
    env = {**GIT, **{key: os.environ[key] for key in keys if key in os.environ}, "HOME": str(home)}
    env.setdefault("RUSTUP_HOME", str(Path("~/.rustup").expanduser()))
    words = ["bash", "-c", aimed(box, script)]
    subprocess.run(words, cwd=box.workspace, env=env, capture_output=True, check=False, timeout=60)


def aimed(box: Box, script: str) -> str:
    return script.replace("PWNED", str(box.outside / "PWNED"))


def test_enough_are_tried() -> None:
    assert len(TRIED) >= ENOUGH


@pytest.mark.parametrize("name", TRIED)
async def test_nothing_planted_runs(name: str, tmp_path: Path) -> None:
    use = USES[name]
    async with boxed(tmp_path) as box:
        as_person(box, use.before)
        await box.sh(aimed(box, use.plant))
        as_person(box, use.use)
        assert [*box.outside.iterdir()] == []


@pytest.mark.parametrize("name", TRIED)
async def test_it_would_run(name: str, tmp_path: Path) -> None:
    """So the test above can fail."""
    use = USES[name]
    async with boxed(tmp_path) as box:
        for script in (use.before, use.plant, use.use):
            as_person(box, script)
        assert [path.name for path in box.outside.iterdir()] == ["PWNED"]
