"""Bodies of functions, tools and files: what they need around them, and what they leave unused."""

from vegakit.lang.checking.blocks import check_all
from vegakit.lang.checking.context import Body, Program
from vegakit.lang.checking.declared import Names
from vegakit.lang.checking.fitting import check
from vegakit.lang.checking.flowing import lets
from vegakit.lang.checking.relations import UNKNOWN, is_json, shown
from vegakit.lang.tree import FnDecl, Grants, Let, Node, ToolDecl
from vegakit.lang.types import MONEY, NOTHING, FutureOf

__all__ = ["check_file_body", "check_grants", "check_main", "check_routine"]


def check_routine(program: Program, names: Names, decl: FnDecl | ToolDecl, agent: str = "") -> None:
    """`agent` is the agent whose tool it is."""
    body = Body(program, names, decl)
    body.agent = agent
    body.result = program.types.get(id(decl), NOTHING)
    body.later = lets(decl.body.body)
    for param in decl.params:
        body.scopes.declare(param.name, "parameter", program.types[id(param)], param)
    if isinstance(decl, FnDecl) and decl.budget is not None:
        check(body, decl.budget, MONEY, "the budget")
    if isinstance(decl, ToolDecl):
        _tool(program, decl)
    check_grants(program, decl.grants)
    goes_on = check_all(body, decl.body.body)
    if goes_on and body.result not in (NOTHING, UNKNOWN):
        end = Node(decl.body.end - 1, decl.body.end)
        program.reports.error(
            "missing-return",
            end,
            f"`{decl.name}` can end here without returning {shown(body.result)}",
            "write `return …;` on every way through it",
        )
    _unused(body)


def _tool(program: Program, decl: ToolDecl) -> None:
    """A model fills in the parameters and reads the result, so both are written down."""
    for param in decl.params:
        kind = program.types[id(param)]
        if not is_json(kind):
            program.reports.error(
                "not-an-argument", param, f"a model cannot give {shown(kind)} to a tool"
            )
    result = program.types.get(id(decl), NOTHING)
    if result != NOTHING and not is_json(result) and decl.result is not None:
        program.reports.error(
            "not-a-result", decl.result, f"a tool cannot give {shown(result)} to a model"
        )
    for setting in decl.settings:
        if setting.name != "repeatable":
            program.reports.error(
                "unknown-setting",
                setting,
                f"a tool has no `{setting.name}`",
                "there is: repeatable",
            )


def check_grants(program: Program, grants: Grants | None) -> None:
    if grants is None:
        return
    for rows, word in (
        (grants.paths, "allowed_paths"),
        (grants.commands, "allowed_commands"),
        (grants.hosts, "allowed_hosts"),
    ):
        for row in rows or ():
            if not all(isinstance(part, str) for part in row.parts):
                program.reports.error(
                    "not-constant", row, f"`{word}` holds fixed text, without expressions in it"
                )


def check_file_body(program: Program, names: Names, is_main: bool) -> None:
    source = names.unit.source
    check_grants(program, source.header)
    if not source.body:
        return
    main = next(
        (one for one in source.decls if isinstance(one, FnDecl) and one.name == "main"), None
    )
    if not is_main:
        program.reports.error(
            "statements-in-used-file",
            source.body[0],
            "a file that is used by another holds declarations only",
            "put the statements into a function",
        )
    elif main is not None:
        program.reports.error(
            "main-and-statements",
            source.body[0],
            "a program is either `fn main` or statements at top level, not both",
            "move the statements into `main`",
        )
    body = Body(program, names, None)
    body.later = lets(source.body)
    check_all(body, source.body)
    _unused(body)


def check_main(program: Program, names: Names) -> None:
    """Its arguments come from the command line, and its result is shown."""
    for decl in names.unit.source.decls:
        if isinstance(decl, FnDecl) and decl.name == "main":
            for param in decl.params:
                kind = program.types.get(id(param), UNKNOWN)
                if not is_json(kind):
                    program.reports.error(
                        "main-parameter",
                        param,
                        f"the arguments of `main` come from outside, {shown(kind)} cannot",
                        "make it inside `main`",
                    )
            result = program.types.get(id(decl), NOTHING)
            if result != NOTHING and not is_json(result) and decl.result is not None:
                program.reports.error(
                    "main-result",
                    decl.result,
                    f"the result of `main` goes to the outside, {shown(result)} cannot",
                    "return what it said, or nothing",
                )


def _unused(body: Body) -> None:
    """Said only of bodies without errors: the use may be what is misspelled."""
    if body.reports.errors > body.errors_before:
        return
    for variable in body.scopes.all:
        if variable.role != "let" or variable.read or variable.name.startswith("_"):
            continue
        if isinstance(body.holes.seen(variable.type), FutureOf):
            body.reports.warn(
                "never-awaited",
                _name(body, variable.node),
                f"`{variable.name}` is never awaited, and its failure goes unseen",
                f"write `await {variable.name}`, or leave out `async`",
            )
        else:
            body.reports.warn(
                "unused-variable",
                _name(body, variable.node),
                f"`{variable.name}` is never read",
                f"leave it out, or call it `_{variable.name}`",
            )


def _name(body: Body, node: Node) -> Node:
    if isinstance(node, Let):
        at = body.names.unit.text.find(node.name, node.at + len("let"), node.value.at)
        if at >= 0:
            return Node(at, at + len(node.name))
    return node
