"""The base words: ids, records, effects, events and errors."""

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct

from vegakit.effects import (
    CallTool,
    Effect,
    EffectPath,
    EffectRequest,
    Incarnation,
    SetTimer,
    Site,
    Start,
    changed,
    effect,
    key_of,
    place_of,
)
from vegakit.errors import ErrorClass, InvalidRecordError, Phase, ProgramChanged, WorldError
from vegakit.events import (
    ENVELOPE_VERSION,
    Answered,
    CancelRequested,
    ChunkArrived,
    Envelope,
    HostEvent,
    MessageArrived,
    OutcomeArrived,
    in_program_order,
)
from vegakit.ids import (
    Digest,
    EffectKey,
    ProgramId,
    ScopeId,
    TenantId,
    new_program_id,
    parse_pid,
    pid_of,
)
from vegakit.records import canonical, digest128, from_json, to_json

TENANT, PROGRAM = TenantId("acme"), ProgramId("p1")


def path(
    name: str = "main",
    *,
    generation: int = 0,
    function: str = "review",
    ordinal: int = 0,
    loop: tuple[int, ...] = (),
    occurrence: int = 0,
) -> EffectPath:
    incarnations = (Incarnation(name, generation),)
    return EffectPath(TENANT, PROGRAM, incarnations, Site(function, ordinal), loop, occurrence)


NOTHING = Digest("")


def answer(at: EffectPath) -> OutcomeArrived:
    return OutcomeArrived(key_of(at, NOTHING), at, Answered("yes"))


def test_program_ids_sort_by_time() -> None:
    """The time comes first, the entropy only tells equals apart."""
    early, late = new_program_id(1, b"\xff" * 10), new_program_id(2, b"\0" * 10)
    assert early == "000000000001" + "ff" * 10
    assert early < late


@pytest.mark.parametrize(("now", "entropy"), [(-1, 10), (1 << 48, 10), (0, 9), (0, 11)])
def test_a_program_id_needs_a_time_and_ten_bytes(now: int, entropy: int) -> None:
    """Anything else would not sort or not be unique."""
    with pytest.raises(ValueError, match=f"10 random bytes .* got {entropy} bytes and {now}"):
        new_program_id(now, bytes(entropy))


def test_a_pid_is_taken_apart_as_it_was_made() -> None:
    """Even when a name holds the separators."""
    pid = pid_of(PROGRAM, "main/a#1/b", 7)
    assert pid == "p1/main/a#1/b#7"
    assert parse_pid(pid) == (PROGRAM, "main/a#1/b", 7)


@pytest.mark.parametrize(
    "pid", ["", "p1", "p1/main", "p1/main#", "p1/main#x", "/main#1", "p1/#1", "p1/a#²"]
)
def test_a_broken_pid_is_refused(pid: str) -> None:
    """The error says the form."""
    with pytest.raises(InvalidRecordError, match="program/path#generation"):
        parse_pid(pid)


def test_equal_values_have_equal_digests() -> None:
    """The order of keys does not matter, the values do."""
    assert canonical({"b": 1, "a": [2]}) == b'{"a":[2],"b":1}'
    assert digest128({"b": 1, "a": 2}) == digest128({"a": 2, "b": 1})
    assert digest128({"a": 1}) != digest128({"a": 2})
    assert len(digest128(None)) == 32


def test_an_unreadable_record_says_so() -> None:
    """A wrong type, broken JSON and a bomb of brackets are one kind of error."""
    for text in (b'{"due_ms": "soon"}', b"{", b"[" * 100_000, b'{"\xff": 1}'):
        with pytest.raises(InvalidRecordError, match="expected a record of SetTimer"):
            from_json(SetTimer, text)


def test_an_unreadable_union_says_so() -> None:
    """A kind that nobody knows is named as such."""
    with pytest.raises(InvalidRecordError, match=r"expected a record of .*SetTimer.*'Teleport'"):
        from_json(EffectRequest, b'{"type": "Teleport"}')  # pyright: ignore[reportArgumentType]


def test_readers_ignore_what_they_do_not_know() -> None:
    """A newer writer may add a field, an older one may have left it out."""

    class Old(Struct):
        a: int

    class New(Struct):
        a: int
        b: int = 5

    assert from_json(Old, to_json(New(1, 2))) == Old(1)
    assert from_json(New, to_json(Old(1))) == New(1, 5)


CHANGES = [
    {"name": "other"},
    {"generation": 1},
    {"function": "other"},
    {"ordinal": 1},
    {"loop": (0,)},
    {"occurrence": 1},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_key_is_the_place_in_the_program(change: dict[str, object]) -> None:
    """Each part of the path makes another key; the same path always makes the same."""
    assert key_of(path(), NOTHING) == key_of(path(), NOTHING)
    other = key_of(path(**change), NOTHING)  # pyright: ignore[reportArgumentType]
    assert other != key_of(path(), NOTHING)


def test_a_key_does_not_change_between_releases() -> None:
    """Journals are found again by it, so this literal may never change."""
    key = key_of(path(loop=(1, 2)), Digest("d"))
    assert key == "39dc2ebf6d13ea211f20fbb3392ea48b.d"
    assert place_of(key) == "39dc2ebf6d13ea211f20fbb3392ea48b"


def test_a_path_reads_like_a_place() -> None:
    """For people."""
    assert str(path(loop=(3,), occurrence=1)) == "main#0/review:0[3]@1"


def test_another_request_at_the_same_place_is_another_effect() -> None:
    """So it can never be given the answer to the first; the error names who asked and what to
    do."""
    asked = effect(path(), CallTool("read", {"path": "a"}, ScopeId("s")))
    other = effect(path(), CallTool("read", {"path": "b"}, ScopeId("s")))
    assert other.key != asked.key
    assert place_of(other.key) == place_of(asked.key)
    with pytest.raises(
        ProgramChanged, match=r"what main calls read with now differs .* start a new run"
    ):
        raise changed(other)


def test_a_digest_does_not_change_between_releases() -> None:
    """What is at its default is left out, so fields added later change no digest."""
    request = CallTool("read", {"path": "a"}, ScopeId("s"))
    assert canonical(request) == (
        b'{"arguments":{"path":"a"},"scope":"s","tool":"read","type":"CallTool"}'
    )


def test_an_effect_is_stored_whole() -> None:
    """There and back through JSON, with its request's kind."""
    start = Start(effect(path(), SetTimer(5), deadline_ms=9, priority=1))
    assert from_json(Start, to_json(start)) == start
    assert (start.effect.deadline_ms, start.effect.priority) == (9, 1)
    assert from_json(Effect, to_json(effect(path(), SetTimer(5)))).priority == 2


def test_an_envelope_is_stored_whole() -> None:
    """One shape for journal, kernel and telemetry."""
    envelope = Envelope(ENVELOPE_VERSION, "e1", 5, TENANT, PROGRAM, "main", "Answered", {"a": 1})
    assert from_json(Envelope, to_json(envelope)) == envelope
    assert ENVELOPE_VERSION == 1


PLACES = st.builds(
    path,
    st.sampled_from(["a", "b"]),
    generation=st.integers(0, 2),
    ordinal=st.integers(0, 2),
    loop=st.lists(st.integers(0, 11), max_size=2).map(tuple),
    occurrence=st.integers(0, 1),
)


@given(st.lists(PLACES, unique=True), st.randoms(use_true_random=False))
def test_a_wake_up_has_one_order(places: list[EffectPath], chance) -> None:
    """Whichever answer came first, the program sees them in program order."""
    events = [answer(place) for place in places]
    shuffled = chance.sample(events, len(events))
    assert in_program_order(shuffled) == in_program_order(events)


def test_rounds_of_a_loop_are_ordered_as_numbers() -> None:
    """Round 10 comes after round 9."""
    ninth, tenth = answer(path(loop=(9,))), answer(path(loop=(10,)))
    assert in_program_order([tenth, ninth]) == [ninth, tenth]


def test_messages_come_last_and_keep_their_order() -> None:
    """A stream's chunks come in sequence, before its end."""
    at = path()
    chunks = [ChunkArrived(key_of(at, NOTHING), at, n, "x") for n in (1, 0)]
    told: list[HostEvent] = [MessageArrived("b", 1, "d1"), CancelRequested("a", "stop")]
    arrived: list[HostEvent] = [told[0], answer(at), *chunks, told[1]]
    assert in_program_order(arrived) == [chunks[1], chunks[0], answer(at), *told]


def test_a_world_error_carries_what_retry_needs() -> None:
    """Its class, how far it came, and when to come back."""
    error = WorldError("busy", ErrorClass.OVERLOADED, retry_after_ms=200)
    assert str(error) == "busy"
    assert (error.error_class, error.phase) == (ErrorClass.OVERLOADED, Phase.UNKNOWN)
    assert error.retry_after_ms == 200


def test_keys_are_text() -> None:
    """Ids cost nothing at run time."""
    assert EffectKey("k") == "k"
