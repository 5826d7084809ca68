"""Random small programs over all that may keep a send in order: memory, supervision, breakers,
rates, wallets, tools, files, sessions, pauses, functions. Every send names its line in its text."""

from random import Random
from typing import TypeAlias

from tests.lang.flows.writing import INDENT

AGENTS = """\
program may [fs::read, fs::write]
agent Plain { model smart budget $0.05 }
agent Wise { model smart budget $0.05 memory conversation }
agent Guarded { model smart budget $0.05 circuit_breaker { threshold 5 reset_after 30s } }
agent Limited {
    model smart
    budget $0.05
    rate_limit { requests 900 per 1s burst 900 strategy queue }
}
agent Reader {
    model smart
    budget $0.05
    tool look(at: str) -> str "Read." capabilities [fs::read] allowed_paths ["a/**"] {
        return file::read(at);
    }
}
agent Writer {
    model smart
    budget $0.05
    tool put(at: str) -> str "Write." capabilities [fs::write] allowed_paths ["a/**"] {
        file::write(at, "w");
        return "ok";
    }
}
agent Asker {
    model smart
    budget $0.05
    tool pass_on(x: str) -> str "Ask another." { return Plain <- x; }
}
agent Sleeper {
    model smart
    budget $0.05
    tool nap(x: str) -> str "Sleep." { process::sleep(1ms); return x; }
}
agent Thrifty {
    model smart
    budget $0.05
    tool left(x: str) -> str "Look at the budget." { return "{budget::remaining()} {x}"; }
}
agent Speaker {
    model smart
    budget $0.05
    tool say(x: str) -> str "Print." { print(x); return x; }
}
agent Caller {
    model smart
    budget $0.05
    tool count(n: int) -> int "Call what calls itself." { return down(n); }
}
supervisor Team { strategy restart children [Plain, Wise] }
tool peek(at: str) -> str "Read." capabilities [fs::read] allowed_paths ["a/**"] {
    return file::read(at);
}
tool drop(at: str) -> str "Write." capabilities [fs::write] allowed_paths ["a/**"] {
    file::write(at, "w");
    return "ok";
}
tool rest(x: str) -> str "Sleep." { process::sleep(1ms); return x; }
tool asks(x: str) -> str "Ask." { return Plain <- x; }
fn down(n: int) -> int { if n <= 0 { return 0; } return down(n - 1); }
fn plainly(x: str) -> str { return Plain <- x; }
fn guarded(x: str) -> str { return Guarded <- x; }
fn napping(x: str) -> str { process::sleep(1ms); return Plain <- x; }
fn writing(x: str) -> str { file::write("a/y.txt", "f"); return Plain <- x; }
fn paid(x: str) -> str budget $0.5 { return Plain <- x; }
fn handed(to: Plain, x: str) -> str { return to <- x; }
fn taught(to: Wise, x: str) -> str { return to <- x; }
fn fresh(x: str) -> str { let p = spawn Plain; return p <- x; }
fn made() -> Plain { return spawn Plain; }
"""
NAMES = (
    *("Plain", "Plain", "Plain", "Wise", "Guarded", "Limited", "Reader", "Writer"),
    *("Asker", "Sleeper", "Thrifty", "Speaker", "Caller"),
)
FUNCTIONS = ("plainly", "plainly", "guarded", "paid", "fresh", "asks", "napping", "writing")
HANDED = {"Plain": "handed", "Wise": "taught"}
SPAWNS = (
    *("", "", "", " wallet $1", " supervised by { strategy restart }", " supervised by team"),
    ' named "n{n}"',
)
FILES = (
    *('file::read("a/x.txt")', 'file::read("b/x.txt")', 'file::exists("a/x.txt")'),
    *('file::write("a/x.txt", x)', 'file::write("b/x.txt", x)'),
    *('peek("a/x.txt")', 'drop("a/x.txt")'),
)
PAUSES = (
    *("process::sleep(1ms)", "process::yield()", "print(x)", "print(budget::used())"),
    *('rest("x")', 'trace::event("x")', "print(time::now())"),
)
SIMPLE = (
    *("send", "send", "send", "told", "told", "call", "hand", "spawn", "file", "pause"),
    *("later", "stream"),
)
BLOCKS = ("branch", "loop", "session", "attempt", "beside", "fails", "fails")

Handles: TypeAlias = dict[str, str]
"""The agent of each variable that holds a process."""


class Mixer:
    """Writes one program; `texts` are the variables that hold text."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.lines: list[str] = [*AGENTS.splitlines()]
        self.count = 0

    def program(self) -> str:
        self.put(0, "fn main(x: str, xs: [str; 3]) -> str {")
        self.put(1, "let team = spawn Team;")
        texts, handles = ["x"], Handles()
        for _ in range(self.chance.randint(1, 2)):
            self.spawn(texts, handles, 1)
        self.send(texts, handles, 1)
        self.body(texts, handles, 1, self.chance.randint(3, 6))
        if self.chance.random() < 0.5:
            self.loop(texts, handles, 1)
        self.put(1, "return x;")
        self.put(0, "}")
        return "\n".join(self.lines) + "\n"

    def put(self, depth: int, text: str) -> None:
        self.lines.append(INDENT * depth + text)

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def body(self, texts: list[str], handles: Handles, depth: int, size: int) -> None:
        for _ in range(size):
            kinds = [*SIMPLE, *(BLOCKS if depth < 3 else ())]
            getattr(self, self.chance.choice(kinds))(texts, handles, depth)

    def inner(self, texts: list[str], handles: Handles, depth: int) -> None:
        self.body([*texts], {**handles}, depth + 1, self.chance.randint(1, 2))

    def said(self, texts: list[str]) -> str:
        """Often without any answer in it, so that nothing but the rules holds it up."""
        text = self.chance.choice(["x", "x", "x", *texts[-3:]])
        return f'"<{len(self.lines) + 1}> {{{text}}}"'

    def to(self, handles: Handles) -> str:
        return self.chance.choice([*handles, *handles, *NAMES])

    def ask(self, texts: list[str], handles: Handles) -> str:
        more = self.chance.choice(["", "", "", " timeout 99s", " budget $0.04"])
        return f"{self.to(handles)} <- {self.said(texts)}{more}"

    def send(self, texts: list[str], handles: Handles, depth: int) -> None:
        self.named(texts, depth, self.ask(texts, handles))

    def named(self, texts: list[str], depth: int, value: str) -> None:
        name = self.new()
        self.put(depth, f"let {name} = {value};")
        texts.append(name)

    def told(self, texts: list[str], handles: Handles, depth: int) -> None:
        self.put(depth, f"{self.ask(texts, handles)};")

    def call(self, texts: list[str], handles: Handles, depth: int) -> None:
        self.named(texts, depth, f"{self.chance.choice(FUNCTIONS)}({self.said(texts)})")

    def hand(self, texts: list[str], handles: Handles, depth: int) -> None:
        given = [name for name, agent in handles.items() if agent in HANDED]
        if not given:
            self.spawn(texts, handles, depth)
            return
        to = self.chance.choice(given)
        self.named(texts, depth, f"{HANDED[handles[to]]}({to}, {self.said(texts)})")

    def spawn(self, texts: list[str], handles: Handles, depth: int) -> None:
        name = self.new()
        if self.chance.random() < 0.1:
            handles[name] = "Plain"
            self.put(depth, f"let {name} = made();")
            return
        how = self.chance.choice(SPAWNS if depth == 1 else SPAWNS[:-1])
        agents = ("Plain", "Wise") if "team" in how else ("Plain", "Plain", "Wise", "Wise", *NAMES)
        handles[name] = self.chance.choice(agents)
        self.put(depth, f"let {name} = spawn {handles[name]}{how.replace('{n}', name)};")

    def file(self, texts: list[str], handles: Handles, depth: int) -> None:
        self.put(depth, f"{self.chance.choice(FILES)};")

    def pause(self, texts: list[str], handles: Handles, depth: int) -> None:
        self.put(depth, f"{self.chance.choice(PAUSES)};")

    def later(self, texts: list[str], handles: Handles, depth: int) -> None:
        future = self.new()
        self.put(depth, f"let {future} = async {self.ask(texts, handles)};")
        if self.chance.random() < 0.5:
            self.told(texts, handles, depth)
        self.named(texts, depth, f"await {future}")

    def stream(self, texts: list[str], handles: Handles, depth: int) -> None:
        item, ask = self.new(), f"{self.to(handles)} <~ {self.said(texts)}"
        self.put(depth, f"for {item} in {ask} {{ print({item}); }}")

    def branch(self, texts: list[str], handles: Handles, depth: int) -> None:
        self.put(depth, f'if {self.chance.choice(texts)} != "no" {{')
        self.inner(texts, handles, depth)
        self.put(depth, "}")

    def loop(self, texts: list[str], handles: Handles, depth: int) -> None:
        item, over = self.new(), self.chance.choice(["xs", f"[x, {texts[-1]}]"])
        self.put(depth, f"for {item} in {over} {{")
        self.inner([*texts, item], handles, depth)
        self.put(depth, "}")

    def session(self, texts: list[str], handles: Handles, depth: int) -> None:
        self.put(depth, f"session budget ${9 - depth} {{")
        self.inner(texts, handles, depth)
        self.put(depth, "}")

    def attempt(self, texts: list[str], handles: Handles, depth: int) -> None:
        self.put(depth, "try {")
        self.inner(texts, handles, depth)
        self.put(depth, "} catch {")
        self.told(texts, handles, depth + 1)
        self.put(depth, "}")

    def fails(self, texts: list[str], handles: Handles, depth: int) -> None:
        """A `fail` that is caught here, or by nobody, as the answers are never that long."""
        self.put(depth, "try {")
        self.inner(texts, handles, depth)
        self.put(depth + 1, f"if len({self.chance.choice(texts)}) > 99 {{")
        self.put(depth + 2, 'fail("no");')
        self.put(depth + 1, "}")
        self.inner(texts, handles, depth)
        if self.chance.random() < 0.5:
            self.put(depth + 1, 'x = "{x}";')
        self.put(depth, self.chance.choice(["} catch {", "} catch Failed {", "} catch Timeout {"]))
        self.chance.choice([self.told, self.file, self.spawn])(texts, {**handles}, depth + 1)
        self.put(depth, "}")

    def beside(self, texts: list[str], handles: Handles, depth: int) -> None:
        self.put(depth, "parallel {")
        for _ in range(2):
            self.put(depth + 1, f"let {self.new()} = {self.ask(texts, handles)};")
        self.put(depth, "}")
