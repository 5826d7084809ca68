"""The table of interrupts row by row, and each attack on an approval."""

import pytest

from vegakit.ids import Digest, InterruptId, Pid
from vegakit.policy import (
    INTERRUPT_KINDS,
    Approved,
    Consequence,
    Declined,
    Interrupt,
    InterruptAnswer,
    InterruptKind,
    InterruptRefusal,
    InterruptRequest,
    InterruptRule,
    Interrupts,
    InterruptStatus,
    Replied,
    Resume,
    TakeErrorNext,
    TerminalReason,
    Terminate,
)
from vegakit.policy.interrupts import ApprovableAction, InterruptExpired, KindRule
from vegakit.records import to_json

HOUR = 3_600_000
MINUTE = 60_000
Q = InterruptId("q")
WRITER = Pid("program/writer#1")
PUSH = ApprovableAction("git_push", {"branch": "main"}, Digest("s1"), Digest("p1"), "writer")
OTHER = Digest("another action")
NOBODY_ANSWERED = Resume(Declined("nobody answered in time"))


def ask(
    name: str = "q",
    kind: InterruptKind = InterruptKind.CONFIRMATION,
    owner: Pid = WRITER,
    text: str = "Push to main?",
    expires_ms: int | None = None,
) -> InterruptRequest:
    return InterruptRequest(InterruptId(name), kind, owner, text, PUSH.digest, expires_ms)


def opened(kind: InterruptKind = InterruptKind.CONFIRMATION, at: int = 0) -> Interrupts:
    interrupts = Interrupts()
    assert isinstance(interrupts.open(ask(kind=kind), at), Interrupt)
    return interrupts


def approved(at: int = 0) -> Interrupts:
    interrupts = opened()
    assert isinstance(interrupts.answer(Q, Approved(), "ann", PUSH.digest, at), Interrupt)
    return interrupts


@pytest.mark.parametrize(
    ("kind", "ttl_ms", "consequence"),
    [
        (InterruptKind.CLARIFICATION, 24 * HOUR, TakeErrorNext(TerminalReason.TIMEOUT)),
        (InterruptKind.CONFIRMATION, HOUR, NOBODY_ANSWERED),
        (InterruptKind.AGENT_REVIEW, 30 * MINUTE, NOBODY_ANSWERED),
        (
            InterruptKind.RESOURCE_EXHAUSTED,
            5 * MINUTE,
            Terminate(TerminalReason.RESOURCE_EXHAUSTED),
        ),
        (InterruptKind.TIMEOUT, 5 * MINUTE, Terminate(TerminalReason.TIMEOUT)),
        (InterruptKind.SYSTEM_ERROR, HOUR, Terminate(TerminalReason.SYSTEM_ERROR)),
    ],
)
def test_a_kind_expires_at_its_time_with_its_consequence(
    kind: InterruptKind, ttl_ms: int, consequence: Consequence
) -> None:
    """Nothing a millisecond before; at the millisecond the stated default, and only once."""
    interrupts = opened(kind, at=7)
    assert next_expiry(interrupts) == 7 + ttl_ms
    assert interrupts.on_timer(6 + ttl_ms) == []
    assert interrupts.on_timer(7 + ttl_ms) == [InterruptExpired(Q, kind, WRITER, consequence)]
    assert interrupts.by_id[Q].status is InterruptStatus.EXPIRED
    assert interrupts.by_id[Q].settled_ms == 7 + ttl_ms
    assert next_expiry(interrupts) is None
    assert interrupts.on_timer(8 + ttl_ms) == []


def next_expiry(interrupts: Interrupts) -> int | None:
    return interrupts.deadlines[0][0] if interrupts.deadlines else None


def test_a_checkpoint_never_expires() -> None:
    """Even when it is opened with a time of its own."""
    interrupts = Interrupts()
    interrupts.open(ask(kind=InterruptKind.CHECKPOINT, expires_ms=5), 0)
    assert next_expiry(interrupts) is None
    assert interrupts.on_timer(1 << 60) == []
    assert interrupts.by_id[Q].status is InterruptStatus.PENDING


def test_which_kinds_need_an_answer_and_which_give_permission() -> None:
    """People are needed for three kinds; two of them permit an action, for ten minutes."""
    need = {kind for kind, rule in INTERRUPT_KINDS.items() if rule.needs_response}
    permit = {kind: rule.use_within_ms for kind, rule in INTERRUPT_KINDS.items()}
    approvals = {InterruptKind.CONFIRMATION: 600_000, InterruptKind.AGENT_REVIEW: 600_000}
    assert need == {*approvals, InterruptKind.CLARIFICATION}
    assert permit == dict.fromkeys(InterruptKind) | approvals


def test_a_question_may_bring_its_own_time() -> None:
    """The time of the question replaces the kind's."""
    interrupts = Interrupts()
    interrupts.open(ask(expires_ms=90), 0)
    assert next_expiry(interrupts) == 90


def test_settings_replace_the_row_of_a_kind() -> None:
    """Another time, another default answer, and no permission in it; other kinds keep theirs."""
    guess = Resume(Replied("use your judgement"))
    rule = InterruptRule({InterruptKind.CLARIFICATION: KindRule(10, guess)})
    interrupts = Interrupts(rule)
    interrupts.open(ask("a", InterruptKind.CLARIFICATION), 0)
    interrupts.open(ask("b"), 0)
    assert [e.consequence for e in interrupts.on_timer(10)] == [guess]
    assert next_expiry(interrupts) == HOUR


def test_a_kind_without_limit_waits_until_it_is_answered() -> None:
    """A consequence without a time is for questions that bring their own."""
    rule = InterruptRule({InterruptKind.CLARIFICATION: KindRule(None, NOBODY_ANSWERED)})
    interrupts = Interrupts(rule)
    interrupts.open(ask("a", InterruptKind.CLARIFICATION), 0)
    assert next_expiry(interrupts) is None
    interrupts.open(ask("b", InterruptKind.CLARIFICATION, expires_ms=3), 0)
    assert next_expiry(interrupts) == 3
    replied = interrupts.answer(InterruptId("a"), Replied(1), "ann", PUSH.digest, 9)
    assert isinstance(replied, Interrupt)


def test_what_expires_together_comes_in_order() -> None:
    """By time, then by id, whatever the order of opening."""
    interrupts = Interrupts()
    for name, expires_ms in (("c", 5), ("b", 9), ("a", 9), ("z", 4), ("y", 10)):
        interrupts.open(ask(name, expires_ms=expires_ms), 0)
    assert [e.id for e in interrupts.on_timer(9)] == ["z", "c", "a", "b"]
    assert next_expiry(interrupts) == 10


def test_an_answer_is_kept_with_who_and_when() -> None:
    """The record names the approver and says how long the permission may lie unused."""
    interrupts = opened()
    interrupt = interrupts.answer(Q, Approved(), "ann", PUSH.digest, 5)
    assert interrupt == Interrupt(
        ask(),
        opened_ms=0,
        expires_ms=HOUR,
        status=InterruptStatus.RESOLVED,
        settled_ms=5,
        answer=Approved(),
        answered_by="ann",
        use_before_ms=5 + 10 * MINUTE,
    )
    assert interrupts.by_id[Q] == interrupt
    assert next_expiry(interrupts) is None


def test_the_last_millisecond_to_answer() -> None:
    """One millisecond before expiry counts, expiry itself is late, timer or no timer."""
    assert opened().answer(Q, Approved(), "ann", PUSH.digest, HOUR) is InterruptRefusal.LATE
    assert isinstance(
        opened().answer(Q, Approved(), "ann", PUSH.digest, HOUR - 1),
        Interrupt,
    )


@pytest.mark.parametrize(
    ("answer", "by", "action", "refusal"),
    [
        (Approved(), "", PUSH.digest, InterruptRefusal.ANONYMOUS),
        (Approved(), WRITER, PUSH.digest, InterruptRefusal.OWN_QUESTION),
        (Approved(), "program/writer#2", PUSH.digest, InterruptRefusal.OWN_QUESTION),
        (Approved(), "ann", OTHER, InterruptRefusal.WRONG_ACTION),
        (Declined(), "ann", None, InterruptRefusal.WRONG_ACTION),
        (Replied("yes"), "ann", PUSH.digest, InterruptRefusal.WRONG_ANSWER),
    ],
)
def test_answers_that_do_not_count(
    answer: InterruptAnswer, by: str, action: Digest | None, refusal: InterruptRefusal
) -> None:
    """From nobody, from the asker in any life, to another action, or words for a permission."""
    interrupts = opened()
    before = to_json(interrupts)
    assert interrupts.answer(Q, answer, by, action, 0) is refusal
    assert to_json(interrupts) == before


def test_a_process_without_generation_does_not_answer_itself_but_others_do() -> None:
    """Names need not be pids."""
    interrupts = Interrupts()
    interrupts.open(ask(owner=Pid("bot")), 0)
    own = interrupts.answer(Q, Approved(), "bot", PUSH.digest, 0)
    assert own is InterruptRefusal.OWN_QUESTION
    assert isinstance(interrupts.answer(Q, Approved(), "ann", PUSH.digest, 0), Interrupt)


def test_another_process_may_review() -> None:
    """Only the asker may not, whatever program it belongs to."""
    for reviewer in ("program/reviewer#1", "other/writer#1"):
        reviewed = opened(InterruptKind.AGENT_REVIEW)
        answered = reviewed.answer(Q, Approved(), reviewer, PUSH.digest, 0)
        assert isinstance(answered, Interrupt)


def test_words_are_for_questions_not_for_permissions() -> None:
    """A clarification takes a reply, and neither approval nor refusal."""
    interrupts = opened(InterruptKind.CLARIFICATION)
    for answer in (Approved(), Declined()):
        refusal = interrupts.answer(Q, answer, "ann", PUSH.digest, 0)
        assert refusal is InterruptRefusal.WRONG_ANSWER
    replied = interrupts.answer(Q, Replied({"branch": "main"}), "ann", PUSH.digest, 0)
    assert isinstance(replied, Interrupt)
    assert replied.answer == Replied({"branch": "main"})
    assert interrupts.use(Q, PUSH.digest, 1) is InterruptRefusal.NOT_APPROVED


def test_approve_and_decline_at_the_same_instant() -> None:
    """The first counts, the second is refused: a question is settled once."""
    interrupts = opened()
    assert isinstance(interrupts.answer(Q, Declined("no"), "bob", PUSH.digest, 5), Interrupt)
    refusal = interrupts.answer(Q, Approved(), "ann", PUSH.digest, 5)
    assert refusal is InterruptRefusal.SETTLED
    assert interrupts.use(Q, PUSH.digest, 5) is InterruptRefusal.NOT_APPROVED
    assert interrupts.by_id[Q].answered_by == "bob"


def test_an_approval_is_used_once() -> None:
    """The second use, at once or later, is refused."""
    interrupts = approved(at=5)
    used = interrupts.use(Q, PUSH.digest, 9)
    assert isinstance(used, Interrupt)
    assert used.used_ms == 9
    assert interrupts.use(Q, PUSH.digest, 9) is InterruptRefusal.ALREADY_USED
    assert interrupts.by_id[Q] == used


def test_an_approval_lapses_unused() -> None:
    """Ten minutes after it was given, at the millisecond, however long the question could wait."""
    given = HOUR - 1
    late = approved(at=given)
    assert late.use(Q, PUSH.digest, given + 10 * MINUTE) is InterruptRefusal.LATE
    assert isinstance(approved(at=given).use(Q, PUSH.digest, given + 10 * MINUTE - 1), Interrupt)


@pytest.mark.parametrize(
    "other",
    [
        ApprovableAction("git_pull", {"branch": "main"}, Digest("s1"), Digest("p1"), "writer"),
        ApprovableAction("git_push", {"branch": "dev"}, Digest("s1"), Digest("p1"), "writer"),
        ApprovableAction("git_push", {"branch": "main"}, Digest("s2"), Digest("p1"), "writer"),
        ApprovableAction("git_push", {"branch": "main"}, Digest("s1"), Digest("p2"), "writer"),
        ApprovableAction("git_push", {"branch": "main"}, Digest("s1"), Digest("p1"), "reader"),
        ApprovableAction(
            "git_push", {"branch": "main"}, Digest("s1"), Digest("p1"), "writer", {"a": Digest("1")}
        ),
    ],
)
def test_an_approval_permits_only_its_action(other: ApprovableAction) -> None:
    """Another tool, argument, schema, policy, principal or file: refused, and nothing is used."""
    interrupts = approved()
    assert interrupts.use(Q, other.digest, 1) is InterruptRefusal.WRONG_ACTION
    assert isinstance(interrupts.use(Q, PUSH.digest, 1), Interrupt)


def test_the_order_of_arguments_is_no_difference() -> None:
    """Arguments are compared in their canonical spelling, files too."""
    files = {"a": Digest("1"), "b": Digest("2")}
    one = ApprovableAction("t", {"x": 1, "y": [2]}, Digest("s"), Digest("p"), "me", files)
    same = ApprovableAction("t", {"y": [2], "x": 1}, Digest("s"), Digest("p"), "me", {**files})
    assert one.digest == same.digest
    assert len(one.digest) == 32


def test_use_without_approval() -> None:
    """Unknown, pending, expired and cancelled questions permit nothing."""
    interrupts = opened()
    assert interrupts.use(InterruptId("x"), PUSH.digest, 0) is InterruptRefusal.UNKNOWN
    assert interrupts.use(Q, PUSH.digest, 0) is InterruptRefusal.NOT_APPROVED
    interrupts.on_timer(HOUR)
    assert interrupts.use(Q, PUSH.digest, HOUR) is InterruptRefusal.NOT_APPROVED


def test_a_clock_set_back_revives_nothing() -> None:
    """What was late stays late; opening counts from the latest time seen."""
    interrupts = opened()
    assert interrupts.answer(Q, Approved(), "ann", PUSH.digest, HOUR) is InterruptRefusal.LATE
    assert interrupts.answer(Q, Approved(), "ann", PUSH.digest, 1) is InterruptRefusal.LATE
    interrupts.open(ask("later"), 5)
    assert interrupts.by_id[InterruptId("later")].opened_ms == HOUR
    assert [e.id for e in interrupts.on_timer(0)] == ["q"]


@pytest.mark.parametrize("touch", ["use", "cancel", "timer", "open"])
def test_every_event_moves_the_clock(touch: str) -> None:
    """Whoever saw a later time, an approval that had lapsed by then stays lapsed."""
    interrupts = approved()
    later = 10 * MINUTE
    {
        "use": lambda: interrupts.use(Q, OTHER, later),
        "cancel": lambda: interrupts.cancel(InterruptId("x"), later),
        "timer": lambda: interrupts.on_timer(later),
        "open": lambda: interrupts.open(ask("b"), later),
    }[touch]()
    assert interrupts.use(Q, PUSH.digest, 1) is InterruptRefusal.LATE


def test_cancel_settles_a_pending_question_once() -> None:
    """It can be neither answered nor cancelled again, and its deadline is gone."""
    interrupts = opened()
    cancelled = interrupts.cancel(Q, 3)
    assert isinstance(cancelled, Interrupt)
    assert cancelled.status is InterruptStatus.CANCELLED
    assert cancelled.settled_ms == 3
    assert next_expiry(interrupts) is None
    refusal = interrupts.answer(Q, Approved(), "ann", PUSH.digest, 4)
    assert refusal is InterruptRefusal.SETTLED
    assert interrupts.cancel(Q, 4) is InterruptRefusal.SETTLED
    assert interrupts.cancel(InterruptId("x"), 4) is InterruptRefusal.UNKNOWN


def test_cancel_withdraws_an_unused_approval() -> None:
    """The answer stays on record; the permission is gone."""
    interrupts = approved()
    withdrawn = interrupts.cancel(Q, 1)
    assert isinstance(withdrawn, Interrupt)
    assert withdrawn.status is InterruptStatus.RESOLVED
    assert interrupts.use(Q, PUSH.digest, 2) is InterruptRefusal.NOT_APPROVED
    assert interrupts.cancel(Q, 3) is InterruptRefusal.SETTLED
