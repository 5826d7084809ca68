"""The first pass: imports, constants, records and the heads of functions, before any body is read
(pure).
"""

import ast

from vegakit.lang import types
from vegakit.lang.diagnostics import Edit
from vegakit.lang.python.context import (
    VEGA_NAMES,
    FunctionHead,
    PythonFile,
    RecordHead,
    RefusedError,
    check_name,
    with_imports,
)
from vegakit.lang.python.subset import DECLARING, RESERVED
from vegakit.lang.python.types import is_none, type_of
from vegakit.lang.syntax import tree

# First pass: what the file declares, before any function is read.


def import_module(file: PythonFile, node: ast.Import) -> None:
    """Take `import x`: only functions that stay Python may use it."""
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        if alias.name.partition(".")[0] == "vegakit":
            file.refuse(
                "python-import",
                node,
                "names of vegakit are imported one by one",
                "write `from vegakit import Agent, program`",
            )
        file.foreign[name] = alias.name if alias.asname else name


def import_from(file: PythonFile, node: ast.ImportFrom) -> None:
    """Take `from x import y`. Names of vegakit and of types mean something in programs."""
    module = node.module or ""
    for alias in node.names:
        name = alias.asname or alias.name
        if alias.name == "*":
            file.imported |= {one: f"vegakit.{one}" for one in VEGA_NAMES}
            file.refuse(
                "python-import", node, "what is imported has to be seen", "name what you need"
            )
        if module == "vegakit.tools" and name == "tool":
            file.imported[name] = "vegakit.tool"
        elif module == "vegakit" or alias.name in DECLARING.get(module, ()):
            if alias.asname:
                file.refuse(
                    "python-import",
                    node,
                    f"`{alias.name}` keeps its name here",
                    f"write `from {module} import {alias.name}`",
                )
            file.imported[name] = f"{module}.{alias.name}"
        else:
            file.foreign[name] = f"{module}.{alias.name}"


def constant(file: PythonFile, name: str, node: ast.Assign | ast.AnnAssign) -> bool:
    """Take `LIMIT = 3` and return True if that is what it is: fixed text and numbers may be
    named."""
    value = signed(node.value)
    if isinstance(value, ast.Constant) and type(value.value) in (str, int, float, bool):
        _check_new_name(file, node, name)
        file.constants[name] = value
        return True
    return False


def signed(node: ast.expr | None) -> ast.expr | None:
    """Return `-3` as the constant that it is, anything else as it stands."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if (
            not isinstance(value, bool)
        ):
            return ast.copy_location(ast.Constant(-value), node)
        case _:
            return node


def _check_new_name(file: PythonFile, node: ast.AST, name: str) -> None:
    if name in RESERVED or file.is_declared(name):
        what = "a builtin of Python" if name in RESERVED else "there already"
        file.refuse("python-shadow", node, f"`{name}` is {what}", "choose another name")


def server(file: PythonFile, name: str, node: ast.Assign) -> tree.UseMcp | None:
    """`github = vega.mcp("github")`."""
    if (called := _named_by(file, node, "mcp")) is None:
        return None
    _check_new_name(file, node, name)
    file.servers.add(name)
    return tree.UseMcp(*file.span(node), called, name)


def used_node(file: PythonFile, name: str, node: ast.Assign) -> tree.UseNode | None:
    """`pay = vega.node("transfer_v1")`."""
    if (called := _named_by(file, node, "node")) is None:
        return None
    _check_new_name(file, node, name)
    file.nodes.add(name)
    return tree.UseNode(*file.span(node), called, name)


def _named_by(file: PythonFile, node: ast.Assign, function: str) -> str | None:
    """Return the one text that a function of `vega` is called with, if that is what it is."""
    match node.value:
        case ast.Call(
            func=ast.Attribute(value=of, attr=attr),
            args=[ast.Constant(value=str() as called)],
            keywords=[],
        ) if attr == function and file.means(of, "vegakit.vega"):
            return called
        case _:
            return None


# Records


def record_head(file: PythonFile, node: ast.ClassDef) -> None:
    """Take the name of a record, before its fields may be of other records."""
    _check_new_name(file, node, node.name)
    if any(isinstance(base, ast.Name | ast.Attribute) and _is_enum(base) for base in node.bases):
        _choices(file, node)
        return
    for one in node.decorator_list:
        if isinstance(one, ast.Call) and _is_dataclass(file, one.func):
            file.report(
                "python-class",
                one,
                "`@dataclass` has no arguments here",
                "write `@dataclass`",
                file.replaced(one, file.source(one.func)),
            )
            file.records[node.name] = RecordHead(True)
            return
    is_dataclass = any(_is_dataclass(file, one) for one in node.decorator_list)
    is_model = [file.imported.get(b.id) for b in node.bases if isinstance(b, ast.Name)] == [
        "pydantic.BaseModel"
    ] and len(node.bases) == 1
    if is_dataclass == is_model or node.keywords or (is_dataclass and node.bases):
        is_bare = not (node.bases or node.decorator_list or node.keywords)
        has_methods = any(isinstance(one, ast.FunctionDef) for one in node.body)
        why = "records do not inherit and have no other decorators"
        if is_bare:
            why = "a record has fields and no methods" if has_methods else "it says no base"
        file.report(
            "python-class",
            _head_of(file, node),
            f"`{node.name}` is no record: {why}",
            f"write `class {node.name}(BaseModel):`, or `@dataclass` above `class {node.name}:`",
            _as_model(file, node),
        )
        file.unread.add(node.name)
        is_dataclass = True
    file.records[node.name] = RecordHead(is_dataclass)


def _is_enum(base: ast.Name | ast.Attribute) -> bool:
    return (base.id if isinstance(base, ast.Name) else base.attr) in ("Enum", "StrEnum", "IntEnum")


def _choices(file: PythonFile, node: ast.ClassDef) -> None:
    """An enum is a choice of texts."""
    named = [one for one in node.body if isinstance(one, ast.Assign)]
    values = [one.value for one in named if isinstance(one.value, ast.Constant)]
    texts = [file.source(value) for value in values if isinstance(value.value, str)]
    if not texts:
        names = [one.targets[0] for one in named]
        texts = [f'"{file.source(name)}"' for name in names if isinstance(name, ast.Name)]
    listed = ", ".join(texts) or '"low", "high"'
    written = f"{node.name} = Literal[{listed}]"
    is_whole = texts and all(text[0] in "'\"" for text in texts) and len(named) == len(node.body)
    file.report(
        "python-class",
        _head_of(file, node),
        f"`{node.name}` is a choice of texts",
        f"write `{written}`",
        with_imports(file, file.replaced(node, written), "Literal") if is_whole else None,
    )
    file.aliases[node.name] = tree.ChoiceType(*file.span(node), ("",))


def _as_model(file: PythonFile, node: ast.ClassDef) -> Edit | None:
    """A class of fields only becomes a record by its base."""
    if node.decorator_list or node.bases or node.keywords:
        return None
    if not all(isinstance(one, ast.AnnAssign) for one in node.body):
        return None
    at = file.span(node).at + len(f"class {node.name}")
    return with_imports(file, Edit(at, at, "(BaseModel)"), "BaseModel")


def _is_dataclass(file: PythonFile, node: ast.expr) -> bool:
    """Its arguments change what `==`, order and assignments mean."""
    return file.means(node, "dataclasses.dataclass")


def _head_of(file: PythonFile, node: ast.ClassDef | ast.FunctionDef):  # noqa: ANN202
    span = file.span(node)
    first = file.text.find("\n", span.at)
    return type(span)(span.at, min(span.end, first if first >= 0 else span.end))


def record(file: PythonFile, node: ast.ClassDef) -> tree.Decl:
    """Return a class of fields as the declaration of a record."""
    head, fields = file.records[node.name], list[tree.Field]()
    for one in node.body:
        match one:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                fields.append(_field(file, head, one, name, annotation, value))
            case ast.Pass() | ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name in file.unread:
                file.methods.add(one.name)
            case _ if node.name in file.unread:
                pass
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                file.methods.add(one.name)
                file.report(
                    "python-class",
                    _head_of(file, one) if isinstance(one, ast.FunctionDef) else one,
                    "a record has fields and no methods",
                    f"write a function: `def {one.name}(it: {node.name}):`",
                )
            case _:
                file.report("python-class", one, "a record has fields only", "write `name: type`")
    return tree.TypeDecl(*file.span(node), node.name, tuple(fields))


def _field(
    file: PythonFile,
    head: RecordHead,
    node: ast.AnnAssign,
    name: str,
    annotation: ast.expr,
    value: ast.expr | None,
) -> tree.Field:
    kind = type_of(file, annotation)
    if name.startswith("_"):
        file.refuse(
            "python-class", node, f"`{name}` is no field to pydantic", f"write `{name.strip('_')}`"
        )
    if value is None:
        head.needed.add(name)
    elif not (is_none(value) and isinstance(kind, tree.OptionalType)):
        has_rule = isinstance(value, ast.Call) and any(
            keyword.arg not in ("default", "description", "title") for keyword in value.keywords
        )
        bare = Edit(file.span(annotation).end, file.span(value).end, "")
        rest = "; test in `main` what it says of the value" if has_rule else ""
        file.report(
            "python-default",
            value,
            "a field has no default but None",
            f"leave it out, or write `{name}: {file.source(annotation)} | None = None`{rest}",
            None if has_rule else bare,
        )
    head.fields[name] = kind
    return tree.Field(*file.span(node), name, kind)


# Functions


def head(file: PythonFile, node: ast.FunctionDef) -> FunctionHead:
    """Return the parameters, result and defaults of a function."""
    made, args = FunctionHead(node), node.args
    if args.vararg or args.kwarg or args.posonlyargs or args.kwonlyargs:
        odd = args.vararg or args.kwarg or next(iter([*args.posonlyargs, *args.kwonlyargs]))
        file.report(
            "python-parameter",
            odd,
            "a function takes named parameters, without `*`, `**` or `/`",
            f"write `{odd.arg}: list[{file.source(odd.annotation) if odd.annotation else 'str'}]`,"
            " or name them one by one",
        )
    if file.imported.keys() & {node.name} or node.name in {*RESERVED, "fail", "link", "file"}:
        file.report("python-shadow", _head_of(file, node), f"`{node.name}` is taken", "rename it")
    params: list[tree.Param] = []
    for arg in args.args:
        span = file.span(arg)
        check_name(file, arg, arg.arg, "a parameter")
        if arg.annotation is None:
            file.report(
                "python-parameter",
                arg,
                f"`{arg.arg}` has no type",
                f"write it like `{arg.arg}: str`",
            )
            continue
        try:
            params.append(tree.Param(*span, arg.arg, type_of(file, arg.annotation)))
        except RefusedError:
            continue
    made.params = tuple(params)
    for arg, default in zip(
        args.args[len(args.args) - len(args.defaults) :], args.defaults, strict=True
    ):
        _default(file, made, arg, default)
    if node.returns is not None and not is_none(node.returns):
        made.result = type_of(file, node.returns)
    return made


def _default(file: PythonFile, head: FunctionHead, arg: ast.arg, default: ast.expr) -> None:
    if not isinstance(signed(default), ast.Constant):
        advice = f"write `{arg.arg}: … | None = None` and test it in the function"
        file.report(
            "python-default", default, "a default is a fixed number, text, bool or None", advice
        )
        return
    head.defaults[arg.arg] = default


# Functions that stay Python, as a program sees them: what they take and give, by annotations.


def signature_of(
    file: PythonFile, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> types.Signature | None:
    """Return the signature of a function that stays Python, or None where an annotation says more
    than a program knows: then anything may be passed."""
    params: list[types.Parameter] = []
    optional = {arg.arg for arg in node.args.args[len(node.args.args) - len(node.args.defaults) :]}
    for arg in [*node.args.args, *node.args.kwonlyargs]:
        if _is_context(arg):
            continue
        if arg.annotation is None:
            file.refuse(
                "python-parameter",
                arg,
                f"`{arg.arg}` has no type",
                f"write it like `{arg.arg}: str`: a model has to know what to give",
            )
        kind = _type(file, type_of(file, arg.annotation))
        is_optional = arg.arg in optional
        if is_optional and not isinstance(kind, types.OptionalOf):
            kind = types.OptionalOf(kind)
        params.append(types.Parameter(arg.arg, kind, is_optional))
    result = types.NOTHING
    if node.returns is not None and not is_none(node.returns):
        result = _type(file, type_of(file, node.returns))
    return types.Signature(node.name, tuple(params), result)


def _is_context(arg: ast.arg) -> bool:
    """`ctx: ToolContext` is given by the host."""
    kind = arg.annotation
    name = kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", "")
    return name == "ToolContext"


def _type(file: PythonFile, written: tree.TypeExpr) -> types.Type:
    match written:
        case tree.NamedType(name=name) if name in file.records:
            fields = file.records[name].fields.items()
            return types.RecordOf(name, tuple((field, _type(file, kind)) for field, kind in fields))
        case tree.NamedType(name=name) if name in file.aliases:
            return _type(file, file.aliases[name])
        case tree.NamedType(name="str", most=int() as most):
            return types.Plain("str", most)
        case tree.NamedType(name=name):
            return types.PLAIN_TYPES.get(name, types.ANY)
        case tree.OptionalType(inner=inner):
            return types.OptionalOf(_type(file, inner))
        case tree.ListType(inner=inner, most=most):
            return types.ListOf(_type(file, inner), most)
        case tree.MapType(inner=inner, most=most):
            return types.MapOf(_type(file, inner), most)
        case tree.ChoiceType(choices=choices):
            return types.ChoiceOf(choices)
