"""The worlds of tasks 31 to 45."""

import re
from typing import Any, Final

from campaigns.card_tasks.case import (
    BASE,
    Case,
    Fault,
    Reply,
    Says,
    Seen,
    csv_of,
    json_of,
    says,
    text_of,
)

SMART = ("smart",)


def _asks(times: int, of: str = "") -> Any:
    """The model was asked as often as that, in messages that hold a text."""

    def look(seen: Seen) -> Fault:
        asks = sum(of in text for text in seen.messages)
        return None if asks == times else f"the model was asked {asks} times, not {times}"

    return look


# 31 The same complaint twice

_TICKETS = (
    ("t1", "ida", "The lamp does not light."),
    ("t2", "bo", "Where is my parcel?"),
    ("t3", "ida", "Still dark in here."),
    ("t4", "bo", "Nothing has arrived."),
    ("t5", "ida", "I was charged twice."),
    ("t6", "ida", "You took the money two times."),
    ("t7", "cleo", "Thank you for the cups."),
)
_BODIES = {name: body for name, _, body in _TICKETS}


def _pair(one: str, other: str, same: bool) -> Says:
    rest = tuple(body for name, body in _BODIES.items() if name not in (one, other))
    return says(_BODIES[one], _BODIES[other], answer=same, without=rest)


_COMPLAINTS = Case(
    files={
        "tickets.jsonl": "".join(
            f'{{"id": "{name}", "customer": "{who}", "body": "{body}"}}\n'
            for name, who, body in _TICKETS
        )
    },
    model=(
        _pair("t1", "t3", same=True),
        _pair("t3", "t5", same=False),
        _pair("t5", "t6", same=True),
        _pair("t2", "t4", same=True),
    ),
    result=4,
    written={"duplicates.json": json_of({"t3": "t1", "t6": "t5", "t4": "t2"})},
    also=_asks(4),
)

# 32 Invoices in euros

_EUROS = Case(
    arguments=(BASE,),
    files={
        "invoices.csv": "number,currency,amount\nA1,EUR,10.00\nA2,USD,12.50\nA3,CHF,100\n"
        "A4,XAU,5.00\nA5,CHF,10.00\nA6,GBP,3.33\nA7,XAU,1.00\n"
    },
    routes={"GET /rates": Reply({"USD": 0.9, "GBP": 1.2, "JPY": 0.006})},
    person={"CHF": "0.95"},
    result=129.75,
    written={
        "euros.csv": csv_of(
            ("number", "euros"), ("A1", 10), ("A2", 11.25), ("A3", 95), ("A5", 9.5), ("A6", 4)
        ),
        "open.txt": text_of("A4\nA7\n"),
    },
    asked=(("CHF",), ("XAU",)),
)

# 33 Flaky tests

_TEST = """\
mkdir -p .runs
n=$(($(cat ".runs/$1" 2>/dev/null || echo 0) + 1))
echo $n > ".runs/$1"
case "$1" in
  reads) echo "reads: fine"; exit 0;;
  sends) if [ $n -lt 3 ]; then echo "sends: no answer, run $n"; exit 1; fi; echo "sends: fine";;
  waits) if [ $n -lt 2 ]; then echo "waits: too late"; exit 7; fi; echo "waits: fine";;
  *) echo "draws: no screen, run $n"; exit 2;;
esac
"""


def _test(name: str, state: str, runs: int, cause: str | None = None) -> dict[str, object]:
    return {"name": name, "state": state, "runs": runs, "cause": cause}


_FLAKY = Case(
    arguments=(["sends", "reads", "draws", "waits"],),
    files={"scripts/test.sh": _TEST},
    model=(says("no screen, run 3", answer="There is no screen.", without=("no answer",)),),
    aliases=SMART,
    result=[
        _test("sends", "flaky", 3),
        _test("reads", "fine", 1),
        _test("draws", "broken", 3, "There is no screen."),
        _test("waits", "flaky", 2),
    ],
    also=_asks(1),
)

# 34 Who does what


def _todo(who: str, what: str, due: str | None) -> dict[str, object]:
    return {"who": who, "what": what, "due": due}


_MINUTES = Case(
    files={
        "minutes.txt": "Ada: I shall call the bank, and order chairs by the 9th.\n"
        "Bo: and I write the offer.\nAda: before that, on the 2nd, I measure the room.\n"
    },
    model=(
        says(
            "I shall call the bank",
            "I write the offer",
            "I measure the room",
            answer=[
                _todo("Ada", "Call the bank", None),
                _todo("Ada", "Order chairs", "2026-03-09"),
                _todo("Bo", "Write the offer", None),
                _todo("Ada", "Measure the room", "2026-03-02"),
                _todo("Ada", "Send the plan", None),
            ],
        ),
    ),
    aliases=SMART,
    result={"Ada": 4, "Bo": 1},
    written={
        "actions/ada.md": text_of(
            "- Measure the room (2026-03-02)\n- Order chairs (2026-03-09)\n"
            "- Call the bank (no date)\n- Send the plan (no date)\n"
        ),
        "actions/bo.md": text_of("- Write the offer (no date)\n"),
    },
)

# 35 Haggling

_MAP = "the map of Crete"


def _sells(offer: int, ask: int, then: int) -> Says:
    return says(_MAP, str(offer), str(ask), answer=then, system="You sell old maps.")


def _buys(offer: int, ask: int, then: int) -> Says:
    return says(_MAP, str(offer), str(ask), answer=then, system="You buy for a museum.")


def _both_remember(seen: Seen) -> Fault:
    most = max(text.count(_MAP) for text in seen.conversations)
    return None if most >= 3 else "the third message was sent without those before it"


def _haggling(offer: int, ask: int, rows: tuple[Says, ...], price: int | None, rounds: int) -> Case:
    return Case(
        arguments=(_MAP, offer, ask),
        model=rows,
        result={"price": price, "rounds": rounds},
        written={"deal.txt": text_of("no deal" if price is None else str(price))},
        also=_both_remember if rounds >= 3 else lambda _: None,
    )


_AT_THE_OFFER = _haggling(
    4000,
    9000,
    (
        _sells(4000, 9000, 8000),
        _buys(4000, 8000, 5500),
        _sells(5500, 8000, 7000),
        _buys(5500, 7000, 6900),
        _sells(6900, 7000, 6800),
    ),
    6900,
    3,
)
_AT_THE_ASK = _haggling(500, 900, (_sells(500, 900, 700), _buys(500, 700, 750)), 700, 1)
_NO_DEAL = _haggling(
    1100,
    9900,
    (
        _sells(1100, 9900, 9800),
        _buys(1100, 9800, 1200),
        _sells(1200, 9800, 9700),
        _buys(1200, 9700, 1300),
        _sells(1300, 9700, 9600),
        _buys(1300, 9600, 1400),
        _sells(1400, 9600, 9500),
        _buys(1400, 9500, 1500),
        _sells(1500, 9500, 9400),
        _buys(1500, 9400, 1600),
    ),
    None,
    5,
)

# 36 Who knows it first

_QUESTION = "What has a red crest and a long bill?"


def _knows(subject: str, answer: str | None) -> Says:
    found = {"known": answer is not None, "answer": answer or "I do not know."}
    return says(_QUESTION, answer=found, system=f"You know {subject}.")


_ONE_KNOWS = Case(
    arguments=(_QUESTION,),
    model=(
        says(_QUESTION, hangs=True, system="You know plants."),
        _knows("birds", "The woodpecker"),
        _knows("stones", None),
    ),
    aliases=SMART,
    result="The woodpecker",
    written={"known.txt": text_of("The woodpecker")},
    within_s=35.0,
)
_NONE_KNOWS = Case(
    arguments=(_QUESTION,),
    model=tuple(_knows(subject, None) for subject in ("plants", "birds", "stones")),
    aliases=SMART,
    result="nobody knows",
    absent=("known.txt",),
    within_s=35.0,
)

# 37 A budget for each department

_SUBJECTS = {
    "legal": [f"law {n:02}" for n in range(1, 15)],
    "ops": ["the lift", "the roof"],
    "sales": [f"market {n:02}" for n in range(1, 13)],
}
_ROWS = [
    (department, subjects[n])
    for n in range(14)
    for department, subjects in _SUBJECTS.items()
    if n < len(subjects)
]


def _within_each_budget(seen: Seen) -> Fault:
    result: dict[str, Any] = seen.page.get("result") or {}
    if set(result) != set(_SUBJECTS):
        return f"it returned {result!r}"
    for department, subjects in _SUBJECTS.items():
        counts = result[department]
        try:
            done, left = int(counts["done"]), int(counts["left"])
        except (KeyError, TypeError, ValueError):
            return f"it returned {result!r}"
        enough = done == 2 if department == "ops" else 3 <= done <= 7
        if done + left != len(subjects) or not enough:
            return f"{department} has {counts!r} of {len(subjects)}"
        text = seen.files.get(f"texts/{department}.md", "")
        heads = [one.strip() for one in re.findall(r"(?m)^## (.*)$", text)]
        if heads != subjects[:done] or f"On {subjects[0]}." not in text:
            return f"texts/{department}.md has the heads {heads}"
    return None


_DEPARTMENTS = Case(
    files={
        "requests.csv": "department,subject\n"
        + "".join(f"{department},{subject}\n" for department, subject in _ROWS)
    },
    model=tuple(says(subject, answer=f"On {subject}.") for _, subject in _ROWS),
    spends_at_most=0.018,
    also=_within_each_budget,
)

# 38 Room on the disk

_REMOVE = """\
if [ "$1" = cache/img ]; then echo "it is busy" >&2; exit 4; fi
rm -r "$1"
"""
_FULL = {
    "scripts/usage.sh": "echo '99 var/log'\necho '120 build/old'\necho '812 cache/web'\n"
    "echo '350 cache/img'\necho '7 tmp'\n",
    "scripts/remove.sh": _REMOVE,
    "cache/web/a.bin": "a",
    "cache/img/b.bin": "b",
    "build/old/c.bin": "c",
    "var/log/d.txt": "d",
}
_ROOM = Case(
    files=_FULL,
    person={"cache/web": "yes"},
    result={"asked": True, "freed": 932, "failed": ["cache/img"]},
    written={"cache/img/b.bin": text_of("b"), "var/log/d.txt": text_of("d")},
    absent=("cache/web/a.bin", "build/old/c.bin"),
    asked=(("cache/web", "cache/img", "build/old", "1282"),),
)
_ROOM_DECLINED = Case(
    files=_FULL,
    person={"cache/web": "no"},
    result={"asked": True, "freed": 0, "failed": []},
    written={"cache/web/a.bin": text_of("a"), "build/old/c.bin": text_of("c")},
    asked=_ROOM.asked,
)
_ROOM_ENOUGH = Case(
    files={**_FULL, "scripts/usage.sh": "echo '99 var/log'\necho '7 tmp'\n"},
    result={"asked": False, "freed": 0, "failed": []},
)

# 39 Papers to read

_QUERY = "late bronze age"


def _found(name: str, title: str, year: int) -> dict[str, object]:
    return {"id": name, "title": title, "year": year}


def _papers(points: tuple[int, int, int], result: str | None, lines: str, *survey: Says) -> Case:
    return Case(
        arguments=(BASE, _QUERY),
        routes={
            "GET /search?q=late+bronze+age": Reply(
                [
                    _found("p1", "Tin roads", 2024),
                    _found("p2", "Old swords", 2019),
                    _found("p3", "Amber", 2020),
                    _found("p4", "Lost", 2022),
                    _found("p5", "Ships", 2021),
                ]
            ),
            "GET /papers/p1": Reply({"abstract": "Where tin came from."}),
            "GET /papers/p2": Reply({"abstract": "How swords were cast."}),
            "GET /papers/p3": Reply({"abstract": "Who wore amber."}),
            "GET /papers/p5": Reply({"abstract": "A wreck near the cape."}),
        },
        model=(
            *survey,
            says(_QUERY, "tin came from", answer=points[0], by="fast"),
            says(_QUERY, "wore amber", answer=points[1], by="fast"),
            says(_QUERY, "wreck near", answer=points[2], by="fast"),
        ),
        aliases=("fast", "smart"),
        result=result,
        written={"reading.md": text_of(lines)} if lines else {},
        also=lambda seen: _in_order(seen) if result else _asks(3)(seen),
    )


def _in_order(seen: Seen) -> Fault:
    wanted = ("wore amber", "wreck near", "tin came from")
    told = [[text.find(one) for one in wanted] for text in seen.messages]
    good = any(places == sorted(places) and -1 not in places for places in told)
    return None if good else "no message holds the abstracts in the order of their relevance"


_READ = _papers(
    (60, 85, 85),
    "Metals went by sea.",
    "85 Amber (2020)\n85 Ships (2021)\n60 Tin roads (2024)\n",
    says(
        "tin came from",
        "wore amber",
        "wreck near",
        answer="Metals went by sea.",
        without=("swords were cast",),
        by="smart",
    ),
)
_NOTHING_TO_READ = _papers((59, 5, 10), None, "")

# 40 Refunds


def _mail(text: str, tool: tuple[str, dict[str, Any]], heard: str, reply: str, done: bool) -> Says:
    return says(
        text,
        answer={"reply": "The tool said something else.", "done": False},
        tool=tool,
        after=((heard, {"reply": reply, "done": done}),),
    )


_REFUNDS = Case(
    files={
        "mails.json": '[{"from": "ann@x.io", "text": "My vase A-17 broke, 12 euros please."},\n'
        ' {"from": "bob@x.io", "text": "Where is B-4 by now?"},\n'
        ' {"from": "cam@x.io", "text": "I want 90 euros for C-9."},\n'
        ' {"from": "dee@x.io", "text": "What about D-1?"},\n'
        ' {"from": "eli@x.io", "text": "All of the 50 euros for E-5, please."}]\n'
    },
    routes={
        "GET /orders/B-4": Reply({"id": "B-4", "state": "in a harbour"}),
        "POST /refunds": Reply("taken"),
    },
    model=(
        _mail(
            "A-17 broke",
            ("refund", {"id": "A-17", "cents": 1200}),
            "refunded",
            "You get 12 euros.",
            True,
        ),
        _mail("Where is B-4", ("order", {"id": "B-4"}), "in a harbour", "In a harbour.", True),
        _mail(
            "for C-9",
            ("refund", {"id": "C-9", "cents": 5001}),
            "too much",
            "A colleague will write.",
            False,
        ),
        _mail("about D-1", ("order", {"id": "D-1"}), "no such order", "We have no D-1.", False),
        _mail(
            "for E-5",
            ("refund", {"id": "E-5", "cents": 5000}),
            "refunded",
            "You get 50 euros.",
            True,
        ),
    ),
    aliases=SMART,
    result=["cam@x.io", "dee@x.io"],
    written={
        "replies.json": json_of(
            [
                {"to": "ann@x.io", "reply": "You get 12 euros."},
                {"to": "bob@x.io", "reply": "In a harbour."},
                {"to": "cam@x.io", "reply": "A colleague will write."},
                {"to": "dee@x.io", "reply": "We have no D-1."},
                {"to": "eli@x.io", "reply": "You get 50 euros."},
            ]
        )
    },
    posted=(
        ("/refunds", {"id": "A-17", "cents": 1200}),
        ("/refunds", {"id": "E-5", "cents": 5000}),
    ),
)

# 41 An import that is clean


def _who(name: str, email: str, age: int) -> dict[str, object]:
    return {"name": name, "email": email, "age": age}


_PEOPLE = Case(
    files={
        "people.csv": 'name,email,age\nAda Ruiz,ada@x.io,36\n"Moss, Eve",eve@x.io,forty\n'
        'Cy Young,cy.x.io,30\nDi Roth,di@x.io,131\n"Hall, Jo",jo@x.io,0\nFay Lund,fay@x.io,\n'
        "Gus Orr,gus@x.io,12.5\n"
    },
    model=(
        says("Moss, Eve", "eve@x.io", "forty", answer=_who("Moss, Eve", "eve@x.io", 40)),
        says("Cy Young", "cy.x.io", "30", answer=_who("Cy Young", "cy at x.io", 30)),
        says("Di Roth", "di@x.io", "131", answer=_who("Di Roth", "di@x.io", 31)),
        says("Fay Lund", "fay@x.io", answer=_who("Fay Lund", "fay@x.io", -1)),
        says("Gus Orr", "gus@x.io", "12.5", answer=_who("Gus Orr", "gus@x.io", 12)),
    ),
    result={"good": 2, "repaired": 3, "rejected": 2},
    written={
        "clean.csv": csv_of(
            ("name", "email", "age"),
            ("Ada Ruiz", "ada@x.io", 36),
            ("Moss, Eve", "eve@x.io", 40),
            ("Di Roth", "di@x.io", 31),
            ("Hall, Jo", "jo@x.io", 0),
            ("Gus Orr", "gus@x.io", 12),
        ),
        "rejected.csv": csv_of(
            ("name", "email", "age"), ("Cy Young", "cy.x.io", "30"), ("Fay Lund", "fay@x.io", "")
        ),
    },
    also=_asks(5),
)

# 42 Is all of it up?

_NOT_UP, _UP = Reply("not now", 503), Reply("fine")
_SERVICES = ["pay-api", "web-api", "mail-api", "geo-api"]


def _looks(seen: Seen) -> Fault:
    looks = [sum(one.path == f"/health/{name}" for one in seen.requests) for name in _SERVICES]
    return None if looks == [3, 1, 3, 3] else f"it looked {looks} times, not [3, 1, 3, 3]"


_SOME_DOWN = Case(
    arguments=(BASE, _SERVICES),
    routes={
        "GET /health/pay-api": _NOT_UP,
        "GET /health/web-api": _UP,
        "GET /health/mail-api": (_NOT_UP, Reply("broken", 500), _UP),
        "GET /health/geo-api": Reply("moved", 404),
        "POST /status": Reply("taken"),
    },
    model=(
        says("pay-api", "geo-api", answer="Two of them rest.", without=("web-api", "mail-api")),
    ),
    aliases=SMART,
    result=["web-api", "mail-api"],
    posted=(("/status", {"down": ["pay-api", "geo-api"], "text": "Two of them rest."}),),
    also=_looks,
)
_ALL_UP = Case(
    arguments=(BASE, ["mail-api", "web-api"]),
    routes={"GET /health/web-api": _UP, "GET /health/mail-api": (_NOT_UP, _UP)},
    result=["mail-api", "web-api"],
)

# 43 A change under review

_DIFF = """\
cat <<'END'
+++ src/b.txt
-an old word
+a newer word
 as it was
+++ src/a.txt
+password = hunter2
+++ src/c.txt
+one good line
END
"""


def _fault(line: int, severity: str, text: str) -> dict[str, object]:
    return {"line": line, "severity": severity, "text": text}


def _review(in_a: list[Any], in_b: list[Any], result: str, lines: str) -> Case:
    return Case(
        files={"scripts/diff.sh": _DIFF},
        model=(
            says("+password = hunter2", answer=in_a, without=("newer word", "one good line")),
            says(
                "-an old word",
                "+a newer word",
                "as it was",
                answer=in_b,
                without=("hunter2", "one good line"),
            ),
            says("+one good line", answer=[], without=("hunter2", "newer word")),
        ),
        aliases=SMART,
        result=result,
        written={"review.md": text_of(lines)} if lines else {},
        also=_asks(3),
    )


_REJECTED = _review(
    [_fault(2, "medium", "Too long."), _fault(7, "high", "A secret.")],
    [_fault(12, "medium", "Name it."), _fault(3, "low", "A typo."), _fault(9, "medium", "Why?")],
    "rejected",
    "high src/a.txt:7 A secret.\nmedium src/a.txt:2 Too long.\nmedium src/b.txt:9 Why?\n"
    "medium src/b.txt:12 Name it.\nlow src/b.txt:3 A typo.\n",
)
_COMMENTS = _review([], [_fault(3, "low", "A typo.")], "comments", "low src/b.txt:3 A typo.\n")
_APPROVED = _review([], [], "approved", "")

# 44 What was translated already

_FRENCH = {"Good morning": "Bonjour", "The key": "La clef", "A red door": "Une porte rouge"}


def _translated(memory: str, *known: str) -> Case:
    files = {"texts.txt": "The key\nGood morning\nThe key\nA red door\nGood morning\n"}
    kept = {"The hat": "Le chapeau"} if memory else {}
    return Case(
        files={**files, "memory.json": memory} if memory else files,
        model=tuple(says(one, answer=_FRENCH[one]) for one in _FRENCH if one not in known),
        result=3 - len(known),
        written={
            "french.txt": text_of("La clef\nBonjour\nLa clef\nUne porte rouge\nBonjour\n"),
            "memory.json": json_of({**kept, **_FRENCH}),
        },
        also=_asks(3 - len(known)),
    )


_WITH_MEMORY = _translated('{"The hat": "Le chapeau", "The key": "La clef"}', "The key")
_WITHOUT_MEMORY = _translated("")

# 45 Claims

_POLICY = "We pay for trains, not for taxis."
_CLAIMS = Case(
    arguments=(BASE,),
    files={
        "policy.txt": _POLICY + "\n",
        "claims.json": '[{"id": "c1", "who": "Ida Berg", "text": "train to Ulm", "cents": 5001},\n'
        ' {"id": "c2", "who": "Lou Finn", "text": "a new boat", "cents": 900000},\n'
        ' {"id": "c3", "who": "Ida Berg", "text": "tea", "cents": 5000},\n'
        ' {"id": "c4", "who": "Max Orr", "text": "taxi to Ulm", "cents": 50000},\n'
        ' {"id": "c5", "who": "Ned Ash", "text": "a conference", "cents": 50001},\n'
        ' {"id": "c6", "who": "Uma Roy", "text": "a sofa", "cents": 70000}]\n',
    },
    model=(
        says(_POLICY, "train to Ulm", answer={"allowed": True, "why": "It is a train."}),
        says(_POLICY, "taxi to Ulm", answer={"allowed": False, "why": "It is a taxi."}),
    ),
    aliases=SMART,
    routes={"POST /decisions": Reply("taken")},
    person={"c5": "yes", "c2": "no"},
    result={"paid": 60002, "reasons": {"c4": "It is a taxi."}},
    posted=tuple(
        ("/decisions", {"id": f"c{n}", "decision": decision})
        for n, decision in enumerate(("paid", "held", "paid", "refused", "paid", "held"), 1)
    ),
    posts_in_order=True,
    asked=(("c2", "Lou Finn"), ("c5", "Ned Ash"), ("c6", "Uma Roy")),
    also=_asks(2),
)

CASES: Final[dict[str, tuple[Case, ...]]] = {
    "31": (_COMPLAINTS,),
    "32": (_EUROS,),
    "33": (_FLAKY,),
    "34": (_MINUTES,),
    "35": (_AT_THE_OFFER, _AT_THE_ASK, _NO_DEAL),
    "36": (_ONE_KNOWS, _NONE_KNOWS),
    "37": (_DEPARTMENTS,),
    "38": (_ROOM, _ROOM_DECLINED, _ROOM_ENOUGH),
    "39": (_READ, _NOTHING_TO_READ),
    "40": (_REFUNDS,),
    "41": (_PEOPLE,),
    "42": (_SOME_DOWN, _ALL_UP),
    "43": (_REJECTED, _COMMENTS, _APPROVED),
    "44": (_WITH_MEMORY, _WITHOUT_MEMORY),
    "45": (_CLAIMS,),
}
