"""`kill -9` of the coding agent at any moment loses and repeats nothing.

    python -m campaigns.code_kills [KILLS] [SEED]

A session of two turns has parallel tools, shell commands that write, edits, and sub-agents that do
the same. Its whole process group is killed when a random event was told, or after a random time, in
the first life and in those that go on, and meanwhile a person changes AGENTS.md, adds a file and
commits it. `vega code --resume` goes on until the turn is done. Beside a run that nobody killed:

| what                 | holds if                                                               |
|----------------------|------------------------------------------------------------------------|
| transcript           | the last request of each conversation is the same, but for results that |
|                      | say "outcome unknown", what is told of AGENTS.md, and the line of a    |
|                      | later edit in a file whose edit before was told as unknown             |
| effects              | what a command or an edit writes is there once, or not at all if it    |
|                      | was cut off                                                            |
| answers              | one that was acted on is not asked for again                           |
| prefix               | a request that is sent again has the same bytes; each begins with the  |
|                      | one before it                                                          |
| undo                 | turn by turn, every file is what it was, byte for byte, and what the   |
|                      | person wrote meanwhile stays                                           |
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec.structs import replace
from tests.sage.scene import Scene, calls

from vegakit.sage.undo.windows import SILENCE_NS
from vegakit.testing import Provider, ProviderReply, ProviderRequest

__all__ = [
    "PROMPTS",
    "Figures",
    "Place",
    "acted_on",
    "differences",
    "effect_faults",
    "kill_sessions",
    "main",
    "make_workspace",
    "prefix_faults",
]

KILLS, SEED = 20, 1
MOST_KILLS = 4
"""Of one session."""
LONGEST_S = 120.0
PROMPTS = ("Turn one.", "Turn two.")
UNKNOWN = "outcome unknown"
_PERSONS = ("AGENTS.md", "person")
_SURROUNDINGS = re.compile(
    r"(?:(?:The date is|git: |At the top of the workspace)(?:(?!\\n).)*(?:\\n)+)+"
)
"""What a prompt tells of date, commits and names of files, which kills and the person change."""
_NEWS = re.compile(
    r"\\n\\n\[AGENTS.md was changed; it says now:\\n\\nRule \d+\.\]"
    r"|AGENTS.md was changed; it says now:\\n\\nRule \d+\.\\n\\n"
)
"""What is told of a change, behind a result or before a prompt."""
_GIT = "git init -q -b main; git config user.email a@b; git config user.name a; git add -A"


# The session: what is asked, and what the model answers to it.


def _shell(token: str, more: str = "") -> tuple[str, dict[str, str]]:
    """A command that leaves a mark each time it runs."""
    return "shell", {"command": f"echo {token} >> effects.txt; sleep 0.05; {more or 'true'}"}


def _edit(file: str, token: str) -> tuple[str, dict[str, str]]:
    """An edit that could be made twice, and would show it."""
    return "edit", {"path": file, "old": "END", "new": f"{token}\nEND"}


def _task(agent: str, prompt: str) -> tuple[str, dict[str, str]]:
    return "task", {"agent": agent, "prompt": prompt}


_READ = ("read", {"path": "still.txt"})
_GREP = ("grep", {"pattern": "still", "path": "still.txt"})


def _job(name: str) -> list[ProviderReply]:
    return [
        calls(_shell(f"{name}1", f"echo {name} > {name}.bin"), _edit(f"{name}.txt", f"{name}2")),
        calls(_READ, _shell(f"{name}3", f"chmod 755 {name}.txt; mkdir -p {name}/deep")),
        ProviderReply(f"{name} is done."),
    ]


SCRIPT: Mapping[str, list[ProviderReply]] = {
    PROMPTS[0]: [
        calls(_shell("m1", "rm gone.txt"), _edit("a.txt", "m2"), _READ, _GREP, text="I begin."),
        calls(
            _task("work", "Do A."),
            _task("explore", "Find B."),
            _task("work", "Do C."),
            _shell("m3", "mv still2.txt moved.txt"),
        ),
        calls(("write", {"path": "new/b.txt", "content": "b\n"}), _shell("m4", "ln -s a.txt ln")),
        ProviderReply("One is done."),
    ],
    PROMPTS[1]: [
        calls(_task("work", "Do D."), _task("work", "Do E."), _task("review", "Look at F.")),
        calls(_shell("n1", "rm -rf new; head -c 5000 /dev/zero > zeros.bin"), _edit("a.txt", "n2")),
        ProviderReply("Two is done."),
    ],
    "Do A.": _job("A"),
    "Do C.": _job("C"),
    "Do D.": _job("D"),
    "Do E.": _job("E"),
    "Find B.": [calls(_GREP, _READ), ProviderReply("B is in still.txt.")],
    "Look at F.": [calls(_READ), ProviderReply("F is well.")],
}
TOKENS = [*(f"{job}{n}" for job in "ACDE" for n in (1, 3)), "m1", "m3", "m4", "n1"]
EDITS = {**{f"{j}.txt": [f"{j}2"] for j in "ACDE"}, "a.txt": ["m2", "n2"]}


class Place(NamedTuple):
    """A step of a conversation: the prompt it began with, and how many answers it has since."""

    prompt: str
    step: int


def place_in(request: ProviderRequest) -> Place:
    """Return which step of which conversation a request is."""
    step = 0
    for message in request.body["messages"]:
        content = message["content"]
        parts = [{"type": "text"}] if isinstance(content, str) else content
        is_prompt = message["role"] == "user" and any(part["type"] == "text" for part in parts)
        step = 0 if is_prompt else step + (message["role"] == "assistant")
    return Place(request.text.rstrip().rpartition("\n")[2], step)


def answer(request: ProviderRequest) -> ProviderReply:
    """Answer by the script, whoever asks how often."""
    prompt, step = place_in(request)
    return replace(SCRIPT[prompt][step], delay_ms=30)


def make_workspace(folder: Path) -> None:
    """Make the files that the session works on."""
    (folder / "AGENTS.md").write_text("Rule 0.\n")
    for name in ("still.txt", "still2.txt", "gone.txt"):
        (folder / name).write_text("still\n")
    for name in EDITS:
        (folder / name).write_text("begin\nEND\n")
    subprocess.run(["bash", "-c", f"{_GIT}; git commit -qm one"], cwd=folder, check=True)


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return modes and contents of all that the agent may have touched."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not name.startswith((*_PERSONS, ".git")):
            content = b""
            if path.is_symlink():
                content = os.fsencode(path.readlink())
            elif path.is_file():
                content = path.read_bytes()
            found[name] = path.lstat().st_mode, content
    return found


# One life of the command.


class Kill(NamedTuple):
    """When to kill: so many seconds after so many events."""

    events: int
    wait_s: float


class Life(NamedTuple):
    events: list[dict[str, Any]]
    status: int
    errors: str


def live(it: Scene, words: tuple[str, ...], kill: Kill | None, zone: str = "UTC") -> Life:
    """Run `vega code`, and kill it with all that it started."""
    process = subprocess.Popen(
        [sys.executable, "-m", "vegakit", "code", *words, "--json"],
        cwd=it.folder,
        env={**it.environment, "TZ": zone},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    timers: list[threading.Timer] = []

    def arm(wait_s: float) -> None:
        timers.append(threading.Timer(wait_s, _end, [process]))
        timers[-1].start()

    arm(LONGEST_S if kill is None or kill.events else kill.wait_s)
    events: list[dict[str, Any]] = []
    for line in process.stdout:
        if not line.endswith("\n"):
            break  # cut off in the middle
        events.append(json.loads(line))
        if kill is not None and kill.events == len(events):
            arm(kill.wait_s)
    errors = process.stderr.read()
    status = process.wait()
    for timer in timers:
        timer.cancel()
    process.stdout.close()
    process.stderr.close()
    return Life(events, status, errors)


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


# What is compared.


class Figures(NamedTuple):
    """Counts over sessions; the last six must be 0."""

    kills: int = 0
    sessions: int = 0
    cut_off_tools: int = 0
    cut_off_calls: int = 0
    unfinished: int = 0
    transcripts: int = 0
    effects: int = 0
    bought_again: int = 0
    prefixes: int = 0
    not_undone: int = 0

    @property
    def holds(self) -> bool:
        """Whether all that must be 0 is."""
        return not any(self[4:])

    def plus(self, other: "Figures") -> "Figures":
        """Return the sums."""
        return Figures(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def __str__(self) -> str:
        return (
            f"{self.kills} kills in {self.sessions} sessions; {self.cut_off_tools} tools and "
            f"{self.cut_off_calls} model calls were cut off in flight\n"
            f"unfinished sessions {self.unfinished}, transcripts that differ {self.transcripts}, "
            f"effects doubled or lost {self.effects}, answers bought again {self.bought_again}, "
            f"prefixes that differ {self.prefixes}, turns not undone {self.not_undone}: "
            f"{'ok' if self.holds else 'BROKEN'}"
        )


Transcripts = dict[str, list[Any]]


def transcripts(requests: list[ProviderRequest]) -> Transcripts:
    """Return the messages of the last request of each conversation, as text with nothing that may
    differ from a run that nobody killed."""
    found: Transcripts = {}
    for request in requests:
        found[place_in(request).prompt] = request.body["messages"]
    return found


def differences(killed: Transcripts, whole: Transcripts) -> Iterator[str]:
    """Yield in what transcripts differ that must not."""
    for prompt in sorted(killed.keys() | whole.keys()):
        mine, theirs = ([*_pieces(each.get(prompt, []))] for each in (killed, whole))
        if len(mine) != len(theirs):
            yield f"{prompt}: {len(mine)} pieces instead of {len(theirs)}"
            continue
        cut: Counter[str] = Counter()
        for (one, edited), (other, _) in zip(mine, theirs, strict=True):
            if UNKNOWN in one and "tool_result" in one:
                cut[edited] += 1
            elif one != other and not _is_higher(one, other, cut):
                yield f"{prompt}: {one[:300]} instead of {other[:300]}"


_EDITED = re.compile(r"(?<=edited )(?P<path>\S+) at line (?P<line>\d+)")


def _is_higher(one: str, other: str, cut: Mapping[str, int]) -> bool:
    """Whether two results tell of the same edit of a file, the first of them higher up by no more
    lines than edits of this file were told as unknown before: each would have added one line."""
    mine, theirs = _EDITED.search(one), _EDITED.search(other)
    if mine is None or theirs is None or mine["path"] != theirs["path"]:
        return False
    missing = int(theirs["line"]) - int(mine["line"])
    is_same = _EDITED.sub("", one) == _EDITED.sub("", other)
    return is_same and 0 < missing <= cut.get(mine["path"], 0)


def _pieces(messages: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield what was said, piece by piece, and of the result of an edit the path of its file."""
    edits: dict[str, str] = {}
    for message in messages:
        content: Any = message["content"]
        for part in cast("list[Any]", [content] if isinstance(content, str) else content):
            if part["type"] == "tool_use" and part["name"] == "edit":
                edits[part["id"]] = part["input"]["path"]
            # Ids of calls are the provider's, which counts its requests.
            piece = json.dumps({k: v for k, v in _plain(part).items() if not k.endswith("id")})
            edited = edits.get(part.get("tool_use_id", ""), "")
            yield _SURROUNDINGS.sub("", _NEWS.sub("", piece)), edited


def _plain(value: Any) -> Any:
    """Return JSON without the marks of where a cached prefix ends, which move on with it."""
    if isinstance(value, list):
        return [_plain(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        return {key: _plain(one) for key, one in parts.items() if key != "cache_control"}
    return value


def prefix_faults(requests: list[ProviderRequest]) -> Iterator[str]:
    """Yield where a request has other bytes than when it was first sent, or does not begin with
    the one before it in its conversation."""
    first: dict[Place, bytes] = {}
    before: dict[bool | str, Any] = {}
    for request in requests:
        place, body = place_in(request), request.body
        if first.setdefault(place, request.raw) != request.raw:
            yield f"{place}: other bytes"
        # Both turns are one conversation.
        which = place.prompt in PROMPTS or place.prompt
        head = json.dumps(_plain([body["system"], body["tools"], body["model"]]))
        said = [json.dumps(_plain(message)) for message in body["messages"]]
        known = before.get(which)
        if known is not None and (head != known[0] or said[: len(known[1])] != known[1]):
            yield f"{place}: another prefix"
        before[which] = head, said


def acted_on(events: list[dict[str, Any]], tasks: dict[str, str]) -> Iterator[Place]:
    """Yield the answers that were acted on; `tasks` are the prompts of sub-agents by their call,
    and are added to."""
    for event in events:
        if event["type"] == "tool_began":
            turn, step, _ = event["id"].partition("/")[0].split(".")
            prompt = PROMPTS[int(turn) - 1]
            if event["task"]:
                prompt, step = tasks[event["task"]], event["id"].partition("/")[2].split(".")[0]
            if event["name"] == "task":
                tasks[event["id"]] = event["arguments"]["prompt"]
            yield Place(prompt, int(step) - 1)


def effect_faults(folder: Path, told: str) -> Iterator[str]:
    """Yield what was done twice, or not at all although nobody was told that it was cut off."""
    made = Counter((folder / "effects.txt").read_text().split())
    for file, tokens in EDITS.items():
        lines = (folder / file).read_text().split()
        made.update(line for line in lines if line in tokens)
    for token in {*TOKENS, *(token for tokens in EDITS.values() for token in tokens), *made}:
        least = 0 if token in told else 1
        if not least <= made[token] <= 1:
            yield f"{token} was written {made[token]} times"


def cut_off(killed: Transcripts) -> tuple[int, str]:
    """Return how many results say that their outcome is unknown, and the calls that they are of."""
    asked: dict[str, str] = {}
    found: list[str] = []
    for messages in killed.values():
        for message in messages:
            content: Any = message["content"]
            for part in cast("list[Any]", content if isinstance(content, list) else []):
                if part["type"] == "tool_use":
                    asked[part["id"]] = json.dumps(part["input"])
                if part["type"] == "tool_result" and UNKNOWN in json.dumps(part["content"]):
                    found.append(asked[part["tool_use_id"]])
    return len(found), " ".join(found).replace(";", " ").replace("\\n", " ")


# A session: it is played without kills once, and then with them.


class Play:
    """One session in a place of its own."""

    def __init__(self, place: Path, provider: Provider, chance: random.Random) -> None:
        self.it, self._chance = Scene(place, provider), chance
        self._told: set[Place] = set()
        self._tasks: dict[str, str] = {}
        self.faults: Counter[str] = Counter()
        self.kills = self.events = self._changes = 0
        self.trees: list[dict[str, tuple[int, bytes]]] = []
        make_workspace(self.it.folder)

    def run(self, most_kills: int, longest: int) -> None:
        """Play both turns; `longest` is how many events a turn has."""
        self.trees.append(tree(self.it.folder))
        for number, prompt in enumerate(PROMPTS, 1):
            self._turn(number, prompt, most_kills, longest)
            self.trees.append(tree(self.it.folder))

    def _turn(self, number: int, prompt: str, most_kills: int, longest: int) -> None:
        first = ("-p", prompt, *(("--session", "s") if number == 1 else ("--resume", "s")))
        words, has_begun = first, False
        while True:
            kill = self._next_kill(most_kills, longest)
            sent = len(self.it.provider.requests)
            zone = self._chance.choice(["UTC", "Pacific/Kiritimati", "America/Adak"])
            life = live(self.it, words, kill, zone)
            self.events = max(self.events, len(life.events))
            # Only what was acted on in lives before this one must not be asked for again.
            again = {place_in(one) for one in self.it.provider.requests[sent:]} & self._told
            self._count("bought_again", again)
            self._told |= set(acted_on(life.events, self._tasks))
            has_begun |= any(event["type"] == "turn" for event in life.events)
            if life.status == -signal.SIGKILL:
                self.kills += 1
                self._change()
                words = ("--resume", "s") if has_begun else first
                continue
            if "there is no session" in life.errors:
                words = first
                continue
            if "there is a session s" in life.errors:
                words = ("--resume", "s")
                continue
            if "the last turn of this session is done" in life.errors:
                if has_begun:
                    return
                words = ("-p", prompt, "--resume", "s")
                continue
            if life.status != 0:
                self._count("unfinished", [life.errors or str(life.events[-1:])])
            return

    def _next_kill(self, most: int, longest: int) -> Kill | None:
        if self.kills >= most:
            return None
        if self._chance.random() < 0.2:
            return Kill(0, self._chance.uniform(0.1, 3.0))
        return Kill(self._chance.randrange(1, longest), self._chance.choice([0, 0.01, 0.04, 0.1]))

    def _change(self) -> None:
        """Be the person who goes on working meanwhile, half of the time. Who does so at once after
        a kill cannot be told from the command that was cut off."""
        if self._chance.random() < 0.5:
            return
        time.sleep(SILENCE_NS / 1e9 + 0.2)
        self._changes += 1
        (self.it.folder / "AGENTS.md").write_text(f"Rule {self._changes}.\n")
        (self.it.folder / f"person{self._changes}.txt").write_text("mine\n")
        commit = f"git add person{self._changes}.txt && git commit -qm p{self._changes}"
        subprocess.run(["bash", "-c", commit], cwd=self.it.folder, check=True)

    def judge(self, whole: Transcripts) -> Figures:
        """Compare all that is left with a session that nobody killed, and undo it."""
        requests = self.it.provider.requests
        mine = transcripts(requests)
        number, told = cut_off(mine)
        self._count("transcripts", differences(mine, whole))
        self._count("effects", effect_faults(self.it.folder, told))
        self._count("prefixes", prefix_faults(requests))
        self._count("not_undone", self._undo())
        twice = Counter(place_in(request) for request in requests)
        return Figures(
            self.kills, 1, number, sum(times - 1 for times in twice.values()), **self.faults
        )

    def _undo(self) -> Iterator[str]:
        for prompt, before in zip(reversed(PROMPTS), reversed(self.trees[:-1]), strict=True):
            # What went on after a kill is a part of its turn, and taken back with it.
            undone = self.it.vega(command="undo")
            if undone.returncode:
                yield f"{prompt}: {undone.stdout}{undone.stderr}"
            now = tree(self.it.folder)
            for name in sorted(now.keys() | before.keys()):
                if now.get(name) != before.get(name):
                    yield f"{prompt} {name}: {now.get(name)} instead of {before.get(name)}"
        folder = self.it.folder
        yours = {f"person{n}.txt": "mine\n" for n in range(1, self._changes + 1)}
        for name, text in ({"AGENTS.md": f"Rule {self._changes}.\n"} | yours).items():
            if not (folder / name).exists() or (folder / name).read_text() != text:
                yield f"{name} of the person was taken back"

    def _count(self, what: str, faults: Any) -> None:
        for fault in faults:
            print(f"  {what}: {fault}", flush=True)
            self.faults[what] += 1


def kill_sessions(kills: int, seed: int) -> Figures:
    """Kill sessions until there were so many kills, and return what was found."""
    total, number = Figures(), 0
    with tempfile.TemporaryDirectory() as place, Provider(answer).in_thread() as provider:
        plain = Play(_made(Path(place) / "plain"), provider, random.Random(seed))
        plain.run(0, 1)
        whole = transcripts(provider.requests)
        found = plain.judge(whole)
        if not found.holds or found.cut_off_calls:
            print(f"a session that nobody killed is wrong: {found}")
            return found._replace(unfinished=found.unfinished + 1)
        while total.kills < kills:
            number += 1
            provider.reset()
            chance = random.Random(f"{seed} {number}")
            play = Play(_made(Path(place) / str(number)), provider, chance)
            most = min(chance.randrange(1, MOST_KILLS + 1), kills - total.kills)
            play.run(most, plain.events)
            total = total.plus(play.judge(whole))
            print(f"session {number}: {total.kills} kills", file=sys.stderr, flush=True)
    return total


def _made(place: Path) -> Path:
    place.mkdir()
    return place


def main(arguments: list[str]) -> int:
    """Print the figures last; the status is 1 if one falls short."""
    kills, seed = (*map(int, arguments), *(KILLS, SEED)[len(arguments) :])
    began = time.monotonic()
    found = kill_sessions(kills, seed)
    print(f"{time.monotonic() - began:.0f} s")
    print(found)
    return 0 if found.holds and found.kills >= kills else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
