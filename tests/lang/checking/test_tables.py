"""What the compiler reads: every node of a right program is in its table."""

from pathlib import Path

import pytest

from tests.lang.checking.programs import checked, in_function
from tests.lang.checking.test_expression_types import TYPES
from tests.lang.checking.walking import expressions, is_open, nodes
from vegakit.lang import Checked, check_program, type_label
from vegakit.lang.check.symbols import Callee, CalleeKind, NameKind
from vegakit.lang.syntax.tree import AgentDecl, Ask, Call, FnDecl, Name, Spawn, ToolRef, Whole

EXAMPLES = Path(__file__).parent.parent / "data"


def _right(text: str, **files: str) -> Checked:
    program, found = checked(text, **files)
    assert program is not None, [(one.code, one.message) for one in found]
    return program


def _only(program: Checked, kind: type) -> list[int]:
    source = program.units["main.vega"].source
    return [id(node) for node in nodes(source) if type(node) is kind]


def test_every_expression_has_a_type_and_every_call_a_callee():
    """Nothing is left open in a program without errors."""
    body = " ".join(f"let it{at} = {text};" for at, (text, _) in enumerate(TYPES))
    program = _right(in_function(body))
    for node in expressions(program.units["main.vega"].source):
        assert not is_open(program.types[id(node)]), node
        assert not isinstance(node, Call) or id(node) in program.callees


def test_arguments_are_in_the_order_of_the_parameters():
    """Named arguments find their place, and what is left out is None."""
    program = _right(
        in_function('print(Finding(severity: "low", file: s)); print(str::slice(s, 1));')
    )
    orders = {program.callees[call].name: program.arguments[call] for call in _only(program, Call)}
    assert orders["Finding"] == (1, 0, None)
    assert orders["str::slice"] == (0, 1, None)


def test_callees_say_whom_a_call_reaches():
    """A function, a tool, the library, a record or a tool of a server."""
    text = in_function("print(twice(1)); print(shout(s)); print(Findings(items: []));")
    program = _right(text + 'use mcp "github" as gh fn g() { gh.create_issue("x"); }')
    assert set(program.callees.values()) >= {
        Callee(CalleeKind.LIBRARY, "print"),
        Callee(CalleeKind.FUNCTION, "twice"),
        Callee(CalleeKind.TOOL, "shout"),
        Callee(CalleeKind.RECORD, "Findings"),
        Callee(CalleeKind.MCP, "github.create_issue"),
    }


def test_names_say_what_they_are():
    """A variable, an agent or a supervisor, the last two with their full names."""
    program = _right(in_function("print(Coder <- s); print(spawn Coder supervised by Team);"))
    kinds = {program.names[name] for name in _only(program, Name) if name in program.names}
    assert kinds == {NameKind.VARIABLE, NameKind.AGENT, NameKind.SUPERVISOR}
    assert {"Coder", "Team", "twice", "shout", "probe"} <= set(program.full_names.values())


def test_whole_numbers_where_floats_are_wanted_are_floats():
    """The compiler makes a float of them."""
    program = _right(in_function("let q: float = 1; print(x * 2 > 3); print(-4 + x); print(q);"))
    assert {type_label(program.types[node]) for node in _only(program, Whole)} == {"float"}


def test_answers_have_their_types():
    """Text, structured, a future or a stream."""
    body = "print(c <- s); let q: bool = c <- s; let r = async c <- s; let t = c <~ s; print(q);"
    program = _right(in_function(body + " print(await r); for u in t { print(u); }"))
    assert [type_label(program.types[ask]) for ask in _only(program, Ask)] == [
        "str",
        "bool",
        "a future of str",
        "a stream",
    ]


def test_tools_of_agents_have_full_names():
    """A tool inside an agent carries the agent's name, wherever it is listed."""
    program = _right(
        'tool look() -> str { return ""; }'
        'agent A { tools [look]  tool peek() -> str { return ""; } } agent B { tools [peek] }'
    )
    refs = [program.full_names[ref] for ref in _only(program, ToolRef)]
    assert refs == ["look", "A.peek"]
    agents = [program.full_names[agent] for agent in _only(program, AgentDecl)]
    assert agents == ["A", "B"]


def test_types_of_functions_are_in_the_table():
    """Of the declaration, its parameters and its result as written."""
    program = _right("fn f(a: int?) -> [int] { print(a); return [1]; }")
    source = program.units["main.vega"].source
    function = source.decls[0]
    assert isinstance(function, FnDecl)
    assert type_label(program.types[id(function)]) == "[int]"
    assert type_label(program.types[id(function.params[0])]) == "int?"
    assert type_label(program.types[id(function.result)]) == "[int]"


def test_the_items_of_the_first_example_are_findings():
    """`let real = [];` in the example of the language's page is a list of findings."""
    text = (EXAMPLES / "review.vega").read_text("utf-8")
    program, found = check_program(text, "review.vega", lambda _path: None)
    assert (program is not None, found) == (True, ())
    assert program is not None
    kinds = {type_label(kind) for kind in program.types.values()}
    assert "[Finding]" in kinds
    assert not any("any" in kind for kind in kinds - {"any"})


AROUND = """
agent Coder { model fast } agent Reviewer { model fast } agent Summarizer { model fast }
let coder = spawn Coder; let reviewer = spawn Reviewer; let summarizer = spawn Summarizer;
let agent1 = spawn Coder; let agent2 = spawn Reviewer;
let code1 = "1"; let code2 = "2"; let code3 = "3"; let msg1 = "a"; let msg2 = "b"; let task = "t";
"""


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.vega")), ids=lambda path: path.stem)
def test_the_examples_are_right(path: Path):
    """Each example of the language's documents is right as written, with what it takes for granted
    declared before it."""
    text = path.read_text("utf-8")
    _, found = check_program(text, path.name, lambda _path: None)
    if any(one.severity == "error" for one in found):
        _, found = check_program(AROUND + text, path.name, lambda _path: None)
    assert [one.message for one in found if one.severity == "error"] == []


def test_spawned_names_have_full_names():
    """Of a file that is used too."""
    program = _right('use "lib/a.vega" print(spawn a::Finder);', lib__a="agent Finder { model x }")
    spawns = [n for n in nodes(program.units["main.vega"].source) if isinstance(n, Spawn)]
    assert program.full_names[id(spawns[0].agent)] == "a::Finder"
