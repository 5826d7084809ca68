"""Statements without blocks of their own, and the sends in them."""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from campaigns.parallel.cast import AGENTS, Kind
from campaigns.parallel.trees import Block, Stmt, line
from campaigns.parallel.words import Scope, Words

__all__ = ["Statements", "Write"]

TIMEOUTS = ("2s", "3s")
FLAVOURS: tuple[tuple[str, dict[str, int]], ...] = (
    ("", {}),
    ("Reader Writer Editor", {"_read": 3, "_write": 3, "written_by_agent": 5}),
    ("Reader Scholar", {"_write": 3, "changed_by_branch": 3, "changed_by_handler": 3}),
    ("Doomed Other", {"_ask": 2, "_for": 2, "spawn": 3, "crashing": 5}),
    ("Lavish Lender Frugal", {"_session": 4, "_purse": 3, "counted": 5}),
    ("Keeper Diary Mute Breaking", {"spawn": 4, "_ask": 2, "remembered": 5}),
    (
        "Plain Other Steady",
        {"_assign": 3, "_if": 3, "_try": 3, "changed_by_handler": 3},
    ),
)
"""Agents that are there, and what is written more often."""

Write: TypeAlias = Callable[[Scope], Stmt]


class Statements(Words):
    """`simple` are the ways to write one, each with its weight; `kinds` the agents there are."""

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        forced, self.more = chance.choice(FLAVOURS)
        always = [kind for kind in AGENTS if kind.name in f"Plain Steady Shaky {forced}".split()]
        others = [kind for kind in AGENTS if kind not in always]
        self.kinds: list[Kind] = always + chance.sample(others, chance.randint(1, 6))
        self._names = 9
        self.simple: list[tuple[int, Write]] = [
            (14, self._ask),
            (4, self._typed),
            (3, self._bare),
            (4, self._assign),
            (7, self._print),
            (3, self._read),
            (3, self._write),
            (2, self.spawn),
            (3, self._call),
            (1, self._purse),
            (1, self._person),
            (1, self._note),
            (1, self._fail),
            (2, self._jump),
            (2, self._comprehension),
            (2, self._later),
            (1, self._sleep),
            (1, self._link),
            (1, self._peek),
            (1, self._hand),
        ]

    def fresh(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _to(self, scope: Scope, *, plain: bool = False) -> str:
        """A process or an agent; `plain`: one that neither writes nor speaks."""
        handles = [name for name, kind in scope.handles if not (plain and kind.is_seen)]
        if handles and self.happens(0.45):
            return self.chance.choice(handles)
        kinds = [
            kind
            for kind in self.kinds
            if not (plain and kind.is_seen)
            and (scope.writes or not kind.writes)
            and not kind.recovers
        ]
        return self.chance.choice(kinds).name

    def send(self, scope: Scope, *, plain: bool = False, sign: str = "<-") -> str:
        to = self._to(scope, plain=plain)
        more = f" timeout {self.pick(*TIMEOUTS)}" if self.happens(0.15) else ""
        more += f" budget {self.money()}" if self.happens(0.1) else ""
        return f"{to} {sign} {self.message(scope)}{more}"

    def _ask(self, scope: Scope) -> Stmt:
        assignable = scope.assignable(scope.texts)
        if assignable and self.happens(0.35):
            return line(f"{self.chance.choice(assignable)} = {self.send(scope)};")
        sent, name = self.send(scope), self.fresh("t")
        scope.texts.append(name)
        return line(f"let {name} = {sent};")

    def _typed(self, scope: Scope) -> Stmt:
        kind, names = self.chance.choice(
            [
                ("bool", scope.flags),
                ("int", scope.numbers),
                ("Plan", scope.plans),
                ("[str; 2]", scope.lists),
                ("Level", scope.texts),
            ]
        )
        sent, name = self.send(scope), self.fresh("y")
        if kind != "Level":
            names.append(name)
            scope.fixed.append(name)
        said = f" as {kind};" if self.happens(0.3) else ";"
        written = "" if said != ";" else f": {kind}"
        return line(f"let {name}{written} = {sent}{said}")

    def _bare(self, scope: Scope) -> Stmt:
        return line(f"{self.send(scope)};")

    def _assign(self, scope: Scope) -> Stmt:
        match self.chance.randrange(5):
            case 0 if names := scope.assignable(scope.texts):
                return line(f"{self.chance.choice(names)} = {self.text(scope)};")
            case 1 if names := scope.assignable(scope.numbers):
                return line(f"{self.chance.choice(names)} = {self.number(scope)};")
            case 2 if names := scope.assignable(scope.lists):
                name = self.chance.choice(names)
                return line(f"{name} = list::take({name} + [{self.text(scope)}], 4);")
            case 3 if scope.maps:
                return line(f'{scope.maps[0]}["{self.pick("a", "c")}"] = {self.number(scope)};')
            case _:
                value, name = self.text(scope), self.fresh("t")
                scope.texts.append(name)
                return line(f"let {name} = {value};")

    def _print(self, scope: Scope) -> Stmt:
        if self.happens(0.2):
            return line(f"print({self.send(scope)});")
        return line(f'print("{self.fresh("p")} {{{self.text(scope)}}}");')

    def _read(self, scope: Scope) -> Stmt:
        path, name = self.path(scope), self.fresh("r")
        match self.chance.randrange(4):
            case 0:
                scope.flags.append(name)
                return line(f"let {name} = file::exists({path});")
            case 1:
                scope.lists.append(name)
                return line(f'let {name} = file::list("{self.pick("a", "a", "b")}");')
            case _:
                scope.texts.append(name)
                return line(f"let {name} = file::read({path});")

    def _write(self, scope: Scope) -> Stmt:
        if not scope.writes:
            return self._read(scope)
        return line(f"file::write({self.path(scope)}, {self.text(scope)});")

    def spawn(self, scope: Scope) -> Stmt:
        kind, name = self.chance.choice(self.kinds), self.fresh("k")
        if kind.writes and not scope.writes:
            return self._ask(scope)
        more = f" wallet {self.money()}" if self.happens(0.25) else ""
        if self.happens(0.3):
            strategy = self.pick("restart", "stop")
            most = self.chance.randrange(3)
            rules = f"strategy {strategy}  max_restarts {most}  window 12h"
            more += f" supervised by {{ {rules} }}"
        scope.handles.append((name, kind))
        return line(f"let {name} = spawn {kind.name}{more};")

    def _call(self, scope: Scope) -> Stmt:
        known = scope.functions
        if not known or (not scope.writes):
            return self._ask(scope)
        function = self.chance.choice(known)
        number = str(self.chance.randrange(3)) if function == "again(" else self.number(scope)
        given, name = f"{self.text(scope)}, {number}", self.fresh("t")
        scope.texts.append(name)
        return line(f"let {name} = {function}{given});")

    def _purse(self, scope: Scope) -> Stmt:
        what = self.pick("remaining", "used", "limit")
        if self.happens(0.5):
            name = self.fresh("q")
            scope.flags.append(name)
            return line(f"let {name} = budget::{what}() > {self.money()};")
        return line(f"print(budget::{what}());")

    def _person(self, scope: Scope) -> Stmt:
        name, question = self.fresh("h"), self.message(scope)
        if self.happens(0.5):
            scope.flags.append(name)
            return line(f"let {name} = human::approve({question}, 5s);")
        scope.texts.append(name)
        return line(f'let {name} = human::ask({question}, 5s) ?? "";')

    def _note(self, scope: Scope) -> Stmt:
        return line(f"trace::event({self.message(scope)});")

    def _sleep(self, scope: Scope) -> Stmt:
        return line(f"process::sleep({self.pick('1ms', '40ms', '150ms')});")

    def _fail(self, scope: Scope) -> Stmt:
        return line(f'if {self.flag(scope)} {{ fail("f {{{self.text(scope)}}}"); }}')

    def _jump(self, scope: Scope) -> Stmt:
        if scope.in_loop:
            return line(f"if {self.flag(scope)} {{ {self.pick('break', 'continue')}; }}")
        if scope.returns and self.happens(0.5):
            return line(f"if {self.flag(scope)} {{ return {self.text(scope)}; }}")
        return self._fail(scope)

    def _comprehension(self, scope: Scope) -> Stmt:
        inside = scope.inner()
        inside.texts.append("w")
        inside.fixed.append("w")
        items, name = self.items(scope), self.fresh("xs")
        condition = f" if {self.flag(inside)}" if self.happens(0.3) else ""
        scope.lists.append(name)
        asked = self.send(inside, plain=True)
        return line(f"let {name} = [for w in {items}{condition} {{ {asked} }}];")

    def race(self, scope: Scope) -> Stmt:
        """Sends only: what has several calls in it is sooner at its end where they overlap."""
        name = self.fresh("t")
        listed = ", ".join(self.send(scope, plain=True) for _ in range(self.chance.randint(2, 3)))
        good = self.pick(f"race [{listed}]", f'race w in [{listed}] if not ("a" in w)')
        scope.texts.append(name)
        stmts = [line(f"{name} = {good};")]
        caught = ["try {", Block(stmts), "} catch {", Block([line(f'{name} = "none";')]), "}"]
        return Stmt([f'let {name} = "";', *caught])

    def _later(self, scope: Scope) -> Stmt:
        """Both are waited for, whatever becomes of the first; between them only what is seen."""
        one, two, name = self.fresh("u"), self.fresh("u"), self.fresh("t")
        stmts = [line(f'let {name} = "";')]
        stmts += [line(f"let {at} = async {self.send(scope, plain=True)};") for at in (one, two)]
        if self.happens(0.5):
            stmts.append(line(f'print("{name} {{{self.pick(*scope.texts, name)}}}");'))
        for at in (one, two):
            got = Block([line(f"{name} = {name} + (await {at});")])
            stmts.append(Stmt(["try {", got, "} catch {", Block(), "}"]))
        stmts.append(line(f"print({name});"))
        return Stmt(["if true {", Block(stmts), "}"])

    def _link(self, scope: Scope) -> Stmt:
        if len(scope.handles) < 2:
            return self.spawn(scope)
        one, other = self.chance.sample([name for name, _ in scope.handles], 2)
        return line(f"link({one}, {other});")

    def _peek(self, scope: Scope) -> Stmt:
        """A tool called as a function, with rights of its own."""
        path, name = self.path(scope), self.fresh("r")
        scope.texts.append(name)
        return line(f"let {name} = peek({path});")

    def _hand(self, scope: Scope) -> Stmt:
        """A process given to a function, or one that a function gives."""
        keepers = [name for name, kind in scope.handles if kind.name == "Plain"]
        given, name = self.text(scope), self.fresh("t")
        if keepers:
            scope.texts.append(name)
            return line(f"let {name} = handed({self.chance.choice(keepers)}, {given});")
        plain = next(kind for kind in self.kinds if kind.name == "Plain")
        scope.handles.append((name, plain))
        return line(f"let {name} = made({given});")
