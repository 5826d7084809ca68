"""The agents of random programs: what each may do, and how often it fails."""

from dataclasses import dataclass
from random import Random

from campaigns.parallel.trees import Block, Stmt, line

__all__ = ["AGENTS", "Kind", "agents_of", "functions", "types"]

TYPES = (
    "type Plan { steps: [str; 3]  sure: bool  weight: int }",
    'type Level = "low" | "mid" | "high"',
)
READ = """tool look(path: str) -> str
    "Read a file."
    capabilities [fs::read]
    allowed_paths [{paths}]
    idempotent
{{
    return file::read(path);
}}"""
WRITE = """tool put(path: str, word: str) -> str
    "Write a file."
    capabilities [fs::write]
    allowed_paths [{paths}]
{{
    file::write(path, "{agent} {{word}}");
    return "put {{word}}";
}}"""
ASKS = """tool pass_on(word: str) -> str "Ask another." {{
    return {other} <- "passed {{word}}";
}}"""
SAYS = """tool say(word: str) -> str "Say it." idempotent {{
    print("{agent} says {{word}}");
    return word;
}}"""
PERSON = """tool person(word: str) -> str "Ask a person." idempotent {{
    return human::ask("{agent} wonders: {{word}}", 5s) ?? "";
}}"""
FUNCTIONS = (
    """tool peek(path: str) -> str
    "Read."
    capabilities [fs::read]
    allowed_paths ["a/*", "b/**"]
    idempotent
{
    return file::read(path);
}""",
    """fn handed(to: Plain, a: str) -> str {
    return to <- "handed {a}";
}""",
    """fn made(a: str) -> Plain {
    let p = spawn Plain;
    p <- "made {a}";
    return p;
}""",
)
GUARDS = {
    "sure": """fn sure(a: str) -> str {
    if len(a) % 3 == 0 { fail("not sure of {a}"); }
    return a;
}""",
    "judged": """fn judged(a: str) -> str {
    let b = Plain <- "judge {a}";
    if len(b) % 2 == 0 { fail("judged {b}"); }
    return Plain <- "good {b}";
}""",
    "twice": """fn twice(a: str) -> str {
    let b = Plain <- "once {a}";
    let c = "{b}?";
    return judged(sure(c)) + b;
}""",
    "strict": """fn strict(a: str) -> str {
    let b = Plain <- "strict {a}";
    if str::contains(b, "e") { refuse(b); }
    return b;
}""",
    "refuse": """fn refuse(a: str) {
    fail("refused {a}");
}""",
    "agreed": """fn agreed(a: str) -> str {
    if not human::approve("go on with {a}?", 5s) { fail("no"); }
    return a;
}""",
}
"""Functions that may fail, by what they are given, by an answer or by what a person says."""


@dataclass(frozen=True)
class Kind:
    """`fates` are what its model does, in hundredths; `settings` may be empty."""

    name: str
    fates: tuple[str, ...] = ("passes:8", "stays:8")
    settings: tuple[str, ...] = ("",)
    tools: tuple[str, ...] = ()
    paths: tuple[str, ...] = ('"a/**"',)
    memory: bool = False
    tokens: tuple[int, ...] = (10, 20, 40)

    @property
    def writes(self) -> bool:
        return WRITE in self.tools

    @property
    def recovers(self) -> bool:
        """From crashes that pass: only its processes are asked, which answer in turn."""
        return any(fate.startswith("stumbles") for fate in self.fates)

    @property
    def is_seen(self) -> bool:
        """Others see the moment at which it acts."""
        return bool({WRITE, SAYS, PERSON} & set(self.tools))


_RETRY = "retry { max_attempts 4  backoff exponential(10ms, 2.0, 50ms) }"
_PATHS = ('"a/**"', '"b/*"', '"a/x.txt", "b/**"', '"**"', '"a/deep/**", "b/new*"')

AGENTS = (
    Kind("Plain", settings=("", _RETRY, "temperature 0.5")),
    Kind("Other", ("passes:20",), ("", _RETRY)),
    Kind("Steady", ()),
    Kind("Shaky", ("stays:45",)),
    Kind("Silent", ("silence:25",)),
    Kind("Doomed", ("crash:30", "stays:5")),
    Kind("Keeper", ("stays:6", "stumbles:6"), memory=True),
    Kind("Diary", ("stumbles:15",), (_RETRY,), memory=True),
    Kind("Mute", ("silence:25",), memory=True),
    Kind("Reader", ("stays:5",), tools=(READ,), paths=_PATHS),
    Kind("Scholar", ("stays:5",), tools=(READ,), paths=_PATHS, memory=True),
    Kind("Writer", ("stays:8",), tools=(WRITE,), paths=_PATHS),
    Kind("Editor", ("stays:8",), tools=(READ, WRITE), paths=_PATHS),
    Kind("Asker", tools=(ASKS,)),
    Kind("Speaker", tools=(SAYS,)),
    Kind("Clerk", tools=(PERSON,)),
    Kind(
        "Breaking",
        ("stays:35",),
        (
            "circuit_breaker { threshold 2  reset_after 12h }",
            "circuit_breaker { threshold 1  reset_after 12h }",
        ),
    ),
    Kind(
        "Queued",
        ("stays:5",),
        ("rate_limit { requests 2 per 1s  burst 2  strategy queue }",),
    ),
    Kind(
        "Picky",
        ("stays:10",),
        (
            "rate_limit { requests 3 per 12h  burst 3  strategy reject }",
            "rate_limit { requests 1 per 12h  burst 1  strategy reject }",
        ),
    ),
    Kind("Lavish", ("stays:8",), tokens=(1_000, 4_000)),
    Kind("Lender", ("stays:5",), tools=(READ,), paths=_PATHS, tokens=(1_000,)),
    Kind("Frugal", settings=("budget $0.0002", "budget $0.0004", "budget $0.00009")),
)


def types() -> list[Stmt]:
    return [line(text) for text in TYPES]


def functions() -> list[Stmt]:
    return [line(text) for text in FUNCTIONS]


def guards() -> list[Stmt]:
    return [line(text) for text in GUARDS.values()]


def agents_of(chance: Random, kinds: list[Kind]) -> list[Stmt]:
    asked = [kind.name for kind in kinds if not kind.tools and not kind.recovers]
    return [_agent(chance, kind, asked) for kind in kinds]


def _agent(chance: Random, kind: Kind, others: list[str]) -> Stmt:
    fates = [fate for fate in kind.fates if chance.random() < 0.8]
    settings = [
        f"model m_{kind.name}",
        f'system "{" ".join([kind.name, *fates])}"',
        f"max_tokens {chance.choice(kind.tokens)}",
        chance.choice(kind.settings),
        "memory conversation" if kind.memory else "",
    ]
    body = Block([line(setting) for setting in settings if setting])
    for tool in kind.tools:
        told = {"agent": kind.name, "paths": chance.choice(kind.paths)}
        body.stmts.append(line(tool.format(other=chance.choice(others), **told)))
    return Stmt([f"agent {kind.name} {{", body, "}"])
