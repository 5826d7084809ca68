"""The worlds of tasks 16 to 30."""

from typing import Final

from campaigns.card_tasks.case import (
    BASE,
    Case,
    Fault,
    Reply,
    Seen,
    csv_of,
    json_of,
    says,
    text_of,
)

SMART = ("smart",)

# 16 Slow answers

_SLOW = Case(
    arguments=(BASE,),
    routes={
        "GET /questions": Reply(
            [
                "How far is the moon, in km?",
                "What is slow?",
                'What does "twice" mean?',
                "What is red?",
            ]
        )
    },
    model=(
        says("the moon", answer="384,400 km", by="smart"),
        says("What is slow?", hangs=True, by="smart"),
        says("What is slow?", answer="a snail", by="fast"),
        says("twice", answer='"two times"', by="smart"),
        says("What is red?", answer="a poppy", by="smart"),
    ),
    aliases=("smart", "fast"),
    result=1,
    written={
        "answers.csv": csv_of(
            ("question", "model", "answer"),
            ("How far is the moon, in km?", "smart", "384,400 km"),
            ("What is slow?", "fast", "a snail"),
            ('What does "twice" mean?', "smart", '"two times"'),
            ("What is red?", "smart", "a poppy"),
        )
    },
    within_s=60.0,
)

# 17 Names for scans

_SCANS = Case(
    files={
        "scans/s1.txt": "Lease of the flat in Graz",
        "scans/s2.txt": "Paid for a bicycle, number 88",
        "scans/s3.txt": "Dear all, this is Aunt Mo",
    },
    model=(
        says("flat in Graz", answer="Lease"),
        says("for a bicycle", answer="Bicycle"),
        says("this is Aunt Mo", answer="Aunt-Mo"),
    ),
    person={"Bicycle": "yes"},
    result=["Aunt-Mo", "Bicycle", "Lease"],
    written={
        "named/Lease.txt": text_of("Lease of the flat in Graz"),
        "named/Bicycle.txt": text_of("Paid for a bicycle, number 88"),
        "named/Aunt-Mo.txt": text_of("Dear all, this is Aunt Mo"),
    },
    asked=(("Lease", "Bicycle", "Aunt-Mo"),),
)
_SCANS_DECLINED = Case(
    files=_SCANS.files,
    model=_SCANS.model,
    person={"Bicycle": "no"},
    result=[],
    absent=("named/Lease.txt", "named/Bicycle.txt", "named/Aunt-Mo.txt"),
    asked=_SCANS.asked,
)

# 18 Two configurations

_CONFIGURATIONS = Case(
    arguments=(BASE,),
    routes={
        "GET /config/prod": Reply(
            {"REGION": "eu", "DB_HOST": "db1", "VERBOSE": "off", "AUDIT": "yes"}
        ),
        "GET /config/stage": Reply(
            {"TRACE": "1", "DB_HOST": "db2", "REGION": "eu", "VERBOSE": "on"}
        ),
    },
    model=(
        says("DB_HOST", answer="high"),
        says("VERBOSE", answer="low"),
        says("AUDIT", answer="high"),
        says("TRACE", answer="low"),
    ),
    aliases=SMART,
    result=[
        {"key": "AUDIT", "prod": "yes", "stage": None, "risk": "high"},
        {"key": "DB_HOST", "prod": "db1", "stage": "db2", "risk": "high"},
        {"key": "TRACE", "prod": None, "stage": "1", "risk": "low"},
        {"key": "VERBOSE", "prod": "off", "stage": "on", "risk": "low"},
    ],
    written={"high.txt": text_of("AUDIT\nDB_HOST\n")},
)

# 19 Events that get through

_EVENTS = [{"id": f"e{n}", "kind": "click"} for n in (1, 2, 3, 4)]


def _takes(body: str, times: int) -> Reply:
    late = ("e2" in body and times < 3) or "e3" in body
    return Reply("not now", 503) if late else Reply("taken")


_THROUGH = Case(
    arguments=(BASE,),
    files={
        "events.jsonl": "".join(f'{{"id": "{one["id"]}", "kind": "click"}}\n' for one in _EVENTS),
    },
    routes={"POST /events": _takes},
    result={"sent": 3, "dead": 1},
    written={"dead.jsonl": json_of(_EVENTS[2])},
    posted=tuple(
        ("/events", one)
        for one, times in zip(_EVENTS, (1, 3, 3, 1), strict=True)
        for _ in range(times)
    ),
)

# 20 Deploy, if it may be

_DEPLOY_FILES = {
    "scripts/smoke.sh": 'case "$1" in 9.*) echo "smoke: login is broken"; exit 4;; esac\n'
    'echo "smoke: fine"\n',
    "scripts/deploy.sh": 'echo "deployed $1 to three machines"\n',
}
_DEPLOYS = {"POST /deploys": Reply("taken")}
_DEPLOYED = Case(
    arguments=(BASE, "1.4.2"),
    files=_DEPLOY_FILES,
    routes=_DEPLOYS,
    person={"1.4.2": "yes"},
    result="deployed",
    posted=(
        (
            "/deploys",
            {"version": "1.4.2", "status": "deployed", "log": "deployed 1.4.2 to three machines"},
        ),
    ),
    asked=(("1.4.2",),),
)
_BLOCKED = Case(
    arguments=(BASE, "9.0.1"),
    files=_DEPLOY_FILES,
    routes=_DEPLOYS,
    person={"9.0.1": "yes"},
    result="blocked",
    posted=(
        ("/deploys", {"version": "9.0.1", "status": "blocked", "log": "smoke: login is broken"}),
    ),
)
_DECLINED = Case(
    arguments=(BASE, "1.4.3"),
    files=_DEPLOY_FILES,
    routes=_DEPLOYS,
    person={"1.4.3": "no"},
    result="declined",
    asked=(("1.4.3",),),
)

# 21 A glossary


def _term(term: str, meaning: str) -> dict[str, str]:
    return {"term": term, "meaning": meaning}


_GLOSSARY = Case(
    arguments=(["docs/guide", "docs/api"],),
    files={
        "docs/api/a.md": "This page is about zones.",
        "docs/guide/b.md": "This page is about caps.",
        "docs/guide/a.md": "This page is about runs.",
        "docs/guide/x.txt": "This page is about nothing.",
    },
    model=(
        says("about runs", answer=[_term("Run", "one execution"), _term("agent", "who is asked")]),
        says("about caps", answer=[_term("run", "a second meaning"), _term("Budget", "a cap")]),
        says("about zones", answer=[_term("AGENT", "a third meaning"), _term("zone", "a place")]),
    ),
    aliases=SMART,
    result=4,
    written={
        "glossary.md": text_of(
            "- agent: who is asked\n- Budget: a cap\n- Run: one execution\n- zone: a place\n"
        )
    },
)

# 22 A vote

_PROPOSAL = "Move the office to Lyon"


def _vote(legal: str, finance: str, engineering: str) -> Case:
    votes = {"legal": legal, "finance": finance, "engineering": engineering}
    counts = {kind: list(votes.values()).count(kind) for kind in ("yes", "no", "abstain")}
    tie = counts["yes"] == counts["no"]
    return Case(
        arguments=(_PROPOSAL,),
        model=tuple(
            says(
                _PROPOSAL,
                system=f"You speak for {role}.",
                answer={"vote": vote, "reason": f"so says {role}"},
            )
            for role, vote in votes.items()
        ),
        person={_PROPOSAL: "yes"},
        result={**counts, "accepted": tie or counts["yes"] > counts["no"]},
        written={
            "minutes.md": text_of(
                "".join(f"{role}: {vote}, so says {role}\n" for role, vote in votes.items())
            )
        },
        asked=((_PROPOSAL,),) if tie else (),
    )


# 23 Two lists of customers

_CUSTOMERS = Case(
    files={
        "crm.csv": "email,name\nAda@x.io,Ada Lovelace\nfay@x.io,Fay\ncy@x.io,Cy Young\n"
        "eve@x.io,Eve Moss\n",
        "shop.csv": "email,name\ndi@x.io,Di Roth\nada@x.io,Ada Love\nEve@x.io,Eva Moos\n"
        "CY@x.io,Cy Young\n",
    },
    model=(
        says("Ada Lovelace", "Ada Love", answer="crm"),
        says("Eve Moss", "Eva Moos", answer="shop"),
    ),
    result=2,
    written={
        "merged.csv": csv_of(
            ("email", "name"),
            ("ada@x.io", "Ada Lovelace"),
            ("cy@x.io", "Cy Young"),
            ("di@x.io", "Di Roth"),
            ("eve@x.io", "Eva Moos"),
            ("fay@x.io", "Fay"),
        )
    },
)

# 24 Reminders

_DEBTORS = {"R-1": "Kato", "R-3": "Moro", "R-4": "Nash", "R-5": "Okon"}
_REMINDERS = Case(
    arguments=(BASE,),
    files={
        "invoices.csv": "number,customer,amount,days\nR-1,Kato,100.00,45\nR-2,Lima,70.00,30\n"
        "R-3,Moro,12.50,100\n"
        "R-4,Nash,8.00,31\nR-5,Okon,99.99,60\n"
    },
    model=tuple(
        says(number, who, answer=f"Dear {who}, please pay {number}.")
        for number, who in _DEBTORS.items()
    ),
    aliases=SMART,
    routes={"POST /mail": Reply("taken")},
    person={"R-3": "yes", "R-5": "yes", "R-1": "no"},
    result=["R-3", "R-5"],
    written={"held.txt": text_of("R-1\nR-4\n")},
    posted=(
        ("/mail", {"to": "Moro", "text": "Dear Moro, please pay R-3."}),
        ("/mail", {"to": "Okon", "text": "Dear Okon, please pay R-5."}),
    ),
    asked=(("R-3",), ("R-5",), ("R-1",), ("R-4",)),
)

# 25 The longest files

_STATS = """\
echo '{"file": "src/tiny.txt", "lines": 9}'
echo '{"file": "src/parse.txt", "lines": 820}'
echo '{"file": "src/net.txt", "lines": 95}'
echo '{"file": "src/main.txt", "lines": 1210}'
echo '{"file": "src/old.txt", "lines": 10}'
"""
_SUMMARIES = {"main": "It begins.", "parse": "It reads.", "net": "It sends."}
_LONGEST = Case(
    files={
        "scripts/stats.sh": _STATS,
        "src/tiny.txt": "unimportant words",
        "src/parse.txt": "how tokens become trees",
        "src/net.txt": "how bytes are sent",
        "src/main.txt": "where it all begins",
        "src/old.txt": "nobody uses it",
    },
    model=(
        says("where it all begins", answer=_SUMMARIES["main"]),
        says("how tokens become trees", answer=_SUMMARIES["parse"]),
        says("how bytes are sent", answer=_SUMMARIES["net"]),
    ),
    aliases=SMART,
    result=[
        {"file": "src/main.txt", "lines": 1210, "summary": _SUMMARIES["main"]},
        {"file": "src/parse.txt", "lines": 820, "summary": _SUMMARIES["parse"]},
        {"file": "src/net.txt", "lines": 95, "summary": _SUMMARIES["net"]},
    ],
    written={
        "summaries.md": text_of(
            "## src/main.txt\nIt begins.\n## src/parse.txt\nIt reads.\n## src/net.txt\nIt sends.\n"
        )
    },
)

# 26 Placeholders


def _asked_twice(seen: Seen) -> Fault:
    asks = sum("Careful, %who%" in text for text in seen.messages)
    return None if asks == 2 else f"the text that stays bad was asked about {asks} times"


def _translation(text: str, sure: bool = True) -> dict[str, object]:
    return {"text": text, "sure": sure}


_PLACEHOLDERS = Case(
    arguments=("German",),
    files={
        "strings.json": '{"warn": "Careful, %who%", "hello": "Hello %name%", "bye": "See you",\n'
        ' "cart": "%count% items for %name%"}'
    },
    model=(
        says("Hello %name%", "German", answer=_translation("Hallo %name%")),
        says("See you", "German", answer=_translation("Bis bald", sure=False)),
        says("%count% items for", "%count% Dinge", answer=_translation("%count% Artikel, %name%")),
        says("%count% items for", "German", answer=_translation("%count% Dinge")),
        says("Careful, %who%", answer=_translation("Vorsicht")),
    ),
    result=["warn"],
    written={
        "strings.German.json": json_of(
            {
                "warn": "Careful, %who%",
                "hello": "Hallo %name%",
                "bye": "Bis bald",
                "cart": "%count% Artikel, %name%",
            }
        )
    },
    also=_asked_twice,
)

# 27 A job that takes a while

_WORKING = Reply({"state": "working"})


def _job(state: str, *replies: Reply) -> Case:
    return Case(
        arguments=(BASE, "count the barrels"),
        routes={"POST /jobs": Reply({"id": "j7"}), "GET /jobs/j7": replies},
        model=(says("412 barrels in the cellar", answer="There are 412."),),
        result={"state": state, "summary": "There are 412." if state == "done" else None},
        written={"job.txt": text_of(state)},
        posted=(("/jobs", {"text": "count the barrels"}),),
        also=lambda seen: _few_looks(seen) if state == "working" else None,
    )


def _few_looks(seen: Seen) -> Fault:
    looks = sum(one.method == "GET" for one in seen.requests)
    return None if looks == 10 else f"it looked {looks} times, not 10"


_DONE = Reply({"state": "done", "result": "412 barrels in the cellar"})
_FAILED = Reply({"state": "failed"})

# 28 Documents that are too dear

_HUGE = "the quick brown fox jumps over the lazy dog again and again\n" * 750


def _huge_unasked(seen: Seen) -> Fault:
    return (
        "a text that is too dear was sent"
        if any("lazy dog" in one for one in seen.messages)
        else None
    )


_PAPERS = Case(
    files={
        "papers/a.txt": "On the growth of moss",
        "papers/b.txt": _HUGE,
        "papers/c.txt": "On the price of tin",
        "papers/d.txt": _HUGE + "twice",
    },
    model=(
        says("growth of moss", answer={"topic": "botany", "pages": 3}),
        says("price of tin", answer={"topic": "trade", "pages": 8}),
        says("lazy dog", answer={"topic": "dogs", "pages": 400}),
    ),
    result=["b.txt", "d.txt"],
    written={"topics.json": json_of({"a.txt": "botany", "c.txt": "trade"})},
    spends_at_most=0.1,
    also=_huge_unasked,
)

# 29 A quiz

_QUIZ = Case(
    arguments=(BASE, "Zoe"),
    files={
        "quiz.csv": "question,answer\nCapital of Peru,Lima\nLargest ocean,Pacific\n"
        "Symbol of tin,Sn\n"
    },
    model=(
        says(
            "Capital of Peru",
            "Lima",
            "the town Lima",
            answer={"correct": True, "comment": "Right."},
        ),
        says("Symbol of tin", "Sn", "Ti9", answer={"correct": False, "comment": "No, Sn."}),
    ),
    routes={"POST /scores": Reply("taken")},
    person={"Capital of Peru": "the town Lima", "Symbol of tin": "Ti9"},
    result=["Right.", "no answer", "No, Sn."],
    posted=(("/scores", {"player": "Zoe", "score": 1}),),
    asked=(("Capital of Peru",), ("Largest ocean",), ("Symbol of tin",)),
)

# 30 An incident

_SOURCES = """\
case "$1" in
  db) echo "12:04:31 db restarted"; echo "12:01:00 db slow"; exit 3;;
  web) echo "12:03:10 web errors"; echo "11:59:58 web released"; exit 0;;
  *) echo "12:09:00 all quiet"; exit 0;;
esac
"""
_DB, _WEB = (
    ("12:01:00 db slow", "12:04:31 db restarted"),
    ("11:59:58 web released", "12:03:10 web errors"),
)


def _incident(sources: list[str], partial: str, events: list[str]) -> Case:
    summary = "A release broke the database."

    def in_order(seen: Seen) -> Fault:
        told = [[text.find(event) for event in events] for text in seen.messages]
        good = any(places == sorted(places) and -1 not in places for places in told)
        return None if good else "no message holds the events in the order of their times"

    lines = [f"On call: Ira Voss\nPartial: {partial}", *(f"- {event}" for event in events), summary]
    return Case(
        arguments=(BASE, sources),
        files={"scripts/events.sh": _SOURCES},
        routes={"GET /oncall": Reply({"name": "Ira Voss"})},
        model=(says(*events, answer=summary),),
        aliases=SMART,
        result=len(events),
        written={"incident.md": text_of("\n".join(lines))},
        also=in_order,
    )


CASES: Final[dict[str, tuple[Case, ...]]] = {
    "16": (_SLOW,),
    "17": (_SCANS, _SCANS_DECLINED),
    "18": (_CONFIGURATIONS,),
    "19": (_THROUGH,),
    "20": (_DEPLOYED, _BLOCKED, _DECLINED),
    "21": (_GLOSSARY,),
    "22": (_vote("yes", "no", "abstain"), _vote("yes", "no", "no")),
    "23": (_CUSTOMERS,),
    "24": (_REMINDERS,),
    "25": (_LONGEST,),
    "26": (_PLACEHOLDERS,),
    "27": (
        _job("done", _WORKING, _WORKING, _DONE),
        _job("failed", _FAILED),
        _job("working", _WORKING),
    ),
    "28": (_PAPERS,),
    "29": (_QUIZ,),
    "30": (
        _incident(["db", "web"], "db", [_WEB[0], _DB[0], _WEB[1], _DB[1]]),
        _incident(["other", "web"], "none", [*_WEB, "12:09:00 all quiet"]),
    ),
}
