"""Random programs that are right in form: every construct of the grammar, in any layout.

    source(seed)            a program, the same for the same seed
    tokens(seed)            the same as a list of tokens, to be joined or broken
    joined(tokens, chance)  tokens as text, with blanks, line breaks and comments between them
    mutated(seed)           a program with a few tokens dropped, doubled, swapped or replaced

Names are not declared and types do not fit: only the form is meant. A token may be a whole string
with interpolations inside.
"""

from itertools import chain
from random import Random

MAX_DEPTH = 4
NAMES = (
    "a b x total item Coder Reviewer read_file naïve 変数 Größe model system budget timeout window "
    "strategy wallet named supervised by limit memory type use tool agent program monitor may str "
    "tools on mcp yaml children speculate idempotent".split()
)
WORDS = "restart stop queue exponential ask block conversation high smart fast rate_limit".split()
LIBRARY = ["len", "str::trim", "budget::remaining", "list::sort", "text::shout"]
LEVELS = {
    1: ["??"],
    2: ["or"],
    3: ["and"],
    5: "== != < <= > >= in".split(),
    6: ["+", "-"],
    7: ["*", "/", "%"],
}
OPERATORS = frozenset(chain(*LEVELS.values()))
PERIODS = ["$5/day", "$0.50/hour", "$100/month"]
LOOSE = frozenset("( ) [ ] { } , ;".split())
ODD_TOKENS = (
    "( ) [ ] { } , ; : :: . = == != < <= > >= + - * / % <- <~ -> ?? ? | let fn if else for in "
    "while try catch return session parallel spawn async await race not and or as true null 1 2.5 "
    '$3 "t" 30s x agent tool type use program supervisor monitor budget may tools retry'
).split()


def source(seed: int) -> str:
    chance = Random(seed)
    return joined(_Writer(chance).program(), chance)


def tokens(seed: int) -> list[str]:
    return _Writer(Random(seed)).program()


def mutated(seed: int) -> str:
    """Short, and mostly with one change: so a good part of them is still right in form."""
    chance = Random(seed)
    words = _Writer(chance).item()
    for _ in range(chance.choice([1, 1, 1, 2])):
        _mutate(words, chance)
    return joined(words, chance)


def _mutate(words: list[str], chance: Random) -> None:
    at = chance.randrange(len(words) + 1)
    match chance.randrange(7):
        case 0:
            del words[at : at + 1]
        case 1:
            words.insert(at, chance.choice(ODD_TOKENS))
        case 2:
            words[at : at + 1] = [chance.choice(ODD_TOKENS)]
        case 3:
            words[at : at + 2] = reversed(words[at : at + 2])
        case 4:
            words[at:at] = words[at : at + chance.randint(1, 4)]
        case _:
            places = [i for i, word in enumerate(words) if word in OPERATORS]
            if places:
                at = chance.choice(places)
                more = [chance.choice(chance.choice(list(LEVELS.values()))), "x"]
                words[at : at + chance.randrange(2)] = [*more, words[at]]


def joined(words: list[str], chance: Random) -> str:
    """Any layout means the same, but that words must not run together."""
    dense = chance.random() < 0.3
    parts: list[str] = []
    for i, word in enumerate(words):
        parts.append(word)
        follows = words[i + 1] if i + 1 < len(words) else ";"
        parts.append(_gap(word, follows, dense, chance))
    return "".join(parts)


def _gap(word: str, follows: str, dense: bool, chance: Random) -> str:
    draw = chance.random()
    if draw < 0.01:
        return " /* a note */ "
    if draw < 0.02:
        return ' // a note { ( "\n'
    if draw < 0.10 or (word in ";{}" and draw < 0.8):
        return "\n" + "    " * chance.randrange(3)
    if (dense or draw < 0.5) and (word in LOOSE or follows in LOOSE):
        return ""
    return "\t" if draw > 0.98 else " "


class _Writer:
    """Each method gives the tokens of one rule; `depth` keeps them from growing for ever."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        # A stream of its own: a new way to write a type leaves the other choices as they were.
        self.sizes = Random(chance.getstate()[1][0])

    def one(self, *choices: str) -> str:
        return self.chance.choice(choices)

    def maybe(self, words: list[str], share: float = 0.4) -> list[str]:
        return words if self.chance.random() < share else []

    def some(self, most: int = 3, least: int = 0) -> range:
        return range(self.chance.randint(least, most))

    def name(self) -> list[str]:
        return [self.chance.choice(NAMES)]

    def path(self) -> list[str]:
        return [*self.name(), *self.maybe(["::", *self.name()], 0.2)]

    def series(self, opening: str, items: list[list[str]], closing: str) -> list[str]:
        words = [opening]
        for i, item in enumerate(items):
            words += [*([","] if i else []), *item]
        return [*words, *(self.maybe([","], 0.2) if items else []), closing]

    # Programs and declarations

    def program(self) -> list[str]:
        words = self.maybe(self.header(), 0.2)
        for _ in self.some(4, 1):
            words += self.item()
        return words

    def item(self) -> list[str]:
        return self.statement(0) if self.chance.random() < 0.4 else self.declaration()

    def header(self) -> list[str]:
        return ["program", *self.grants("may", least=1), *self.maybe([";"])]

    def declaration(self) -> list[str]:
        choices = [self.use, self.type_decl, self.function, self.tool, self.agent, self.supervisor]
        return self.chance.choice(choices)()

    def use(self) -> list[str]:
        words = ["use", *self.maybe(["mcp"], 0.5), self.plain()]
        name, end = self.maybe(["as", *self.name()]), self.maybe([";"])
        # By what was drawn already, so that all other programs of a seed stay as they are.
        if name and "mcp" not in words and len(words[-1]) % 2:
            return ["node", *name[1:], "=", words[-1], *end]
        return [*words, *name, *end]

    def type_decl(self) -> list[str]:
        if self.chance.random() < 0.3:
            return ["type", *self.name(), "=", *self.type(0), *self.maybe([";"])]
        words = ["type", *self.name(), "{"]
        for _ in self.some():
            words += [*self.name(), ":", *self.type(0), *self.maybe([","])]
        return [*words, "}"]

    def signature(self) -> list[str]:
        params = [[*self.name(), ":", *self.type(1)] for _ in self.some()]
        return [*self.series("(", params, ")"), *self.maybe(["->", *self.type(1)], 0.6)]

    def function(self) -> list[str]:
        clauses = [self.grants("may"), self.maybe(["budget", *self.allowance()], 0.3)]
        self.chance.shuffle(clauses)
        return ["fn", *self.name(), *self.signature(), *chain(*clauses), *self.block(0)]

    def tool(self) -> list[str]:
        clauses = [
            self.grants("capabilities"),
            self.maybe([self.plain()], 0.5),
            self.maybe(["idempotent"], 0.2),
        ]
        self.chance.shuffle(clauses)
        return ["tool", *self.name(), *self.signature(), *chain(*clauses), *self.block(1)]

    def grants(self, may: str, least: int = 0) -> list[str]:
        words = [may, "allowed_paths", "allowed_commands", "allowed_hosts"]
        picked = self.chance.sample(words, self.chance.randint(least, 2 if not least else 4))
        return list(chain.from_iterable([word, *self.granted(word)] for word in picked))

    def granted(self, word: str) -> list[str]:
        if word in {"may", "capabilities"}:
            caps = [[self.one("fs", "net"), "::", self.one("read", "get")] for _ in self.some()]
            return self.series("[", caps, "]")
        return self.series("[", [[self.plain()] for _ in self.some()], "]")

    def agent(self) -> list[str]:
        words = ["agent", *self.name(), "{"]
        for _ in self.some(5):
            words += self.chance.choice([self.agent_field, self.agent_field, self.tool])()
        return [*words, "}"]

    def agent_field(self) -> list[str]:
        name = self.one(
            *"model system temperature effort max_tokens max_steps on_exceed memory".split()
        )
        match self.chance.randrange(6):
            case 0:
                return ["retry", *self.settings("max_attempts", "backoff", "on")]
            case 1:
                return ["circuit_breaker", *self.settings("threshold", "reset_after", "probes")]
            case 2:
                names = "requests tokens per burst slots strategy queue_size".split()
                return ["rate_limit", *self.settings(*names)]
            case 3:
                return ["tools", *self.series("[", [self.tool_ref() for _ in self.some()], "]")]
            case 4:
                return ["budget", self.chance.choice([*PERIODS, "$1.50"])]
            case _:
                return [self.one(name, "priority", "timeout"), *self.value()]

    def tool_ref(self) -> list[str]:
        return (
            [self.one("mcp", "yaml"), self.plain()] if self.chance.random() < 0.4 else self.path()
        )

    def settings(self, *names: str) -> list[str]:
        picked = [self.chance.choice(names) for _ in self.some()]
        return ["{", *chain.from_iterable([name, *self.value()] for name in picked), "}"]

    def supervisor(self) -> list[str]:
        words = ["supervisor", *self.name(), "{"]
        rules = [
            [self.one("strategy", "max_restarts", "window", "backoff"), *self.value()]
            for _ in self.some()
        ]
        rules += self.maybe_child()
        self.chance.shuffle(rules)
        return [*words, *chain(*rules), "}"]

    def maybe_child(self) -> list[list[str]]:
        children = self.series("[", [self.path() for _ in self.some()], "]")
        return [["children", *children]] if self.chance.random() < 0.6 else []

    def value(self) -> list[str]:
        match self.chance.randrange(7):
            case 0:
                return [self.one(*WORDS)]
            case 1:
                return [
                    "exponential",
                    *self.series("(", [self.argument(3) for _ in self.some()], ")"),
                ]
            case 2:
                return self.series("[", [self.value() for _ in self.some(2)], "]")
            case 3:
                return ["-", self.one("1", "0.5")]
            case 4:
                return [self.string(3)]
            case _:
                return [self.literal()]

    def allowance(self) -> list[str]:
        return [self.one(*PERIODS)] if self.chance.random() < 0.3 else self.operation(2, 2)

    # Types

    def type(self, depth: int) -> list[str]:
        words = self.inner_type(depth)
        return [*words, *self.size(0.5)] if words == ["str"] else words

    def inner_type(self, depth: int) -> list[str]:
        words = self.plain_type(depth)
        if words == ["str"] and (size := self.size(0.2)):
            words = ["(", *words, *size, ")"]
        return [*words, *self.maybe(["?"], 0.2)]

    def size(self, share: float) -> list[str]:
        return [";", self.sizes.choice(["1", "2_000"])] if self.sizes.random() < share else []

    def plain_type(self, depth: int) -> list[str]:
        pick = self.chance.randrange(6) if depth < MAX_DEPTH else 5
        if pick == 0:
            return ["[", *self.inner_type(depth + 1), *self.maybe([";", "20"]), "]"]
        if pick == 1:
            inner = self.inner_type(depth + 1)
            return ["{", "str", ":", *inner, *self.size(0.3), "}"]
        if pick == 2:
            more = [["|", self.plain()] for _ in self.some()]
            return [self.plain(), *chain(*more)]
        return [self.one("str", "int", "any")] if pick < 5 else self.path()

    # Statements

    def block(self, depth: int) -> list[str]:
        body = [self.statement(depth + 1) for _ in self.some(3 if depth < 2 else 1)]
        return ["{", *chain(*body), "}"]

    def statement(self, depth: int) -> list[str]:
        simple = [self.let, self.let, self.assign, self.expr_stmt, self.returns, self.jump]
        nested = [
            *(self.ifs, self.whiles, self.fors, self.tries, self.session, self.parallel),
            *(self.monitor, self.block),
        ]
        return self.chance.choice(simple + nested if depth < MAX_DEPTH else simple)(depth)

    def let(self, depth: int) -> list[str]:
        written = self.maybe([":", *self.type(2)], 0.3)
        return ["let", *self.name(), *written, "=", *self.expr(depth), ";"]

    def assign(self, depth: int) -> list[str]:
        words = [self.one("a", "x", "total", "model", "strategy", "window")]
        for _ in self.some(2):
            index = ["[", *self.expr(MAX_DEPTH), "]"]
            words += [".", *self.name()] if self.chance.random() < 0.5 else index
        return [*words, "=", *self.expr(depth), ";"]

    def expr_stmt(self, depth: int) -> list[str]:
        words = self.expr(depth)
        begins_otherwise = words[0] in {"{", "monitor", *_DECLARING}
        return [*(["print", "(", *words, ")"] if begins_otherwise else words), ";"]

    def returns(self, depth: int) -> list[str]:
        return ["return", *self.maybe(self.expr(depth), 0.7), ";"]

    def jump(self, depth: int) -> list[str]:
        del depth
        return [self.one("break", "continue"), ";"]

    def ifs(self, depth: int) -> list[str]:
        words = ["if", *self.expr(depth + 1), *self.block(depth)]
        for _ in self.some(2):
            words += ["else", "if", *self.expr(depth + 2), *self.block(depth)]
        return [*words, *self.maybe(["else", *self.block(depth)])]

    def whiles(self, depth: int) -> list[str]:
        limit = self.maybe(["limit", *self.expr(MAX_DEPTH)])
        return ["while", *self.expr(depth + 1), *limit, *self.block(depth)]

    def fors(self, depth: int) -> list[str]:
        names = [*self.name(), *self.maybe([",", *self.name()])]
        return ["for", *names, "in", *self.expr(depth + 1), *self.block(depth)]

    def tries(self, depth: int) -> list[str]:
        return ["try", *self.block(depth), *self.catches(depth, 1)]

    def catches(self, depth: int, least: int) -> list[str]:
        words: list[str] = []
        for _ in self.some(2, least):
            reason = self.maybe(["(", *self.name(), ")"])
            words += ["catch", *self.maybe([*self.name(), *reason], 0.8), *self.block(depth)]
        return words

    def session(self, depth: int) -> list[str]:
        options = [
            self.maybe(["on_exceed", self.one(*WORDS)]),
            self.maybe(["speculate", *self.operation(depth + 2, 2)], 0.2),
            self.maybe(["confirm", *self.operation(depth + 2, 2)], 0.2),
        ]
        head = ["session", "budget", *self.allowance(), *chain(*options)]
        return [*head, *self.block(depth), *self.catches(depth, 0)]

    def parallel(self, depth: int) -> list[str]:
        return ["parallel", *self.block(depth), *self.catches(depth, 0)]

    def monitor(self, depth: int) -> list[str]:
        block = self.block(depth)
        return ["monitor", "(", *self.expr(depth + 1), ")", "{", *self.name(), "->", *block[1:]]

    # Expressions

    def expr(self, depth: int) -> list[str]:
        draw = self.chance.random()
        if draw < 0.12:
            return self.send(depth)
        if draw < 0.18:
            return ["await", *self.awaited(depth + 1)]
        if draw < 0.24:
            return self.spawn(depth)
        if draw < 0.28:
            return ["async", *self.send(depth)]
        if draw < 0.32:
            return self.race(depth)
        return [*self.operation(depth, 1), *self.maybe(["as", *self.type(2)], 0.1)]

    def race(self, depth: int) -> list[str]:
        listed = ["[", "]"]
        if self.chance.random() < 0.8:
            listed = ["[", *self.expr(depth + 2), ",", *self.expr(depth + 2), "]"]
        elif depth < MAX_DEPTH:
            head = ["for", *self.name(), "in", *self.expr(depth + 2)]
            listed = ["[", *head, "{", *self.expr(depth + 2), "}", "]"]
        if self.chance.random() < 0.5:
            return ["race", *listed]
        return ["race", *self.name(), "in", *listed, "if", *self.operation(depth + 1, 2)]

    def awaited(self, depth: int) -> list[str]:
        return self.spawn(depth) if self.chance.random() < 0.4 else self.postfix(depth)

    def send(self, depth: int) -> list[str]:
        options = [
            self.maybe(["timeout", *self.operation(depth + 2, 2)], 0.3),
            self.maybe(["budget", *self.operation(depth + 2, 2)], 0.3),
            self.maybe(["as", *self.type(2)], 0.3),
        ]
        self.chance.shuffle(options)
        to, message = self.postfix(depth + 1), self.operation(depth + 1, 2)
        return [*to, self.one("<-", "<~"), *message, *chain(*options)]

    def spawn(self, depth: int) -> list[str]:
        rules = [
            "supervised",
            "by",
            *self.settings("strategy", "max_restarts", "window", "backoff"),
        ]
        under = ["supervised", "by", *self.name()]
        options = [
            self.maybe(["wallet", *self.operation(depth + 2, 2)], 0.3),
            self.maybe(["named", *self.operation(depth + 2, 2)], 0.3),
            self.maybe(rules if self.chance.random() < 0.6 else under, 0.5),
        ]
        self.chance.shuffle(options)
        return ["spawn", *self.maybe(["async"]), *self.path(), *chain(*options)]

    def operation(self, depth: int, least: int) -> list[str]:
        """An expression whose operators bind at level `least` or tighter."""
        if depth >= MAX_DEPTH or least > 7 or self.chance.random() < 0.4:
            return self.unary(depth)
        if least <= 4 and self.chance.random() < 0.15:
            return ["not", *self.operation(depth + 1, 4)]
        level = self.chance.choice([level for level in LEVELS if level >= least])
        operator = self.chance.choice(LEVELS[level])
        left = self.operation(depth + 1, level + (level == 5))
        return [*left, operator, *self.operation(depth + 1, level + 1)]

    def unary(self, depth: int) -> list[str]:
        return [*self.maybe(["-"], 0.1), *self.maybe(["-"], 0.02), *self.postfix(depth)]

    def postfix(self, depth: int) -> list[str]:
        words = self.atom(depth)
        if depth < MAX_DEPTH and self.chance.random() < 0.3:
            match self.chance.randrange(3):
                case 0:
                    words += [".", *self.name()]
                case 1:
                    words += ["[", *self.expr(depth + 1), "]"]
                case _:
                    words += self.series("(", [self.argument(depth) for _ in self.some()], ")")
        return words

    def argument(self, depth: int) -> list[str]:
        return [*self.maybe([*self.name(), ":"], 0.2), *self.expr(depth + 1)]

    def atom(self, depth: int) -> list[str]:
        pick = self.chance.randrange(12 if depth < MAX_DEPTH else 7)
        if pick < 3:
            return self.path()
        if pick < 6:
            return [self.literal()]
        if pick == 6:
            return [self.string(depth)]
        if pick == 7:
            return ["(", *self.expr(depth + 1), ")"]
        if pick == 8:
            return self.series("[", [self.expr(depth + 1) for _ in self.some()], "]")
        if pick == 9:
            return self.series("{", [self.pair(depth + 1) for _ in self.some()], "}")
        if pick == 10:
            where = self.maybe(["if", *self.expr(depth + 2)])
            head = ["[", "for", *self.name(), "in", *self.expr(depth + 1), *where]
            return [*head, "{", *self.expr(depth + 1), "}", "]"]
        call = self.series("(", [self.argument(depth) for _ in self.some()], ")")
        return [self.one(*LIBRARY), *call]

    def pair(self, depth: int) -> list[str]:
        return [*self.expr(depth), ":", *self.expr(depth)]

    def literal(self) -> str:
        return self.one(
            *("0", "7", "1_000", "2.5", "1e3", "6.02e-23", "$1.50", "$0.000001", "100ms", "30s"),
            *("5m", "2h", "1d", "true", "false", "null", "9223372036854775807"),
        )

    # Strings

    def plain(self) -> str:
        return self.one('"src/**"', '"low"', '"héllo"', '"a \\n \\{b\\}"', '""', '"""a "b" c"""')

    def string(self, depth: int) -> str:
        if self.chance.random() < 0.2:
            return self.triple(depth)
        return '"' + "".join(self.chunk(depth) for _ in self.some(3)) + '"'

    def triple(self, depth: int) -> str:
        lines = ["        " + self.chunk(depth) for _ in self.some(3)]
        return '"""\n' + "".join(line + "\n" for line in lines) + '    """'

    def chunk(self, depth: int) -> str:
        if self.chance.random() < 0.4 and depth < MAX_DEPTH:
            return "{" + self.inserted(depth + 1) + "}"
        return self.one(
            "text ", "// no comment ", " \\n", '\\{ \\} \\\\ \\" ', "\\u{1F600}", "日本 é"
        )

    def inserted(self, depth: int) -> str:
        """An expression on one line, without strings of three quotes that would break it."""
        words = self.expr(depth)
        while any("\n" in word for word in words):
            words = self.expr(MAX_DEPTH)
        return " ".join(words)


_DECLARING = frozenset("agent tool type use supervisor program".split())
