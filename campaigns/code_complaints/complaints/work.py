"""Work that is lost, and undo that does not cover what it says: by the shell, by git, ignored and
large files, the person's own edits; edits that destroy what they do not mean."""

from campaigns.code_complaints.bench import Bench, Say, edit, read, shell, write
from campaigns.code_complaints.trajectory import Faults, complaint

DAYS = "three days of work\n"


def _undone(it: Bench, before: dict[str, tuple[int, str]]) -> Faults:
    said, after = it.undo(), it.tree()
    wrong = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    if wrong:
        yield f"still wrong after undo ({said.split(':')[0]}): {', '.join(wrong)}"


@complaint(
    "kirodotdev/Kiro #6049",
    "uncommitted work is there after `git checkout .` by the agent and undo",
    needs="undo",
)
def git_checkout(it: Bench) -> Faults:
    """The agent cleans up."""
    it.files({"notes.txt": "first\n"})
    it.commit()
    it.files({"notes.txt": DAYS, "new.txt": DAYS})
    before = it.tree()
    it.script(Say("", [shell("git checkout . ; git clean -fdx")]), "Cleaned.")
    it.ask("Clean up.")
    yield from _undone(it, before)


@complaint(
    "anthropics/claude-code #39394",
    "uncommitted and staged work is there after `git reset --hard` by the agent and undo",
    needs="undo",
)
def git_reset_hard(it: Bench) -> Faults:
    """Also the file that was only staged."""
    it.files({"notes.txt": "first\n"})
    it.commit()
    it.files({"notes.txt": DAYS, "staged.txt": DAYS})
    it.git("add", "staged.txt")
    before = it.tree()
    it.script(Say("", [shell("git reset --hard HEAD")]), "Cleaned.")
    it.ask("Clean up.")
    yield from _undone(it, before)


@complaint(
    "anthropics/claude-code #87575",
    "what the agent wrote by the shell is taken back by undo, as its edits are",
    needs="undo",
)
def edits_by_the_shell(it: Bench) -> Faults:
    """One edit by the tool; one file deleted, one overwritten, one made, one edited by sed."""
    files = {"keep.txt": "keep\n", "notes.txt": DAYS, "data.csv": "1,2,3\n", "sed.txt": "one\n"}
    it.files(files)
    it.commit()
    before = it.tree()
    line = "rm notes.txt && echo broken > data.csv && echo x > new.txt && sed -i s/one/two/ sed.txt"
    it.script(
        Say("", [read("keep.txt")]),
        Say("", [edit("keep.txt", "keep", "changed")]),
        Say("", [shell(line)]),
        "Cleaned.",
    )
    it.ask("Clean up.")
    if (it.folder / "notes.txt").exists():
        yield "the trajectory did not run"
    yield from _undone(it, before)


@complaint(
    "openai/codex #9203",
    "undo restores ignored files, a mode, a link, 3 MB, an empty folder, an untracked file",
    needs="undo",
)
def undo_of_everything(it: Bench) -> Faults:
    """What git would not have kept."""
    it.files({".gitignore": "*.log\n", "run.sh": "echo hi\n", "notes.txt": DAYS})
    it.commit()
    it.files({"local.log": "KEEP=1\n", "untracked.txt": "draft\n", "big.bin": bytes(3_000_000)})
    (it.folder / "link").symlink_to("notes.txt")
    (it.folder / "empty").mkdir()
    before = it.tree()
    gone = "rm -rf local.log untracked.txt link big.bin empty notes.txt"
    made = "chmod +x run.sh; mkdir made; echo x > made/new.txt; echo y > new.log"
    it.script(Say("", [shell(f"{gone}; {made}")]), "Cleaned.")
    it.ask("Clean up.")
    yield from _undone(it, before)


@complaint(
    "anthropics/claude-code #39514",
    "an old copy that the agent puts over days of work is taken back by undo",
    needs="undo",
)
def a_copy_over_the_work(it: Bench) -> Faults:
    """In the thread it was a worktree."""
    it.files({"src/a.py": DAYS, "src/b.py": DAYS, "old/src/a.py": "old\n", "old/src/c.py": "old\n"})
    before = it.tree()
    it.script(Say("", [shell("cp -r old/. . && rm -r old")]), "Restored.")
    it.ask("Use the old version.")
    yield from _undone(it, before)


@complaint(
    "anthropics/claude-code #45932",
    "what the person wrote after the turn stays when the turn is undone",
    needs="undo",
)
def own_edits_stay(it: Bench) -> Faults:
    """In one file of the turn and in one of their own."""
    it.files({"a.txt": "a\n", "b.txt": "b\n"})
    it.commit()
    it.script(Say("", [shell("echo agent > a.txt; echo agent > b.txt")]), "Done.")
    it.ask("Write.")
    it.files({"b.txt": "agent\nmine\n", "mine.txt": "mine\n"})
    it.undo()
    texts = {name: (it.folder / name).read_text() for name in ("a.txt", "b.txt", "mine.txt")}
    if texts["a.txt"] != "a\n":
        yield "the agent's own change was not taken back"
    if texts["b.txt"] != "agent\nmine\n" or texts["mine.txt"] != "mine\n":
        yield "the person's edit was overwritten"


# Edits.


@complaint(
    "QwenLM/qwen-code #3839, anomalyco/opencode #35409",
    "an edit of a file that changed since it was read does not undo that change",
)
def edit_of_a_stale_file(it: Bench) -> Faults:
    """The line that is to be replaced was changed meanwhile, as by a formatter."""
    it.files({"a.py": "x = 1\ny = 2\n"})
    it.commit()
    it.script(
        Say("", [read("a.py")]),
        Say("", [shell("printf 'x = 100\\ny = 2\\nz = 3\\n' > a.py")]),
        Say("", [edit("a.py", "x = 1\ny = 2", "x = 5\ny = 2")]),
        "Done.",
    )
    ran = it.ask("Set x.")
    now = (it.folder / "a.py").read_text()
    if now != "x = 100\ny = 2\nz = 3\n":
        yield f"the file is now {now!r}"
    if ran.status != 0 or len(it.main) < 4:
        yield f"exit status {ran.status} after {len(it.main)} requests"


@complaint(
    "anthropics/claude-code #62713, #19565",
    "an edit of a CRLF file changes one line, and no line ending",
)
def line_endings(it: Bench) -> Faults:
    """Tabs and the missing newline at the end, too."""
    text = b"one\r\n\ttwo\r\nthree  \r\nfour"
    it.files({"a.txt": text})
    it.commit()
    it.script(Say("", [read("a.txt")]), Say("", [edit("a.txt", "\ttwo", "\t2")]), "Done.")
    it.ask("Edit.")
    now = (it.folder / "a.txt").read_bytes()
    if now != text.replace(b"two", b"2"):
        yield f"the file is now {now!r}"


@complaint(
    "anthropics/claude-code #27718, #54876",
    "an edit over several lines of a CRLF file fits",
)
def lines_of_a_windows_file(it: Bench) -> Faults:
    """The model writes the line endings that it was shown."""
    text = b"one\r\ntwo\r\nthree\r\n"
    it.files({"a.txt": text})
    it.commit()
    it.script(Say("", [read("a.txt")]), Say("", [edit("a.txt", "one\ntwo", "1\n2")]), "Done.")
    it.ask("Edit.")
    now = (it.folder / "a.txt").read_bytes()
    if now != b"1\r\n2\r\nthree\r\n":
        yield f"the file is now {now!r}"


@complaint(
    "anomalyco/opencode #27871, #47902",
    "wrong arguments are told to the model, nothing is run, and the session goes on",
)
def wrong_arguments(it: Bench) -> Faults:
    """No command; a number for a path."""
    from campaigns.code_complaints.agents import Call

    it.script(Say("", [Call("shell", {})]), Say("", [write("ok.txt", "ok")]), "Done.")
    ran = it.ask("Write.")
    if ran.status != 0 or not (it.folder / "ok.txt").exists():
        yield f"exit status {ran.status} after {len(it.main)} requests"


@complaint(
    "anomalyco/opencode #9532, #21900",
    "a tool that does not exist is told to the model, and the session goes on",
)
def unknown_tool(it: Bench) -> Faults:
    """The model makes one up, beside one that exists."""
    from campaigns.code_complaints.agents import Call

    it.script(
        Say("", [Call("ProxyRead", {"path": "a"})]), Say("", [write("ok.txt", "ok")]), "Done."
    )
    ran = it.ask("Write.")
    if ran.status != 0 or not (it.folder / "ok.txt").exists():
        yield f"exit status {ran.status} after {len(it.main)} requests"
