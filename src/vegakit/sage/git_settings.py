"""Begin git, wherever Vega runs it: in a sandbox, by `git_command`, on a repository whose settings
are all on a list of those that can do no harm.

    settings of the repository ─▶ all on the list? ─▶ git, with our options and variables
                                         └─ no ─▶ refused, with the name of the first

A setting that is not on the list may name a program, other settings, a place to write to or a
server. Each version of git brings more of them, such as hooks in the settings (2.54), so a list of
the harmful ones is never complete. Git writes sections and names in small letters when it lists
them, and only what stands between them as it was written, so names are compared exactly.
"""

import re
from collections.abc import Sequence

GIT_OPTIONS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null"),
    *("core.pager=cat", "core.editor=false", "core.sshCommand=false", "protocol.allow=never"),
    *("commit.gpgSign=false", "tag.gpgSign=false", "gpg.program=false", "color.ui=false"),
    *("branch.autoSetupMerge=false", "gc.auto=0", "maintenance.auto=false", "diff.external="),
    *("submodule.recurse=false", "core.untrackedCache=false", "interactive.diffFilter=false"),
)
"""They win over the settings of a repository."""
GIT_VARIABLES = (
    *("GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0"),
    *("GIT_OPTIONAL_LOCKS=0", "GIT_EDITOR=false", "GIT_ALLOW_PROTOCOL=none"),
    "GIT_NO_LAZY_FETCH=1",
)
"""`GIT_ALLOW_PROTOCOL` wins over `protocol.*.allow` of a repository; no protocol is called none."""

_TURNED_OFF = """
    core: attributesfile editor fsmonitor hookspath pager sshcommand untrackedcache
    commit: gpgsign
    gc: auto
    gpg: program
    maintenance: auto
    tag: gpgsign
"""
"""They may have any value, because `GIT_OPTIONS` holds another."""
_HARMLESS = """
    core: abbrev autocrlf bare bigfilethreshold checkstat commentchar commitgraph compression eol
    core: filemode fscache ignorecase logallrefupdates longpaths multipackindex precomposeunicode
    core: preloadindex quotepath repositoryformatversion safecrlf sharedrepository sparsecheckout
    core: sparsecheckoutcone symlinks trustctime whitespace
    extensions: objectformat refstorage relativeworktrees
    author: email name
    blame: coloring ignorerevsfile
    branch: autosetupmerge autosetuprebase sort
    color: branch diff interactive status ui
    column: branch status ui
    commit: cleanup verbose
    committer: email name
    diff: algorithm colormoved context mnemonicprefix noprefix renamelimit renames
    fetch: parallel prune prunetags
    gpg: format
    gui: geometry wmstate
    i18n: commitencoding logoutputencoding
    index: sparse threads version
    init: defaultbranch
    log: abbrevcommit date decorate follow
    maintenance: strategy
    merge: conflictstyle ff renamelimit renames
    pull: ff rebase
    push: autosetupremote default followtags
    rebase: autosquash autostash updaterefs
    remote: pushdefault
    rerere: autoupdate enabled
    stash: showpatch showstat
    status: branch relativepaths short showstash showuntrackedfiles
    submodule: active
    tag: sort
    user: email name signingkey useconfigonly
"""
_HARMLESS_OF_ONE = """
    branch: description gh-merge-base github-pr-owner-number merge pushremote rebase remote
    branch: vscode-merge-base
    remote: fetch followremotehead gh-resolved mirror prune prunetags push pushurl
    remote: skipdefaultupdate skipfetchall tagopt url
    submodule: active branch ignore shallow url
"""
"""Those of one branch, one remote or one submodule, whose name stands in the middle."""
_HELPER = re.compile(r"[A-Za-z0-9+.-]*::")
"""An address such as `ext::program` names a program that git starts for it."""


def git_command(*words: str, variables: Sequence[str] = ()) -> list[str]:
    """Return the command that runs git in a sandbox; `variables` are more, as NAME=VALUE."""
    options = [word for option in GIT_OPTIONS for word in ("-c", option)]
    return ["env", *GIT_VARIABLES, *variables, "git", "--no-pager", *options, *words]


def find_refused_setting(entries: Sequence[str]) -> str:
    """Return the name of the first setting that is not on the list, empty if there is none. The
    entries are as git lists them with `-z`: a name, a line break and a value."""
    for entry in entries:
        key, _, value = entry.partition("\n")
        section, _, name = key.partition(".")
        middle, dot, last = name.rpartition(".")
        is_known = (section, last) in _OF_ONE if dot and middle else (section, name) in _PLAIN
        is_address = section == "remote" and last in ("url", "pushurl")
        if not is_known or (is_address and _HELPER.match(value)):
            return key
    return ""


def _names(table: str) -> set[tuple[str, str]]:
    rows = [line.split(":") for line in table.splitlines() if line.strip()]
    return {(section.strip(), name) for section, names in rows for name in names.split()}


_PLAIN, _OF_ONE = _names(_TURNED_OFF + _HARMLESS), _names(_HARMLESS_OF_ONE)
