"""Tell what programs in Python reach for and is not here, names that are not imported and other
modules, and what is written instead (pure).
"""

import ast
import re
from typing import NamedTuple

from vegakit.lang.diagnostics import Edit
from vegakit.lang.python.context import (
    ORIGINS,
    FunctionContext,
    PythonFile,
    RefusedError,
    importing,
    joined,
    with_imports,
)


def report_missing_imports(file: PythonFile, module: ast.Module) -> None:
    """Report each name of ours that is used and not imported, once, and go on as if it were."""
    given = {one.arg for one in ast.walk(module) if isinstance(one, ast.arg)}
    given |= {
        one.id
        for one in ast.walk(module)
        if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
    }
    given |= {
        one.name
        for one in ast.walk(module)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    for node in ast.walk(module):
        if not (isinstance(node, ast.Name) and node.id in ORIGINS):
            continue
        name, origin = node.id, ORIGINS[node.id]
        if name in given or name in file.imported or name in file.foreign:
            continue
        file.report(
            "python-import",
            node,
            f"`{name}` is not imported",
            f"write `from {origin} import {name}`",
            importing(file, name),
        )
        file.imported[name] = f"{origin}.{name}"


def unpack_module(file: PythonFile, module: ast.Module) -> None:
    """Report `import vegakit`, and read `vegakit.Agent` as `Agent`."""
    for node in module.body:
        if not isinstance(node, ast.Import):
            continue
        alias = next((one for one in node.names if one.name.startswith("vegakit")), None)
        if alias is None or len(node.names) > 1:
            continue
        name = alias.asname or "vegakit"
        used = _Unpacked(file, name)
        used.visit(module)
        names = ", ".join(sorted(used.names or {"Agent", "program"}, key=str.lower))
        written = f"from vegakit import {names}"
        edit = joined(file.text, [file.replaced(node, written), *used.edits])
        file.report(
            "python-import", node, "names of vegakit are imported one by one",
            f"write `{written}`", edit,
        )  # fmt: skip
        file.imported |= {one: f"vegakit.{one}" for one in used.names}
        module.body.remove(node)
        return


class _Unpacked(ast.NodeTransformer):
    def __init__(self, file: PythonFile, module: str) -> None:
        self._file, self._module = file, module
        self.names: set[str] = set()
        self.edits: list[Edit] = []

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == self._module:
            self.names.add(node.attr)
            self.edits.append(self._file.replaced(node, node.attr))
            return ast.copy_location(ast.Name(node.attr, node.ctx), node)
        return self.generic_visit(node)


# Other modules: what of them the library has.


class Equal(NamedTuple):
    """A row says what is written instead of a call: `{args}` are its arguments, `{of}` those of the
    call that it is a method of, `{seconds}` its argument as a duration. Only help where the
    arguments are others."""

    written: str
    is_edit: bool = True


_TOOL = "put what needs `{}` into a function with `@tool(capabilities=[...])`"
_EQUALS = {
    "json.loads": Equal("vega.json.parse({args})"),
    "json.dumps": Equal("vega.json.text({args})"),
    "time.sleep": Equal("vega.process.sleep({seconds})"),
    "asyncio.sleep": Equal("vega.process.sleep({seconds})"),
    "os.listdir": Equal("vega.file.list({args})"),
    "os.path.exists": Equal("vega.file.exists({args})"),
    "os.path.isfile": Equal("vega.file.exists({args})"),
    "os.path.basename": Equal("vega.file.name({args})"),
    "os.path.join": Equal('f"{folder}/{name}"', False),
    "os.system": Equal("vega.exec.run({args})"),
    "requests.get": Equal("vega.http.get({args})"),
    "httpx.get": Equal("vega.http.get({args})"),
    "requests.post": Equal("vega.http.post(url, body)", False),
    "httpx.post": Equal("vega.http.post(url, body)", False),
    "subprocess.run": Equal('vega.exec.run("git log")', False),
    "subprocess.check_output": Equal('vega.exec("git log")', False),
    "pathlib.Path().read_text": Equal("vega.file.read({of})"),
    "pathlib.Path().exists": Equal("vega.file.exists({of})"),
    "pathlib.Path().write_text": Equal("vega.file.write({of}, {args})"),
    "datetime.datetime.now().isoformat": Equal("vega.time.now()"),
    "datetime.datetime.now": Equal("vega.time.now()"),
    "datetime.datetime.utcnow": Equal("vega.time.now()"),
    "datetime.now": Equal("vega.time.now()"),
    "logging.info": Equal("print({args})"),
    "logging.warning": Equal("print({args})"),
    "logging.error": Equal("print({args})"),
    "math.sqrt": Equal("vega.math.sqrt({args})"),
    "math.floor": Equal("vega.math.floor({args})"),
    "math.ceil": Equal("vega.math.ceil({args})"),
    "math.pow": Equal("vega.math.pow({args})"),
    "copy.copy": Equal("{args}"),
    "copy.deepcopy": Equal("{args}"),
    "re.split": Equal("text.split(part)", False),
    "re.sub": Equal("text.replace(old, new)", False),
}
_HELP = {
    "asyncio.gather": "write `one = a.submit(…)` for each, then `one.result()`",
    "asyncio.run": "leave it out: a send waits by itself",
    "asyncio.create_task": "write `later = a.submit(…)`, and `later.result()`",
    "collections.defaultdict": "write `d: dict[str, int] = {}` and `d[k] = d.get(k, 0) + 1`",
    "collections.Counter": "write `d: dict[str, int] = {}` and `d[k] = d.get(k, 0) + 1`",
    "datetime.timedelta": 'write `vega.duration("30s")`',
    "pathlib.Path": "write the path as text: `vega.file.read(path)`",
    "random.choice": "ask for it as an argument of `main`: a program does the same each time",
    "decimal.Decimal": 'write `vega.money("$1.50")` for money, else a float',
}
_RUNNING = frozenset(["Runtime", "load", "map_all", "CallCache", "Budget"])


def refuse_foreign(body: FunctionContext, node: ast.Call) -> None:
    """Refuse a call of another module, with what the library has instead; return if it is none."""
    root, path, of = _path(body, node)
    file = body.file
    if root is None or body.is_known(root.id):
        return
    if root.id in file.unread:
        raise RefusedError
    if root.id not in file.foreign:
        return
    said = path.replace("()", "")
    equal, written = _EQUALS.get(path), ""
    edit = None
    if equal is not None:
        args = ", ".join(map(file.source, node.args))
        seconds = f'"{args}s"' if args.isdecimal() else f"vega.time.of_seconds({args})"
        given = {"args": args, "of": of, "seconds": seconds}
        written = equal.written.format(**given) if equal.is_edit else equal.written
        if equal.is_edit and not node.keywords:
            needs = ["vega"] if "vega." in written else []
            edit = with_imports(file, file.replaced(node, written), *needs)
    if path.startswith("subprocess.") and (command := _command(node)):
        written = f'vega.exec.run("{command}")'
        edit = None if node.keywords else file.written(node, written)
    known = next((text for name, text in _HELP.items() if path.startswith(name)), "")
    advice = f"write `{written}`" if written else known or _TOOL.format(root.id)
    message = f"`{said}` is Python's own; a program may not reach it"
    file.refuse("python-foreign", node.func, message, advice, edit)


def _command(node: ast.Call) -> str:
    """Return the command of `subprocess.run(["git", "log"])`, empty where it is not plain words."""
    items = node.args[0].elts if node.args and isinstance(node.args[0], ast.List) else []
    words = [one.value for one in items if isinstance(one, ast.Constant)]
    plain = [word for word in words if isinstance(word, str) and _WORD.fullmatch(word)]
    return " ".join(plain) if len(plain) == len(items) else ""


_WORD = re.compile(r"[\w./:=@%+-]+", re.ASCII)


def _path(body: FunctionContext, node: ast.Call) -> tuple[ast.Name | None, str, str]:
    """Return the name that a call begins with, where it leads to, and what that was called with."""
    names: list[str] = []
    of, one = "", node.func
    while True:
        match one:
            case ast.Attribute(value=inner, attr=attr):
                names.insert(0, attr)
                one = inner
            case ast.Call(func=inner, args=args):
                of = ", ".join(map(body.file.source, args))
                names.insert(0, "()")
                one = inner
            case ast.Name(id=name):
                names.insert(0, body.file.foreign.get(name, name))
                return one, ".".join(names).replace(".()", "()"), of
            case _:
                return None, "", ""


def refuse_running(body: FunctionContext, node: ast.Call, name: str) -> None:
    """Refuse what runs programs, inside of one."""
    if body.file.imported.get(name) == f"vegakit.{name}" and name in _RUNNING:
        advice = "ask the agent itself: `writer(topic)`; `vega run` runs the program"
        message = f"`{name}` is for who runs programs, this is inside of one"
        body.refuse("python-call", node, message, advice)


# What is not Python at all.


_NOT_PYTHON: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\+\+|--\s*$"), "there is no `++`: write `i += 1`"),
    (re.compile(r"^\s*(?:let|var|const)\s"), "leave the keyword out: `x = 1`"),
    (re.compile(r"&&"), "write `and`"),
    (re.compile(r"\|\|"), "write `or`"),
    (re.compile(r"(?<![=!<>])!(?!=)"), "write `not`"),
    (re.compile(r"^\s*\}?\s*else\s+if\b"), "write `elif`"),
    (re.compile(r"=>"), "write a `def` and call it by its name"),
    (re.compile(r"<-"), "an agent is called: `answer = writer(message)`"),
    (re.compile(r"\{\s*$"), "a block begins with `:` and is indented"),
    (re.compile(r"^\s*(?:fn|func|function)\s"), "write `def`"),
)
_STEP = re.compile(r"\s*(\w+)(\+\+|--)\s*;?\s*\Z")
_LET = re.compile(r"\s*((?:let|var|const)\s+)")


def syntax_help(text: str, at: int, message: str) -> tuple[str, Edit | None]:
    """Return what to write instead of what Python cannot read."""
    begins = text.rfind("\n", 0, at) + 1
    ends = text.find("\n", begins)
    line = text[begins : len(text) if ends < 0 else ends]
    if message == "expected ':'":
        return "add `:` here", Edit(at, at, ":")
    if "was never closed" in message:
        return (
            f"close it with `{dict(zip('([{', ')]}', strict=True)).get(text[at : at + 1], ')')}`",
            None,
        )
    if "indent" in message:
        return "lines of one block begin in the same column", None
    if found := _STEP.match(line):
        written = f"{found[1]} {found[2][0]}= 1"
        edit = Edit(begins + found.start(1), begins + found.end(), written)
        return f"there is no `{found[2]}`: write `{written}`", edit
    if found := _LET.match(line):
        return "leave the keyword out", Edit(begins + found.start(1), begins + found.end(1), "")
    return next((help_ for pattern, help_ in _NOT_PYTHON if pattern.search(line)), ""), None
