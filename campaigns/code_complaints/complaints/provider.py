"""A provider that is overloaded, breaks off, or says nothing."""

from campaigns.code_complaints.bench import Bench, Say
from campaigns.code_complaints.trajectory import Faults, complaint
from vegakit.testing import Failure


@complaint(
    "openai/codex #19121, #6397",
    "an answer that breaks off is asked for again, and half of it is not taken for the whole",
)
def stream_cut_off(it: Bench) -> Faults:
    """Once."""
    it.script(Say("half of an answer", cut=True), Say("THE-WHOLE"), Say("THE-WHOLE"))
    ran = it.ask("Say a word.", limit_s=60)
    if "THE-WHOLE" not in ran.out:
        yield f"exit status {ran.status} after {len(it.main)} requests"
    if ran.status != 0:
        yield f"exit status {ran.status}"


@complaint(
    "openai/codex #3764, anthropics/claude-code #23049",
    "429 and 529 in a row are waited out, as the provider says",
)
def storm_of_refusals(it: Bench) -> Faults:
    """Four, then an answer."""
    busy = [Failure(429, retry_after_s=0.2), Failure(529, retry_after_s=0.2)]
    it.script(*busy, *busy, "THE-WHOLE")
    ran = it.ask("Say a word.", limit_s=60)
    if "THE-WHOLE" not in ran.out:
        yield f"exit status {ran.status} after {len(it.main)} requests"
    if len(it.main) > 6:
        yield f"{len(it.main)} requests"


@complaint(
    "siteboon/claudecodeui #1012, openclaw/openclaw #85364",
    "an answer without a word is not taken for success",
)
def empty_answer(it: Bench) -> Faults:
    """For ever: the agent says so, or fails with a reason."""
    it.script(Say(""), repeats=True)
    ran = it.ask("Say a word.", limit_s=60)
    if ran.killed:
        yield f"no end in {ran.seconds:.0f} s"
    if ran.status == 0:
        yield "exit status 0"
    if len(it.main) > 10:
        yield f"{len(it.main)} requests"
