"""Generated Vega programs over all constructs, each the same for the same seed.

Every message carries the number of the place that sends it and all that tells one pass of it from
another, so no two calls of an undisturbed run ask the same: a request that arrives twice is a call
that was bought, or begun, twice. Most messages also carry `k`, which handlers of errors change, and
many an earlier answer: what is asked later depends on what came before.

`catch` handlers name `AgentFailed`, which the provider decides by the text alone. Only programs of
the kind `capped` catch `BudgetExceeded`: what is left of a budget depends on calls that a kill cut
off, so their output is not compared.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

__all__ = ["BURST", "Written", "write"]

BURST = 60
WINDOWS = (0, 1, 8, 64)
_DEEPEST = 2
_PRINTED = re.compile(r"print\((.*)\);")
_HEAD = """
type Plan { steps: [str; 3]  sure: bool  weight: int }
type Level = "low" | "mid" | "high"

agent A { model fast  max_tokens 100 }
agent B { model fast  max_tokens 60  system "You are brief." }
agent Keeper { model fast  max_tokens 100  memory conversation }
agent Clerk {
    model fast
    max_tokens 100
    tool look(word: str) -> str "Look it up." idempotent {
        return "seen {word}";
    }
}
agent Relay {
    model fast
    max_tokens 100
    tool pass_on(word: str) -> str "Ask another." idempotent {
        return A <- "passed {word}";
    }
}
"""


@dataclass(frozen=True)
class Written:
    """A program, and how it is run. `is_compared`: its output follows from the answers alone."""

    seed: int
    source: str
    window: int
    is_bound: bool
    is_compared: bool
    asks_people: bool


def write(seed: int) -> Written:
    return _Writer(Random(seed), seed).program()


class _Writer:
    def __init__(self, chance: Random, seed: int) -> None:
        self._chance, self._seed = chance, seed
        self._places = 0
        self._functions: list[str] = []
        self._capped = chance.random() < 0.15
        self._is_bound = chance.random() < 0.5
        self._asks_people = False
        self._in_main = False
        self._bursts = 1 if chance.random() < 0.35 else 0
        self._ways: list[tuple[int, Callable[[int], list[str]]]] = [
            (6, self._ask),
            (4, self._chain),
            (5, self._changed_by_handler),
            (5, self._loop),
            (4, self._course),
            (2, self._while),
            (3, self._branch),
            (3, self._parallel),
            (3, self._fan_out),
            (3, self._stream),
            (3, self._tool),
            (3, self._typed),
            (3, self._spawned),
            (2, self._remembered),
            (2, self._supervised),
            (3, self._session),
            (1, self._person),
            (1, self._wait),
            (3, self._call),
        ]

    def program(self) -> Written:
        functions = [self._function() for _ in range(self._chance.choice([0, 1, 2]))]
        body = ['let last = "start";', "let k = 0;"]
        self._in_main = True
        for _ in range(self._chance.randint(4, 7)):
            body += self._statement(0)
        if self._bursts:
            body += self._burst()
        body += ['print("{last} {k}");', 'return "{k} {last}";']
        main = "\n".join(["fn main() -> str {", *_indented(body), "}"])
        return Written(
            self._seed,
            "\n\n".join([_HEAD, *functions, main]) + "\n",
            self._chance.choice(WINDOWS),
            self._is_bound,
            not self._capped,
            self._asks_people,
        )

    def _function(self) -> str:
        """It sees neither `k` nor `last` of main, but its own. It may run beside others, so it
        gives back what it has to show: who prints first would be chance."""
        name = f"f{len(self._functions)}"
        body = ["let last = a;", "let k = n;", 'let out = "";']
        for _ in range(self._chance.randint(1, 3)):
            body += self._statement(1)
        kept = [_PRINTED.sub(r'out = out + (\1) + "; ";', line) for line in body]
        kept += ['return "{last} {k} {out}";']
        self._functions.append(name)
        return "\n".join([f"fn {name}(a: str, n: int) -> str {{", *_indented(kept), "}"])

    def _statement(self, depth: int) -> list[str]:
        nested = (self._branch, self._session, self._person)
        ways = [way for way in self._ways if depth < _DEEPEST or way[1] not in nested]
        [(_, write)] = self._chance.choices(ways, [weight for weight, _ in ways])
        return write(depth)

    def _block(self, depth: int) -> list[str]:
        return [
            line for _ in range(self._chance.choice([1, 1, 2])) for line in self._statement(depth)
        ]

    # Messages

    def _place(self) -> int:
        self._places += 1
        return self._places

    def _message(self, *more: str, may_fail: bool = False) -> str:
        words = [f"q{self._place()}", *more, "{k}"]
        if self._chance.random() < 0.3:
            words.append("{last}")
        if may_fail:
            words.append("MAY")
        if self._chance.random() < 0.1:
            words.append("BUSY")
        if self._chance.random() < 0.05:
            words.append("SLOW")
        return f'"{" ".join(words)}"'

    def _agent(self) -> str:
        return self._chance.choice(["A", "A", "B"])

    def _name(self, letter: str) -> str:
        return f"{letter}{self._place()}"

    # Statements

    def _ask(self, depth: int) -> list[str]:
        name = self._name("t")
        return [f"let {name} = {self._agent()} <- {self._message()};", f"print({name});"]

    def _chain(self, depth: int) -> list[str]:
        return [f"last = {self._agent()} <- {self._message()};"]

    def _changed_by_handler(self, depth: int) -> list[str]:
        """A failure changes what all later calls ask."""
        name = self._name("t")
        return [
            "try {",
            f"    let {name} = {self._agent()} <- {self._message(may_fail=True)};",
            f"    print({name});",
            "} catch AgentFailed {",
            "    k = k + 1;",
            "}",
        ]

    def _loop(self, depth: int) -> list[str]:
        index, name = self._name("i"), self._name("t")
        asked = f"let {name} = {self._agent()} <- "
        count = self._chance.randint(2, 6)
        if self._chance.random() < 0.5:
            text = self._message(f"{{{index}}}", may_fail=True)
            body = ["try {", f"    {asked}{text};", f"    print({name});"]
            body += ["} catch AgentFailed {", "    k = k + 1;", "}"]
        else:
            body = [f"{asked}{self._message(f'{{{index}}}')};", f'print("{{{index}}} {{{name}}}");']
        return [f"for {index} in range({count}) {{", *_indented(body), "}"]

    def _course(self, depth: int) -> list[str]:
        """Failures here and there change what is asked far ahead, while much is begun early."""
        outer, inner, name = self._name("r"), self._name("i"), self._name("t")
        first = self._message(f"{{{outer}}}", may_fail=True)
        text = self._message(f"{{{outer}}}.{{{inner}}}", may_fail=True)
        handler = ["} catch AgentFailed {", "    k = k + 1;", "}"]
        tried = [f"let {name} = A <- {text};", f"print({name});"]
        loop = ["try {", *_indented(tried), *handler]
        body = ["try {", f"    print(A <- {first});", *handler]
        body += [f"for {inner} in range({self._chance.randint(3, 6)}) {{", *_indented(loop), "}"]
        return [f"for {outer} in range({self._chance.randint(2, 4)}) {{", *_indented(body), "}"]

    def _while(self, depth: int) -> list[str]:
        count = self._name("c")
        text = self._message(f"{{{count}}}")
        return [
            f"let {count} = 0;",
            f"while {count} < {self._chance.randint(1, 3)} limit 5 {{",
            f"    last = {self._agent()} <- {text};",
            f"    {count} = {count} + 1;",
            "}",
        ]

    def _branch(self, depth: int) -> list[str]:
        """Nobody knows which way is gone before the answer is there."""
        name = self._name("t")
        return [
            f"let {name} = {self._agent()} <- {self._message()};",
            f"if len({name}) % 2 == 0 {{",
            *_indented(self._block(depth + 1)),
            "} else {",
            "    k = k + 10;",
            "}",
        ]

    def _parallel(self, depth: int) -> list[str]:
        names = [self._name("p") for _ in range(self._chance.choice([2, 3, 3]))]
        asked: list[str] = []
        for name in names:
            call = f"{self._agent()} <- {self._message()}"
            if self._functions and self._chance.random() < 0.3:
                call = self._calling()
            asked.append(f"let {name} = {call};")
        told = " ".join(f"{{{name}}}" for name in names)
        return ["parallel {", *_indented(asked), "}", f'print("{told}");']

    def _fan_out(self, depth: int) -> list[str]:
        return self._futures(self._chance.randint(3, 8))

    def _burst(self) -> list[str]:
        """Sixty answers within a few milliseconds; by futures, or by what may be begun early."""
        if self._chance.random() < 0.5:
            return self._futures(BURST)
        index, name = self._name("i"), self._name("t")
        text = self._message(f"{{{index}}}")
        return [
            f"for {index} in range({BURST}) {{",
            f"    let {name} = A <- {text};",
            f"    print({name});",
            "}",
        ]

    def _futures(self, count: int) -> list[str]:
        index, all_, one = self._name("i"), self._name("fs"), self._name("f")
        text = self._message(f"{{{index}}}")
        asked = f"[for {index} in range({count}) {{ async {self._agent()} <- {text} }}]"
        return [f"let {all_} = {asked};", f"for {one} in {all_} {{ print(await {one}); }}"]

    def _stream(self, depth: int) -> list[str]:
        """Where pieces end is the wire's business, so only their sum is shown."""
        all_, piece = self._name("s"), self._name("c")
        return [
            f'let {all_} = "";',
            f"for {piece} in {self._agent()} <~ {self._message()} {{",
            f"    {all_} = {all_} + {piece};",
            "}",
            f"print({all_});",
        ]

    def _tool(self, depth: int) -> list[str]:
        agent = self._chance.choice(["Clerk", "Clerk", "Relay"])
        return [f"print({agent} <- {self._message()});"]

    def _typed(self, depth: int) -> list[str]:
        name = self._name("y")
        kind, told = self._chance.choice(
            [("int", name), ("bool", name), ("Plan", f"{name}.weight"), ("Level", name)]
        )
        lines = [f"let {name}: {kind} = {self._agent()} <- {self._message()};"]
        if kind == "int":
            lines.append(f"k = k + {name};")
        if kind == "Plan":
            step = self._name("i")
            text = self._message(f"{{{step}}}", f"{{{name}.steps[{step}]}}")
            lines += [
                f"for {step} in range(len({name}.steps)) {{",
                f"    last = {self._agent()} <- {text};",
                "}",
            ]
        return [*lines, f'print("{{{told}}}");']

    def _spawned(self, depth: int) -> list[str]:
        """Without memory, so that its messages may run at once."""
        process = self._name("p")
        has_wallet = self._in_main and not self._is_bound and self._chance.random() < 0.3
        wallet = " wallet $0.10" if has_wallet else ""
        asked = [f"print({process} <- {self._message()});" for _ in range(3)]
        return [f"let {process} = spawn A{wallet};", *asked]

    def _remembered(self, depth: int) -> list[str]:
        process = self._name("p")
        return [
            f"let {process} = spawn Keeper;",
            f"{process} <- {self._message()};",
            f"print({process} <- {self._message()});",
            f"last = {process} <- {self._message()};",
        ]

    def _supervised(self, depth: int) -> list[str]:
        process = self._name("p")
        rules = self._chance.choice(
            ["strategy restart  max_restarts 2  window 60s", "strategy stop"]
        )
        return [
            f"let {process} = spawn A supervised by {{ {rules} }};",
            f"print({process} <- {self._message()});",
            "try {",
            f"    print({process} <- {self._message(may_fail=True)});",
            "} catch AgentFailed {",
            "    k = k + 1;",
            "}",
        ]

    def _session(self, depth: int) -> list[str]:
        """One that binds is caught, and its output is then not compared. What a session may spend
        is set aside at once, so under a budget that binds there are no large ones."""
        body = self._block(depth + 1)
        if self._capped:
            caught = ["} catch BudgetExceeded {", '    print("poor");', "    k = k + 100;", "}"]
            amount = self._chance.choice(["$0.0008", "$0.0015", "$0.003"])
            return [f"session budget {amount} {{", *_indented(body), *caught]
        if self._is_bound:
            return body
        return [f"session budget {self._room(depth)} {{", *_indented(body), "}"]

    def _room(self, depth: int) -> str:
        """Each fits, three times, into those that it can stand in."""
        if self._in_main:
            return ("$4.00", "$1.90")[depth]
        return f"${0.1 + 0.25 * len(self._functions) - 0.03 * depth:.2f}"

    def _person(self, depth: int) -> list[str]:
        self._asks_people = True
        name = self._name("w")
        if self._chance.random() < 0.5:
            asked = f'(human::ask("h{self._place()} {{k}}", 1h) ?? "")'
            return [f"let {name} = {asked};", f"last = A <- {self._message(f'{{{name}}}')};"]
        asked = f'human::approve("h{self._place()} {{k}}", 1h)'
        return [f"if {asked} {{", *_indented(self._block(depth + 1)), "}"]

    def _wait(self, depth: int) -> list[str]:
        return [f"process::sleep({self._chance.choice(['1ms', '20ms', '60ms'])});"]

    def _call(self, depth: int) -> list[str]:
        if not self._functions:
            return self._ask(depth)
        name = self._name("t")
        return [f"let {name} = {self._calling()};", f"print({name});"]

    def _calling(self) -> str:
        """With a number of its own, which all messages of the function carry as `k`."""
        function = self._chance.choice(self._functions)
        return f'{function}("{self._place()} {{k}}", {1_000 * self._place()})'


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
