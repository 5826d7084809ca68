"""Outputs and files that are too long, too wide or no text."""

from campaigns.code_complaints.bench import Bench, Say, read, shell
from campaigns.code_complaints.trajectory import Faults, complaint

MOST_ADDED = 120_000
"""Bytes that one result may add to a request."""


def _grown(it: Bench, status: int) -> Faults:
    if len(it.main) < 2:
        yield f"no second request; exit status {status}"
        return
    added = len(it.main[1].raw) - len(it.main[0].raw)
    if added > MOST_ADDED:
        yield f"{added:,} bytes more in the next request"
    if status != 0:
        yield f"exit status {status}"


@complaint(
    "anthropics/claude-code #11155, anomalyco/opencode #9693",
    "a million lines of output do not fill the request, and the first and last line are seen",
)
def a_million_lines(it: Bench) -> Faults:
    """The process tree stays below 600 MB, too."""
    it.script(Say("", [shell("seq 1 1000000; echo THE-END")]), "Done.")
    ran = it.ask("Count.", limit_s=60)
    yield from _grown(it, ran.status)
    if "THE-END" not in it.told(2):
        yield "the end of the output is not seen"
    if ran.peak_mb > 600:
        yield f"{ran.peak_mb:,.0f} MB"


@complaint(
    "anthropics/claude-code #94055, #94408, #16294",
    "output that is no text does not break the session",
)
def binary_output(it: Bench) -> Faults:
    """Random bytes, zeros and escape codes."""
    line = r"head -c 60000 /dev/urandom; head -c 1000 /dev/zero; printf '\033[2J\033]0;x\007'"
    it.script(Say("", [shell(line)]), "Done.")
    ran = it.ask("Show it.", limit_s=60)
    yield from _grown(it, ran.status)
    if "\x1b[2J" in ran.said:
        yield "the escape codes reach the terminal"


@complaint(
    "openai/codex #423, agent0ai/agent-zero #833",
    "one line of five million characters does not fill the request",
)
def a_very_long_line(it: Bench) -> Faults:
    """As minified sources are."""
    it.files({"min.js": "x=1;" * 1_250_000})
    it.commit()
    it.script(Say("", [read("min.js"), shell("cat min.js")]), "Done.")
    ran = it.ask("Look at it.", limit_s=60)
    yield from _grown(it, ran.status)


@complaint(
    "anthropics/claude-code #11155, ai-ecoverse/slicc #2010",
    "a file of 60 MB that is read does not fill the request",
)
def a_giant_file(it: Bench) -> Faults:
    """One million lines of text."""
    it.files(
        {"big.log": "this is a line of a log file with some words in it, no. 12345\n" * 950_000}
    )
    it.script(Say("", [read("big.log")]), "Done.")
    ran = it.ask("Look at it.", limit_s=60)
    yield from _grown(it, ran.status)
