"""`vega resume` after each way in which a run can stop, with exact counts of requests."""

import json
import re
import signal
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.durability.commands import Home
from tests.patience import wait_until
from vegakit.conversation import Usage
from vegakit.testing import Failure, Hang, Provider, ProviderReply, ProviderToolCall, Script

TWO = """agent A { model fast  max_tokens 100 }
fn main() -> str {
    let one = A <- "first";
    let two = A <- "second {one}";
    return "{one} {two}";
}
"""
DEAR = TWO.replace('A <- "second', 'B <- "second') + ("agent B { model fast  max_tokens 1000 }\n")
ONE_ATTEMPT = """
[limits.default.retry]
max_attempts = 1
"""


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Home]:
    script: Script = request.param
    with Provider(script).in_thread() as provider:
        yield Home(tmp_path, provider)


def scripted(**script: Script) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("home", [script], indirect=True, ids=["provider"])


@scripted(first="one", second=[Hang(), "two"])
def test_a_call_cut_off_by_a_kill_is_sent_once_more(home: Home) -> None:
    """The answer that had come is not bought again; the cut is charged and shown."""
    home.killed(2, "-m", "vegakit", "run", home.write(TWO))
    gone_on = home.vega("resume")
    assert (gone_on.status, gone_on.out) == (0, "one two\n"), gone_on
    assert home.asked == ["first", "second one", "second one"]
    [run] = home.runs()
    assert run["lost_usd"] > 0
    assert run["ended_ms"] is not None


@scripted(first="one", second=[Hang(), Hang(), "two"])
def test_a_call_is_sent_once_more_at_each_resume(home: Home) -> None:
    home.killed(2, "-m", "vegakit", "run", home.write(TWO))
    home.killed(3, "-m", "vegakit", "resume")
    gone_on = home.vega("resume")
    assert (gone_on.status, gone_on.out) == (0, "one two\n"), gone_on
    assert home.asked == ["first", *3 * ["second one"]]


@scripted(first="one", second=[Hang(), "two"])
def test_a_call_that_was_cut_off_takes_no_paid_repeat(home: Home) -> None:
    """Those are for what a living run pays twice; what a kill adds is added to the quote."""
    home.add("[bounds]\npaid_repeats = 0\n")
    home.killed(2, "-m", "vegakit", "run", home.write(TWO))
    gone_on = home.vega("resume")
    assert (gone_on.status, gone_on.out) == (0, "one two\n"), gone_on
    assert "1 call was cut off and may have been billed ($" in gone_on.err
    assert home.asked == ["first", "second one", "second one"]


@scripted(first=Failure(500))
def test_a_run_that_is_not_the_last_one_is_named_where_it_may_go_on(home: Home) -> None:
    """Without a name the last unfinished one of the folder would."""
    home.add(ONE_ATTEMPT)
    assert "  try: vega resume\n" in home.vega("run", home.write(TWO)).err
    first = home.runs()[0]["run"]["program"][:12]
    assert "  try: vega resume\n" in home.vega("run", home.write(TWO)).err
    assert f"  try: vega resume {first}\n" in home.vega("resume", first).err


TYPED = """type Fruit { name: str }
agent A { model fast  max_tokens 100 }
fn main() -> str { let fruit: Fruit = A <- "first"; return fruit.name; }
"""


@scripted(first="no fruit", fit='{"name": "fig"}')
def test_an_answer_that_does_not_fit_is_asked_again_with_money_that_is_added(home: Home) -> None:
    """The run keeps to the rule it began with, so another setting would not help it."""
    home.add("[bounds]\npaid_repeats = 0\n")
    refused = home.vega("run", home.write(TYPED))
    assert "  try: vega resume --budget '+$0.01'\n" in refused.err, refused
    assert "paid_repeats of" not in refused.err
    assert home.vega("resume", "--budget", "+$0.01").out == "fig\n"
    assert len(home.asked) == 2


@scripted(first=[Hang(), "one"], second=[Hang(), Hang(), Hang(), "two"])
def test_no_kill_makes_a_person_type_more(home: Home) -> None:
    """Each adds what it cut off to the most that the run may cost, as far as its cap allows."""
    home.killed(1, "-m", "vegakit", "run", home.write(TWO))
    for sent in (3, 4, 5):
        home.killed(sent, "-m", "vegakit", "resume")
    assert home.vega("resume").out == "one two\n"
    assert len(home.asked) == 6
    [run] = home.runs()
    assert run["spent_usd"] == pytest.approx(run["lost_usd"], abs=0.0002)


@scripted(first="one", second=[Hang(), "two"])
def test_a_call_that_is_never_resent_is_told_to_the_program(home: Home) -> None:
    """What it does not catch fails it, and a person may then have it sent all the same."""
    home.add('[limits.default.retry]\nresend_unknown = "never"\n')
    home.killed(2, "-m", "vegakit", "run", home.write(TWO))
    told = home.vega("resume")
    assert told.status == 1
    assert "cut off" in told.err
    assert home.asked == ["first", "second one"]
    assert home.vega("resume").out == "one two\n"
    assert len(home.asked) == 3


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
@scripted(first="one", second="two")
def test_a_result_that_nobody_has_read_is_told_again(home: Home, options: list[str]) -> None:
    """A run ends when its result is out: killed while that waits for a reader, it goes on."""
    long = TWO.replace('"{one} {two}"', 'str::repeat("{one} {two} ", 100000)')
    process = home.start("-m", "vegakit", "run", *options, home.write(long))
    assert process.stdout is not None
    process.stdout.read(1)  # it has begun to tell, and the pipe is too short for all of it
    process.kill()
    process.communicate()
    gone_on = home.vega("resume")
    assert gone_on.out.count("one two ") == 100_000, gone_on.err
    assert home.asked == ["first", "second one"]


@scripted(first="one", second=[Failure(500), "two"])
def test_what_a_provider_failed_is_asked_again(home: Home) -> None:
    failed = home.vega("run", home.write(TWO))
    assert failed.status == 1
    assert "  to go on\n  try: vega resume\n" in failed.err, failed
    assert home.asked == ["first", "second one"]
    gone_on = home.vega("resume")
    assert (gone_on.status, gone_on.out) == (0, "one two\n"), gone_on
    assert home.asked == ["first", "second one", "second one"]


@scripted(first=Failure(529), second="two")
def test_retry_settings_are_applied_to_vega_programs(home: Home) -> None:
    """One attempt is one request."""
    home.add(ONE_ATTEMPT)
    assert home.vega("run", home.write(TWO)).status == 1
    assert home.asked == ["first"]


@scripted(first=[Failure(500), "one"], second=[Failure(500), "two"])
def test_what_was_caught_and_lived_on_stays_as_it_was(home: Home) -> None:
    """Only what failed the run is asked again, though both would now be answered."""
    source = """agent A { model fast  max_tokens 100 }
    fn main() -> str {
        let one = "none";
        try { one = A <- "first"; } catch AgentFailed { print("well"); }
        let two = A <- "second {one}";
        return "{one} {two}";
    }
    """
    assert home.vega("run", home.write(source)).status == 1
    gone_on = home.vega("resume")
    assert (gone_on.status, gone_on.out) == (0, "well\nnone two\n"), gone_on
    assert home.asked == ["first", "second none", "second none"]


@scripted(first="one", second="two")
def test_a_budget_of_the_program_that_was_too_small_is_raised(home: Home) -> None:
    """Refused before anything is sent; then the run goes on from there."""
    refused = home.vega("run", "--budget", "$0.0005", home.write(DEAR))
    assert refused.status == 1
    assert "try: vega resume --budget '+$1'\n" in refused.err, refused
    assert home.asked == ["first"]
    assert home.vega("resume").status == 1, "it is as small as it was"
    gone_on = home.vega("resume", "--budget", "+$1")
    assert (gone_on.status, gone_on.out) == (0, "one two\n"), gone_on
    assert home.asked == ["first", "second one"]


@scripted(first="one", second="two")
def test_a_budget_of_the_user_that_was_too_small_is_raised(home: Home) -> None:
    """For this run: it keeps the budget that the settings gave it, whatever they say since."""
    home.add('[budget]\ndefault = "$0.0005"\n')
    assert home.vega("run", home.write(DEAR)).status == 1
    assert home.asked == ["first"]
    home.add('[budget]\ndefault = "$1"\n')
    assert home.vega("resume").status == 1
    assert home.vega("resume", "--budget", "+$1").out == "one two\n"
    assert home.asked == ["first", "second one"]


@scripted(first="one", second="two")
def test_a_price_that_was_missing_is_set(home: Home) -> None:
    source = TWO.replace('A <- "second', 'B <- "second') + (
        'agent B { model "openai:other" max_tokens 100 }\n'
    )
    refused = home.vega("run", home.write(source))
    assert refused.status == 1
    assert "has no known price" in refused.err, refused
    before = len(home.asked)
    # One that made no call has ended, and is started again.
    [advice] = re.findall(r"try: vega (.+)", refused.err)
    assert advice.startswith("resume" if before else "run"), refused
    home.add('[prices."openai:other"]\ninput = "$1"\noutput = "$1"\n')
    gone_on = home.vega(*advice.split())
    assert (gone_on.status, gone_on.out) == (0, "one two\n"), gone_on
    assert home.asked == ["first", "second one"]
    assert before <= 1


@scripted(first="one", second=[Failure(401), "two"])
def test_a_key_that_was_wrong_is_set(home: Home) -> None:
    refused = home.vega("run", home.write(TWO))
    assert refused.status == 1
    gone_on = home.vega("resume", env={"OPENAI_API_KEY": "another-key-of-a-test"})
    assert (gone_on.status, gone_on.out) == (0, "one two\n"), gone_on
    assert home.asked == ["first", "second one", "second one"]


@scripted(first="one", second=[Hang(), "two"])
def test_a_key_that_is_missing_at_resume_leaves_the_run_as_it_is(home: Home) -> None:
    home.killed(2, "-m", "vegakit", "run", home.write(TWO))
    refused = home.vega("resume", env={"OPENAI_API_KEY": ""})
    assert refused.status == 1
    assert "OPENAI_API_KEY" in refused.err
    assert home.vega("resume").out == "one two\n"
    assert home.asked == ["first", "second one", "second one"]


@scripted(first="one", second="two")
def test_each_run_is_a_new_one_and_one_without_a_journal_leaves_nothing(home: Home) -> None:
    for _ in range(2):
        assert home.vega("run", home.write(TWO)).out == "one two\n"
    assert home.vega("run", "--no-journal", "main.vega").out == "one two\n"
    assert len(home.asked) == 6
    assert len(home.runs()) == 2
    nothing = home.vega("resume")
    assert "is unfinished" in nothing.err
    assert home.vega("run", "--journal", "run.db", "main.vega").status == 0
    assert len(home.runs()) == 2


PAYS = """
import asyncio
from pathlib import Path
from vegakit import Agent, Runtime, tool

async def pay(amount: int) -> str:
    with Path("paid.txt").open("a") as file:
        file.write(f"{amount}\\n")
    if not Path("quick").exists():
        await asyncio.Event().wait()
    return f"paid {amount}"

async def main() -> None:
    async with Runtime.from_config() as rt:
        agent = Agent("payer", model="fast", tools=[TOOL], max_tokens=100)
        print((await rt.ask(agent, "settle it")).text)

asyncio.run(main())
"""


def paid(home: Home) -> int:
    file = home.folder / "paid.txt"
    return len(file.read_text().splitlines()) if file.exists() else 0


def killed_while_it_pays(home: Home, tool: str) -> None:
    program = home.write(PAYS.replace("TOOL", tool), "pays.py")
    home.stopped(lambda: paid(home) > 0, program)
    (home.folder / "quick").touch()


@scripted(settle=[ProviderReply(calls=[ProviderToolCall("pay", {"amount": 30})]), "done"])
def test_a_tool_that_was_cut_off_waits_for_a_person_who_has_it_called_again(home: Home) -> None:
    killed_while_it_pays(home, "pay")
    for _ in range(2):
        stopped = home.vega("resume")
        assert stopped.status == 1
        assert 'the tool pay with {"amount":30} was being called when the run' in stopped.err
        assert "vega resume --resend" in stopped.err
        assert paid(home) == 1
    assert home.vega("resume", "--resend").out == "done\n"
    assert paid(home) == 2
    assert len(home.asked) == 2


@scripted(settle=[ProviderReply(calls=[ProviderToolCall("pay", {"amount": 30})]), "done"])
def test_a_tool_that_was_cut_off_is_skipped_if_a_person_says_so(home: Home) -> None:
    """The model hears that nobody knows whether it was done."""
    killed_while_it_pays(home, "pay")
    assert home.vega("resume", "--skip").out == "done\n"
    assert paid(home) == 1
    assert len(home.asked) == 2
    assert "nobody knows whether it was done" in str(home.provider.requests[-1].body)


@scripted(settle=[ProviderReply(calls=[ProviderToolCall("pay", {"amount": 30})]), "done"])
def test_a_tool_that_may_be_repeated_is_called_again_unasked(home: Home) -> None:
    killed_while_it_pays(home, "tool(idempotent=True)(pay)")
    assert home.vega("resume").out == "done\n"
    assert paid(home) == 2
    assert len(home.asked) == 2


KILLED_AS_IT_FAILS = """
import os
from vegakit.cli import main
from vegakit.host import JournaledRun
from pathlib import Path
if not Path("once").exists():
    Path("once").touch()
    JournaledRun.reopen = lambda *_: os.kill(os.getpid(), 9)
raise SystemExit(main(["run", "main.vega"]))
"""


@scripted(first="one", second=[Failure(500), "two"])
def test_a_run_that_was_killed_as_it_failed_goes_on_at_once(home: Home) -> None:
    """Its failure was recorded, and nobody was told; one `vega resume` is enough, and prints what
    it prints once."""
    home.write(TWO.replace("let two", 'print("so far"); let two'))
    killed = home.python(home.write(KILLED_AS_IT_FAILS, "killed.py"))
    assert (killed.status, killed.out) == (-signal.SIGKILL, "so far\n"), killed
    gone_on = home.vega("resume")
    assert (gone_on.status, gone_on.out) == (0, "so far\none two\n"), gone_on
    assert home.asked == ["first", "second one", "second one"]


@scripted(first="one", second=[Hang(), "two"])
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_how_to_go_on(home: Home, by: signal.Signals) -> None:
    words = "-m", "vegakit", "run", home.write(TWO)
    stopped = home.stopped(lambda: len(home.asked) == 2, *words, by=by)
    assert stopped.status == 128 + by, stopped
    told = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
    assert f"{told[by]}\n" in stopped.err  # a long path of the test has no socket, and says so
    assert "  to go on\n  try: vega resume\n" in stopped.err, stopped
    assert home.vega("resume").out == "one two\n"
    assert home.asked == ["first", "second one", "second one"]


SEVERAL = """
import asyncio
from vegakit import Agent, Runtime

agent = Agent("a", model="fast", max_tokens=100)

async def ask(question: str) -> None:
    async with Runtime.from_config() as rt:
        print((await rt.ask(agent, question)).text)

for question in ("first", "second", "third"):
    asyncio.run(ask(question))
"""


@scripted(first="one", second=[Hang(), "two"], third="three")
def test_a_program_of_several_runtimes_takes_each_of_its_runs_up_again(home: Home) -> None:
    """Also those that had come to their end: nothing is bought again."""
    home.killed(2, home.write(SEVERAL, "several.py"))
    assert home.vega("resume").out == "one\ntwo\nthree\n"
    assert home.asked == ["first", "second", "second", "third"]
    assert [run["ended_ms"] is not None for run in home.runs()] == [True, True, True]


BOTH = """agent A { model fast  max_tokens 100 }
agent B { model fast  max_tokens 3000 }
fn main() -> str {
    let one = A <- "first";
    let two = B <- "second";
    return "{one} {two}";
}
"""


@scripted(first=Failure(400, delay_ms=1_500), second=Hang())
def test_a_budget_holds_over_all_lives_of_a_run(home: Home) -> None:
    """In each life the first call fails, while the second, begun early, is in flight and is charged
    in full, though the program never comes to it."""
    home.add(ONE_ATTEMPT)
    home.vega("run", "--budget", "$0.012", home.write(BOTH))
    for _ in range(5):
        home.vega("resume")
    [run] = home.runs()
    assert home.asked.count("second") >= 1
    assert 0.003 < run["spent_usd"] <= 0.012, home.asked
    assert home.asked.count("second") <= 4, "each is charged more than a quarter of the budget"


@scripted(first=[Failure(400, delay_ms=1_500), "one"], second=[Hang(), "two"])
def test_what_was_begun_early_and_given_up_shows_in_the_account(home: Home) -> None:
    home.vega("run", home.write(BOTH))
    [failed] = home.runs()
    gone_on = home.vega("resume", "--budget", "+$1")
    assert (gone_on.status, gone_on.out) == (0, "one two\n"), gone_on
    [run] = home.runs()
    assert run["lost_usd"] == failed["lost_usd"] > 0.001
    assert run["spent_usd"] > run["lost_usd"]


@scripted(first=ProviderReply("one", usage=Usage(10, 5_000)), second="two")
def test_a_run_that_was_billed_too_much_pauses_and_says_so(home: Home) -> None:
    """Not that its answers were long: what was measured."""
    paused = home.vega("run", home.write(TWO))
    assert "Paused" in paused.err, paused
    assert "$0.004" in paused.err
    assert "billed above what a request and its max_tokens allow" in paused.err
    assert "6 bytes a token" not in paused.err
    assert home.vega("resume", "--budget", "+$0.01").out == "one two\n"


@scripted(first="one", second=ProviderReply("two", usage=Usage(10, 900)))
def test_the_budget_of_the_user_is_for_each_run(home: Home) -> None:
    """Not for all runs of a life, after which nothing would run any more. With a period it is, and
    includes what was spent before it was written."""
    home.add('[budget]\ndefault = "$0.0015"\n')
    file = home.write(DEAR)
    assert [home.vega("run", file).status for _ in range(3)] == [0, 0, 0]
    spent = sum(float(run["spent_usd"]) for run in home.runs())
    home.add(f'[budget]\ndefault = "${spent + 0.0012:.6f}/day"\n')
    within, refused = [home.vega("run", file) for _ in range(2)]
    assert (within.status, refused.status) == (0, 1)
    assert "or wait for its next period, from 20" in refused.err
    asked_for_less = len(home.asked) - 8
    assert f"· {asked_for_less} call" in refused.err, "one that was refused is none"
    assert [run["cut_off"] for run in json.loads(home.vega("runs", "--json").out)] == [0] * 5


@scripted(first="one", second="two")
def test_a_raised_budget_shows_in_the_account(home: Home) -> None:
    assert home.vega("run", home.write(DEAR), "--budget", "$0.0005").status == 1
    gone_on = home.vega("resume", "--budget", "+$1")
    assert gone_on.out == "one two\n"
    assert " of the cap $1.0005, " in gone_on.err


@scripted(first="one", second="two")
def test_a_run_of_another_folder_goes_on_by_its_name_only(home: Home) -> None:
    """Nobody pays for a program that they did not mean."""
    home.add('[budget]\ndefault = "$0.0005"\n')
    assert home.vega("run", home.write(DEAR)).status == 1
    began_in = home.folder
    home.folder = began_in / "elsewhere"
    home.folder.mkdir()
    refused = home.vega("resume")
    assert refused.status == 1
    assert "no run of this folder is unfinished\n  the last that is was started in" in refused.err
    named = refused.err.rsplit("vega resume ", 1)[1].strip()
    assert home.vega("resume", named, "--budget", "+$1").out == "one two\n"


@scripted(first="one", second="two")
def test_a_run_that_is_given_up_does_not_go_on(home: Home) -> None:
    home.add('[budget]\ndefault = "$0.0005"\n')
    assert home.vega("run", home.write(DEAR)).status == 1
    [run] = json.loads(home.vega("runs", "--json").out)
    name = run["run"]["program"][:12]
    assert home.vega("gc", name, "--dry-run").out.startswith(f"would give up run {name}: 1 call")
    assert home.vega("gc", name).out.startswith(f"gave up run {name}: 1 call recorded, <")
    assert "is unfinished" in home.vega("resume").err
    assert "has ended" in home.vega("gc", name).err
    [run] = json.loads(home.vega("runs", "--json").out)
    assert run["ended_ms"] == run["run"]["ended_ms"] is not None
    assert "given up" in home.vega("runs").out
    assert home.asked == ["first"]


@scripted(first="one", second=Hang())
def test_what_a_run_that_is_given_up_had_under_way_is_in_its_account(home: Home) -> None:
    words = "-m", "vegakit", "run", home.write(TWO)
    home.stopped(lambda: len(home.asked) == 2, *words, by=signal.SIGKILL)
    [killed] = json.loads(home.vega("runs", "--json").out)
    home.vega("gc", killed["run"]["program"])
    [given_up] = json.loads(home.vega("runs", "--json").out)
    assert (killed["cut_off"], given_up["cut_off"]) == (1, 0)
    assert given_up["lost_usd"] > 0
    assert given_up["spent_usd"] == pytest.approx(killed["spent_usd"] + given_up["lost_usd"])


@scripted(first="one", second=[Hang(), "two"])
def test_a_program_in_python_goes_on_with_its_own_interpreter(home: Home) -> None:
    """Whoever types `vega resume` may have another `python`, or none."""
    file = home.write(
        "import asyncio\n"
        "from vegakit import Agent, Runtime\n"
        "async def main():\n"
        "    async with Runtime.from_config() as rt:\n"
        "        agent = Agent('A', model='fast', max_tokens=100)\n"
        "        one = (await rt.ask(agent, 'first')).text\n"
        "        print(one, (await rt.ask(agent, f'second {one}')).text)\n"
        "asyncio.run(main())\n",
        "main.py",
    )
    home.killed(2, file)
    assert home.runs()[0]["run"]["command"][0] == sys.executable
    assert home.vega("resume", env={"PATH": "/nowhere"}).out == "one two\n"


@scripted(first="one", second=[Hang(), "two"])
def test_who_starts_a_program_anew_is_told_of_its_unfinished_run(home: Home) -> None:
    """It would buy all answers again; `vega resume` does not."""
    file = home.write(TWO)
    home.killed(2, "-m", "vegakit", "run", file)
    anew = home.vega("run", file)
    [unfinished, _] = home.runs()
    assert anew.status == 0
    assert f"try: vega resume {unfinished['run']['program'][:8]}" in anew.err
    assert home.asked.count("first") == 2
    assert home.vega("resume").status == 0
    assert "unfinished" not in home.vega("run", file).err


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
@scripted(first="one", second="two")
def test_a_result_that_finds_no_place_is_kept(home: Home, options: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        failed = home.start("-m", "vegakit", "run", *options, home.write(TWO), out=full)
        complained = failed.communicate()[1]
    assert failed.returncode == 1
    assert "No space left on device" in complained
    assert "Traceback" not in complained
    assert complained.endswith("vega resume\n"), complained
    assert "one two" in home.vega("resume").out
    assert home.asked == ["first", "second one"]


@pytest.mark.parametrize("options", [[], ["--sequential"]], ids=["overlapping", "in order"])
@scripted(first="one", second=[Hang(), "two"], third="three")
def test_a_run_that_goes_on_is_told_the_time_that_it_was_told(
    home: Home, options: list[str]
) -> None:
    """A request that holds the time would be another one, and its answer bought again."""
    source = """agent A { model fast  max_tokens 100 }
    fn main() -> str {
        let now = time::now();
        let one = A <- "first {now}";
        let two = A <- "second {one}";
        let three = A <- "third {time::now()}";
        return "{one} {two} {three} {now}";
    }
    """
    words = ["-m", "vegakit", "run", *options, home.write(source)]
    home.stopped(lambda: "second one" in home.asked, *words)
    now = home.asked[0].removeprefix("first ")
    first = datetime.fromisoformat(now)
    # It is told in seconds: one that is asked for anew differs as soon as the next has begun.
    wait_until(lambda: datetime.now(first.tzinfo) >= first + timedelta(seconds=1))
    gone_on = home.vega("resume")
    assert gone_on.out == f"one two three {now}\n", gone_on
    assert home.asked.count(f"first {now}") == 1
    assert home.asked.count("second one") == 2
    [run] = home.runs()
    assert home.vega("replay", run["run"]["program"]).out == gone_on.out


@scripted(first="one", second=[Hang(), "two"], other="no")
def test_an_unfinished_run_of_a_shared_journal_is_not_taken_up_by_another_program(
    home: Home,
) -> None:
    """Else that program would end it, and the answers of both would be mixed."""
    home.killed(2, "-m", "vegakit", "run", home.write(TWO))
    journal = str(home.data / "vega.db")
    other = home.write(
        'agent B { model fast }\nfn main() -> str { return B <- "other"; }\n', "b.vega"
    )
    refused = home.vega("run", other, "--journal", journal)
    assert refused.status == 1
    assert "journal that many runs share" in refused.err
    assert "vega resume" in refused.err
    gone_on = home.vega("resume")
    assert (gone_on.status, gone_on.out) == (0, "one two\n"), gone_on
    assert "other" not in home.asked


LIMITED = """tool look(what: str) -> str { return "seen {what}"; }
agent A { model fast  max_tokens 100  tools [look]  max_steps 1 }
fn main() -> str { return A <- "find"; }
"""


@scripted(find=[ProviderReply(calls=[ProviderToolCall("look", {"what": "it"})]), "found"])
def test_an_answer_that_met_a_limit_is_not_bought_again(home: Home) -> None:
    """Each resume fails alike at no cost, until the limit is raised."""
    failed = home.vega("run", home.write(LIMITED))
    assert failed.status == 1
    assert "LimitReached" in failed.err
    [before] = home.runs()
    for _ in range(2):
        again = home.vega("resume")
        assert again.status == 1
        assert "LimitReached" in again.err
    assert len(home.asked) == 1
    assert [run["spent_usd"] for run in home.runs()] == [before["spent_usd"]]
    home.write(LIMITED.replace("max_steps 1", "max_steps 4"))
    assert home.vega("resume").out == "found\n"
    assert len(home.asked) == 2
