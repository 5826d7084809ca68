"""Names that other programs trust, in every spelling that some file system takes for them."""

from pathlib import Path

import pytest

from vegakit.errors import CapabilityDenied
from vegakit.policy import Grant, ReadPath, WritePath, delegate
from vegakit.tools import Files, is_protected
from vegakit.tools.protected_names import authorize_path, is_auto_executed

SEALED = [
    ".git/hooks/pre-commit",
    ".git/config",
    "sub/module/.git",
    ".env",
    ".env.production",
    "vega.toml",
    "deep/vega.toml",
    ".vega/settings.json",
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    "audit.db",
    "run.db-wal",
    "deep/run.db.spool",
    ".mcp.json",
    "rust-toolchain.toml",
    "sub/.python-version",
    ".devcontainer.json",
    ".RData",
    "opencode.json",
    ".config/mise/config.toml",
    ".config/environment.d/x.conf",
    ".emacs.d/init.el",
    ".kiro/settings/mcp.json",
    "pins.json",
    "data/mcp.token",
    "my.code-workspace",
    "lefthook.yml",
    ".config/lefthook.toml",
    ".pre-commit-config.yaml",
    ".yarn/releases/yarn.cjs",
    ".bazelrc",
    ".kilocode/mcp.json",
    ".trae/mcp.json",
    ".bsp/sbt.json",
    "jupyter_server_config.py",
    "gradle/wrapper/gradle-wrapper.jar",
    ".venv/bin/python",
    "venv/Scripts/activate",
    ".venv/pyvenv.cfg",
    ".venv/lib/python3.11/site-packages/x.pth",
    "env/lib/python3.11/site-packages/sitecustomize.py",
]


def spellings(path: str) -> list[str]:
    """Upper case, mixed case, full width, with a character that is not seen."""
    wide = "".join(chr(ord(c) + 0xFEE0) if c.isalpha() else c for c in path)
    return [
        path.upper(),
        path.title(),
        wide,
        f"{path[:2]}\u200c{path[2:]}",
        f"./{path}",
        f"a/{path}",
    ]


@pytest.mark.parametrize("path", SEALED)
def test_what_is_sealed_is_sealed_in_every_spelling(path: str) -> None:
    """Whatever the rules of the grant, and whether it exists or not."""
    for spelling in (path, *spellings(path)):
        assert is_protected(spelling)
        with pytest.raises(CapabilityDenied):
            authorize_path(Grant(("fs",), paths=("**", ".*/**", path)), WritePath(spelling))


@pytest.mark.parametrize("path", SEALED)
def test_what_is_sealed_is_read_only_when_it_is_named(path: str) -> None:
    """It may hold secrets."""
    wide = Grant(("fs",), paths=("**", ".*/**", "**/.*/**", ".*", "**/.*", "deep/*"))
    with pytest.raises(CapabilityDenied, match="no wildcard reaches"):
        authorize_path(wide, ReadPath(path))
    assert authorize_path(Grant(("fs",), paths=(path,)), ReadPath(path)) == path


@pytest.mark.parametrize(
    "path", ["Makefile", "tests/CONFTEST.py", "a/x.pth", "bare/HEAD", "Tools.yaml"]
)
def test_what_is_run_unasked_is_written_only_when_it_is_named(path: str) -> None:
    """Reading it is as reading any other."""
    wide, named = Grant(("fs",), paths=("**",)), Grant(("fs",), paths=("**", path))
    assert is_auto_executed(path)
    with pytest.raises(CapabilityDenied, match="no wildcard reaches"):
        authorize_path(wide, WritePath(path))
    assert authorize_path(named, WritePath(path)) == authorize_path(wide, ReadPath(path)) == path


@pytest.mark.parametrize(
    "path",
    [
        *(".gitignore", "git/config", "env.py", "a/vega.toml.md", "src", "ledger.db", "run.dbx"),
        *("code-workspace.md", ".yarn/cache/a.zip", "bin/activate", ".venv/lib/a.py"),
        *("site-packages/a.py", "docs/bin/x", "gradle/wrapper/gradle-wrapper.properties"),
    ],
)
def test_what_only_looks_alike_is_not_protected(path: str) -> None:
    """The other side of the boundary."""
    assert not is_protected(path)
    assert not is_auto_executed(path)


def test_every_grant_it_was_cut_from_must_name_it() -> None:
    """A wildcard above is not enough."""
    named = Grant(("fs",), paths=("Makefile",))
    assert authorize_path(named, WritePath("Makefile")) == "Makefile"
    with pytest.raises(CapabilityDenied, match="no wildcard reaches"):
        authorize_path(delegate(Grant(("fs",), paths=("**",)), named), WritePath("Makefile"))


async def test_programs_of_an_environment_of_any_name_are_not_written(tmp_path: Path) -> None:
    """It is known by its `pyvenv.cfg`; without one, `bin` is a folder as any other."""
    names = ("js/env/bin/w", "js/env/pyvenv.cfg", "js/env/Scripts/a/b", "js/bin/w")
    files = Files(tmp_path, Grant(("fs::write",), paths=names))
    await files.write("js/env/pyvenv.cfg", b"")
    for name in names[:-1]:
        with pytest.raises(CapabilityDenied, match="belongs to an environment"):
            await files.write(name, b"evil")
    await files.write("js/bin/w", b"")
    assert (tmp_path / "js/env/pyvenv.cfg").read_bytes() == b""
