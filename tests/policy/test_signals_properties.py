"""Links and monitors against a post office: every signal a letter, delivered one by one."""

from collections import deque

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vegakit.policy import EndProcess, ExitKind, ExitReason, SendDown, SendExit, Signal, Signals
from vegakit.records import from_json, to_json

PIDS = "abcdef"
REASONS = [
    ExitReason(ExitKind.NORMAL),
    ExitReason(ExitKind.SHUTDOWN),
    ExitReason(ExitKind.CRASHED, "boom"),
    ExitReason(ExitKind.KILLED),
]
NOPROC = ExitReason(ExitKind.NOPROC)

places = st.integers(0, 59)


class PostOffice:
    """One list of pairs, one of monitors; the dead send letters, the living open them in turn."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.trapping: set[str] = set()
        self.pairs: list[frozenset[str]] = []
        self.monitors: list[tuple[str, str, str]] = []
        self.letters: deque[tuple[str, Signal]] = deque()

    def post(self, kind: str, signal: Signal) -> None:
        self.letters.append((kind, signal))

    def die(self, pid: str, reason: ExitReason) -> None:
        self.dead.add(pid)
        for pair in [pair for pair in self.pairs if pid in pair]:
            (other,) = pair - {pid}
            self.post("exit", SendExit(other, pid, reason))
        for ref, watcher, target in self.monitors:
            if target == pid:
                self.post("down", SendDown(watcher, ref, pid, reason))
        self.pairs = [pair for pair in self.pairs if pid not in pair]
        self.monitors = [each for each in self.monitors if pid not in each[1:]]

    def deliver_all(self) -> list[Signal]:
        delivered: list[Signal] = []
        while self.letters:
            kind, letter = self.letters.popleft()
            if letter.to in self.dead:
                continue
            if kind == "exit" and letter.to not in self.trapping:
                if letter.reason.kind == "normal":
                    continue
                letter = EndProcess(letter.to, letter.reason)
            if isinstance(letter, EndProcess):
                self.die(letter.to, letter.reason)
            delivered.append(letter)
        return delivered


class SignalsAgainstThePost(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.signals = Signals()
        self.post = PostOffice()
        self.refs: list[tuple[str, str]] = []

    def living(self) -> list[str]:
        return [pid for pid in PIDS if pid not in self.post.dead]

    @precondition(lambda self: self.living())
    @rule(who=places, other=st.sampled_from(PIDS))
    def one_links(self, who: int, other: str) -> None:
        pid = self.living()[who % len(self.living())]
        alive = other not in self.post.dead
        said = self.signals.link(pid, other, alive=alive)
        if not alive:
            self.post.post("exit", SendExit(pid, other, NOPROC))
        elif pid != other and frozenset({pid, other}) not in self.post.pairs:
            self.post.pairs.append(frozenset({pid, other}))
        assert said == self.post.deliver_all()

    @rule(pid=st.sampled_from(PIDS), other=st.sampled_from(PIDS))
    def one_unlinks(self, pid: str, other: str) -> None:
        self.signals.unlink(pid, other)
        self.post.pairs = [pair for pair in self.post.pairs if pair != frozenset({pid, other})]

    @precondition(lambda self: self.living())
    @rule(who=places, other=st.sampled_from(PIDS))
    def one_monitors(self, who: int, other: str) -> None:
        pid = self.living()[who % len(self.living())]
        ref, said = self.signals.monitor(pid, other, alive=other not in self.post.dead)
        assert ref not in [old for old, _ in self.refs]
        self.refs.append((ref, pid))
        if other in self.post.dead:
            assert said == [SendDown(pid, ref, other, NOPROC)]
        else:
            assert said == []
            self.post.monitors.append((ref, pid, other))

    @precondition(lambda self: self.refs)
    @rule(who=places, stranger=st.booleans())
    def one_demonitors(self, who: int, stranger: bool) -> None:
        ref, watcher = self.refs[who % len(self.refs)]
        if stranger:
            self.signals.demonitor("stranger", ref)
            return
        self.signals.demonitor(watcher, ref)
        self.post.monitors = [each for each in self.post.monitors if each[0] != ref]

    @precondition(lambda self: self.living())
    @rule(who=places)
    def one_traps(self, who: int) -> None:
        pid = self.living()[who % len(self.living())]
        self.signals.trapping[pid] = None
        self.post.trapping.add(pid)

    @precondition(lambda self: self.living())
    @rule(who=places, reason=st.sampled_from(REASONS), sender=st.sampled_from(PIDS))
    def one_is_signalled(self, who: int, reason: ExitReason, sender: str) -> None:
        pid = self.living()[who % len(self.living())]
        self.post.post("exit", SendExit(pid, sender, reason))
        assert self.signals.send_exit(sender, pid, reason) == self.post.deliver_all()

    @precondition(lambda self: self.living())
    @rule(who=places)
    def one_is_killed(self, who: int) -> None:
        pid = self.living()[who % len(self.living())]
        self.post.post("kill", EndProcess(pid, ExitReason(ExitKind.KILLED)))
        assert self.signals.kill(pid) == self.post.deliver_all()

    @precondition(lambda self: self.living())
    @rule(who=places, reason=st.sampled_from(REASONS))
    def one_ends(self, who: int, reason: ExitReason) -> None:
        pid = self.living()[who % len(self.living())]
        self.post.die(pid, reason)
        assert self.signals.on_exited(pid, reason) == self.post.deliver_all()

    @precondition(lambda self: len(self.living()) < 3)
    @rule()
    def all_are_born_again(self) -> None:
        self.post.trapping -= self.post.dead
        self.post.dead.clear()

    @rule()
    def it_is_stored_and_loaded(self) -> None:
        copy = from_json(Signals, to_json(self.signals))
        assert copy == self.signals
        self.signals = copy

    @invariant()
    def ties_agree(self) -> None:
        links = {(pid, other) for pid, others in self.signals.links.items() for other in others}
        assert links == {(a, b) for pair in self.post.pairs for a in pair for b in pair - {a}}
        watched = self.signals.watched.items()
        assert {(r, w, t) for t, refs in watched for r, w in refs.items()} == set(
            self.post.monitors
        )
        watching = self.signals.watching.items()
        assert {(r, w, t) for w, refs in watching for r, t in refs.items()} == set(
            self.post.monitors
        )

    @invariant()
    def nothing_empty_is_kept(self) -> None:
        signals = self.signals
        for table in (signals.links, signals.watched, signals.watching):
            assert all(table.values())
        assert set(signals.trapping) == self.post.trapping - self.post.dead


TestSignals = SignalsAgainstThePost.TestCase
