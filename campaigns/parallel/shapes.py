"""Statements in which looking ahead is easily wrong, with chance in all their parts.

Each begins with a call whose answer, or failure, decides what follows; what follows looks as if it
could begin at once.
"""

from campaigns.parallel.statements import Statements
from campaigns.parallel.trees import Block, Stmt, line
from campaigns.parallel.words import Scope

__all__ = ["Shapes"]


class Shapes(Statements):
    def changed_by_handler(self, scope: Scope) -> Stmt:
        """An error changes what the next call says, or what it reads."""
        name = self.fresh("t")
        tried = Block([line(f"{self._failing(scope)};"), *self._perhaps(scope)])
        if self.happens(0.5) or not scope.writes:
            caught = line(f"{name} = {self.text(scope)};")
            then = line(f'print({self.pick("Plain", "Steady")} <- "{self.fresh("x")} {{{name}}}");')
        else:
            path = self._path()
            caught = self._write_to(scope, path)
            then = self._look(path)
        body = [
            line(f'let {name} = "before";'),
            Stmt(["try {", tried, "} catch {", Block([caught]), "}"]),
            then,
        ]
        return Stmt(["if true {", Block(body), "}"])

    def failing_inside(self, scope: Scope) -> Stmt:
        """An answer decides whether the rest of the `try` is done or its handler; what follows does
        not ask which, and may see it in a variable, a file or a process."""
        name, told, path = self.fresh("t"), self.fresh("t"), self._path()
        asked = line(f"let {name} = {self.send(scope, plain=True)};")
        failed = line(f'if {self._test(name)} {{ fail("f {{{name}}}"); }}')
        rest = [line(f"{self.send(scope, plain=True)};"), line(f'{told} = "rest";')]
        tried = [asked, failed, *rest[self.chance.randrange(2) :]]
        if self.happens(0.3):
            head = f"session budget {self.money()} {{"
            tried = [Stmt([head, Block(tried), "}"])]
        elif self.happens(0.3):
            tried = [Stmt(["for i in range(2) {", Block(tried), "}"])]
        caught = self.chance.choice([line(f"{told} = why;"), self._write_to(scope, path)])
        kind = self.pick("Failed", "Failed", "AgentFailed")
        ways = ["try {", Block(tried), f"}} catch {kind}(why) {{", Block([caught]), "}"]
        if kind != "Failed" or self.happens(0.3):
            ways[-1:] = ["} catch {", Block([line(f'{told} = "other";')]), "}"]
        then = [
            self._look(path),
            line(f'print({self.pick("Plain", "Steady")} <- "{self.fresh("x")} {{{told}}}");'),
            line(f'print(Steady <- "{self.fresh("x")}");'),
        ]
        body = [line(f'let {told} = "before";'), Stmt([*ways]), *then[self.chance.randrange(3) :]]
        return Stmt(["if true {", Block(body), "}"])

    def guarded(self, scope: Scope) -> Stmt:
        """A function that may fail decides what runs behind its call."""
        name, asked = self.fresh("t"), self.pick("sure", "judged", "twice", "strict", "agreed")
        answer = self.fresh("t")
        first = line(f"let {answer} = {self.send(scope, plain=True)};")
        call = line(f"{name} = {asked}({self.pick(answer, answer, self.text(scope))});")
        kind = self.pick("Failed", "Failed(why)", "AgentFailed", "")
        caught = self._write_to(scope, self._path())
        tried = Block([call, *self._perhaps(scope)])
        head = f"}} catch {kind} {{" if kind else "} catch {"
        handled = [Stmt(["try {", tried, head, Block([caught]), "}"])]
        rounds = [Stmt(["for i in range(3) {", Block([*handled]), "}"])]
        branch = [Stmt([f"if {self._test(answer)} {{", Block([call]), "}"])]
        ways = self.chance.choice([[call], handled, handled, rounds, branch])
        then = [
            self._look(self._path()),
            line(f'print({self.pick("Plain", "Steady")} <- "{self.fresh("x")} {{{name}}}");'),
            line(f'print(Steady <- "{self.fresh("x")}");'),
        ]
        body = [line(f'let {name} = "before";'), first, *ways, *then[self.chance.randrange(3) :]]
        return Stmt(["if true {", Block(body), "}"])

    def changed_by_branch(self, scope: Scope) -> Stmt:
        """Nobody knows yet which way is gone, and one of them writes or assigns."""
        name, go, path = self.fresh("t"), self.fresh("g"), self._path()
        asked = line(f"let {name} = {self.send(scope, plain=True)};")
        test = self._test(name)
        written = self._write_to(scope, path)
        parts: list[list[Stmt]] = [
            [Stmt([f"if {test} {{", Block([written]), "}"])],
            [
                Stmt(
                    [
                        f"if {test} {{",
                        Block([line("process::yield();")]),
                        "} else {",
                        Block([written]),
                        "}",
                    ]
                )
            ],
            [
                line(f"let {go} = false;"),
                Stmt([f"if {test} {{", Block([line(f"{go} = true;")]), "}"]),
                Stmt([f"if {go} {{", Block([written]), "}"]),
            ],
            [
                Stmt(
                    [
                        f"for i in str::words({name}) {{",
                        Block([written, line("break;")]),
                        "}",
                    ]
                )
            ],
        ]
        ways = self.chance.choice(parts)
        return Stmt(["if true {", Block([asked, *ways, self._look(path)]), "}"])

    def written_by_agent(self, scope: Scope) -> Stmt:
        """What is under way writes what is read next."""
        writers = [kind.name for kind in self.kinds if kind.name in ("Writer", "Editor")]
        path = self._path()
        if not writers:
            return self.changed_by_branch(scope)
        asked = line(f"{self.chance.choice(writers)} <- {self.message(scope)};")
        tried = Stmt(["try {", Block([asked]), "} catch {", Block(), "}"])
        return Stmt(["if true {", Block([*self._perhaps(scope), tried, self._look(path)]), "}"])

    def remembered(self, scope: Scope) -> Stmt:
        """A process that remembers must not hear what is never said."""
        names = [name for name, kind in scope.handles if kind.memory]
        keepers = [kind.name for kind in self.kinds if kind.memory]
        if not keepers:
            return self.crashing(scope)
        name, before = self.fresh("k"), list[Stmt]()
        if names and self.happens(0.5):
            name = self.chance.choice(names)
        else:
            before = [line(f"let {name} = spawn {self.chance.choice(keepers)};")]
        tried = Block([line(f"{self._failing(scope)};"), line(f'{name} <- "{self.fresh("x")}";')])
        if self.happens(0.4):
            answer = self.fresh("t")
            asked = line(f"let {answer} = {self.send(scope, plain=True)};")
            late = line(f'{name} <- "{self.fresh("x")} {{{answer}}}";')
            tried = Block([asked, late, line(f'{name} <- "{self.fresh("x")}";')])
        told = Block([line(f'print({name} <- "{self.fresh("x")}");')])
        body = [
            *before,
            Stmt(["try {", tried, "} catch {", Block(), "}"]),
            Stmt(["try {", told, "} catch {", Block([line('print("forgot");')]), "}"]),
        ]
        return Stmt(["if true {", Block(body), "}"])

    def crashing(self, scope: Scope) -> Stmt:
        """Several under way in one process, and one of them ends it."""
        is_doomed = any(kind.name == "Doomed" for kind in self.kinds)
        agent = "Doomed" if is_doomed and self.happens(0.8) else "Plain"
        process = self.fresh("k")
        rules = self.pick(
            "strategy stop",
            "strategy restart  max_restarts 1  window 12h",
            "strategy restart",
        )
        spawned = line(f"let {process} = spawn {agent} supervised by {{ {rules} }};")
        to = self.pick(agent, process)
        told = Block([line(f'print({to} <- "{self.fresh("x")} {{i}}");')])
        tried = Stmt(["try {", told, "} catch {", Block([line('print("gone");')]), "}"])
        loop = Stmt([f"for i in range({self.chance.randint(2, 6)}) {{", Block([tried]), "}"])
        return Stmt(["if true {", Block([*([spawned] if to == process else []), loop]), "}"])

    def counted(self, scope: Scope) -> Stmt:
        """Money that an earlier call or a spawn needs."""
        name, process = self.fresh("t"), self.fresh("k")
        spawned = f'let {process} = spawn Plain wallet {self.money()}; print({process} <- "w");'
        purse = f"print(budget::{self.pick('used', 'remaining')}());"
        body = [
            line(f"let {name} = {self.send(scope, plain=True)};"),
            line(f"if {self._test(name)} {{ {self.chance.choice([spawned, purse, purse])} }}"),
            *(line(f"print({self.send(scope, plain=True)});") for _ in range(2)),
        ]
        caught = Block([line('print("poor");')])
        return Stmt([f"session budget {self.money()} {{", Block(body), "} catch {", caught, "}"])

    def _failing(self, scope: Scope) -> str:
        return f"{self.pick('Shaky', 'Shaky', 'Shaky', 'Plain')} <- {self.message(scope)}"

    def _perhaps(self, scope: Scope) -> list[Stmt]:
        return [line(f"{self.send(scope, plain=True)};")] if self.happens(0.4) else []

    def _write_to(self, scope: Scope, path: str) -> Stmt:
        if not scope.writes:
            return line(f"print({self.text(scope)});")
        return line(f"file::write({path}, {self.text(scope)});")

    def _path(self) -> str:
        return self.pick('"a/x.txt"', '"a/x.txt"', '"a/y.txt"')

    def _look(self, path: str) -> Stmt:
        agents = [kind.name for kind in self.kinds if kind.name in ("Reader", "Scholar", "Editor")]
        ways = [f"file::read({path})", f"peek({path})", 'file::list("a")']
        ways += [f'{name} <- "{self.fresh("x")}"' for name in agents]
        return line(f"print({self.chance.choice(ways)});")

    def _test(self, name: str) -> str:
        return self.pick(
            f"len({name}) % 2 == 0",
            f"len({name}) > 8",
            f'str::contains({name}, "e")',
            f'{name} != ""',
        )
