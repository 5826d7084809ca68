"""Random programs that always end, with sends in every construct that a quote sees through."""

from random import Random

from vegakit.money import dollars


def nanos_of(amount: str) -> str:
    """`n400000`, or nothing."""
    return f"n{dollars(amount)}" if amount else ""


class Settings:
    """Of one agent, as the spiteful model needs to know them; they stand in its system text."""

    def __init__(self, chance: Random, name: str, *, is_fair: bool, with_tools: bool) -> None:
        self.name = name
        self.attempts = chance.choice([1, 1, 2, 3])
        self.steps = chance.choice([1, 2, 3, 5])
        self.max_tokens = chance.choice([10, 50, 200])
        self.budget = chance.choice(["", "", "$0.003" if is_fair else "$0.0004", "$0.01"])
        self.with_tools = with_tools

    def text(self, tools: str) -> str:
        budget = f"budget {self.budget}" if self.budget else ""
        return (
            f"agent {self.name} {{\n"
            f'    system "{self.attempts} {self.steps} {nanos_of(self.budget)}"\n'
            f"    max_tokens {self.max_tokens} max_steps {self.steps} {budget}\n"
            f"    retry {{ max_attempts {self.attempts} }}\n"
            f"    circuit_breaker {{ threshold 1000 }}\n{tools}}}\n"
        )


FLAGS = 40


class Writer:
    """`is_fair`: what branches it takes is up to its arguments, each `if` to one of its own, and
    most budgets have room for a call, so that the most expensive way through it can be taken."""

    def __init__(self, seed: int, *, is_fair: bool = False) -> None:
        self.chance = Random(seed)
        # A stream of its own: how types are bounded leaves the other choices as they were.
        self.sizes = Random(seed)
        self.is_fair = is_fair
        self.flags = 0
        self.deepest = self.chance.choice([0, 1, 1, 2, 2, 3])
        self.agents: list[str] = []
        self.free: list[str] = []
        self.tool_sends = False
        self.functions: list[str] = []
        self.count = 0
        self.walks_map = False

    def program(self) -> str:
        chance = self.chance
        parts = [f"type Plan {{ steps: {self._steps()}  sure: bool }}\n"]
        for name in ["A", "B"]:
            settings = Settings(chance, name, is_fair=self.is_fair, with_tools=False)
            parts.append(settings.text(""))
            self.free += [] if settings.budget else [name]
            self.agents.append(name)
        body = self._tool_body() if chance.random() < 0.2 else ""
        tool = f'    tool dig(what: str) -> str "Dig." {{\n{body}        return what;\n    }}\n'
        settings = Settings(chance, "T", is_fair=self.is_fair, with_tools=True)
        if self.is_fair:  # the usual part takes all there is, and starves who runs beside it
            settings.budget = "" if self.tool_sends else settings.budget or "$0.003"
        parts.append(settings.text(tool))
        self.agents.append("T")
        for number in range(chance.randint(0, 2)):
            budget = chance.choice(["", "", "budget $0.03 " if self.is_fair else "budget $0.002 "])
            budget = "" if self.tool_sends else budget
            item = self.sizes.choice(["str", "(str; 1)"])
            head = f"fn f{number}(xs: [{item}; 4], n: int, is: [bool]) -> [str; 4] {budget}{{\n"
            body = self._block(1, {"xs": "list", "n": "int"}, "    ")
            parts.append(f"{head}{body}    return xs;\n}}\n")
            self.functions.append(f"f{number}")
        body = self._block(0, {"given": "list"}, "    ")
        item = self.sizes.choice(["str", "(str; 1)"])
        parts.append(f"fn main(given: [{item}; 3], is: [bool]) {{\n{body}}}\n")
        return "\n".join(parts)

    def _steps(self) -> str:
        """A list or map of texts. A fair one is bounded beyond what an answer has: of a character
        the quote counts four bytes, and the model says two words in them."""
        sizes = ["(str; 600)", "str"] if self.is_fair else ["(str; 600)", "(str; 30)", "(str; 6)"]
        item, self.walks_map = self.sizes.choice(sizes), self.sizes.random() < 0.4
        return f"{{str: {item}; 3}}" if self.walks_map else f"[{item}; 3]"

    def _tool_body(self) -> str:
        """A fair one sends without budgets, as many of them run at once and would starve; what it
        says differs, so that a model can tell its sends apart."""
        if not self.is_fair:
            return self._block(9, {}, "        ")
        if not self.free:
            return ""
        self.tool_sends = True
        ask = f'{self.chance.choice(self.free)} <- "say {{str::slice(what, 0, 3)}}";'
        return self._guard(ask, "        ")

    def _block(self, depth: int, known: dict[str, str], indent: str) -> str:
        known = dict(known)
        lines = [
            self._statement(depth, known, indent) for _ in range(self.chance.choice([1, 1, 2]))
        ]
        return "".join(lines)

    def _fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def _statement(self, depth: int, known: dict[str, str], indent: str) -> str:
        kinds = ["send", "call", "build", "later", "process", "plan", "paid_process"]
        if depth < self.deepest:
            kinds += ["for", "while", "if", "try", "session", "parallel", "break", "typed", "grow"]
        return getattr(self, f"_{self.chance.choice(kinds)}")(depth, known, indent)

    def _guard(self, said: str, indent: str) -> str:
        """Most failures are caught, so that the rest of the program runs too."""
        return (
            f"{indent}try {{ {said} }} catch {{ }}\n"
            if self.chance.random() < 0.9
            else (f"{indent}{said}\n")
        )

    def _message(self, known: dict[str, str]) -> str:
        texts = [name for name, kind in known.items() if kind in ("str", "int")]
        if texts and self.chance.random() < 0.6:
            return f'"say {{{self.chance.choice(texts)}}} now"'
        return self.chance.choice(['"say it"', '"a b c d e f g h"', '"x"'])

    def _budget(self) -> str:
        small = " budget $0.002" if self.is_fair else " budget $0.0002"
        return self.chance.choice(["", "", "", " budget $0.003", small])

    def _ask(self, known: dict[str, str]) -> str:
        """The message says the budget, as the spiteful model needs to know it."""
        agent, message = self.chance.choice(self.agents), self._message(known)
        budget = self._budget()
        if budget and not (agent == "T" and self.tool_sends):
            message = f'{message[:-1]} {nanos_of(budget.removeprefix(" budget "))}"'
            return f"{agent} <- {message}{budget}"
        return f"{agent} <- {message}"

    def _send(self, depth: int, known: dict[str, str], indent: str) -> str:
        return self._guard(f"{self._ask(known)};", indent)

    def _typed(self, depth: int, known: dict[str, str], indent: str) -> str:
        name = self._fresh()
        inner = self._block(depth + 1, {**known, "s": "str"}, indent + "        ")
        return (
            f"{indent}try {{\n{indent}    let {name}: Plan = {self._ask(known)};\n"
            f"{indent}    for {'k, s' if self.walks_map else 's'} in {name}.steps {{\n"
            f"{inner}{indent}    }}\n"
            f"{indent}    if {name}.sure {{\n"
            f"{self._block(depth + 1, known, indent + '        ')}{indent}    }}\n"
            f"{indent}}} catch {{ }}\n"
        )

    def _plan(self, depth: int, known: dict[str, str], indent: str) -> str:
        return self._guard(f"{self._ask(known)} as Plan;", indent)

    def _paid_process(self, depth: int, known: dict[str, str], indent: str) -> str:
        """A process that pays for itself, asked inside a session of less. Its wallet is held as a
        whole, so that a fair one stands where nothing else could starve."""
        if self.is_fair and (depth or "given" not in known):
            return self._send(depth, known, indent)
        name, agent = self._fresh(), self.chance.choice(self.agents)
        asks = f"{name} <- {self._message(known)}; " * 2
        return f"{indent}let {name} = spawn {agent} wallet $0.02;\n" + self._guard(
            f"session budget $0.0003 {{ {asks}}}", indent
        )

    def _call(self, depth: int, known: dict[str, str], indent: str) -> str:
        if not self.functions:
            return self._send(depth, known, indent)
        given = self.chance.choice(['["p"]', '["p", "q"]', '["p", "q", "r", "s"]'])
        call = f"{self.chance.choice(self.functions)}({given}, 3, is);"
        return self._guard(call, indent) + self._guard(call, indent) * self.chance.randint(0, 1)

    def _grow(self, depth: int, known: dict[str, str], indent: str) -> str:
        name, more = self._fresh(), self.chance.choice(['["x"]', '["x", "y"]'])
        rounds = self._iterable(known)
        leave = self.chance.choice(["", f" if len({name}) > 3 {{ break; }} {name} = [];"])
        if leave:
            more = '["x", "y", "z"]'
        known[name] = "long"
        inner = self._block(depth + 1, known, indent + "    ")
        return (
            f'{indent}let {name} = ["s"];\n{indent}for i in {rounds} '
            f"{{ {name} = {name} + {more};{leave} }}\n"
            f"{indent}for t in {name} {{\n{inner}{indent}}}\n"
        )

    def _build(self, depth: int, known: dict[str, str], indent: str) -> str:
        name = self._fresh()
        return self._guard(
            f"let {name} = [for i in {self._iterable(known)} {{ {self._ask(known)} }}];", indent
        )

    def _later(self, depth: int, known: dict[str, str], indent: str) -> str:
        one, two = self._fresh(), self._fresh()
        return self._guard(
            f"let {one} = async {self._ask(known)}; let {two} = async {self._ask(known)}; "
            f"await {one}; await {two};",
            indent,
        )

    def _process(self, depth: int, known: dict[str, str], indent: str) -> str:
        name, wallet = self._fresh(), self.chance.choice(["", " wallet $0.002"])
        agent, rounds = self.chance.choice(self.agents), self.chance.randint(1, 3)
        return self._guard(
            f"let {name} = spawn {agent}{wallet}; "
            f"for i in range({rounds}) {{ {name} <- {self._message(known)}; }}",
            indent,
        )

    def _iterable(self, known: dict[str, str]) -> str:
        lists = [name for name, kind in known.items() if kind == "list"]
        options = ["range(2)", "range(1, 3)", '["l", "m"]', "range(1)", *lists]
        return self.chance.choice(options)

    def _for(self, depth: int, known: dict[str, str], indent: str) -> str:
        inner = self._block(depth + 1, known, indent + "    ")
        return f"{indent}for i in {self._iterable(known)} {{\n{inner}{indent}}}\n"

    def _while(self, depth: int, known: dict[str, str], indent: str) -> str:
        inner = self._block(depth + 1, known, indent + "    ")
        word = "fine" if self.is_fair else ""
        test = self.chance.choice(["true", f'({self._ask(known)}) != "{word}"'])
        return self._guard(
            f"while {test} limit {self.chance.randint(0, 2)} {{\n{inner}{indent}}}", indent
        )

    def _if(self, depth: int, known: dict[str, str], indent: str) -> str:
        name = self._fresh()
        test = self.chance.choice(["len(given) > 1" if "given" in known else "1 < 2", "2 < 1"])
        if self.is_fair:
            self.flags += 1
            test = f"is[{self.flags - 1}]"
        then = self._block(depth + 1, known, indent + "    ")
        other = self._block(depth + 1, known, indent + "    ")
        return (
            f"{indent}let {name} = {test};\n{indent}if {name} {{\n{then}{indent}}} else "
            f"{{\n{other}{indent}}}\n"
        )

    def _break(self, depth: int, known: dict[str, str], indent: str) -> str:
        inner = self._block(depth + 1, known, indent + "    ")
        return (
            f"{indent}for i in {self._iterable(known)} {{\n{inner}{indent}    break;\n{indent}}}\n"
        )

    def _try(self, depth: int, known: dict[str, str], indent: str) -> str:
        inner = self._block(depth + 1, known, indent + "    ")
        handler = self._block(depth + 1, known, indent + "    ")
        failing = f'{inner}{indent}    fail("no");\n'
        return f"{indent}try {{\n{failing}{indent}}} catch {{\n{handler}{indent}}}\n"

    def _session(self, depth: int, known: dict[str, str], indent: str) -> str:
        inner = self._block(depth + 1, known, indent + "    ")
        cap = self.chance.choice(["$0.005", "$0.0005", "$0.02"])
        if self.is_fair:
            tight = len(self.free) == len(self.agents) - 1
            caps = "$0.06 $0.03 $0.024 $0.012" if tight else "$0.6 $0.4 $0.2 $0.12"
            if "given" not in known:  # a function, which only later ones and main call
                caps = "$0.005 $0.011" if tight else "$0.05 $0.11"
                depth = len(self.functions)
            caps = "$9 $8 $7 $6" if self.tool_sends else caps
            cap = caps.split()[min(depth, 3)]
            return f"{indent}session budget {cap} {{\n{inner}{indent}}} catch {{ }}\n"
        return (
            f"{indent}session budget {cap} {{\n{inner}{indent}}} catch {{ {self._ask(known)}; }}\n"
        )

    def _parallel(self, depth: int, known: dict[str, str], indent: str) -> str:
        one, two = self._ask(known), self._ask(known)
        return (
            f"{indent}parallel {{\n{indent}    {one};\n{indent}    {two};\n{indent}}} catch {{ }}\n"
        )
