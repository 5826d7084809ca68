"""Random programs over all constructs of the language, each the same for the same seed.

What only the clock decides is left out, since a run that takes less time may see another: limits
that refill and breakers that reset within a run, prints and writes of statements that run beside
each other, `time::now`.
"""

from random import Random

from campaigns.parallel.cast import AGENTS, agents_of, functions, guards, types
from campaigns.parallel.shapes import Shapes
from campaigns.parallel.statements import Write
from campaigns.parallel.trees import Block, Stmt, line
from campaigns.parallel.words import Scope

__all__ = ["program"]

DEEPEST = 3
DOOMED = next(kind for kind in AGENTS if kind.name == "Doomed")
ERRORS = {
    "AgentFailed": True,
    "BudgetExceeded": True,
    "Failed": True,
    "ContractViolated": True,
    "ToolFailed": True,
    "IndexError": True,
    "ArithmeticError": True,
    "Timeout": False,
    "CircuitOpen": False,
    "RateLimited": False,
    "CapabilityDenied": True,
}
"""Whether its reason says nothing of the time."""


def program(seed: int) -> Block:
    writer = _Writer(Random(seed))
    # The others stay as they are known to find faults.
    if seed % 4 == 3:
        writer.simple.append((2, writer.race))
    writer.has_team = seed % 4 == 1
    if seed % 4 == 2:
        writer.guards = guards()
        writer.compound.append((5, writer.guarded))
    return writer.program()


class _Writer(Shapes):
    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self.has_team = False
        self.guards: list[Stmt] = []
        self.compound: list[tuple[int, Write]] = [
            (4, self._if),
            (4, self._for),
            (2, self._while),
            (4, self._try),
            (3, self._session),
            (2, self._stream),
            (2, self._parallel),
            (2, self.changed_by_handler),
            (2, self.changed_by_branch),
            (3, self.failing_inside),
            (1, self.written_by_agent),
            (1, self.remembered),
            (1, self.crashing),
            (1, self.counted),
        ]

    def program(self) -> Block:
        chance = self.chance
        out = [line("program may [fs::read, fs::write]"), *types()]
        named = [*self.kinds, *([DOOMED] if self.has_team and DOOMED not in self.kinds else ())]
        out += [*agents_of(chance, named), *functions(), *self.guards]
        if self.has_team:
            rules = f"strategy {self.pick('restart', 'restart_all', 'rest_for_one', 'stop')}"
            rules += f"  max_restarts {self.chance.randrange(3)}  window 12h"
            names = ", ".join(kind.name for kind in named)
            out.append(line(f"supervisor Team {{ {rules}  children [{names}] }}"))
        known: list[str] = []
        for _ in range(chance.choice([0, 1, 1, 2])):
            out.append(self._function(list(known)))
            known.append(f"f{len(known)}(")
        if self.happens(0.4):
            out.append(self._recursion(known))
            known.append("again(")
        out.append(self._main(known))
        return Block(out)

    # Functions

    def _main(self, functions: list[str]) -> Stmt:
        scope = Scope(functions=functions)
        body = [*self._declared(scope), *(self._team(scope) if self.has_team else ())]
        body += [self.spawn(scope) for _ in range(self.chance.choice([0, 1, 1, 2]))]
        most = self.chance.randint(3, 9)
        if self.happens(0.6):
            inner = self._block(scope.inner(), most)
            body.append(
                Stmt(
                    [
                        "try {",
                        inner,
                        "} catch {",
                        Block([line('print("caught");')]),
                        "}",
                    ]
                )
            )
        else:
            body += self._block(scope, most).stmts
        return Stmt(["fn main() -> str {", Block([*body, *self._end(scope)]), "}"])

    def _declared(self, scope: Scope) -> list[Stmt]:
        scope.texts += ["t0", "t1"]
        scope.numbers.append("n0")
        scope.lists.append("xs0")
        scope.maps.append("m0")
        return [
            line('let t0 = "start";'),
            line('let t1 = "";'),
            line("let n0 = 1;"),
            line('let xs0 = ["p", "q"];'),
            line('let m0 = {"a": 1, "b": 2};'),
        ]

    def _team(self, scope: Scope) -> list[Stmt]:
        """Processes that share a supervisor, each once."""
        out = [line("let team = spawn Team;")]
        others = [kind for kind in self.kinds if kind is not DOOMED]
        for kind in [DOOMED, *self.chance.sample(others, 2)]:
            name = self.fresh("k")
            out.append(line(f"let {name} = spawn {kind.name} supervised by team;"))
            scope.handles.append((name, kind))
        return out

    def _end(self, scope: Scope) -> list[Stmt]:
        """Shows all that is left, and what a next message to each process would come to."""
        told = line('print("{t0} {t1} {n0} {xs0} {m0} {budget::used()} {budget::remaining()}");')
        asked = [name for name, _ in scope.handles]
        asked += [kind.name for kind in self.kinds if kind.name in ("Breaking", "Picky")]
        return [told, *map(self._probe, asked), line("return t0;")]

    def _probe(self, to: str) -> Stmt:
        ask = Block([line(f'print({to} <- "what was said?");')])
        return Stmt(["try {", ask, "} catch {", Block([line('print("gone");')]), "}"])

    def _function(self, known: list[str]) -> Stmt:
        name = f"f{len(known)}"
        scope = Scope(["a"], ["n"], functions=known, fixed=["a", "n"], depth=1)
        rights = self.pick(
            "", "", ' may [fs::read] allowed_paths ["a/**"]', f" budget {self.money()}"
        )
        scope.writes = "may" not in rights
        body = self._block(scope, self.chance.randint(1, 4))
        body.stmts.append(line(f"return {self.text(Scope(['a'], ['n']))};"))
        return Stmt([f"fn {name}(a: str, n: int) -> str{rights} {{", body, "}"])

    def _recursion(self, known: list[str]) -> Stmt:
        scope = Scope(["a"], ["n"], functions=known, fixed=["a", "n"], depth=2)
        body = self._block(scope, self.chance.randint(1, 2))
        first = line("if n <= 0 { return a; }")
        asked = line(f"let b = {self.send(scope, plain=True)};")
        last = line(self.pick("return again(b, n - 1);", 'return again("{a} {b}", n - 1) + b;'))
        block = Block([first, *body.stmts, asked, last])
        return Stmt(["fn again(a: str, n: int) -> str {", block, "}"])

    # Blocks

    def _block(self, scope: Scope, most: int) -> Block:
        """At its end it shows most of what it declared."""
        before = {*scope.shown}
        block = Block([self._statement(scope) for _ in range(most)])
        fresh = [name for name in scope.shown if name not in before]
        if fresh and self.happens(0.8):
            told = " ".join(f"{{{name}}}" for name in fresh)
            block.stmts.append(line(f'print("{self.fresh("e")} {told}");'))
        return block

    def _inner(self, scope: Scope, **changed: bool) -> Block:
        return self._block(scope.inner(**changed), self.chance.choice([1, 1, 2, 3]))

    def _statement(self, scope: Scope) -> Stmt:
        choices = self.simple + (self.compound if scope.depth < DEEPEST else [])
        weights = [weight * self.more.get(write.__name__, 1) for weight, write in choices]
        [(_, write)] = self.chance.choices(choices, weights)
        return write(scope)

    def _if(self, scope: Scope) -> Stmt:
        parts: list[str | Block] = [f"if {self.flag(scope)} {{", self._inner(scope)]
        if self.happens(0.5):
            parts += ["} else {", self._inner(scope)]
        return Stmt([*parts, "}"])

    def _for(self, scope: Scope) -> Stmt:
        inside, name = scope.inner(in_loop=True), self.fresh("i")
        items = self.items(scope)
        if self.happens(0.3):
            items = self.pick("range(2)", "range(3)", "range(1, 3)")
            inside.numbers.append(name)
        else:
            inside.texts.append(name)
        inside.fixed.append(name)
        body = self._block(inside, self.chance.choice([1, 2, 2, 3]))
        return Stmt([f"for {name} in {items} {{", body, "}"])

    def _while(self, scope: Scope) -> Stmt:
        count = self.fresh("c")
        inside = scope.inner(in_loop=True)
        body = self._block(inside, self.chance.choice([1, 2, 2]))
        body.stmts.insert(0, line(f"{count} = {count} + 1;"))
        condition = self.pick(f"{count} < {self.chance.randint(1, 3)}", self.flag(scope))
        loop = Stmt([f"while {condition} limit {self.chance.randint(1, 3)} {{", body, "}"])
        return Stmt(["if true {", Block([line(f"let {count} = 0;"), loop]), "}"])

    def _try(self, scope: Scope) -> Stmt:
        body = self._block(scope.inner(), self.chance.choice([1, 2, 3]))
        return Stmt(["try {", body, *self._catches(scope)])

    def _catches(self, scope: Scope) -> list[str | Block]:
        parts: list[str | Block] = []
        errors = self.chance.sample(list(ERRORS), self.chance.choice([0, 0, 1, 2]))
        if "AgentFailed" not in errors and self.happens(0.5):
            errors.append("AgentFailed")
        for error in errors:
            inside = scope.inner()
            shown = ERRORS[error] and self.happens(0.6)
            if shown:
                inside.texts.append("why")
                inside.fixed.append("why")
            parts += [f"}} catch {error}{'(why)' if shown else ''} {{"]
            parts.append(self._handler(inside))
        if not parts or self.happens(0.5):
            parts += ["} catch {", self._handler(scope.inner())]
        return [*parts, "}"]

    def _handler(self, inside: Scope) -> Block:
        """Most of them change what a run that foresaw no error has already used."""
        first = self.chance.choice([self._assign, self._write, self._statement])(inside)
        more = self._block(inside, self.chance.choice([0, 1, 1]))
        return Block([first, *more.stmts])

    def _session(self, scope: Scope) -> Stmt:
        body = self._block(scope.inner(), self.chance.choice([1, 2, 3]))
        held = f" speculate {self.pick('$0', '$0.01')}" if self.happens(0.15) else ""
        head = f"session budget {self.money()}{held} {{"
        if self.happens(0.5):
            return Stmt([head, body, "} catch BudgetExceeded {", self._inner(scope), "}"])
        return Stmt([head, body, "}"])

    def _stream(self, scope: Scope) -> Stmt:
        inside, name = scope.inner(in_loop=True), self.fresh("s")
        inside.texts.append(name)
        inside.fixed.append(name)
        body = self._block(inside, 1)
        return Stmt([f"for {name} in {self.send(scope, sign='<~')} {{", body, "}"])

    def _parallel(self, scope: Scope) -> Stmt:
        stmts: list[Stmt] = []
        for _ in range(self.chance.choice([2, 2, 3])):
            asked, name = self.send(scope, plain=True), self.fresh("t")
            stmts.append(line(f"let {name} = {asked};"))
        caught = self._inner(scope)
        caught.stmts.insert(0, line("process::sleep(1ms);"))  # what was called off has ended
        return Stmt(["parallel {", Block(stmts), "} catch {", caught, "}"])
