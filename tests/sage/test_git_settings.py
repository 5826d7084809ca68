"""Which settings of a repository git may act on, by what git itself makes of their spelling."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from vegakit.sage.git_settings import find_refused_setting

ORDINARY = """
[core]
	repositoryformatversion = 0
	FileMode = true
	bare = false
	logallrefupdates = true
	hooksPath = .husky/_
	sshCommand = ssh -i key
[remote "origin"]
	url = git@example.com:a/b.git
	url = https://example.com:8443/a/b.git
	url = ../b
	pushurl = ssh://git@[::1]:22/a/b.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[Remote "A.b c]"]
	url = [::1]:a/b.git
	gh-resolved = base
[branch "main"]
	remote = origin
	merge = refs/heads/main
	vscode-merge-base = origin/main
[branch "fix/A.b"]
	rebase = true
[user]
	name = A
	email = a@b.c
	signingKey
[commit]
	gpgSign = true
[submodule "lib"]
	active = true
	url = https://example.com/lib.git
[submodule]
	active = .
[pull]
	rebase = true
"""
HOSTILE = [
    ('[filter "x"]\nsmudge = y', "filter.x.smudge"),
    ('[FILTER "x"]\nProcess = y', "filter.x.process"),
    ("[filter.x]\nclean = y", "filter.x.clean"),
    ('[filter ""]\nclean = y', "filter..clean"),
    ('[hook "a"]\nevent = post-checkout', "hook.a.event"),
    ("[include]\npath = more", "include.path"),
    ("[INCLUDE]\nPATH", "include.path"),
    ('[includeIf "gitdir:/"]\npath = more', "includeif.gitdir:/.path"),
    ("[extensions]\nworktreeConfig = true", "extensions.worktreeconfig"),
    ("[extensions]\npartialClone = origin", "extensions.partialclone"),
    ('[remote "o"]\npromisor = true', "remote.o.promisor"),
    ('[remote "o.url"]\nvcs = ext', "remote.o.url.vcs"),
    ('[remote "o"]\nuploadpack = y', "remote.o.uploadpack"),
    ('[remote "o"]\nurl = ext::sh -c y', "remote.o.url"),
    ('[remote "o"]\nurl = "::y"', "remote.o.url"),
    ('[remote "o"]\nPushURL = fd::7', "remote.o.pushurl"),
    ('[remote "o"]\nurl = ok\nurl = ext::y', "remote.o.url"),
    ('[remote "pushdefault\rx"]\npromisor = true', "remote.pushdefault\rx.promisor"),
    ('[remote "a\x01b"]\npromisor = true', "remote.a\x01b.promisor"),
    ('[remote ""]\nurl = y', "remote..url"),
    ('[protocol "ext"]\nallow = always', "protocol.ext.allow"),
    ('[url "ext::y"]\ninsteadOf = https', "url.ext::y.insteadof"),
    ("[core]\nworktree = /", "core.worktree"),
    ("[core]\nalternateRefsCommand = y", "core.alternaterefscommand"),
    ("[core]\ngitProxy = y", "core.gitproxy"),
    ("[core]\naskPass = y", "core.askpass"),
    ('[core "x"]\nfilemode = true', "core.x.filemode"),
    ("[core]\nprotectHFS = false", "core.protecthfs"),
    ('[diff "x"]\ntextconv = y', "diff.x.textconv"),
    ("[diff]\nexternal = y", "diff.external"),
    ('[merge "x"]\ndriver = y', "merge.x.driver"),
    ('[submodule "x"]\nupdate = !y', "submodule.x.update"),
    ("[credential]\nhelper = y", "credential.helper"),
    ('[gpg "ssh"]\nprogram = y', "gpg.ssh.program"),
    ("[log]\nshowSignature = true", "log.showsignature"),
    ("[alias]\nst = !y", "alias.st"),
    ("[sequence]\neditor = y", "sequence.editor"),
    ("[trailer]\nx = y", "trailer.x"),
    ("[attr]\ntree = HEAD", "attr.tree"),
]
REACHING = re.compile(
    r".*(cmd|command|program|helper|driver|textconv|hook|path|proxy|ssh|askpass|editor|pager|include"
    r"|template|insteadof|vcs|pack$|worktree|smudge|clean$|process|external|tool|promisor|alias).*"
)
TURNED_OFF = {"core.editor", "core.hooksPath", "core.pager", "core.sshCommand", "gpg.program"}
YES_OR_NO = {"core.quotePath", "status.relativePaths"}


def refused(folder: Path, text: str) -> str:
    """By the listing of git, as the product reads it."""
    file = folder / "config"
    file.write_bytes(text.encode())
    words = ("git", "config", "--file", str(file), "--no-includes", "--list", "-z")
    listed = subprocess.run(words, check=True, capture_output=True).stdout
    return find_refused_setting([entry for entry in os.fsdecode(listed).split("\0") if entry])


def test_the_settings_of_an_ordinary_clone_are_on_the_list(tmp_path: Path) -> None:
    assert refused(tmp_path, ORDINARY) == ""


@pytest.mark.parametrize(("text", "key"), HOSTILE, ids=[key for _, key in HOSTILE])
def test_a_setting_that_reaches_more_is_refused(tmp_path: Path, text: str, key: str) -> None:
    """Also between harmless ones, and however its section is spelled."""
    assert refused(tmp_path, f"{ORDINARY}{text}\n[core]\nbare = false\n") == key


def test_no_setting_of_git_with_a_telling_name_is_on_the_list() -> None:
    """Of all that the git of this machine knows; those are excepted that our options turn
    off, and two that only say how paths are shown."""
    listed = subprocess.run(["git", "help", "--config"], check=True, capture_output=True, text=True)
    keys = re.findall(r"^[\w-]+\.\S+$", listed.stdout, re.MULTILINE)
    telling = {key for key in keys if REACHING.fullmatch(key.lower())}
    assert len(telling) > 50
    allowed = {
        key
        for key in telling
        if not find_refused_setting([re.sub(r"<[^>]*>|\*", "x", key).lower()])
    }
    assert allowed == TURNED_OFF | YES_OR_NO
