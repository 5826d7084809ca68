"""The worlds of tasks 46 to 60."""

from typing import Any, Final

from campaigns.card_tasks.case import (
    BASE,
    Case,
    Fault,
    Look,
    Reply,
    Says,
    Seen,
    csv_of,
    json_of,
    says,
    text_of,
)

SMART = ("smart",)
BOTH = ("fast", "smart")

# 46 Counted and expected

_COUNT = """\
case "$1" in
  nord) echo "bolt-8 100"; echo "nut-8 40"; echo "bolt-8 20"; echo "peg-2 5"; echo "axle-1 3";;
  *) echo "ring-4 12"; echo "bolt-8 30";;
esac
"""


def _differs(article: str, expected: int, counted: int, reason: str | None) -> dict[str, object]:
    return {"article": article, "expected": expected, "counted": counted, "reason": reason}


_DIFFERENCES = [
    _differs("nut-8", 55, 40, "theft"),
    _differs("bolt-8", 160, 150, "typo"),
    _differs("ring-4", 2, 12, "unknown"),
    _differs("cap-5", 9, 0, None),
    _differs("axle-1", 0, 3, None),
]
_COUNTED = Case(
    arguments=(BASE, ["nord", "south"]),
    files={"scripts/count.sh": _COUNT},
    routes={
        "GET /stock/nord": Reply({"ring-4": 2, "bolt-8": 120, "nut-8": 55}),
        "GET /stock/south": Reply({"cap-5": 9, "bolt-8": 40, "peg-2": 5}),
    },
    model=(
        says("nut-8", "55", "40", answer="theft"),
        says("bolt-8", "160", "150", answer="typo"),
        says("ring-4", "2", "12", answer="unknown"),
    ),
    result=_DIFFERENCES,
    written={"differences.json": json_of(_DIFFERENCES)},
)

# 47 A survey


def _team(answers: int, average: float, bad: int) -> dict[str, object]:
    return {"answers": answers, "average": average, "bad": bad}


_SURVEY = Case(
    files={
        "survey.csv": 'team,score,comment\ngreen,2,Blunt tools\nred,4,"Good, really"\nblue,5,\n'
        'red,1,"They said ""later"" again"\nblue,1,Too loud\ngreen,4,It is all right\n'
        'red,2,"So, so"\n'
    },
    model=(
        says("Good, really", answer="good"),
        says("They said", "later", "again", answer="bad"),
        says("So, so", answer="mixed"),
        says("Blunt tools", answer="bad"),
        says("Too loud", answer="bad"),
        says("It is all right", answer="good"),
    ),
    result=["red", "blue", "green"],
    written={
        "survey.json": json_of(
            {"red": _team(3, 2.33, 1), "blue": _team(2, 3, 1), "green": _team(2, 3, 1)}
        )
    },
)

# 48 A story in chapters

_TITLES = ["In the well", "With the frog", "On the road"]
_CHAPTERS = ["It was dark and deep.", "It sang all night.", "They walked for years."]
_BETTER = "It sang, and then it rained."


def _story(points: int, second: str, *twice: str) -> Case:
    def remembers(seen: Seen) -> Fault:
        last = [text for text in seen.conversations if _TITLES[2] in text]
        if not any(title in text for title in _TITLES[:2] for text in last):
            return "the author was asked without what was said before"
        read = sum(any(one in text for one in _CHAPTERS) for text in seen.messages)
        return None if read == 3 else f"the reader was asked {read} times, not 3"

    chapters = [_CHAPTERS[0], second, _CHAPTERS[2]]
    pairs = zip(_TITLES, chapters, strict=True)
    return Case(
        arguments=(_TITLES,),
        model=(
            says(_TITLES[1], "Let it rain.", answer=_BETTER, by="smart"),
            *(
                says(title, answer=chapter, by="smart")
                for title, chapter in zip(_TITLES, _CHAPTERS, strict=True)
            ),
            says(_CHAPTERS[0], answer={"points": 60, "remark": "Good."}, by="fast"),
            says(_CHAPTERS[1], answer={"points": points, "remark": "Let it rain."}, by="fast"),
            says(_CHAPTERS[2], answer={"points": 95, "remark": "Very good."}, by="fast"),
        ),
        aliases=BOTH,
        result=list(twice),
        written={
            "story.md": text_of("".join(f"# {title}\n{chapter}\n" for title, chapter in pairs))
        },
        spends_at_most=0.7,
        also=remembers,
    )


# 49 Keys are changed, or none is

_KEYS = ["db-main", "mail-out", "pay-in"]


def _keys(result: dict[str, object], done: str, *, answer: str = "yes", bad: str = "none") -> Case:
    rotate = (
        f'if [ "$1" = {bad} ]; then echo "it is locked" >&2; exit 5; fi\n'
        'echo "rotate $1" >> done.log\n'
        'case "$1" in db-main) echo 4711;; mail-out) echo 815;; *) echo 42;; esac\n'
    )
    changed = result["state"] == "changed"
    lines = "db-main: 4711\nmail-out: 815\npay-in: 42\n"
    return Case(
        arguments=(_KEYS,),
        files={
            "scripts/rotate.sh": rotate,
            "scripts/restore.sh": 'echo "restore $1" >> done.log\n',
        },
        person={"mail-out": answer},
        result=result,
        written={
            **({"done.log": text_of(done)} if done else {}),
            **({"keys.txt": text_of(lines)} if changed else {}),
        },
        absent=(*(() if done else ("done.log",)), *(() if changed else ("keys.txt",))),
        asked=(tuple(_KEYS),),
    )


_CHANGED = _keys(
    {"state": "changed", "changed": _KEYS, "failed": None},
    "rotate db-main\nrotate mail-out\nrotate pay-in\n",
)
_RESTORED = _keys(
    {"state": "restored", "changed": [], "failed": "pay-in"},
    "rotate db-main\nrotate mail-out\nrestore mail-out\nrestore db-main\n",
    bad="pay-in",
)
_KEYS_DECLINED = _keys({"state": "declined", "changed": [], "failed": None}, "", answer="no")

# 50 As fast as they let us

_SENT = (("Hello, you", 1), ("Bring bread", 3), ("A heavy one", 1), ("Never now", 4), ("Last", 1))


def _lets(body: str, times: int) -> Reply:
    if "Never now" in body or ("Bring bread" in body and times < 3):
        return Reply({"wait_ms": 100 if "Never now" in body else 250 - 50 * times}, 429)
    if "heavy" in body:
        return Reply("too large", 413)
    found = {"Hello": 11, "Bring": 12, "Last": 15}
    return Reply({"id": next(number for word, number in found.items() if word in body)})


_LET = Case(
    arguments=(BASE,),
    files={"messages.txt": "".join(f"{text}\n" for text, _ in _SENT)},
    routes={"POST /send": _lets},
    result={"taken": 3, "given_up": 2, "waited_ms": 650},
    written={
        "ids.csv": csv_of(("text", "id"), ("Hello, you", 11), ("Bring bread", 12), ("Last", 15))
    },
    posted=tuple(("/send", {"text": text}) for text, times in _SENT for _ in range(times)),
    posts_in_order=True,
)

# 51 Flags that nobody uses

_FLAGS = {
    "dark_mode": {"owner": "Ann", "age": 400},
    "old_cart": {"owner": "Bob", "age": 365},
    "wide_list": {"owner": "Cam", "age": 91},
    "big_font": {"owner": "Dee", "age": 90},
    "quick_pay": {"owner": "Eli", "age": 500},
    "new_menu": {"owner": "Fay", "age": 3},
}
_FLAG_FILES = {
    "flags.json": "{"
    + ", ".join(
        f'"{name}": {{"owner": "{flag["owner"]}", "age": {flag["age"]}}}'
        for name, flag in _FLAGS.items()
    )
    + "}",
    "code/cart.txt": "if dark_mode: paint(dark_mode)\nif new_menu: draw()\n",
    "code/menu.txt": "nothing here\n",
    "code/page.txt": "x = not dark_mode\n",
}


def _flags(removed: list[str], person: dict[str, str]) -> Case:
    left = {name: flag for name, flag in _FLAGS.items() if name not in removed}
    return Case(
        files=_FLAG_FILES,
        person=person,
        result={"removed": removed, "used": {"dark_mode": 2, "new_menu": 1}},
        written={"flags.json": json_of(left)},
        asked=(("quick_pay", "Eli"), ("old_cart", "Bob"), ("wide_list", "Cam")),
    )


_TWO_REMOVED = _flags(["quick_pay", "old_cart"], {"old_cart": "yes", "quick_pay": "yes"})
_NONE_REMOVED = _flags([], {"old_cart": "no", "quick_pay": "no", "wide_list": "no"})

# 52 A digest

_NOTES = [f"Remark {word}." for word in ("ant", "bee", "cow", "dog", "elk", "fox", "gnu", "hen")]
_NOTES.append("Remark ibis.")
_GROUPS = {0: "Small and large animals.", 4: "Wild animals.", 8: "One bird."}


def _group(first: int, summary: str) -> Says:
    inside = _NOTES[first : first + 4]
    outside = tuple(one for one in _NOTES if one not in inside)
    return says(*inside, answer=summary, without=outside, by="fast")


def _summaries_in_order(seen: Seen) -> Fault:
    told = [[text.find(one) for one in _GROUPS.values()] for text in seen.messages]
    good = any(places == sorted(places) and -1 not in places for places in told)
    return None if good else "no message holds the summaries in their order"


_POINTS = ["They are many.", "One flies."]
_DIGEST = Case(
    files={f"notes/{note[7:-1]}.md": f"{note}\n" for note in reversed(_NOTES)},
    model=(
        says(*_GROUPS.values(), answer={"title": "On animals", "points": _POINTS}, by="smart"),
        *(_group(first, summary) for first, summary in _GROUPS.items()),
    ),
    aliases=BOTH,
    result=_POINTS,
    written={
        "digest.md": text_of(
            "# On animals\n- They are many.\n- One flies.\nFrom 9 notes in 3 groups.\n"
        )
    },
    also=_summaries_in_order,
)

# 53 Whoever is sure


def _sure(question: str, by: str, answer: str, sure: int) -> Says:
    return says(question, answer={"answer": answer, "sure": sure}, by=by)


def _answered(question: str, answer: str | None, by: str) -> dict[str, object]:
    return {"question": question, "answer": answer, "by": by}


_SURE = Case(
    files={
        "questions.txt": "Who founded Ostia?\nHow deep is Lake Tanna?\nWhere is the spare key?\n"
        "What is our motto?\n"
    },
    model=(
        _sure("founded Ostia", "fast", "Ancus Marcius", 70),
        _sure("deep is Lake Tanna", "fast", "9 m", 69),
        _sure("deep is Lake Tanna", "smart", "15 m", 50),
        _sure("the spare key", "fast", "In a box", 10),
        _sure("the spare key", "smart", "In a drawer", 49),
        _sure("our motto", "fast", "Onward", 0),
        _sure("our motto", "smart", "Upward", 20),
    ),
    aliases=BOTH,
    person={"spare key": "Under the mat"},
    result=[
        _answered("Who founded Ostia?", "Ancus Marcius", "fast"),
        _answered("How deep is Lake Tanna?", "15 m", "smart"),
        _answered("Where is the spare key?", "Under the mat", "person"),
        _answered("What is our motto?", None, "nobody"),
    ],
    written={
        "answers.txt": text_of(
            "Who founded Ostia? Ancus Marcius\nHow deep is Lake Tanna? 15 m\n"
            "Where is the spare key? Under the mat\n"
        )
    },
    asked=(("spare key",), ("our motto",)),
)

# 54 Three strikes

_COMMENTS = (
    ("rex", "You are all fools", True),
    ("mia", "Nice colours", False),
    ("rex", "Go away, you", True),
    ("mia", "I hate your face", True),
    ("rex", 'I said "good day"', False),
    ("rex", "Fools, the lot", True),
    ("rex", "This is never asked about", None),
    ("mia", "Sorry for that", False),
    ("rex", "Nor is this one", None),
)


def _json_lines_of(*values: Any) -> Look:
    whole = json_of(list(values))
    return lambda text: whole(f"[{','.join(line for line in text.splitlines() if line.strip())}]")


_STRIKES = Case(
    arguments=(BASE,),
    files={
        "comments.jsonl": "".join(
            '{{"user": "{}", "text": "{}"}}\n'.format(user, text.replace('"', '\\"'))
            for user, text, _ in _COMMENTS
        )
    },
    model=tuple(
        says(text.replace('"good day"', ""), answer=abusive)
        for _, text, abusive in _COMMENTS
        if abusive is not None
    ),
    routes={"POST /bans": Reply("taken")},
    result={"rex": 3, "mia": 1},
    written={
        "shown.jsonl": _json_lines_of(
            *({"user": user, "text": text} for user, text, bad in _COMMENTS if bad is False)
        )
    },
    posted=(("/bans", {"user": "rex"}),),
)

# 55 Figures from tables


def _figure(
    question: str, table: str, column: str, heard: str, figure: int | None, remark: str
) -> Says:
    return says(
        question,
        answer={"figure": 999999, "remark": "It was not heard."},
        tool=("total", {"table": table, "column": column}),
        after=((heard, {"figure": figure, "remark": remark}),),
    )


_FIGURE_QUESTIONS = [
    "How much did we sell?",
    "How much did we bake?",
    "How far did we drive?",
    "How many came back?",
]
_FIGURES = Case(
    arguments=(_FIGURE_QUESTIONS,),
    files={
        "tables/sales.csv": "day,sold,returned\nmon,1200,3\ntue,45,0\nwed,5,7\n",
        "tables/drives.csv": "car,hours\na,3\n",
    },
    model=(
        _figure(_FIGURE_QUESTIONS[0], "sales", "sold", "1250", 1250, "In three days."),
        _figure(_FIGURE_QUESTIONS[1], "bakery", "loaves", "no such table", None, "No table."),
        _figure(_FIGURE_QUESTIONS[2], "drives", "km", "no such column", None, "No column."),
        _figure(_FIGURE_QUESTIONS[3], "sales", "returned", "10", 10, "A few."),
    ),
    aliases=SMART,
    result=1260,
    written={
        "figures.md": text_of(
            "How much did we sell?: 1250\nHow much did we bake?: unknown\n"
            "How far did we drive?: unknown\nHow many came back?: 10\n"
        )
    },
)

# 56 Shards

_SHARDS = ["east-1", "west-2", "mid-3", "far-4"]
_COUNTS = {"east-1": 40, "west-2": 25, "mid-3": 0, "far-4": 7}


def _shards(*missing: str) -> Case:
    def index(body: str, times: int) -> Reply:
        name = next(one for one in _SHARDS if one in body)
        return Reply("broken", 500) if name in missing else Reply({"count": _COUNTS[name]})

    indexed = tuple(name for name in _SHARDS if name not in missing)
    total = sum(_COUNTS[name] for name in indexed)
    lost = len(missing) > 2
    page = {"total": total, "missing": list(missing), "note": "Look at them." if missing else None}
    return Case(
        arguments=(BASE, _SHARDS),
        routes={"POST /index": index},
        model=(says(*missing, answer="Look at them.", without=indexed),) if missing else (),
        aliases=SMART,
        **({"fails": "too many shards"} if lost else {"result": total}),  # pyright: ignore[reportArgumentType]
        written={} if lost else {"index.json": json_of(page)},
        absent=("index.json",) if lost else (),
        posted=tuple(("/index", {"shard": name}) for name in _SHARDS),
    )


# 57 A time that suits all

_TIMES = [f"2026-03-{day}" for day in ("02 10:00", "02 15:30", "03 09:00", "11 08:00")]
_WHO = ["kim", "lea", "tom"]


def _meeting(shared: int, person: dict[str, str], proposed: int, result: str | None) -> Case:
    own = {"kim": "2026-03-01 08:00", "lea": "2026-03-05 10:00", "tom": "2026-03-01 09:00"}
    free = {name: [*reversed(_TIMES[:shared]), own[name]] for name in _WHO}
    free["tom"].reverse()
    return Case(
        arguments=(BASE, _WHO),
        routes={
            **{f"GET /calendar/{name}": Reply({"free": free[name]}) for name in _WHO},
            "POST /meetings": Reply("taken"),
        },
        person=person,
        result=result,
        written={"meeting.txt": text_of(result)} if result else {},
        absent=() if result else ("meeting.txt",),
        posted=(("/meetings", {"time": result, "people": _WHO}),) if result else (),
        asked=tuple((time,) for time in _TIMES[:proposed]),
    )


_AGREED_TIME = _meeting(4, {_TIMES[0]: "no", _TIMES[2]: "yes"}, 3, _TIMES[2])
_NO_TIME = _meeting(0, {}, 0, None)
_NO_GOOD_TIME = _meeting(4, dict.fromkeys(_TIMES, "no"), 3, None)

# 58 The best of the drafts

_BRIEF = "a bicycle without a chain"
_ADS = {"short": "Ride. No oil.", "funny": "It lost its chain and laughed.", "solemn": "O wheel!"}
_SECOND, _THIRD = "It lost its chain and never looked back.", "A chain walks into a bar."


def _drafts(first: tuple[int, int, int], second: int, score: int, rounds: int, best: str) -> Case:
    scores = {
        **dict(zip(_ADS.values(), first, strict=True)),
        _SECOND: second,
        _THIRD: second - 1,
    }
    funny = "You write funny ads."

    def as_often(seen: Seen) -> Fault:
        asks = len(seen.messages)
        wanted = 6 + 2 * rounds
        return None if asks == wanted else f"models were asked {asks} times, not {wanted}"

    return Case(
        arguments=(_BRIEF,),
        model=(
            *(says(ad, answer=points, by="smart") for ad, points in scores.items()),
            says(_BRIEF, _SECOND, answer=_THIRD, system=funny, by="fast"),
            says(_BRIEF, _ADS["funny"], answer=_SECOND, system=funny, by="fast"),
            *(
                says(
                    _BRIEF,
                    answer=ad,
                    system=f"You write {kind} ads.",
                    by="fast",
                    without=tuple(_ADS.values()),
                )
                for kind, ad in _ADS.items()
            ),
        ),
        aliases=BOTH,
        result={"score": score, "rounds": rounds},
        written={"ad.txt": text_of(best)},
        spends_at_most=0.4,
        also=as_often,
    )


# 59 Receipts


def _receipt(vendor: str, date: str, total: int, *cents: int) -> dict[str, object]:
    items = [{"name": f"piece {n}", "cents": one} for n, one in enumerate(cents, 1)]
    return {"vendor": vendor, "date": date, "items": items, "total": total}


_RECEIPTS = Case(
    files={
        "receipts/r1.txt": "Kiosk, a paper and tea",
        "receipts/r2.txt": "Kiosk, a map",
        "receipts/r3.txt": "Nord and Sons, a shovel",
        "receipts/r4.txt": "Kiosk, new year's cards",
        "receipts/r5.txt": "Atlas, smudged",
        "receipts/r0.txt": "Globe, torn",
        "receipts/readme.md": "Nobody should read this.",
    },
    model=(
        says("a paper and tea", answer=_receipt("Kiosk", "2026-02-17", 350, 200, 150)),
        says("a map", answer=_receipt("Kiosk", "2026-02-03", 150, 150)),
        says("a shovel", answer=_receipt("Nord, Sons", "2026-02-28", 4000, 4000)),
        says("new year's cards", answer=_receipt("Kiosk", "2026-01-02", 90, 30, 30, 30)),
        says("smudged", answer=_receipt("Atlas", "2026-02-05", 700, 500, 100)),
        says("torn", answer=_receipt("Globe", "2026-03-05", 10)),
    ),
    result={"total": 4590, "doubtful": ["r0.txt", "r5.txt"]},
    written={
        "ledger.csv": csv_of(
            ("month", "vendor", "cents"),
            ("2026-01", "Kiosk", 90),
            ("2026-02", "Kiosk", 500),
            ("2026-02", "Nord, Sons", 4000),
        )
    },
)

# 60 A runbook

_STEPS = """\
[{"kind": "tell", "text": "We begin."},
 {"kind": "command", "name": "drain"},
 {"kind": "confirm", "text": "Shall the lights go out?"},
 {"kind": "command", "name": "switch"},
 {"kind": "check", "path": "/ready"},
 {"kind": "tell", "text": "We are done."}]
"""
_KINDS = ["tell", "command", "confirm", "command", "check", "tell"]


def _runbook(failed: int | None = None, *told: str) -> Case:
    begun = _KINDS[:failed]
    lines = [f"{n} {kind} ok" for n, kind in enumerate(begun, 1)]
    if failed:
        lines[-1] = f"{failed} {_KINDS[failed - 1]} failed"
    said = [text for n, text in ((1, "We begin."), (6, "We are done.")) if n <= len(begun)]
    switch = 'echo "the relay is stuck"; exit 6' if failed == 4 else "echo switched"
    body = Reply("still cold", 503) if failed == 5 else Reply("fine")
    return Case(
        arguments=(BASE,),
        files={
            "runbook.json": _STEPS,
            "scripts/drain.sh": "echo drained\n",
            "scripts/switch.sh": f"{switch}\n",
        },
        routes={"POST /chat": Reply("taken"), "GET /ready": body},
        model=(says(str(failed), *told, answer="Call Ira."),) if failed else (),
        person={"lights go out": "no" if failed == 3 else "yes"},
        result={
            "done": len(begun) - bool(failed),
            "advice": "Call Ira." if failed else None,
        },
        written={"runbook.log": text_of("\n".join(lines))},
        posted=tuple(("/chat", {"text": text}) for text in said),
        asked=(("Shall the lights go out?",),),
    )


CASES: Final[dict[str, tuple[Case, ...]]] = {
    "46": (_COUNTED,),
    "47": (_SURVEY,),
    "48": (_story(59, _BETTER, _TITLES[1]), _story(60, _CHAPTERS[1])),
    "49": (_CHANGED, _RESTORED, _KEYS_DECLINED),
    "50": (_LET,),
    "51": (_TWO_REMOVED, _NONE_REMOVED),
    "52": (_DIGEST,),
    "53": (_SURE,),
    "54": (_STRIKES,),
    "55": (_FIGURES,),
    "56": (_shards("west-2", "far-4"), _shards(), _shards("east-1", "mid-3", "far-4")),
    "57": (_AGREED_TIME, _NO_TIME, _NO_GOOD_TIME),
    "58": (
        _drafts((60, 80, 80), 85, 85, 3, _SECOND),
        _drafts((60, 80, 80), 92, 92, 1, _SECOND),
        _drafts((90, 80, 90), 95, 90, 0, _ADS["short"]),
    ),
    "59": (_RECEIPTS,),
    "60": (
        _runbook(),
        _runbook(4, "command", "the relay is stuck"),
        _runbook(5, "check", "still cold"),
        _runbook(3, "confirm"),
    ),
}
