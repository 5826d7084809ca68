"""Names that hand a file over to who trusts it: git, an editor, a shell, Python, ourselves.

| name, at any depth                  | reading it               | writing or removing it   |
|-------------------------------------|--------------------------|--------------------------|
| sealed: `.git`, `.env`, `vega.toml`,| a rule names it in full  | never                    |
| our own `audit.db`, `run.db`        |                          |                          |
| run unasked: `Makefile`, `*.pth`    | as any other             | a rule names it in full  |

Whether it exists does not matter: what is absent today is read tomorrow. `.GIT` and other spellings
that some file system takes for the same name are the same name. "In full" means without a wildcard,
in the grant and in every grant it was cut from.
"""

import re
import unicodedata

from vegakit.errors import CapabilityDenied
from vegakit.policy import Denied, Grant, ReadPath, WritePath, decide

__all__ = ["is_ours", "is_run_unasked", "is_sealed", "permit"]

_SEALED = frozenset(
    """
    .git .gitmodules .gitattributes .gitconfig .git-credentials .githooks .husky .hg .svn
    vega.toml .vega .mcp.json .claude .codex .cursor .vscode .idea .devcontainer .env .envrc
    .bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zshenv .zprofile .zlogin
    .ssh .aws .gnupg .kube .docker .netrc .npmrc .pypirc .pgpass
    """.split()
)
_RUN_UNASKED = frozenset(
    """
    makefile gnumakefile justfile conftest.py sitecustomize.py usercustomize.py pyvenv.cfg setup.py
    package.json head tools.yaml
    """.split()
)
"""A file called HEAD can make any folder a git repository, with settings that run commands; one
called tools.yaml is read anew by `ToolFile`."""


_OURS = re.compile(
    r"(?:run|audit|.+\.(?:ledger|questions|audit))\.db(?:-wal|-shm|-journal|\.lock)?"
)
"""Where a runtime keeps its truth if it is told to keep it in the project: who could write there
would approve what he asks for, and rewrite what he did."""


def permit(grant: Grant, wanted: ReadPath | WritePath) -> str:
    """The one spelling that was checked."""
    writes, sealed = isinstance(wanted, WritePath), is_sealed(wanted.path)
    if writes and sealed:
        raise CapabilityDenied(
            f"{wanted.path[:80]!a} is never written by a tool, because other programs trust "
            "what it says; change it yourself"
        )
    verdict = decide(grant, wanted)
    if isinstance(verdict, Denied):
        raise CapabilityDenied(verdict.reason)
    clean = verdict.wanted
    assert isinstance(clean, ReadPath | WritePath)
    if (sealed or (writes and is_run_unasked(clean.path))) and not _in_full(grant, clean.path):
        raise CapabilityDenied(
            f"no wildcard reaches {clean.path!r}, because other programs trust or run it; "
            f'add allowed_paths ["{clean.path}"]'
        )
    return clean.path


def is_sealed(path: str) -> bool:
    return any(
        name in _SEALED or name.startswith(".env.") or is_ours(name) for name in _folded(path)
    )


def is_ours(name: str) -> bool:
    """A journal, ledger, audit or store of questions, by its usual name, in lower case."""
    return _OURS.fullmatch(name) is not None


def is_run_unasked(path: str) -> bool:
    return any(name in _RUN_UNASKED or name.endswith(".pth") for name in _folded(path))


def _in_full(grant: Grant, path: str) -> bool:
    return all(path in link.paths for link in grant.links())


def _folded(path: str) -> list[str]:
    """File systems differ in which spellings are one name; this takes more of them for one than
    any of them does."""
    seen = "".join(letter for letter in path if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold()).split("/")
