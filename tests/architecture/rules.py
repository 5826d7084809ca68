"""The rules of ARCHITECTURE.md, each a function from a source tree to what breaks it.

The tests run every rule over the real tree and over a tree with that one fault planted.
"""

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SRC = REPOSITORY / "src" / "vegakit"

IMPURE = frozenset(
    """
    asyncio concurrent http io logging multiprocessing os pathlib queue random secrets select
    selectors shutil signal socket sqlite3 ssl subprocess sys tempfile threading time urllib uuid
    """.split()
)
PURE_PARTS = frozenset({"urllib.parse", "sys.getrefcount"})
"""Parts of impure packages that only compute: quoting a path of a URL, who else holds a value."""
CLOCK_READS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
KINDS = re.compile(r"\((?:[\w ]+, )*(pure|host)\b")
BANNED_NAMES = frozenset("manager helper helpers util utils common misc base data info".split())


def architecture_layers() -> list[frozenset[str]]:
    """High to low; rooms of one line are strangers to each other."""
    block = re.search(r"```layers\n(.*?)```", _read(REPOSITORY / "ARCHITECTURE.md"), re.DOTALL)
    assert block, "ARCHITECTURE.md has no ```layers block"
    return [frozenset(line.split(" | ")) for line in block[1].strip().splitlines()]


def pure_rooms() -> frozenset[str]:
    rows = re.findall(
        r"^\| `(\w+)`[^|]*\| ([^|]+) \|", _read(REPOSITORY / "ARCHITECTURE.md"), re.MULTILINE
    )
    return frozenset(room for room, kind in rows if "pure" in kind)


def files(src: Path) -> list[Path]:
    return sorted(src.rglob("*.py"))


def room_of(src: Path, path: Path) -> str:
    return path.relative_to(src).parts[0].removesuffix(".py")


TEST_COMMANDS = {"crash.py", "test.py"}
"""`vega test` is the kit as a command."""


def rooms(src: Path) -> dict[str, Path]:
    """Each room's front: its module, or its package's `__init__`."""
    fronts = [p for p in src.glob("*.py") if not p.name.startswith("__")]
    return {room_of(src, p): p for p in [*fronts, *src.glob("*/__init__.py")]}


def layers(src: Path) -> Iterator[str]:
    rank = {room: depth for depth, line in enumerate(architecture_layers()) for room in line}
    for path, here, target in _inner_imports(src):
        if here not in {*rank, "testing", "__init__", "__main__"}:
            yield f"{path}: room {here!r} has no layer in ARCHITECTURE.md"
        elif here in rank and target in rank and rank[here] >= rank[target]:
            yield f"{path}: {here} may not import {target}"
        elif here in rank and target == "testing" and path.name not in TEST_COMMANDS:
            yield f"{path}: {here} may not import the testing kit"


def rooms_are_imported_whole(src: Path) -> Iterator[str]:
    for path in files(src):
        for module, _ in _imports(path):
            parts = module.split(".")
            foreign = len(parts) > 2 and parts[1] != room_of(src, path)
            if parts[0] == "vegakit" and foreign:
                yield f"{path}: import the room vegakit.{parts[1]}, not its file {module}"


def nobody_imports_the_root(src: Path) -> Iterator[str]:
    for path in files(src):
        for module, name in _imports(path):
            if module == "vegakit" and name != "*":
                yield f"{path}: nothing in src imports the root package"


def pure_rooms_do_no_io(src: Path) -> Iterator[str]:
    for path in files(src):
        if room_of(src, path) not in pure_rooms():
            continue
        for module, name in _imports(path):
            if module.partition(".")[0] in IMPURE and {module, f"{module}.{name}"}.isdisjoint(
                PURE_PARTS
            ):
                yield f"{path}: a pure room may not import {module}"
        for node in ast.walk(_parsed(_read(path))):
            if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
                yield f"{path}:{node.lineno}: a pure room does not await"
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"open", "print", "input"}:
                yield f"{path}:{node.lineno}: a pure room does not {ast.unparse(node.func)}"
            if isinstance(node, ast.Attribute) and ast.unparse(node) in CLOCK_READS:
                yield f"{path}:{node.lineno}: a pure room does not read the clock"


def only_config_reads_the_environment(src: Path) -> Iterator[str]:
    for path in files(src):
        if room_of(src, path) == "config":
            continue
        for node in ast.walk(_parsed(_read(path))):
            if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}:
                yield f"{path}:{node.lineno}: only config reads the environment"


THE_LOOK = Path("cli/look.py")
ESCAPES = re.compile(r"[\x1b\x9b]")


def one_place_starts_git(src: Path) -> Iterator[str]:
    """A command is a list of words with `git` among them, or with a tuple of such words."""
    for path in files(src):
        for node in ast.walk(_parsed(_read(path))):
            inner = node.value if isinstance(node, ast.Starred) else node
            is_part = isinstance(node, ast.Starred) and isinstance(inner, ast.Tuple)
            words = inner.elts if is_part or isinstance(inner, ast.List) else []
            named = any(isinstance(word, ast.Constant) and word.value == "git" for word in words)
            if named and path.name != "git_settings.py":
                yield f"{path}:{node.lineno}: only git_command starts git"


def only_the_look_writes_escape_codes(src: Path) -> Iterator[str]:
    """Strings as Python reads them, so however a code is spelled; docstrings and comments may
    speak of one."""
    for path in files(src):
        if path.relative_to(src) == THE_LOOK:
            continue
        for node in ast.walk(_parsed(_read(path))):
            text = node.value if isinstance(node, ast.Constant) else ""
            if isinstance(text, bytes):
                text = text.decode("latin-1")
            if isinstance(text, str) and ESCAPES.search(text):
                yield f"{path}:{node.lineno}: only {THE_LOOK} writes an escape code"  # pyright: ignore[reportAttributeAccessIssue]


WRITERS = {
    "tools/openat.py": "is the place: `write_output`, and `replace_file` below it",
    "child_process/launcher/child_supervisor.py": "puts files into the sandbox of a child",
    "child_process/launcher/guards.py": "sets limits of the kernel",
    "cli/main.py": "opens the null device",
    "cli/demo/crash.py": "fills a new temporary folder of its own",
    "config/trust.py": "lies below `tools`; the record of trust is in the user's own folder",
    "server/code_sessions.py": "is a store: appends to the log of a session",
    "server/mcp_http.py": "makes the token once, as a file that nobody else may read",
    "sage/undo/records.py": "is a store: what turns wrote, by content",
    "sage/undo/restoring.py": "takes turns back, name by name below an open folder",
    "sage/undo/windows.py": "is a store: which tools run beside",
    "store/sqlite/connection.py": "is a store",
    "telemetry/sqlite.py": "is a store",
    "testing/programs.py": "fills a temporary folder for a test program",
    "testing/provider/exchange.py": "appends to the log of a provider for tests",
    "tools/files.py": "moves a file of a workspace, name by name below an open folder",
    "tools/sandbox/quarantine.py": "moves what a command left behind, below an open folder",
    "tools/sandbox/seccomp.py": "writes filters of this repository, by hand",
    "tools/sandbox/workspace.py": "makes what a sandbox is mounted on, below an open folder",
}
"""Files that may write past `tools.write_output`, each with its reason."""
WRITES = {"write_text", "write_bytes", "touch"}
WRITING_FLAGS = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)")
WRITING_MODE = re.compile(r"[rbt+]*[wax+][bt+]*")


def only_one_place_writes_files(src: Path) -> Iterator[str]:
    """A file that a command writes for a user is replaced in one step, and no link is followed."""
    for path in files(src):
        if path.relative_to(src).as_posix() in WRITERS:
            continue
        for node in ast.walk(_parsed(_read(path))):
            if isinstance(node, ast.Call) and _writes(node):
                yield f"{path}:{node.lineno}: tools.write_output writes files"


def _writes(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    modes = [
        one.value
        for one in [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    if name in {"os.open", "open_own"}:
        return WRITING_FLAGS.search(ast.unparse(call)) is not None
    if name in {"os.rename", "os.replace", "shutil.copy", "shutil.copyfile", "shutil.move"}:
        return True
    return last in WRITES or (last == "open" and any(map(WRITING_MODE.fullmatch, modes)))


PRINTERS = {
    "cli/code.py": "writes past what is buffered at a second Ctrl-C; names of sessions are plain",
    "sage/tools/map_worker.py": "answers its parent as JSON in ASCII",
    "telemetry/logs.py": "logs to what is stderr at that moment: in a command, a safe stream",
    "testing/provider/__main__.py": "names its address, and is no command of ours",
}
"""Files that may write to a stream past a `SafeStream`, or outside of the command line, each with
its reason."""
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}


def only_safe_streams_are_written(src: Path) -> Iterator[str]:
    """In `cli`, `print` goes to a safe stream, as `main` has opened. Below a stream there are its
    buffer and its descriptor."""
    for path in files(src):
        if path.relative_to(src).as_posix() in PRINTERS:
            continue
        is_cli = room_of(src, path) == "cli"
        for node in ast.walk(_parsed(_read(path))):
            if isinstance(node, ast.Call) and _prints(node, is_cli=is_cli):
                yield f"{path}:{node.lineno}: only commands print, and to a safe stream"


def _prints(call: ast.Call, *, is_cli: bool) -> bool:
    name = ast.unparse(call.func)
    owner, _, last = name.rpartition(".")
    streams = {f"sys.{each}" for each in STREAMS}
    raw = {f"sys.{each}.buffer" for each in STREAMS} | {"sys.__stdout__", "sys.__stderr__"}
    if owner in raw or (name == "os.write" and ast.unparse(call.args[0]) in {"1", "2"}):
        return last.startswith("write")
    return not is_cli and (name == "print" or (owner in streams and last.startswith("write")))


def docstrings_say_pure_or_host(src: Path) -> Iterator[str]:
    for room, front in rooms(src).items():
        words = ast.get_docstring(_parsed(_read(front))) or ""
        kind = KINDS.search(words.split("\n\n")[0])
        if kind is None:
            yield f"{front}: the docstring's first paragraph says (pure) or (host)"
        elif (kind[1] == "pure") != (room in pure_rooms()):
            yield f"{front}: says {kind[1]}, ARCHITECTURE.md says otherwise"


def public_names_are_listed(src: Path) -> Iterator[str]:
    """A package lists its names in `__init__` (in `__all__`, or in the stub of what is loaded when
    it is used), a package of one module in that module. Inside, an underscore
    marks what is private to a module, and a second list would say the same again."""
    for path in [*src.glob("*.py"), *src.rglob("*/__init__.py")]:
        tree = _parsed(_read(path))
        listed = _listed(path)
        if path.name.startswith("__main__"):
            continue
        if listed is None:
            yield f"{path}: has no __all__"
            continue
        public = {
            node.name
            for node in tree.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and not node.name.startswith("_")
        }
        for name in sorted(public - set(listed)):
            yield f"{path}: public name {name} is not in __all__"


def rooms_offer_what_they_list(src: Path) -> Iterator[str]:
    """A package's `__init__` re-exports exactly what it imports."""
    for front in rooms(src).values():
        if front.name != "__init__.py":
            continue
        imported = {name for module, name in _imports(front) if module != "vegakit.lazy"}
        for name in sorted(imported ^ set(_listed(front) or ())):
            yield f"{front}: {name} is imported but not listed, or listed but not imported"


_FRAGMENTS = re.compile(
    r"(What|Who|Whose|Which|How|Where|Why|That|Of|In|On|At|By|To|For|From|With|Without|Between"
    r"|Through|Over|Under|Behind|Beside|Around|About|As|Into|Until)\b"
)
"""No sentence of ours opens so, apart from rare ones that are easily turned round."""


def docstrings_are_sentences(src: Path) -> Iterator[str]:
    """A docstring of a public name says something, and does not open as a fragment."""
    for path in files(src):
        tree = ast.parse(_read(path))
        for name, node in [("the module", tree), *_public(tree)]:
            text = (ast.get_docstring(node) or "").strip()
            if _FRAGMENTS.match(text):
                yield f"{path}: {name} opens with {text.split()[0]!r}; write a sentence with a verb"


def public_names_have_docstrings(src: Path) -> Iterator[str]:
    """Excepted is a method that a base class or a Protocol describes, and the Protocol's own, of
    which the class may speak as a whole."""
    trees = {path: ast.parse(_read(path)) for path in files(src)}
    classes = [n for tree in trees.values() for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    methods: dict[str, set[str]] = {}
    for found in classes:
        named = (part.name for part in found.body if isinstance(part, _FUNCTIONS))
        methods.setdefault(found.name, set()).update(named)
    seams = {found.name for found in classes if "Protocol" in map(_base_name, found.bases)}
    described = {name for seam in seams for name in methods[seam]}
    bases = {found.name: [_base_name(base) for base in found.bases] for found in classes}
    for path, tree in trees.items():
        for name, node in _public(tree):
            owner, _, method = name.rpartition(".")
            inherited = described.union(*(methods.get(base, ()) for base in _above(owner, bases)))
            if not (ast.get_docstring(node) or (owner and method in inherited)):
                yield f"{path}: {name} has no docstring"


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _public(
    tree: ast.Module | ast.ClassDef, owner: str = ""
) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every public class, function and method; not setters and overloads, which repeat another."""
    for node in tree.body:
        if not isinstance(node, (ast.ClassDef, *_FUNCTIONS)) or node.name.startswith("_"):
            continue
        if any(ast.unparse(each).endswith(("overload", "setter")) for each in node.decorator_list):
            continue
        yield f"{owner}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from _public(node, f"{owner}{node.name}.")


def _base_name(base: ast.expr) -> str:
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]


def _above(owner: str, bases: dict[str, list[str]]) -> set[str]:
    above, todo = set[str](), [*bases.get(owner, ())]
    while todo:
        name = todo.pop()
        if name not in above:
            above.add(name)
            todo += bases.get(name, ())
    return above


def modules_are_named(src: Path) -> Iterator[str]:
    for path in files(src):
        if path.stem in BANNED_NAMES or path.parent.name in BANNED_NAMES:
            yield f"{path}: {path.stem} does not say what it holds"


def importing_has_no_effects(src: Path) -> Iterator[str]:
    yield from _import_everything(src, _WATCH_EFFECTS)


def imports_without_unix(src: Path) -> Iterator[str]:
    yield from _import_everything(src, _HIDE_UNIX)


_WATCH_EFFECTS = """
import threading
READS = {None, "r", "rb"}
def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[1] not in READS:
        found.append(f"{module}: importing it opens {arguments[0]} to write")
    if event.split(".")[0] in {"socket", "subprocess", "shutil", "sqlite3"} or event in {
        "os.mkdir", "os.remove", "os.rename", "os.fork", "os.system", "os.putenv", "os.chdir"
    }:
        found.append(f"{module}: importing it raises {event} {arguments}")
sys.addaudithook(watch)
"""
_HIDE_UNIX = """
for hidden in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[hidden] = None
"""
_IMPORT = """
import importlib, io, sys
sys.dont_write_bytecode = True
sys.path.insert(0, {root!r})
found, module = [], ""
{watch}
sys.stdout = io.StringIO()
for module in {modules!r}:
    try:
        importlib.import_module(module)
    except ImportError as error:
        found.append(f"{{module}}: {{error}}")
printed, sys.stdout = sys.stdout.getvalue(), sys.__stdout__
if printed:
    found.append(f"importing prints {{printed!r}}")
import threading
if threading.active_count() > 1:
    found.append("importing starts a thread")
print("\\n".join(found))
"""


def _import_everything(src: Path, watch: str) -> list[str]:
    modules = [_module_name(src, path) for path in files(src) if path.name != "__main__.py"]
    code = _IMPORT.format(root=str(src.parent), watch=watch, modules=modules)
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=110, check=True)
    return ran.stdout.split("\n") if ran.stdout.strip() else []


def _module_name(src: Path, path: Path) -> str:
    parts = [src.name, *path.relative_to(src).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _inner_imports(src: Path) -> Iterator[tuple[Path, str, str]]:
    for path in files(src):
        here = room_of(src, path)
        seen = {m.split(".")[1] for m, _ in _imports(path) if m.startswith("vegakit.")}
        yield path, here, ""
        yield from ((path, here, target) for target in sorted(seen - {here}))


def _imports(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of every import, at any depth of the file, relative ones resolved."""
    stub = path.with_suffix(".pyi")
    parsed = [_parsed(_read(one)) for one in (path, stub) if one.exists()]
    for node in (node for tree in parsed for node in ast.walk(tree)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            if node.level:
                module = importlib.util.resolve_name(module, _package_of(path))
            yield from ((module, alias.asname or alias.name) for alias in node.names)


def _package_of(path: Path) -> str:
    parts = path.parent.parts
    return ".".join(parts[len(parts) - 1 - parts[::-1].index("vegakit") :])


@cache
def _parsed(text: str) -> ast.Module:
    """Many rules read the same files."""
    return ast.parse(text)


def _listed(path: Path) -> list[str] | None:
    """Return the names that a module lists, or the stub of a lazy package."""
    if (stub := path.with_suffix(".pyi")).exists() and path.name == "__init__.py":
        imports = (n for n in _parsed(_read(stub)).body if isinstance(n, ast.ImportFrom))
        return [alias.asname or alias.name for node in imports for alias in node.names]
    for node in _parsed(_read(path)).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if value is not None and [t.id for t in targets if isinstance(t, ast.Name)] == ["__all__"]:
            return ast.literal_eval(value)
    return None


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
