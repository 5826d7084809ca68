"""What an agent forgets: instructions and goals by compaction, all of a session by a kill; and a
prompt cache that is lost on resume, so that everything is bought anew."""

from campaigns.code_complaints.bench import Bench, Ran, Say, prefix_kept, shell
from campaigns.code_complaints.trajectory import Faults, complaint
from vegakit.testing import Hang

RULES = "Indent with tabs, and never touch the vendor folder."


def _steps(*names: str) -> list[Say]:
    return [Say(f"step {name}", [shell(f"echo {name} >> effects.txt")]) for name in names]


def _killed_at_request_three(it: Bench) -> Ran:
    for name in ("AGENTS.md", "CLAUDE.md", "GEMINI.md"):
        it.files({name: f"{RULES}\n"})
    it.commit()
    one, two, three = _steps("one", "two", "three")
    it.script(one, two, Hang(), three, "done")
    return it.ask("Write three lines.", when=lambda: len(it.main) == 3)


def _prefix(it: Bench) -> Faults:
    if len(it.main) < 4:
        yield f"no request after the resume ({len(it.main)} in all)"
        return
    where = prefix_kept(it.main[2], it.main[3])
    if where:
        yield f"the prefix differs from {where} on"
    effects = it.folder / "effects.txt"
    if not effects.exists() or effects.read_text() != "one\ntwo\nthree\n":
        yield "the effects are wrong"


@complaint(
    "anthropics/claude-code #42338, #85326",
    "after kill -9 and resume the request begins with the bytes of the one before it",
)
def cache_after_a_kill(it: Bench) -> Faults:
    """While the third answer is awaited."""
    _killed_at_request_three(it)
    it.ask("Go on.", resume=True)
    yield from _prefix(it)


@complaint(
    "anthropics/claude-code #47261, #54563",
    "the same when AGENTS.md and the branch changed meanwhile; the model is told what is new",
)
def cache_after_changed_instructions(it: Bench) -> Faults:
    """The change is added at the end."""
    _killed_at_request_three(it)
    for name in ("AGENTS.md", "CLAUDE.md", "GEMINI.md"):
        it.files({name: "Indent with four blanks.\n"})
    it.commit()
    it.git("checkout", "-qb", "other")
    it.ask("Go on.", resume=True)
    yield from _prefix(it)
    if not any("four blanks" in it.told(n) for n in range(4, len(it.main) + 1)):
        yield "the new instructions never reach the model"


@complaint(
    "openai/codex #6950, anthropics/claude-code #7584",
    "a session that was killed during its first request can be gone on with",
)
def session_after_a_kill(it: Bench) -> Faults:
    """Its prompt is not lost."""
    it.script(Hang(), "done")
    it.ask("Count the walruses.", when=lambda: len(it.main) == 1)
    ran = it.ask("Go on.", resume=True)
    if ran.status != 0:
        yield f"exit status {ran.status}: {ran.said.strip()[-80:]}"
    elif "walruses" not in it.told(2):
        yield "the first prompt is lost"


@complaint(
    "GEMISIS/leviath #96, chenhg5/cc-connect #1592",
    "after kill -9 during a command no answer is bought twice, and no command runs twice",
)
def paid_twice_after_a_kill(it: Bench) -> Faults:
    """The second command has had its effect, and sleeps."""
    one, three = _steps("one", "three")
    slow = shell("echo two >> effects.txt; touch started; sleep 30; echo late >> effects.txt")
    it.script(one, Say("step two", [slow]), three, "done")
    it.ask("Write three lines.", when=(it.folder / "started").exists)
    it.ask("Go on.", resume=True)
    if (it.folder / "effects.txt").read_text() != "one\ntwo\nthree\n":
        yield "a command ran twice, or not at all"
    after = it.told(3)
    if "step one" not in after or "step two" not in after:
        yield "answers that had arrived were bought again"


@complaint(
    "OpenHands/software-agent-sdk #4487, arn0ld87/harness-qwen #8",
    "the model is told that nobody knows whether the command that a kill cut off took effect",
)
def truth_about_what_was_cut_off(it: Bench) -> Faults:
    """It had taken effect."""
    slow = shell("echo two >> effects.txt; touch started; sleep 30")
    it.script(Say("step two", [slow]), "done")
    it.ask("Write a line.", when=(it.folder / "started").exists)
    it.ask("Go on.", resume=True)
    after = it.told(2).lower()
    if not after:
        yield "no request after the resume"
    elif "unknown" not in after and "nobody knows" not in after:
        yield "it is not told"


@complaint(
    "anomalyco/opencode #16960, #41358, openai/codex #24779, anthropics/claude-code #24792",
    "after compaction the instructions and the goal stand in the request, word by word",
    needs="window",
)
def compaction_that_forgets(it: Bench) -> Faults:
    """A window of 32,000 tokens, and seven answers of five thousand characters."""
    for name in ("AGENTS.md", "CLAUDE.md", "GEMINI.md"):
        it.files({name: f"{RULES}\n"})
    it.commit()
    it.summary = "Earlier the user and the assistant talked about files."
    goal = "The goal is to port the walrus module to Rust."
    it.script(*(Say(f"part {n}: {'word ' * 1_000}") for n in range(1, 8)), "done")
    it.ask(goal, small=True)
    for number in range(2, 9):
        ran = it.ask(f"Go on with part {number}.", resume=True, small=True)
        if ran.status != 0:
            yield f"exit status {ran.status} at turn {number}"
            break
    last = it.told(len(it.main))
    if not it.side:
        yield "nothing was compacted"
    if RULES not in last:
        yield "the instructions are lost"
    if goal not in last:
        yield "the goal is lost"
