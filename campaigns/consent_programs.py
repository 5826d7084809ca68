"""Random programs with questions, guards and work in every place that a program has for them.

Every send and every question says where it stands in the order of the program: `[2.0.1]` is the
second statement of what the first round of the third does. So the order of any two is known,
whether the program comes to them or not.
"""

from random import Random

__all__ = ["APPROVE", "places_of", "program"]

AGENTS = """\
agent Guard { model guard  max_tokens 5 }
agent Work { model work  max_tokens 300 }
agent Shaky { model shaky  max_tokens 50 }
agent Asker { model asker  max_tokens 50  tools [person]  budget $1 }
tool person(place: str) -> str "Ask a person." idempotent {
    return human::ask("asked [{place}]", 1h) ?? "";
}
"""
APPROVE = 'human::approve("may we? [{at}]", 1h)'
ASK = 'human::ask("which word? [{at}]", 1h)'
_DEEPEST = 3
_MOST_STATEMENTS = 4

FORMS = {
    "work": 8,
    "chain": 3,
    "burst": 1,
    "guard": 4,
    "cast guard": 2,
    "return guard": 1,
    "question": 3,
    "cast question": 1,
    "helper": 5,
    "tool": 1,
    "try": 4,
    "loop": 4,
    "branch": 2,
    "asker": 1,
    "shaky": 1,
}
"""How often each form of a statement is written."""


class _Writer:
    """Writes one program. `calm` leaves out what fails by itself."""

    def __init__(self, chance: Random, *, calm: bool) -> None:
        self._chance = chance
        self._functions: list[str] = []
        self._names = 0
        forms = {**FORMS}
        if calm:
            del forms["shaky"]
        self._forms, self._weights = [*forms], [*forms.values()]

    def whole(self) -> str:
        body = self.body("", 0, 3 + self._chance.randrange(_MOST_STATEMENTS))
        functions = "\n".join(self._functions)
        return f'{AGENTS}{functions}\nfn main() {{\n{body}\nprint("done");\n}}\n'

    def fresh(self) -> str:
        self._names += 1
        return f"x{self._names}"

    def body(self, before: str, depth: int, count: int = 0) -> str:
        """Return statements. `before` is their place as text of the program, without the last."""
        count = count or 1 + self._chance.randrange(_MOST_STATEMENTS)
        return "\n".join(self.statement(f"{before}{at}", depth) for at in range(count))

    def statement(self, at: str, depth: int) -> str:
        (form,) = self._chance.choices(self._forms, self._weights)
        if depth >= _DEEPEST and form in ("helper", "tool", "try", "loop", "branch"):
            form = "work"
        return getattr(self, "_" + form.replace(" ", "_"))(at, depth)

    def _work(self, at: str, depth: int) -> str:
        return f'print(Work <- "work [{at}]");'

    def _chain(self, at: str, depth: int) -> str:
        name = self.fresh()
        return (
            f'let {name} = Work <- "work [{at}.0]";\n'
            f'print(Work <- "work [{at}.1] after {{{name}}}");'
        )

    def _burst(self, at: str, depth: int) -> str:
        name = self.fresh()
        send = f'print(Work <- "work [{at}.{{{name}}}]");'
        return f"for {name} in range(30) {{ {send} }}"

    def _shaky(self, at: str, depth: int) -> str:
        return f'print(Shaky <- "shaky [{at}]");'

    def _asker(self, at: str, depth: int) -> str:
        return f'print(Asker <- "asker [{at}]");'

    def _guard(self, at: str, depth: int) -> str:
        name, fails = self.fresh(), f'fail("refused [{at}]");'
        send = f'let {name} = Guard <- "guard [{at}]";\n'
        if self._chance.random() < 0.5:
            return f'{send}if {name} != "yes" {{ {fails} }}'
        return f'{send}if {name} == "yes" {{ print("passed [{at}]"); }} else {{ {fails} }}'

    def _return_guard(self, at: str, depth: int) -> str:
        name = self.fresh()
        return f'let {name} = Guard <- "guard [{at}]";\nif {name} != "yes" {{ return; }}'

    def _cast_guard(self, at: str, depth: int) -> str:
        return f'let {self.fresh()} = (Guard <- "guard [{at}]") as "yes";'

    def _question(self, at: str, depth: int) -> str:
        approve = APPROVE.format(at=at)
        if self._chance.random() < 0.3:
            return f'print({ASK.format(at=at)} ?? "none");'
        ends = "return;" if self._chance.random() < 0.2 else f'fail("denied [{at}]");'
        return f"if not {approve} {{ {ends} }}"

    def _cast_question(self, at: str, depth: int) -> str:
        return f'let {self.fresh()} = {ASK.format(at=at)} as "GO";'

    def _helper(self, at: str, depth: int) -> str:
        name = f"f{len(self._functions)}_{self.fresh()}"
        body = self.body("{at}.", depth + 1)
        self._functions.append(f"fn {name}(at: str) {{\n{body}\n}}")
        return f'{name}("{at}");'

    def _tool(self, at: str, depth: int) -> str:
        name = f"t{len(self._functions)}_{self.fresh()}"
        body = self.body("{at}.", depth + 1).replace("return;", 'return "early";')
        self._functions.append(f'tool {name}(at: str) -> str "Do." {{\n{body}\nreturn "ok"; }}')
        return f'print({name}("{at}"));'

    def _try(self, at: str, depth: int) -> str:
        kind = self._chance.choice(("", "", " Failed", " ContractViolated"))
        body, caught = self.body(f"{at}.0.", depth + 1), self.body(f"{at}.1.", depth + 1)
        return f"try {{\n{body}\n}} catch{kind} {{\n{caught}\n}}"

    def _loop(self, at: str, depth: int) -> str:
        name, rounds = self.fresh(), self._chance.randint(2, 4)
        body = self.body(f"{at}.{{{name}}}.", depth + 1)
        return f"for {name} in range({rounds}) {{\n{body}\n}}"

    def _branch(self, at: str, depth: int) -> str:
        name = self.fresh()
        then, other = self.body(f"{at}.1.", depth + 1), self.body(f"{at}.2.", depth + 1)
        test = f'let {name} = Guard <- "guard [{at}.0]";\n'
        return f'{test}if {name} == "yes" {{\n{then}\n}} else {{\n{other}\n}}'


def program(seed: int, *, calm: bool) -> str:
    """Return the program of a seed; in a `calm` one no call fails."""
    return _Writer(Random(seed), calm=calm).whole()


def places_of(text: str) -> tuple[int, ...]:
    """Return the place that a send or a question tells, for comparison."""
    told = text[text.index("[") + 1 : text.index("]")]
    return tuple(map(int, told.split(".")))
