"""The one list of names that hand a file over to who trusts it, or that hold secrets.

File handles, the sandbox and the look after a command all ask here.

| kind, at any depth        | file handles: read | write   | a command finds it | made by one |
|---------------------------|--------------------|---------|--------------------|-------------|
| trusted: `.git`, `.envrc` | named in full      | never   | read-only          | set aside   |
| credentials: `.ssh`       | named in full      | never   | empty              | set aside   |
| secret: `.env`, `*.pem`   | named in full      | never   | empty              | left        |
| ours: `run.db`            | named in full      | never   | read-only          | left        |
| installed: `.venv/bin`    | named in full      | never   | read-only          | see below   |
| run unasked: `Makefile`   | as any other       | in full | as any other       | left        |

"Named in full" means by a rule without a wildcard, in the grant and in every grant it was cut
from. Whether a name exists does not matter to file handles: what is absent today is read
tomorrow. For a command, those of `ABSENT_FOLDERS` and `ABSENT_FILES` cannot even be made at the
top of a workspace. `.GIT` and other spellings that some file system takes for the same name are
the same name.

What is installed is code that the tools of the person run: the programs of an environment, and
what each of its Pythons runs when it starts. An environment is called `.venv` or `venv`, or has a
`pyvenv.cfg`. In one that was there a command makes none of it: it is set aside. One that a command
makes is left to it as a whole.
"""

import re
import unicodedata
from collections.abc import Mapping
from enum import StrEnum

from vegakit.errors import CapabilityDenied
from vegakit.policy import Denied, Grant, ReadPath, WritePath, decide


class ProtectionKind(StrEnum):
    """The reasons for which a name is protected."""

    TRUSTED = "trusted"
    CREDENTIALS = "credentials"
    SECRET = "secret"  # noqa: S105
    OURS = "ours"
    INSTALLED = "installed"


ABSENT_FOLDERS = tuple(
    """
    .git .hg .vega .vscode .idea .claude .codex .cursor .agents .devcontainer .husky .githooks
    """.split()
)
ABSENT_FILES = (".envrc", ".mcp.json", "vega.toml", ".npmrc")
"""Programs act on these when they are merely started in the folder. Each costs every command 0.2
ms: it is made, mounted on and removed. The others are set aside when the command has ended."""

_TRUSTED_BY = {
    "version control runs the hooks, filters and helpers that they name": """
        .git .hg .svn .bzr .jj .sl .pijul _darcs .fslckout _fossil_ .repo .gitmodules
        .gitattributes .gitconfig .lfsconfig .hgsub .hgrc
    """,
    "the next commit runs what they say, through a program that keeps hooks": """
        .husky .githooks .git-hooks .huskyrc .huskyrc.json .huskyrc.js .pre-commit-config.yaml
        .pre-commit-config.yml .overcommit.yml captainhook.json .simple-git-hooks.json
        .simple-git-hooks.js .simple-git-hooks.cjs lefthook.yml lefthook.yaml lefthook.toml
        lefthook.json .lefthook.yml .lefthook.yaml .lefthook.toml .lefthook.json
        lefthook-local.yml lefthook-local.yaml .lefthook-local.yml .lefthook-local.yaml
    """,
    "an editor that opens the folder runs their tasks, servers and scripts": """
        .vscode .idea .zed .fleet .helix .nova .devcontainer .devcontainer.json .vim .vimrc
        .gvimrc .nvimrc .nvim.lua .exrc .lvimrc .emacs .emacs.d .dir-locals.el .dir-locals-2.el
        .lite_project.lua .ctags .ctags.d .ycm_extra_conf.py .bsp .merlin hie.yaml .hie-bios
    """,
    "another agent takes hooks, servers and rights from them": """
        .claude .codex .cursor .agents .gemini .windsurf .continue .opencode opencode.json
        opencode.jsonc .aider.conf.yml .roo .kiro .qwen .kilocode .trae .amazonq .augment .junie
        .factory crush.json .crush.json .mcp.json
    """,
    "we act on them ourselves": ".vega vega.toml pins.json mcp.pins.json",
    "a shell runs them when it starts, or when somebody enters the folder": """
        .envrc .envrc.local .direnv .autoenv .autoenv.zsh .autoenv_leave.zsh .bashrc .bash_profile
        .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout
        .kshrc .mkshrc .cshrc .tcshrc .xonshrc .login .xprofile .xsessionrc .xinitrc .inputrc
    """,
    "they choose the program, or the options, that a tool is started with": """
        .mise .mise.toml mise.toml mise.local.toml .mise.local.toml .rtx.toml .tool-versions
        .python-version rust-toolchain rust-toolchain.toml .cargo .mvn gradle-wrapper.jar .bazelrc
        .bazeliskrc .sbtopts .jvmopts .actrc .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs
        .pnpmfile.mjs .bowerrc .pip
    """,
    "a console, debugger or pager runs them when it starts": """
        .gdbinit .lldbinit .pdbrc .perldb .jdbrc jdb.ini .rprofile .renviron .rdata .octaverc .irbrc
        .pryrc .iex.exs .ghci .ocamlinit .erlang .jshellrc .psysh.php .ipython ipython_config.py
        .jupyter jupyter_config.py jupyter_server_config.py jupyter_notebook_config.py
        jupyter_lab_config.py .pythonrc.py .psqlrc .sqliterc .tmux.conf .screenrc .less .lesskey
        .curlrc .wgetrc .mailcap
    """,
}
"""Names by why a change of them runs something on the machine of the person, who has neither asked
for it nor looked at it. What a project's own build and tests run, when a person starts those, is
not here: an agent is there to write it."""
_TRUSTED = frozenset(" ".join(_TRUSTED_BY.values()).split()).union(ABSENT_FOLDERS, ABSENT_FILES)
_CREDENTIALS = frozenset(
    """
    .git-credentials .ssh .aws .azure .gnupg .kube .docker .netrc .npmrc .pypirc .pgpass .my.cnf
    .password-store .vault-token .boto .s3cfg .dockercfg .terraformrc .oci
    """.split()
)
_SECRET = frozenset(
    """
    .env id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk credentials.json
    client_secret.json service_account.json service-account.json secrets.yaml secrets.yml
    secrets.json secrets.toml mcp.token
    """.split()
)
SECRET_FILES = frozenset({"secret"})
"""Files, of a command alone: many a project has a folder of this name. Who may read the one in the
folder that `VEGA_DATA_DIR` names could seal journals as the person does."""
_ENDINGS = {
    **dict.fromkeys("pem key p12 pfx kdbx jks keystore ppk".split(), ProtectionKind.SECRET),
    "code-workspace": ProtectionKind.TRUSTED,  # as `.vscode`
}
NO_SECRET = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})
_NAMED = {
    **dict.fromkeys(_SECRET, ProtectionKind.SECRET),
    **dict.fromkeys(_TRUSTED, ProtectionKind.TRUSTED),
    **dict.fromkeys(
        _CREDENTIALS, ProtectionKind.CREDENTIALS
    ),  # `.npmrc` is trusted and holds tokens
}
_CONFIG = """
    git fish nvim vim tmux pip uv curlrc lesskey autostart systemd mise mise.toml environment.d
    helix lefthook.yml lefthook.yaml lefthook.toml lefthook.json
"""
_IN_CONFIG: dict[str, ProtectionKind] = {
    **dict.fromkeys("gcloud gh hub rclone".split(), ProtectionKind.CREDENTIALS),
    **dict.fromkeys(_CONFIG.split(), ProtectionKind.TRUSTED),
}
_IN_ENVIRONMENT: dict[str, ProtectionKind] = dict.fromkeys(
    "bin scripts pyvenv.cfg".split(), ProtectionKind.INSTALLED
)
_AT_START = dict.fromkeys("sitecustomize.py usercustomize.py".split(), ProtectionKind.INSTALLED)
_IN_PACKAGES: dict[str, ProtectionKind] = {**_AT_START, "*.pth": ProtectionKind.INSTALLED}
_BELOW: dict[str, Mapping[str, ProtectionKind]] = {
    ".config": _IN_CONFIG,
    ".local": {"bin": ProtectionKind.TRUSTED},
    # Yarn runs the release that is kept there, with these plugins; editors the SDKs.
    ".yarn": dict.fromkeys(("releases", "plugins", "sdks"), ProtectionKind.TRUSTED),
    ".clinerules": {"hooks": ProtectionKind.TRUSTED},
    ".venv": _IN_ENVIRONMENT,
    "venv": _IN_ENVIRONMENT,
    "site-packages": _IN_PACKAGES,
    "dist-packages": _IN_PACKAGES,
}
"""Names that mean something only in a folder of this name; `*` stands for any beginning."""
ENVIRONMENT_MARK = "pyvenv.cfg"
"""The file that makes any folder an environment."""
ENVIRONMENTS = frozenset(
    above for above, names in _BELOW.items() if ProtectionKind.INSTALLED in names.values()
)
"""Names of folders that installed code lies in."""
_AUTO_EXECUTED = frozenset(
    """
    makefile gnumakefile justfile conftest.py sitecustomize.py usercustomize.py pyvenv.cfg setup.py
    package.json head tools.yaml noxfile.py rakefile build.rs
    """.split()
)
"""A file called HEAD can make any folder a git repository, with settings that run commands; one
called tools.yaml is read anew by `ToolFile`."""


_OURS = re.compile(r"(?:run|vega|audit|.+\.audit)\.db(?:-wal|-shm|-journal|\.lock|\.spool)?")
"""Where a runtime keeps its truth if it is told to keep it in the project: who could write there
would approve what he asks for, and rewrite what he did."""


def authorize_path(grant: Grant, wanted: ReadPath | WritePath) -> str:
    """The one spelling that was checked."""
    writes, protected = isinstance(wanted, WritePath), is_protected(wanted.path)
    if writes and protected:
        raise CapabilityDenied(
            f"{wanted.path[:80]!a} is never written by a tool, because other programs trust "
            "what it says; change it yourself"
        )
    verdict = decide(grant, wanted)
    if isinstance(verdict, Denied):
        raise CapabilityDenied(verdict.reason)
    clean = verdict.wanted
    assert isinstance(clean, ReadPath | WritePath)
    if (protected or (writes and is_auto_executed(clean.path))) and not _named_exactly(
        grant, clean.path
    ):
        raise CapabilityDenied(
            f"no wildcard reaches {clean.path!r}, because other programs trust or run it; "
            f'add allowed_paths ["{clean.path}"]'
        )
    return clean.path


def installed_below(path: str) -> tuple[str, ...]:
    """Return the files that would make a path installed code: each is in a folder above it, and
    says that this is an environment, whatever its name."""
    names = path.split("/")
    return tuple(
        "/".join((*names[:number], ENVIRONMENT_MARK))
        for number, name in enumerate(names)
        if fold_path(name) in _IN_ENVIRONMENT
    )


def is_protected(path: str) -> bool:
    """Return whether any name in the path is protected."""
    names = fold_path(path).split("/")
    return any(kind_of(name, above) for above, name in zip(["", *names], names, strict=False))


def kind_of(name: str, above: str = "") -> ProtectionKind | None:
    """Both folded; `above` is the name of the folder it lies in."""
    if (kind := _NAMED.get(name)) is not None:
        return kind
    stem, dot, ending = name.rpartition(".")
    if ending in _ENDINGS and dot and stem:
        return _ENDINGS[ending]
    if name.startswith(".env.") and name not in NO_SECRET:
        return ProtectionKind.SECRET
    if below := _BELOW.get(above):
        return below.get(name) or below.get(f"*{dot}{ending}")
    return ProtectionKind.OURS if ".db" in name and is_ours(name) else None


_ANY = re.escape("*")


def patterns(*kinds: ProtectionKind) -> list[str]:
    """The list as regular expressions for whoever cannot ask `kind_of`, over one or two names of a
    path, in lower case."""
    found = [re.escape(name) for name, kind in _NAMED.items() if kind in kinds]
    found += [
        f"{re.escape(above)}/{re.escape(name).replace(_ANY, '[^/]+')}"
        for above, names in _BELOW.items()
        for name, kind in names.items()
        if kind in kinds
    ]
    found += [rf"[^/]+\.{ending}" for ending, kind in _ENDINGS.items() if kind in kinds]
    if ProtectionKind.SECRET in kinds:
        found += [r"\.env\.[^/]+"]
    return sorted(found)


def is_ours(name: str) -> bool:
    """A journal with its ledger and spool, or an audit, by its usual name, in lower case."""
    return _OURS.fullmatch(name) is not None


def is_auto_executed(path: str) -> bool:
    """Return whether a program would run the file by itself."""
    names = fold_path(path).split("/")
    return any(name in _AUTO_EXECUTED or name.endswith(".pth") for name in names)


def _named_exactly(grant: Grant, path: str) -> bool:
    return all(path in link.paths for link in grant.links())


def fold_path(path: str) -> str:
    """File systems differ in which spellings are one name; this takes more of them for one than
    any of them does."""
    if path.isascii():
        return path.lower()
    seen = "".join(character for character in path if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())
