"""Programs as a model could write them, made up by chance: most are sound, some ask for too much.

Their agents answer as unkindly as an interface allows: too long, empty, not in the form that was
asked for, with errors, with calls of tools that they do not have.
"""

from random import Random
from typing import Any

from vegakit.conversation import ModelRequest
from vegakit.errors import ErrorClass, WorldError
from vegakit.records import to_json

__all__ = ["CANARY", "answers_of", "written"]

CANARY = "CANARY-7f3e"
_RETRY = "retry { max_attempts 2  backoff exponential(1ms, 1.0, 1ms) }"
_OWN = f'agent Own {{ model "worker"  system "I am Own."  max_tokens 40  {_RETRY} }}'
_TOOLED = (
    'agent Tooled { model "worker"  system "I am Tooled."  max_tokens 40  budget $0.02  '
    f"tools [look]  {_RETRY} }}"
)
_WRITER = f"""agent Writer {{
    model "worker"  system "I am Writer."  max_tokens 40  budget $0.05  {_RETRY}
    tool note(text: str) -> str "Ask another." {{
        let said = reader <- "note";
        return said;
    }}
}}"""
_AGENTS = ("reader", "checker", "Own", "Tooled", "Writer")


def written(chance: Random) -> str:
    """A whole program; `main` returns what it has gathered."""
    text = _Text(chance)
    body = "\n".join(text.statement(1) for _ in range(chance.randint(1, 4)))
    head = "program may [fs::read]\n" if text.reads else ""
    return (
        f"{head}{_OWN}\n{_TOOLED}\n{_WRITER}\n{''.join(text.functions)}"
        f"fn main() -> int {{\n    let seen = 0;\n{body}\n    return seen;\n}}\n"
    )


class _Text:
    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._number = 0
        self.functions: list[str] = []
        self.reads = False
        self._kinds = (
            *(self._ask, self._ask, self._each, self._listed, self._either, self._session),
            *(self._again, self._tried, self._at_once, self._later, self._process, self._python),
            *(self._file, self._call, self._typed),
        )
        self._wrong = (self._endless, self._huge, self._recursive, self._outside)

    def statement(self, depth: int) -> str:
        if self._chance.random() < 0.03:
            return self._indented(self._chance.choice(self._wrong)(depth), depth)
        simple = self._kinds[:2] + self._kinds[11:13]
        kind = self._chance.choice(self._kinds if depth < 4 else simple)
        return self._indented(kind(depth), depth)

    def _indented(self, text: str, depth: int) -> str:
        return "    " * depth + text

    def _block(self, depth: int) -> str:
        inner = "\n".join(self.statement(depth + 1) for _ in range(self._chance.randint(1, 2)))
        return f"{{\n{inner}\n{'    ' * depth}}}"

    def _name(self) -> str:
        self._number += 1
        return f"v{self._number}"

    def _agent(self) -> str:
        return self._chance.choice(_AGENTS)

    def _send(self) -> str:
        options = ("", "", "", " budget $0.01", " timeout 30s")
        return f'{self._agent()} <- "ask {self._name()}"{self._chance.choice(options)}'

    def _ask(self, depth: int) -> str:
        name = self._name()
        return f"let {name} = {self._send()}; seen = seen + len({name});"

    def _each(self, depth: int) -> str:
        return f"for {self._name()} in range({self._chance.randint(0, 5)}) {self._block(depth)}"

    def _listed(self, depth: int) -> str:
        name, most = self._name(), self._chance.randint(1, 4)
        ask = f'let {name} = {self._agent()} <- "list" as [str; {most}];'
        return f"{ask} for {self._name()} in {name} {self._block(depth)}"

    def _typed(self, depth: int) -> str:
        name = self._name()
        return f'let {name}: int = {self._agent()} <- "number"; seen = seen + {name} % 7;'

    def _either(self, depth: int) -> str:
        return f"if seen % 2 == 0 {self._block(depth)} else {self._block(depth)}"

    def _session(self, depth: int) -> str:
        return f"session budget $0.0{self._chance.randint(1, 9)} {self._block(depth)}"

    def _again(self, depth: int) -> str:
        name, most = self._name(), self._chance.randint(1, 4)
        return f"let {name} = true; while {name} limit {most} {self._rounds(name)}"

    def _rounds(self, name: str) -> str:
        return f'{{ let said = {self._send()}; {name} = str::contains(said, "x"); }}'

    def _tried(self, depth: int) -> str:
        return f"try {self._block(depth)} catch {{ seen = seen + 1; }}"

    def _at_once(self, depth: int) -> str:
        one, two = self._name(), self._name()
        sends = f"let {one} = {self._send()}; let {two} = {self._send()};"
        return f"parallel {{ {sends} }} seen = seen + len({one});"

    def _later(self, depth: int) -> str:
        name, most = self._name(), self._chance.randint(1, 6)
        asks = f"let {name} = [for i in range({most}) {{ async {self._send()} }}];"
        return f"{asks} for one in {name} {{ seen = seen + len(await one); }}"

    def _process(self, depth: int) -> str:
        name, agent = self._name(), self._chance.choice(("reader", "Own"))
        made = f"let {name} = spawn {agent} wallet $0.0{self._chance.randint(1, 5)};"
        return f'{made} seen = seen + len({name} <- "hello");'

    def _python(self, depth: int) -> str:
        return 'seen = seen + len(look("inside/a.txt"));'

    def _file(self, depth: int) -> str:
        self.reads = True
        path = self._chance.choice(("inside/a.txt", "secret.txt", "../secret.txt", "inside/none"))
        return f'try {{ print(file::read("{path}")); }} catch {{ seen = seen + 1; }}'

    def _call(self, depth: int) -> str:
        name = f"f{len(self.functions)}"
        send = self._send()
        self.functions.append(f"fn {name}() -> int {{ let said = {send}; return len(said); }}\n")
        return f"seen = seen + {name}();"

    def _endless(self, depth: int) -> str:
        return f"let on = true; while on {self._rounds('on')}"

    def _huge(self, depth: int) -> str:
        return f"for i in range(100000) {{ let said = {self._send()}; }}"

    def _recursive(self, depth: int) -> str:
        self.functions.append('fn deep(n: int) -> int { reader <- "x"; return deep(n); }\n')
        return "seen = seen + deep(1);"

    def _outside(self, depth: int) -> str:
        return self._chance.choice(
            (
                'seen = seen + len(hidden("x"));',
                'print(human::ask("Who?", 1m));',
                'let h = spawn Stranger; h <- "x";',
                'file::write("inside/b.txt", "x");',
            )
        )


def answers_of(chance: Random) -> Any:
    """A script: what each request is answered with."""

    def answer(request: ModelRequest) -> Any:
        if chance.random() < 0.08:
            return WorldError("busy", ErrorClass.OVERLOADED)
        if request.tools and chance.random() < 0.5:
            known = [spec.name for spec in request.tools]
            name = chance.choice([*known, "hidden", "run_program"])
            arguments = {"path": "secret.txt", "text": "x", "source": "print(1);"}
            return {"calls": [{"name": name, "arguments": arguments}] * chance.randint(1, 3)}
        if request.output is not None and chance.random() < 0.7:
            return to_json(_of_schema(request.output.json_schema)).decode()
        return chance.choice(("", "x", "x " * request.settings.max_tokens, "{", '{"result": 5}'))

    return answer


def _of_schema(schema: Any) -> Any:
    """As much as it allows."""
    match schema.get("type"):
        case "object":
            fields = schema.get("properties", {})
            return {name: _of_schema(field) for name, field in fields.items()}
        case "array":
            return [_of_schema(schema["items"])] * schema.get("maxItems", 3)
        case "integer":
            return 2**40
        case _:
            return "x" * 50
