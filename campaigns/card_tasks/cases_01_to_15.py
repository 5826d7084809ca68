"""The worlds of tasks 01 to 15."""

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

# 01 Expenses by category

_EXPENSES = Case(
    arguments=("data/expenses.csv",),
    files={
        "data/expenses.csv": "date,merchant,amount\n2026-01-03,Rail Nord,45.10\n"
        "2026-01-04,Cafe Lume,12.50\n"
        "2026-01-04,Sky Air,199.99\n2026-01-07,Bakery Sol,3.20\n2026-01-09,Paper House,20.00\n"
    },
    model=(
        says("Rail Nord", answer="travel"),
        says("Cafe Lume", answer="food"),
        says("Sky Air", answer="travel"),
        says("Bakery Sol", answer="food"),
        says("Paper House", answer="other"),
    ),
    result=5,
    written={
        "out/by_category.csv": csv_of(
            ("category", "total"), ("travel", 245.09), ("other", 20.0), ("food", 15.7)
        )
    },
)

# 02 What the linter says

_LINT = """\
if [ ! -f "$1" ]; then echo "no such file: $1" >&2; exit 2; fi
if grep -n TODO "$1"; then exit 1; fi
exit 0
"""
_LINTER = Case(
    arguments=(["src/b.txt", "src/a.txt", "src/none.txt", "src/c.txt"],),
    files={
        "scripts/lint.sh": _LINT,
        "src/a.txt": "all is well\n",
        "src/b.txt": "TODO split the parser\nfine\nTODO drop the cache\n",
        "src/c.txt": "fine\nTODO name the port\n",
    },
    model=(
        says("split the parser", "drop the cache", answer="Begin with the parser."),
        says("name the port", answer="Call it door."),
    ),
    aliases=SMART,
    result=[
        {"path": "src/b.txt", "code": 1, "problems": 2, "advice": "Begin with the parser."},
        {"path": "src/a.txt", "code": 0, "problems": 0, "advice": None},
        {"path": "src/none.txt", "code": 2, "problems": 0, "advice": None},
        {"path": "src/c.txt", "code": 1, "problems": 1, "advice": "Call it door."},
    ],
)

# 03 Inbox to queue

_INBOX = Case(
    arguments=(BASE,),
    files={
        "inbox/d.txt": "I cannot log in since Monday.",
        "inbox/b.txt": "You charged my card twice.",
        "inbox/a.txt": "Do you sell to schools?",
        "inbox/c.txt": "The export is a little slow.",
        "inbox/old.bak": "Nobody should read this.",
        "inbox/list.csv": "nor,this",
    },
    model=(
        says("cannot log in", answer={"urgency": 4, "team": "tech"}),
        says("charged my card", answer={"urgency": 5, "team": "billing"}),
        says("sell to schools", answer={"urgency": 4, "team": "sales"}),
        says("export is a little slow", answer={"urgency": 1, "team": "tech"}),
    ),
    aliases=SMART,
    routes={"POST /queue": Reply("taken")},
    result=3,
    posted=(
        (
            "/queue",
            [
                {"file": "b.txt", "urgency": 5, "team": "billing"},
                {"file": "a.txt", "urgency": 4, "team": "sales"},
                {"file": "d.txt", "urgency": 4, "team": "tech"},
                {"file": "c.txt", "urgency": 1, "team": "tech"},
            ],
        ),
    ),
)

# 04 A mirror that is ready

_MIRRORS = {
    "GET /m1": Reply("ready soon", 503),
    "GET /m2": Reply("warming up"),
    "GET /m3": Reply("ready: build 2.4.1 of today"),
    "GET /m4": Reply("ready: build 9.9.9 of tomorrow"),
}
_MIRROR_SAYS = (says("2.4.1", answer="2.4.1"), says("9.9.9", answer="9.9.9"))
_GOOD_MIRROR = Case(
    arguments=(BASE, ["/m1", "/m2", "/m3", "/m4"]),
    model=_MIRROR_SAYS,
    routes=_MIRRORS,
    result={"path": "/m3", "version": "2.4.1"},
    written={"mirror.txt": text_of("2.4.1")},
)
_NO_MIRROR = Case(
    arguments=(BASE, ["/m2", "/m1"]),
    model=_MIRROR_SAYS,
    routes=_MIRRORS,
    result=None,
    absent=("mirror.txt",),
)

# 05 The first confident answer

_RIDDLE = "What has hands but no arms?"
_CONFIDENT = Case(
    arguments=(
        _RIDDLE,
        ["Think of walls.", "Think of gloves.", "Think of time.", "Think of ships."],
    ),
    model=(
        says(_RIDDLE, "of walls", answer={"answer": "a map", "confidence": 30}),
        says(_RIDDLE, "of gloves", hangs=True),
        says(_RIDDLE, "of time", answer={"answer": "a clock", "confidence": 80}),
        says(_RIDDLE, "of ships", answer={"answer": "a crew", "confidence": 79}),
    ),
    result="a clock",
    written={"answer.txt": text_of("a clock")},
    within_s=30.0,
)

# 06 A release note that waits

_NOTE = "Version 7 is quicker, and forgets nothing."
_WAITING = Case(
    files={"CHANGES.txt": "- keep parsed files in a cache\n- write the index to disk\n"},
    model=(says("keep parsed files in a cache", "the index to disk", answer=_NOTE),),
    aliases=SMART,
    result="pending",
    written={"pending/note.md": text_of(_NOTE)},
    absent=("published/note.md",),
    asked=((_NOTE,),),
)
_AGREED = Case(
    files=_WAITING.files,
    model=_WAITING.model,
    aliases=SMART,
    person={_NOTE: "yes"},
    result="published",
    written={"published/note.md": text_of(_NOTE)},
    absent=("pending/note.md",),
    asked=((_NOTE,),),
)

# 07 Tasks without an owner

_OWNERS = Case(
    files={
        "tasks.json": '[{"title": "Rotate the keys", "owner": null},\n'
        ' {"title": "Write tests", "owner": "Bo"},\n'
        ' {"title": "Tidy the docs", "owner": null}, {"title": "Call Rome", "owner": null}]\n'
    },
    person={"Rotate the keys": "Ada", "Call Rome": "Cy"},
    result={"assigned": 2, "open": 1},
    written={
        "tasks.json": json_of(
            [
                {"title": "Rotate the keys", "owner": "Ada"},
                {"title": "Write tests", "owner": "Bo"},
                {"title": "Tidy the docs", "owner": None},
                {"title": "Call Rome", "owner": "Cy"},
            ]
        )
    },
    asked=(("Rotate the keys",), ("Tidy the docs",), ("Call Rome",)),
)

# 08 An order that adds up


def _order(nuts: int, price: int) -> dict[str, object]:
    bolts = {"sku": "bolt", "quantity": 2, "price_cents": 1000}
    return {
        "customer": "Nils",
        "items": [bolts, {"sku": "nut", "quantity": nuts, "price_cents": price}],
    }


def _three_asks(seen: Seen) -> Fault:
    asks = len(seen.messages)
    return None if asks == 3 else f"the model was asked {asks} times, not 3"


_ORDER = "Order 77\nCustomer: Nils\n2 x bolt at 10.00\n3 x nut at 7.50\nTOTAL 4250\n"
_ADDS_UP = Case(
    files={"order.txt": _ORDER},
    model=(
        says("Customer: Nils", "4000", "4250", answer=_order(3, 750)),
        says("Customer: Nils", answer=_order(2, 1000)),
    ),
    result=4250,
    written={"order.json": json_of(_order(3, 750))},
)
_NEVER_ADDS_UP = Case(
    files={"order.txt": _ORDER},
    model=(says("Customer: Nils", answer=_order(2, 1000)),),
    fails="does not add up",
    absent=("order.json",),
    also=_three_asks,
)

# 09 Stock in pages


def _item(name: str, stock: int) -> dict[str, object]:
    return {"id": f"id-{name.replace(' ', '-')}", "name": name, "stock": stock}


_PAGES = Case(
    arguments=(BASE,),
    routes={
        "GET /items?page=1": Reply(
            {"items": [_item("brass bolt", 4), _item("steel nut", 5)], "next": 2}
        ),
        "GET /items?page=2": Reply({"items": [], "next": 3}),
        "GET /items?page=3": Reply(
            {"items": [_item("felt ring", 0), _item("oak peg", 90)], "next": None}
        ),
        "POST /orders": Reply("taken"),
    },
    model=(says("brass bolt", answer=40), says("felt ring", answer=25)),
    result=65,
    posted=(
        ("/orders", {"id": "id-brass-bolt", "amount": 40}),
        ("/orders", {"id": "id-felt-ring", "amount": 25}),
    ),
)

# 10 The version that broke it


def _few_builds(seen: Seen) -> Fault:
    runs = seen.files.get("runs.log", "").count("run")
    return f"the command was run {runs} times" if runs > 8 else None


def _broken(first_bad: int, last: int) -> Case:
    build = (
        "{ echo run >> runs.log; } 2>/dev/null\n"
        f'if [ "$1" -lt {first_bad} ]; then echo built; exit 0; fi\necho broken\nexit 1\n'
    )
    notes = {f"notes/{n}.txt": f"change number {n} of the week\n" for n in range(1, last + 1)}
    notes[f"notes/{first_bad}.txt"] = "swapped the order of bytes\n"
    return Case(
        arguments=(last,),
        files={"scripts/build.sh": build, **notes},
        model=(says("swapped the order of bytes", answer="Bytes come in the wrong order."),),
        aliases=SMART,
        result={"version": first_bad, "why": "Bytes come in the wrong order."},
        also=_few_builds,
    )


# 11 Errors by component

_LOG = """\
cat <<'END'
INFO db started
ERROR db timeout after 3 s
WARN ui slow frame
ERROR api bad token
WARN db slow query
ERROR db connection lost
ERROR ui no font
WARN ui slow frame
ERROR api bad token
WARN ui slow frame
ERROR db timeout after 9 s
END
"""
_COMPONENTS = Case(
    files={"scripts/log.sh": _LOG},
    model=(
        says(
            "timeout after 3 s",
            "connection lost",
            "timeout after 9 s",
            answer="The database is overloaded.",
            without=("bad token", "no font", "slow query", "db started"),
        ),
    ),
    aliases=SMART,
    result={"db": 3, "api": 2, "ui": 1},
    written={
        "report.json": json_of(
            {
                "counts": {"db": 3, "api": 2, "ui": 1},
                "worst": "db",
                "diagnosis": "The database is overloaded.",
            }
        )
    },
)

# 12 A shop assistant that remembers

_QUESTIONS = ["What does a pen cost?", "And what a lamp?", "What did I ask for first?"]


def _remembers(seen: Seen) -> Fault:
    last = [text for text in seen.conversations if _QUESTIONS[2] in text]
    heard = any(_QUESTIONS[0] in text for text in last)
    return None if heard else "the last question was asked without what was said before"


_ASSISTANT = Case(
    arguments=(_QUESTIONS,),
    files={"prices.json": '{"pen": 250, "ink": 900}'},
    model=(
        says(
            _QUESTIONS[0],
            answer="I do not know.",
            tool=("price", {"item": "pen"}),
            after=(("250", "A pen is 250 cents."),),
        ),
        says(
            _QUESTIONS[1],
            answer="I cannot say.",
            tool=("price", {"item": "lamp"}),
            after=(("unknown", "We have no lamp."),),
        ),
        says(_QUESTIONS[2], answer="For a pen."),
    ),
    result="For a pen.",
    written={
        "transcript.md": text_of(
            f"Q: {_QUESTIONS[0]}\nA: A pen is 250 cents.\nQ: {_QUESTIONS[1]}\nA: We have no lamp.\n"
            f"Q: {_QUESTIONS[2]}\nA: For a pen.\n"
        )
    },
    spends_at_most=0.5,
    also=_remembers,
)

# 13 What to wear


def _city(name: str, sky: str, wear: str, without_a_tool: str) -> Says:
    return says(
        name,
        answer={"city": name, "wear": without_a_tool},
        tool=("weather", {"city": name}),
        after=((sky, {"city": name, "wear": wear}),),
    )


_WEAR = Case(
    arguments=(["Oslo", "Rome", "Bergen"],),
    routes={
        "GET /weather/Oslo": Reply({"sky": "snowfall", "temp": -3}),
        "GET /weather/Rome": Reply({"sky": "cloudless", "temp": 31}),
        "GET /weather/Bergen": Reply({"sky": "drizzling", "temp": 8}),
    },
    model=(
        _city("Oslo", "snowfall", "coat", "shirt"),
        _city("Rome", "cloudless", "shirt", "coat"),
        _city("Bergen", "drizzling", "coat", "shirt"),
    ),
    result=2,
    written={"wear.json": json_of({"Oslo": "coat", "Rome": "shirt", "Bergen": "coat"})},
)

# 14 Test suites

_SUITE = """\
case "$1" in
  alpha7) echo "reads_empty_file: disk full"; exit 1;;
  beta7) echo "adds_two: fine"; exit 0;;
  *) echo "draws_a_line: no screen"; exit 1;;
esac
"""


def _suite(name: str, heard: str, passed: bool, reason: str | None) -> Says:
    return says(
        name,
        answer={"suite": name, "passed": not passed, "reason": "I could not run it."},
        tool=("run_suite", {"name": name}),
        after=((heard, {"suite": name, "passed": passed, "reason": reason}),),
    )


_SUITES = Case(
    arguments=(["alpha7", "beta7", "gamma7"],),
    files={"scripts/suite.sh": _SUITE},
    model=(
        _suite("alpha7", "disk full", False, "The disk is full."),
        _suite("beta7", "adds_two: fine", True, None),
        _suite("gamma7", "no screen", False, "There is no screen."),
    ),
    aliases=SMART,
    result=[
        {"suite": "alpha7", "passed": False, "reason": "The disk is full."},
        {"suite": "gamma7", "passed": False, "reason": "There is no screen."},
    ],
)

# 15 As far as the money goes

_TOPICS = [f"subject {n:02}" for n in range(1, 41)]


def _stops_in_time(seen: Seen) -> Fault:
    result: Any = seen.page.get("result")
    try:
        done, left = int(result["done"]), int(result["left"])
    except (KeyError, TypeError, ValueError):
        return f"it returned {result!r}"
    if done + left != len(_TOPICS) or not 0 < done < len(_TOPICS):
        return f"it returned {result!r} for {len(_TOPICS)} topics"
    titles = re.findall(r"(?m)^## (.*)$", seen.files.get("paragraphs.md", ""))
    wanted = [f"About {topic}" for topic in _TOPICS[:done]]
    return None if [one.strip() for one in titles] == wanted else f"the titles are {titles}"


_MONEY = Case(
    arguments=(_TOPICS,),
    model=tuple(
        says(topic, answer={"title": f"About {topic}", "text": f"A paragraph on {topic}."})
        for topic in _TOPICS
    ),
    written={
        "paragraphs.md": lambda text: None if "A paragraph on subject 01." in text else "no text"
    },
    spends_at_most=0.02,
    also=_stops_in_time,
)

CASES: Final[dict[str, tuple[Case, ...]]] = {
    "01": (_EXPENSES,),
    "02": (_LINTER,),
    "03": (_INBOX,),
    "04": (_GOOD_MIRROR, _NO_MIRROR),
    "05": (_CONFIDENT,),
    "06": (_WAITING, _AGREED),
    "07": (_OWNERS,),
    "08": (_ADDS_UP, _NEVER_ADDS_UP),
    "09": (_PAGES,),
    "10": (_broken(23, 40), _broken(2, 64)),
    "11": (_COMPONENTS,),
    "12": (_ASSISTANT,),
    "13": (_WEAR,),
    "14": (_SUITES,),
    "15": (_MONEY,),
}
