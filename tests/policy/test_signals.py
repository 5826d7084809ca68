"""Exit signals, links and monitors, rule by rule."""

import pytest
from msgspec import json

from vegakit.policy import EndProcess, ExitKind, ExitReason, SendDown, SendExit, Signal, Signals
from vegakit.records import from_json, to_json

NORMAL = ExitReason(ExitKind.NORMAL)
SHUTDOWN = ExitReason(ExitKind.SHUTDOWN)
BOOM = ExitReason(ExitKind.CRASHED, "boom")
KILLED = ExitReason(ExitKind.KILLED)
NOPROC = ExitReason(ExitKind.NOPROC)


def linked(*pairs: str, trapping: str = "") -> Signals:
    signals = Signals()
    for one, other in pairs:
        signals.link(one, other, alive=True)
    for pid in trapping:
        signals.trapping[pid] = None
    return signals


# exit signals


@pytest.mark.parametrize("reason", [BOOM, SHUTDOWN, KILLED])
def test_a_reason_ends_who_does_not_trap(reason: ExitReason) -> None:
    """With the same reason."""
    assert Signals().send_exit("a", "b", reason) == [EndProcess("b", reason)]


@pytest.mark.parametrize("reason", [NORMAL, BOOM, KILLED])
def test_who_traps_gets_a_message(reason: ExitReason) -> None:
    """Of any reason, normal too."""
    assert linked(trapping="b").send_exit("a", "b", reason) == [SendExit("b", "a", reason)]


def test_normal_harms_nobody() -> None:
    """A process that finished does not end those it is linked to; the link is gone."""
    signals = linked("ab")
    assert signals.send_exit("a", "b", NORMAL) == []
    assert signals.on_exited("a", NORMAL) == []
    assert signals == Signals()


def test_a_kill_cannot_be_trapped_but_its_news_can() -> None:
    """The victim ends; its links hear `killed`, a reason like any other."""
    signals = linked("ab", "ac", trapping="ab")
    assert signals.kill("a") == [
        EndProcess("a", KILLED),
        SendExit("b", "a", KILLED),
        EndProcess("c", KILLED),
    ]


# links


def test_a_link_is_two_way() -> None:
    """Whoever ends first takes the other along."""
    assert Signals().link("a", "b", alive=True) == []
    assert linked("ab").on_exited("a", BOOM) == [EndProcess("b", BOOM)]
    assert linked("ab").on_exited("b", BOOM) == [EndProcess("a", BOOM)]


def test_two_links_of_a_pair_are_one() -> None:
    """So one unlink, from either side, takes it back."""
    signals = linked("ab", "ba", "ab", trapping="b")
    signals.unlink("b", "a")
    signals.unlink("b", "a")
    assert signals.links == {}
    assert signals.on_exited("a", BOOM) == []


def test_a_link_to_itself_is_none() -> None:
    """Nothing is kept of it."""
    assert linked("aa") == Signals()


def test_a_link_to_nobody_is_a_signal() -> None:
    """It ends who does not trap, and all that hangs on it."""
    signals = linked("ab", trapping="b")
    assert signals.link("a", "gone", alive=False) == [
        EndProcess("a", NOPROC),
        SendExit("b", "a", NOPROC),
    ]
    assert signals.link("b", "gone", alive=False) == [SendExit("b", "gone", NOPROC)]


def test_an_end_goes_through_the_whole_web() -> None:
    """Near ones first, in the order of their links; everybody once; a trap stops it."""
    signals = linked("ab", "ac", "bc", "cd", "de", "ef", trapping="e")
    assert signals.on_exited("a", BOOM) == [
        EndProcess("b", BOOM),
        EndProcess("c", BOOM),
        EndProcess("d", BOOM),
        SendExit("e", "d", BOOM),
    ]
    assert signals.links == {"e": {"f": None}, "f": {"e": None}}


def test_a_long_chain_ends() -> None:
    """Ten thousand processes in a row: no recursion, nothing left."""
    signals = Signals()
    for n in range(10_000):
        signals.link(str(n), str(n + 1), alive=True)
    assert len(signals.on_exited("0", BOOM)) == 10_000
    assert signals == Signals()


# monitors


def test_a_monitor_is_one_way() -> None:
    """The watcher gets one Down; its own end is nobody's business."""
    signals = Signals()
    assert signals.monitor("w", "t", alive=True) == ("1", [])
    assert signals.on_exited("t", NORMAL) == [SendDown("w", "1", "t", NORMAL)]
    signals.monitor("w", "t", alive=True)
    assert signals.on_exited("w", BOOM) == []
    assert signals.on_exited("t", BOOM) == []


def test_monitors_stack() -> None:
    """Each has its own ref and brings its own Down, in the order they were made."""
    signals = Signals()
    refs = [signals.monitor(watcher, "t", alive=True)[0] for watcher in "vwv"]
    assert refs == ["1", "2", "3"]
    signals.demonitor("v", "1")
    assert signals.on_exited("t", BOOM) == [
        SendDown("w", "2", "t", BOOM),
        SendDown("v", "3", "t", BOOM),
    ]


def test_a_monitor_of_nobody_answers_at_once() -> None:
    """And nothing is kept, but the ref is spent."""
    signals = Signals()
    assert signals.monitor("w", "gone", alive=False) == (
        "1",
        [SendDown("w", "1", "gone", NOPROC)],
    )
    assert signals == Signals(refs=1)
    assert signals.monitor("w", "t", alive=True) == ("2", [])


def test_only_its_owner_takes_a_monitor_back() -> None:
    """Others, a used ref and an unknown one do nothing."""
    signals = Signals()
    signals.monitor("w", "t", alive=True)
    signals.demonitor("x", "1")
    signals.demonitor("w", "7")
    assert signals.on_exited("t", BOOM) == [SendDown("w", "1", "t", BOOM)]
    signals.demonitor("w", "1")
    assert signals == Signals(refs=1)


def test_links_hear_before_monitors() -> None:
    """And whoever ended by the link hears nothing more."""
    signals = linked("at", "bt", trapping="a")
    for watcher in "ba":
        signals.monitor(watcher, "t", alive=True)
    assert signals.on_exited("t", BOOM) == [
        SendExit("a", "t", BOOM),
        EndProcess("b", BOOM),
        SendDown("a", "2", "t", BOOM),
    ]


def test_who_has_ended_traps_no_more() -> None:
    """A process of the same name starts with nothing."""
    signals = linked("ab", trapping="a")
    signals.on_exited("a", NORMAL)
    assert signals.send_exit("b", "a", BOOM) == [EndProcess("a", BOOM)]


def test_signals_are_values() -> None:
    """Equal ones are one, and each comes back from JSON as what it was."""
    signals = [EndProcess("a", BOOM), SendExit("a", "b", BOOM), SendDown("a", "1", "b", BOOM)]
    assert len({*signals, *signals}) == len(signals)
    assert json.decode(to_json(signals), type=list[Signal]) == signals


def test_it_is_stored_as_it_is() -> None:
    """Ties keep their order through JSON; without ties nothing is stored."""
    signals = linked("ca", "ba", trapping="c")
    signals.monitor("w", "a", alive=True)
    copy = from_json(Signals, to_json(signals))
    assert copy == signals
    assert copy.on_exited("a", BOOM) == signals.on_exited("a", BOOM)
    assert to_json(Signals()) == b"{}"
