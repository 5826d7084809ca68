"""The subset of Python that programs may use: what each builtin, method and operator becomes, and
what to say about the rest (pure).

A function or method is listed only if it returns the same value under Python, for every value
that the checker lets through.
"""

import ast

DECLARING: dict[str, frozenset[str]] = {
    "__future__": frozenset({"annotations"}),
    "dataclasses": frozenset({"dataclass"}),
    "pydantic": frozenset({"BaseModel"}),
    "typing": frozenset({"Annotated", "Any", "Literal", "Optional"}),
}
"""Names of other modules that say what types are; those of `vegakit` mean something everywhere."""

BUILTIN_TYPES = {"str": "str", "int": "int", "float": "float", "bool": "bool"}

BINARY: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
COMPARES: dict[type, str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
}

FUNCTIONS: dict[str, tuple[str, int, int]] = {
    "abs": ("math::abs", 1, 1),
    "float": ("float", 1, 1),
    "int": ("int", 1, 1),
    "len": ("len", 1, 1),
    "round": ("math::round", 1, 2),
}
"""Functions of Python that are one of the library: its name, the fewest and the most arguments."""

METHODS: dict[str, tuple[str, int]] = {
    "strip": ("str::trim", 0),
    "lower": ("str::lower", 0),
    "upper": ("str::upper", 0),
    "split": ("str::split", 1),
    "startswith": ("str::starts_with", 1),
    "endswith": ("str::ends_with", 1),
    "replace": ("str::replace", 2),
}
"""Methods that are a function of the library on what stands before the dot, and its arguments."""

RESERVED = frozenset(
    "abs bool dict enumerate float int len list max min object print range reversed round set"
    " sorted str sum tuple zip any all super eval exec globals locals getattr setattr hasattr"
    " isinstance repr".split()
)
"""Names of Python that a variable may not take: a reader knows them as something else. Those that
people do give to variables, and that nothing here can call, are free: `id`, `type`, `input`."""

NO_BUILTINS: dict[str, tuple[str, str]] = {
    "all": ("takes a generator", "walk the list in a `for` and keep a bool"),
    "any": ("takes a generator", "walk the list in a `for` and keep a bool"),
    "bool": ("turns anything into a bool", "compare: `x != 0`, `len(xs) > 0`, `x is not None`"),
    "dict": ("copies a dict", "write `{**d}`"),
    "enumerate": ("gives pairs", "write `for i, x in enumerate(xs):`"),
    "eval": ("runs text as code", "nothing here runs text; ask an agent with `returns=`"),
    "exec": ("runs text as code", "nothing here runs text; ask an agent with `returns=`"),
    "compile": ("runs text as code", "nothing here runs text; ask an agent with `returns=`"),
    "__import__": ("loads code", "put it into a function with `@tool(capabilities=[...])`"),
    "filter": ("takes a function", "write `[x for x in xs if …]`"),
    "format": ("formats otherwise than Vega", 'write f"{x}", or `vega.text(x)`'),
    "getattr": ("looks names up while it runs", "write the field: `x.name`"),
    "setattr": ("looks names up while it runs", "write the field: `x.name = …`"),
    "hasattr": ("looks names up while it runs", "records have the fields they declare"),
    "globals": ("looks names up while it runs", "pass the value as an argument"),
    "locals": ("looks names up while it runs", "pass the value as an argument"),
    "vars": ("looks names up while it runs", "write the field: `x.name`"),
    "id": ("tells objects apart", "values here have no identity; compare with `==`"),
    "hash": ("gives another number each run", "use the value itself as a key"),
    "input": ("reads the terminal", 'write `vega.human.ask("…", "1h")`'),
    "isinstance": ("asks for a type", "types are known before the run; compare a field"),
    "iter": ("makes an iterator", "write a `for`"),
    "map": ("takes a function", "write `[f(x) for x in xs]`"),
    "next": ("takes an iterator", "write `xs[0]`, or `vega.list.first(xs)`"),
    "object": ("is a class", "declare a record: `class Point(BaseModel):`"),
    "open": ("reads and writes files", "write `vega.file.read(path)`"),
    "ord": ("is not in the library", "compare the text itself"),
    "chr": ("is not in the library", "write the text itself"),
    "pow": ("gives an int or a float", "write `vega.math.pow(x, y)` for floats"),
    "divmod": ("gives a tuple", "write `a // b` and `a % b`"),
    "range": ("gives a range, which is no list", "write `list(range(n))`"),
    "repr": ("spells values as Python does", "write `vega.text(x)`"),
    "reversed": ("gives an iterator, which is walked once", "write `list(reversed(xs))`"),
    "set": ("gives a set, which has no order", "write `vega.list.unique(xs)`"),
    "frozenset": ("gives a set, which has no order", "write `vega.list.unique(xs)`"),
    "super": ("is for classes with methods", "records have no methods; write a function"),
    "tuple": (
        "gives a tuple, which a program does not have",
        "write `list(xs)`, or declare a record",
    ),
    "type": ("asks for a type", "types are known before the run"),
    "zip": ("gives pairs", "write `for i, x in enumerate(xs):` and `ys[i]`"),
}

NO_METHODS: dict[str, tuple[str, str]] = {
    "find": ("gives -1 where nothing is found", "write `vega.str.find({of}, …)`, which is None"),
    "rfind": ("is not in the library", "write `vega.str.find(text, …)`"),
    "index": ("raises where nothing is found", "write `vega.list.index_of({of}, …)`"),
    "splitlines": (
        "breaks at ten kinds of line end",
        "write `vega.str.lines({of})`, which breaks at \\n and \\r\\n",
    ),
    "extend": ("changes the list in place", "write `{of} = {of} + […]`"),
    "insert": ("changes the list in place", "write `{of} = vega.list.insert({of}, i, x)`"),
    "pop": (
        "changes the list in place",
        "write `vega.list.last({of})`, then `{of} = vega.list.remove_at({of}, i)`",
    ),
    "remove": ("changes the list in place", "write `[x for x in {of} if x != …]`"),
    "clear": ("changes it in place", "write `{of} = []`"),
    "sort": ("changes the list in place", "write `{of} = sorted({of})`"),
    "reverse": ("changes the list in place", "write `{of} = vega.list.reverse({of})`"),
    "update": ("changes the dict in place", "write `{of} = {{**{of}, **other}}`"),
    "setdefault": ("changes the dict in place", "write `if key not in {of}:` and assign"),
    "copy": ("is not needed", "values are never shared: write `ys = {of}`"),
    "format": ("formats otherwise than Vega", 'write an f-string: f"… {{x}}"'),
    "title": ("is not in the library", "write `.upper()` or `.lower()`"),
    "isdigit": ("is not in the library", "write `try: int({of})` and `except ValueError:`"),
    "lstrip": (
        "is not in the library",
        "`{of}.strip()` also takes the blanks at its end, if that does no harm",
    ),
    "rstrip": (
        "is not in the library",
        "`{of}.strip()` also takes the blanks at its begin, if that does no harm",
    ),
    "encode": ("gives bytes", "there are no bytes; keep the text"),
    "model_dump": ("gives a dict of anything", "write `vega.text({of})`, or read its fields"),
    "model_dump_json": ("is pydantic's", "write `vega.text({of})`"),
    "keys": ("gives a view that changes with the dict", "write `list({of}.keys())`"),
    "values": ("gives a view that changes with the dict", "write `list({of}.values())`"),
    "items": ("gives pairs", "write `for key, value in {of}.items():`"),
}


BUILTIN_EDITS: dict[str, str] = {
    "dict": "{{**{args}}}",
    "input": 'vega.human.ask({args}, "1h")',
    "range": "list(range({args}))",
    "repr": "vega.text({args})",
    "reversed": "list(reversed({args}))",
    "set": "vega.list.unique({args})",
    "frozenset": "vega.list.unique({args})",
    "tuple": "list({args})",
}
"""What takes the place of a call of a builtin that is not here."""

METHOD_EDITS: dict[str, str] = {
    "copy": "{of}",
    "extend": "{of} = {of} + {args}",
    "insert": "{of} = vega.list.insert({of}, {args})",
    "keys": "list({of}.keys())",
    "model_dump_json": "vega.text({of})",
    "reverse": "{of} = vega.list.reverse({of})",
    "sort": "{of} = sorted({of})",
    "splitlines": "vega.str.lines({of})",
    "update": "{of} = {{**{of}, **{args}}}",
    "values": "list({of}.values())",
}
"""What takes the place of a call of a method that is not here; an assignment, where the call stands
alone on its line."""


def _newer(**rows: tuple[str, str, str]) -> dict[type, tuple[str, str, str]]:
    """Return the rows whose nodes this version of Python has: it may be older than they are."""
    return {getattr(ast, name): row for name, row in rows.items() if hasattr(ast, name)}


NO_STATEMENTS: dict[type, tuple[str, str, str]] = {
    ast.AsyncFunctionDef: ("async def", "sends wait by themselves", "write `def`"),
    ast.AsyncFor: ("async for", "sends wait by themselves", "write `for`"),
    ast.AsyncWith: ("async with", "sends wait by themselves", "write `with`"),
    ast.ClassDef: ("class", "a class stands at the top of the file", "move it there"),
    ast.Delete: ("del", "a variable keeps its value", "leave it out, or use another name"),
    ast.FunctionDef: (
        "def",
        "a function inside a function would see variables that change",
        "move it to the top of the file and pass what it needs",
    ),
    ast.Global: ("global", "functions share no variables", "pass the value and return it"),
    ast.Nonlocal: ("nonlocal", "functions share no variables", "pass the value and return it"),
    ast.Import: ("import", "imports stand at the top of the file", "move it there"),
    ast.ImportFrom: ("import", "imports stand at the top of the file", "move it there"),
    ast.Assert: (
        "assert",
        "Python leaves it out under -O",
        'write `if not …:` and `raise Failed("…")`',
    ),
    ast.Match: ("match", "patterns have no equal here", "write `if … elif … else`"),
    ast.TryStar: ("except*", "an error comes alone here", "write `except`"),
    **_newer(
        TypeAlias=("type", "types are named at the top of the file", "move it there: `T = …`")
    ),
}

NO_EXPRESSIONS: dict[type, tuple[str, str, str]] = {
    ast.Lambda: ("lambda", "functions are not values", "write a `def` and call it by its name"),
    ast.Await: ("await", "a send waits by itself", "leave `await` out"),
    ast.Yield: ("yield", "there are no generators", "build a list and return it"),
    ast.YieldFrom: ("yield from", "there are no generators", "build a list and return it"),
    ast.GeneratorExp: ("a generator", "it is worked out later", "write a list: `[x for x in xs]`"),
    ast.SetComp: ("a set", "sets have no order", "write `vega.list.unique([…])`"),
    ast.Set: ("a set", "sets have no order", "write a list: `[a, b]`"),
    ast.DictComp: ("a dict comprehension", "", "begin with `{}` and assign in a `for`"),
    ast.NamedExpr: (":=", "it assigns inside an expression", "assign on a line of its own"),
    ast.Starred: ("*", "how many arguments there are must be known", "write them one by one"),
    ast.Tuple: ("a tuple", "there are lists and records", "write `[a, b]`, or declare a record"),
    ast.Slice: ("a slice", "it stands behind a list or str", "write `xs[a:b]`"),
    **_newer(TemplateStr=("a t-string", "it is no text", 'write an f-string: f"…"')),
}
