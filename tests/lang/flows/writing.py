"""Random programs whose answers flow everywhere: through variables, lists, loops, handlers, futures
and functions. Every send, call and print has a line of its own, which a send names in its text."""

from random import Random

INDENT = "    "


SIMPLE = ("send", "send", "assign", "assign", "join", "at", "later", "show")
BLOCKS = ("if", "for", "while", "attempt", "build", "session", "at_once")


class Writer:
    """`blocks` are those that it may use. `plain`: no functions, and lists stay as they are."""

    def __init__(self, seed: int, blocks: tuple[str, ...] = BLOCKS, *, plain: bool = False) -> None:
        self.chance = Random(seed)
        self.blocks = blocks
        self.plain = plain
        self.lines: list[str] = []
        self.count = 0
        self.functions: list[str] = []

    def program(self) -> str:
        self.lines = [f"agent {name} {{ model smart budget $0.05 }}" for name in "AB"]
        for number in range(0 if self.plain else self.chance.randint(0, 2)):
            self._function(f"f{number}", "x: str, xs: [str]", "str")
        self._function("main", "x: str, xs: [str]", "str")
        return "\n".join(self.lines) + "\n"

    def _function(self, name: str, params: str, result: str) -> None:
        self.lines.append(f"fn {name}({params}) -> {result} {{")
        known = {"x": "str", "xs": "list"}
        self._send(known, 1, in_loop=False)
        self._body(known, 1, in_loop=False, size=self.chance.randint(3, 6))
        self._put(1, f"return {self._text(known)};")
        self.lines += ["}", ""]
        self.functions.append(name)

    def _put(self, depth: int, text: str) -> None:
        self.lines.append(INDENT * depth + text)

    def _fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def _body(self, known: dict[str, str], depth: int, *, in_loop: bool, size: int = 2) -> None:
        for _ in range(size):
            kinds = [*SIMPLE, *(["call"] if self.functions else ())]
            kinds += () if self.plain else ("list",)
            if depth < 4:
                kinds += self.blocks
            if in_loop and "while" in self.blocks:
                kinds.append("leave")
            getattr(self, f"_{self.chance.choice(kinds)}")(known, depth, in_loop=in_loop)

    def _inner(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        self._body(dict(known), depth + 1, in_loop=in_loop, size=self.chance.randint(1, 3))

    def _of(self, known: dict[str, str], kind: str) -> str:
        names = [name for name, each in known.items() if each == kind]
        return self.chance.choice(names)

    def _text(self, known: dict[str, str]) -> str:
        parts = [f"{{{self._of(known, 'str')}}}" for _ in range(self.chance.randint(1, 2))]
        return '"{}"'.format(" and ".join(parts))

    def _ask(self, known: dict[str, str]) -> str:
        said = f"<{len(self.lines) + 1}> {self._text(known)[1:]}"
        return f'{self.chance.choice("AB")} <- "{said}'

    def _send(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        name = self._fresh()
        self._put(depth, f"let {name} = {self._ask(known)};")
        known[name] = "str"

    def _assign(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        value = self._ask(known) if self.chance.random() < 0.6 else self._text(known)
        self._put(depth, f"{self._of(known, 'str')} = {value};")

    def _join(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        name = self._fresh()
        self._put(depth, f"let {name} = str::upper({self._text(known)});")
        known[name] = "str"

    def _list(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        name = self._of(known, "list")
        self._put(depth, f"{name} = list::take({name} + [{self._of(known, 'str')}], 3);")

    def _at(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        name = self._fresh()
        self._put(depth, f'let {name} = list::first({self._of(known, "list")}) ?? "";')
        known[name] = "str"

    def _later(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        future, name = self._fresh(), self._fresh()
        self._put(depth, f"let {future} = async {self._ask(known)};")
        self._put(depth, f"let {name} = await {future};")
        known[name] = "str"

    def _show(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        self._put(depth, f"print({self._text(known)});")

    def _call(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        name, called = self._fresh(), self.chance.choice(self.functions)
        given = f"{self._of(known, 'str')}, {self._of(known, 'list')}"
        self._put(depth, f"let {name} = {called}({given});")
        known[name] = "str"

    def _if(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        self._put(depth, f"if len({self._of(known, 'str')}) > {self.chance.randint(0, 3)} {{")
        self._inner(known, depth, in_loop=in_loop)
        if self.chance.random() < 0.5:
            self._put(depth, "} else {")
            self._inner(known, depth, in_loop=in_loop)
        self._put(depth, "}")

    def _for(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        name = self._fresh()
        written = f"[{self._of(known, 'str')}, {self._of(known, 'str')}]"
        over = self.chance.choice([self._of(known, "list"), written])
        self._put(depth, f"for {name} in {over} {{")
        self._inner(known | {name: "str"}, depth, in_loop=True)
        self._put(depth, "}")

    def _while(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        count, more = self._fresh(), self._of(known, "str")
        self._put(depth, f"let {count} = 0;")
        self._put(depth, f'while {count} < 3 and {more} != "stop" {{')
        self._put(depth + 1, f"{count} = {count} + 1;")
        self._inner(known, depth, in_loop=True)
        self._put(depth, "}")

    def _attempt(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        self._put(depth, "try {")
        self._inner(known, depth, in_loop=in_loop)
        self._put(depth, "} catch {")
        self._inner(known, depth, in_loop=in_loop)
        self._put(depth, "}")

    def _build(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        name, item = self._fresh(), self._fresh()
        over = self._of(known, "list")
        self._put(depth, f"let {name} = [for {item} in {over} {{")
        self._put(depth + 1, self._ask(known | {item: "str"}))
        self._put(depth, "}];")
        known[name] = "list"

    def _session(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        self._put(depth, "session budget $1 {")
        self._inner(known, depth, in_loop=in_loop)
        self._put(depth, "}")

    def _at_once(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        one, two = self._fresh(), self._fresh()
        self._put(depth, "parallel {")
        for name in (one, two):
            self._put(depth + 1, f"let {name} = {self._ask(known)};")
        self._put(depth, "}")
        known |= {one: "str", two: "str"}

    def _leave(self, known: dict[str, str], depth: int, *, in_loop: bool) -> None:
        self._put(depth, f'if {self._of(known, "str")} == "no" {{')
        self._put(depth + 1, self.chance.choice(["break;", "continue;"]))
        self._put(depth, "}")
