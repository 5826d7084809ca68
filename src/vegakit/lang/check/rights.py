"""Whether a body may do what it does, as far as the source tells: rights are written beside it
(pure).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from vegakit.lang.check.context import BodyCheck
from vegakit.lang.check.symbols import CalleeKind, Checked
from vegakit.lang.diagnostics import Diagnostic, Edit
from vegakit.lang.library import LIBRARY, in_project
from vegakit.lang.syntax.tree import (
    Binary,
    Call,
    FnDecl,
    Grants,
    Node,
    Text,
    ToolDecl,
    below,
)

# Whether a body may do what it does, as far as the source tells: rights are written beside it.


def need(body: BodyCheck, node: Node, capability: str, what: str) -> None:
    """Each capability that is lacking is reported once for a body."""
    grants = _grants(body)
    granted = [] if grants is None else [cap.name for cap in grants.capabilities or ()]
    if capability in body.lacking:
        return
    if any(_covers(name, capability) for name in granted):
        if grants is not None:
            _must_name(body, node, capability, grants, what)
        return
    body.lacking.add(capability)
    message = f"{what} needs the capability {capability}, which {_owner(body)} does not have"
    written, edit = _clause(body, grants, capability, _naming(body, node, capability, grants))
    if isinstance(body.owner, ToolDecl) and (grants is None or grants.capabilities is None):
        body.reports.warn(
            "missing-capability", node, f"{message}: it will be denied", written, edit
        )
    else:
        body.reports.error("missing-capability", node, message, written, edit)


_HOSTS = ("hosts", "allowed_hosts", "host", "api.example.com")
_NAMED = {
    "net::get": _HOSTS,
    "net::post": _HOSTS,
    "process::exec": ("commands", "allowed_commands", "command", "pytest -q **"),
}
"""Capabilities that allow nothing until a clause names what: the field of the tree, the clause, the
word for it, and an example."""
_OF_URL = re.compile(r"https?://([A-Za-z0-9.-]+)")


def _must_name(body: BodyCheck, node: Node, capability: str, grants: Grants, what: str) -> None:
    """Report a right to reach nothing, unless who runs the program lends it what is left open."""
    if capability not in _NAMED or body.program.is_lent:
        return
    field, clause, word, _ = _NAMED[capability]
    if getattr(grants, field):
        return
    body.lacking.add(capability)
    written = _naming(body, node, capability, grants)
    verb = "run" if capability == "process::exec" else "reach"
    which = "" if _reached(node, capability) else f", with your {word}s in place of this one"
    body.reports.error(
        "nothing-allowed",
        node,
        f"{what} may {verb} no {word} yet: {capability} covers only those that `{clause}` names",
        f"add `{written}` behind the list of rights{which}",
        None if getattr(grants, field) is not None else Edit(grants.end, grants.end, f" {written}"),
    )


def _naming(body: BodyCheck, node: Node, capability: str, grants: Grants | None) -> str:
    """Return the clause that names what a capability reaches, by what is called; empty if there is
    one, or none is needed."""
    if capability not in _NAMED or body.program.is_lent:
        return ""
    field, clause, _, example = _NAMED[capability]
    if grants is not None and getattr(grants, field):
        return ""
    return f'{clause} ["{_reached(node, capability) or example}"]'


def _reached(node: Node, capability: str) -> str:
    """Return the host or the command that a call says it reaches, or nothing."""
    wanted = literal_of(node).strip()
    if capability == "process::exec":
        return f"{wanted.split()[0]} **" if wanted else ""
    return found[1] if (found := _OF_URL.match(wanted)) else ""


def literal_of(node: Node) -> str:
    """Return the fixed text that a call begins its first argument with, or nothing."""
    match node:
        case Call(args=(Text(parts=(str() as first, *_)), *_)):
            return first
        case Call(args=(Binary(op="+", left=Text(parts=(str() as first, *_))), *_)):
            return first
        case _:
            return ""


def check_inside(body: BodyCheck, node: Call, name: str) -> None:
    """Report a path that leaves the project, where files of programs lie."""
    path = literal_of(node)
    is_outside = in_project(path).startswith(("/", "~", "../"))
    if LIBRARY[name].capability.startswith("fs::") and is_outside:
        body.reports.error(
            "outside-project",
            node.args[0],
            f"`{path}` lies outside the project, which a program cannot reach",
            "write a path from the folder of the project, such as `docs/a.md`",
        )


def _covers(branch: str, name: str) -> bool:
    return name == branch or name.startswith(f"{branch}::")


def _grants(body: BodyCheck) -> Grants | None:
    """A function without rights of its own has those of the file; a tool has only its own."""
    return _grants_of(body.owner, body.names.unit.source.header)


def _grants_of(owner: FnDecl | ToolDecl | None, header: Grants | None) -> Grants | None:
    if owner is None:
        return header
    if isinstance(owner, FnDecl) and (owner.grants is None or owner.grants.capabilities is None):
        return header
    return owner.grants


def _owner(body: BodyCheck) -> str:
    match body.owner:
        case FnDecl(name=name):
            return f"the function `{name}`"
        case ToolDecl(name=name):
            return f"the tool `{name}`"
        case None:
            return "this file"


def _clause(
    body: BodyCheck, grants: Grants | None, capability: str, naming: str
) -> tuple[str, Edit | None]:
    """`naming` is the clause that a capability needs beside it."""
    listed = None if grants is None else grants.capabilities
    also = f" {naming}" if naming else ""
    if grants is not None and listed:
        at, text = listed[-1].end, body.names.unit.text
        end = grants.end if naming and getattr(grants, _NAMED[capability][0]) is None else at
        written = f", {capability}{text[at:end]}{also if end > at else ''}"
        behind = f", and{also.replace(' ', ' `', 1)}` behind it" if end > at and also else ""
        return f"add it to the list: `{capability}`{behind}", Edit(at, end, written)
    match body.owner:
        case FnDecl(body=block):
            clause = f"may [{capability}]{also}"
        case ToolDecl(body=block):
            clause = f"capabilities [{capability}]{also}"
        case None:
            clause = f"program may [{capability}]{also}"
            if grants is None:
                return f"write `{clause}` at the top of the file", Edit(0, 0, f"{clause}\n\n")
            return f"write `{clause}` at the top of the file", None
    if listed is not None:
        return f"write `{clause}`", None
    return f"add `{clause}` before the body", Edit(block.at, block.at, f"{clause} ")


_NO_SHELL = re.compile(r'(?:\s*(?:2>\s*(?:&1|/dev/null)|(?:\|\||;)\s*(?:true|:)))+\s*(["\'])$')
"""The end of a command that `exec::run` needs no shell for: its errors and its exit code are no
failure."""
_SHELL = re.compile(r"(?:^|\s)(?:\|\|?|&&?|;|\d?>>?(?:&\d)?\S*|<)(?:\s|$)|\$\(|`|\d>&\d|;\s")


def check_command(body: BodyCheck, node: Call, name: str) -> None:
    """Report a command that only a shell would understand: none reads it."""
    if LIBRARY[name].capability != "process::exec" or not node.args:
        return
    given = node.args[0]
    parts = given.parts if isinstance(given, Text) else (literal_of(node),)
    texts = (part for part in parts if isinstance(part, str))
    found = next((one for text in texts if (one := _SHELL.search(text))), None)
    if found is None:
        return
    plain = _NO_SHELL.sub(r"\1", body.source(given))
    called = "exec::run" if name == "exec" else name
    written = f"{called}({plain}){'.out' if name == 'exec' else ''}"
    is_plain = isinstance(given, Text) and not _SHELL.search(plain[1:-1])
    body.reports.error(
        "needs-shell",
        given,
        f"`{found[0].strip()}` is for a shell, and commands run without one",
        f"write `{written}`; no exit code fails it, and `.code` and `.err` tell what happened"
        if is_plain
        else "run each command by itself: `exec::run(…)` gives `code`, `out` and `err`",
        Edit(node.at, node.end, written) if is_plain else None,
    )


# Rules as they are written. What one means is said by `policy`, of which this room knows nothing.


def faults_of_rules(
    checked: Checked, check: Mapping[str, Callable[[str], str | None]]
) -> Iterator[Diagnostic]:
    """Yield what is wrong with the paths, commands and hosts that a program names; `check` tells it
    for a rule of each of these, or None."""
    for unit in checked.units.values():
        written = [node for node in below(unit.source) if isinstance(node, Grants)]
        for grants in sorted(written, key=lambda node: node.at):
            for field, tell in check.items():
                for rule in getattr(grants, field) or ():
                    fault = tell("".join(part for part in rule.parts if isinstance(part, str)))
                    if fault is not None:
                        what, _, remedy = fault.partition("; ")
                        yield Diagnostic("bad-rule", what, unit.path, rule.at, rule.end, remedy)


# Calls that say what they reach, held to the rules beside them: a run would refuse them each time.


Denial: TypeAlias = Callable[[str, str, Mapping[str, tuple[str, ...]]], tuple[str, str] | None]
"""By a capability, what a call reaches and the rules that are written: why no run would do it and
the rule that is lacking, empty where none says it; None if it may."""
_BEFORE_PATH = re.compile(r"https?://[^/?#\s]+[/?#]")
_CLAUSES = {"fs": "paths", "process": "commands", "net": "hosts"}


def denied_calls(checked: Checked, denial: Denial) -> Iterator[Diagnostic]:
    """Yield calls whose path, command or host is fixed text that no rule of theirs covers."""
    for unit in checked.units.values():
        nodes = list(below(unit.source))
        owners = [node for node in nodes if isinstance(node, FnDecl | ToolDecl)]
        for node in nodes:
            callee = checked.callees.get(id(node))
            if (
                not isinstance(node, Call)
                or callee is None
                or callee.kind is not CalleeKind.LIBRARY
            ):
                continue
            around = [one for one in owners if one.body.at <= node.at < one.body.end]
            grants = _grants_of(around[-1] if around else None, unit.source.header)
            found = _denied(node, LIBRARY[callee.name].capability, grants, denial)
            if found is not None:
                yield Diagnostic(
                    "never-allowed",
                    found[0],
                    unit.path,
                    node.args[0].at,
                    node.args[0].end,
                    *found[1:],
                )


def _denied(
    node: Call, capability: str, grants: Grants | None, denial: Denial
) -> tuple[str, str, Edit | None, str] | None:
    """Return message, help, edit and severity."""
    field = _CLAUSES.get(capability.partition("::")[0])
    granted = [cap.name for cap in grants.capabilities or ()] if grants is not None else []
    reached = _fixed(node, field) if field else ""
    if grants is None or not reached or not any(_covers(name, capability) for name in granted):
        return None
    rules = {name: _written(getattr(grants, name)) for name in _CLAUSES.values()}
    if not rules[str(field)] or (told := denial(capability, reached, rules)) is None:
        return None
    why, lacking = told
    last: Text = getattr(grants, str(field))[-1]
    return (
        f"{why}: this is always denied",
        f'add `"{lacking}"` to `allowed_{field}`'
        if lacking
        else "put it into a script, and allow that",
        Edit(last.end, last.end, f', "{lacking}"') if lacking else None,
        "warning",
    )


def _written(rules: tuple[Text, ...] | None) -> tuple[str, ...]:
    return tuple("".join(map(str, rule.parts)) for rule in rules or ())


def _fixed(node: Call, field: str) -> str:
    """Return what a call reaches if its source says so: all of its text, or an address up to its
    path."""
    match node.args:
        case (Text(parts=(str() as whole,)), *_):
            return whole
        case _ if field == "hosts" and (found := _BEFORE_PATH.match(literal_of(node))):
            return found[0]
        case _:
            return ""
