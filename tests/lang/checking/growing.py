"""Programs that grow statement by statement: each is random, and kept if the checker lets it pass.

Most expressions have the type that is wanted; some may be null, and a few have another type. So a
checker that lets too much pass makes programs that fail when they run.
"""

from random import Random

from tests.lang.checking.programs import errors, in_function

STATEMENTS = 6
TRIES = 4
WRONG = 0.1
FORMS: dict[str, list[str]] = {
    "int": ["i", "1", "len(<str>)", "<int> + <int>", "<int> - 2", "ns[0]", "str::len(<str>)",
            'by["a"]', "len(<ints>)", "list::index_of(<ints>, <int>) ?? <int>", "twice(<int>)",
            "math::max(<int>, <int>)", "<int> * 2 % 5", "v3"],
    "float": ["x", "2.5", "2", "<float> * <int>", "<float> + 1", "float(<int>)", "m / m", "v4",
              "math::max(<float>, 1)", "math::sqrt(2)"],
    "str": ["s", '"a"', "f.file", "<str> + <str>", "str::trim(<str>)", "<maybe> ?? <str>",
            "<maybe>", "<maybe>", "<maybe>", "f.severity", "few[0]", "str(<int>)", "v5",
            '"{<int>} {i}"', "str::join([<str>, <str>], <str>)", "<finding>.file", "sev",
            "shout(<str>)"],
    "maybe": ["o", "f.note", "v2", "fo.note", "v1", "null", "<str>", "list::first(few)",
              "<finding>.note"],
    "bool": ["b", "<int> < <int>", "<str> == <str>", "not <bool>", "(<bool> and <bool>)",
             "(<bool> or <bool>)", "<place> != null", "<place> == null", "<place> != null",
             '<str> in few', 'sev == "low"', "<int> in <ints>", "not (<place> == null)"],
    "place": ["o", "f.note", "v2", "fo", "fo.note", "v1"],
    "finding": ["f", "fs[0]", 'Finding(file: <str>, severity: "low", note: <maybe>)', "fo", "v6"],
    "ints": ["ns", "[]", "[<int>]", "ns + [<int>]", "[for q in <ints> if <bool> { q }]", "range(3)",
             "v0", "list::sort(<ints>)", "v0 + <ints>"],
    "money": ["m", "$1", "m * <int>", "m * <float>", "<money> + m"],
    "any": ["a", "json::parse(<str>)"],
}  # fmt: skip
LETS = {"v3": "int", "v4": "float", "v5": "str", "v2": "maybe", "v6": "finding", "v0": "ints"}
ASSIGNED = {**LETS, "o": "maybe", "f.note": "maybe", "f": "finding", "v1": "maybe", "i": "int"}
START = (
    "let v0 = []; let v1 = null; let v2: str? = s; let v3 = 0; let v4 = 0.5; let v5 = s;"
    " let v6 = f;"
)


def grown(seed: int) -> str:
    """A function `probe` of statements that have little to do with each other."""
    chance, body = Random(seed), [START]
    for _ in range(STATEMENTS):
        for _ in range(TRIES):
            new = _statement(chance, 2)
            if not errors(in_function(" ".join([*body, new]))):
                body.append(new)
                break
    return in_function(" ".join(body))


def _statement(chance: Random, depth: int) -> str:
    match chance.randrange(11 if depth else 5):
        case 0:
            name = chance.choice([*LETS])
            return f"let {name} = {_value(chance, LETS[name])};"
        case 1 | 2:
            name = chance.choice([*ASSIGNED])
            return f"{name} = {_value(chance, ASSIGNED[name])};"
        case 3 | 4:
            return (
                f"print({_value(chance, chance.choice(['str', 'str', 'int', 'any', 'finding']))});"
            )
        case 5 | 6 | 7:
            other = f" else {{ {_block(chance, depth)} }}" if chance.random() < 0.4 else ""
            return f"if {_value(chance, 'bool')} {{ {_block(chance, depth)} }}{other}"
        case 8:
            return f"while {_value(chance, 'bool')} limit 3 {{ {_block(chance, depth)} }}"
        case 9:
            return f"for v3 in {_value(chance, 'ints')} {{ {_block(chance, depth)} }}"
        case _:
            return f"try {{ {_block(chance, depth)} }} catch {{ {_block(chance, depth)} }}"


def _block(chance: Random, depth: int) -> str:
    some = [_statement(chance, depth - 1) for _ in range(chance.randint(1, 3))]
    if chance.random() < 0.2:
        some.append(chance.choice(["return;", "break;", "continue;", 'fail("x");']))
    return " ".join(some)


def _value(chance: Random, kind: str, depth: int = 3) -> str:
    if chance.random() < WRONG:
        kind = chance.choice([*FORMS])
    forms = FORMS[kind] if depth else [form for form in FORMS[kind] if "<" not in form]
    form = chance.choice(forms)
    while "<" in form and (at := _hole(form)) is not None:
        start, end = at
        form = form[:start] + _value(chance, form[start + 1 : end], depth - 1) + form[end + 1 :]
    return form


def _hole(form: str) -> tuple[int, int] | None:
    for kind in FORMS:
        start = form.find(f"<{kind}>")
        if start >= 0:
            return start, start + len(kind) + 1
    return None
