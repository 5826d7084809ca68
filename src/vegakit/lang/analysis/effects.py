"""Effect sets: what every function, tool and agent may touch, known before the program runs, and
the manifest made from them (pure).
"""

import re
from collections.abc import Hashable, Iterator
from enum import StrEnum
from functools import lru_cache, reduce
from typing import Generic, TypeVar
from unicodedata import normalize

from msgspec import Struct
from msgspec.structs import replace

from vegakit.ids import ANY_AGENT
from vegakit.lang.check.symbols import CalleeKind, Checked, NameKind, Unit
from vegakit.lang.codegen.bytecode import (
    AgentSpec,
    CompiledTool,
    Function,
    Module,
    Op,
    Rights,
    SupervisorSpec,
)
from vegakit.lang.codegen.compiler import compile_program
from vegakit.lang.codegen.writer import bodies_of
from vegakit.lang.diagnostics import count_steps, step_limit
from vegakit.lang.library import ASKS_PEOPLE, LIBRARY, in_project
from vegakit.lang.syntax.tree import Ask, Call, FnDecl, Name, Node, Spawn, Stmt, ToolDecl, below
from vegakit.lang.types import ProcessOf

# Whether two path rules may be about the same file: too often yes, never wrongly no.
#
# Folders count, as making a file changes the listing of its folder. Case and the spelling of
# letters do not, as on some systems they are one file. Links are not seen: who enforces paths
# follows them.


_WILD = re.compile(r"[*?\[]")


def paths_touch(one: str, other: str) -> bool:
    """Return whether two path rules may be about the same file: too often yes, never wrongly no."""
    mine, theirs = _names(one), _names(other)
    if ".." in mine or ".." in theirs:
        return True
    for name, their in zip(mine, theirs, strict=False):
        if "**" in (name, their):
            return True
        if not _names_touch(name, their):
            return False
    return True


@lru_cache(maxsize=4_096)
def _names(rule: str) -> tuple[str, ...]:
    clean = normalize("NFKC", normalize("NFKC", rule).casefold())
    return tuple(name for name in clean.replace("\\", "/").split("/") if name not in ("", "."))


def _names_touch(one: str, other: str) -> bool:
    """Compare what stands before the first wildcard."""
    mine, theirs = _WILD.search(one), _WILD.search(other)
    if mine is None and theirs is None:
        return one == other
    start = one if mine is None else one[: mine.start()]
    their_start = other if theirs is None else other[: theirs.start()]
    return start.startswith(their_start) or their_start.startswith(start)


# What something may touch, and when two such effect sets forbid another order.
#
# | class       | has                                                 | may start              |
# |-------------|-----------------------------------------------------|------------------------|
# | pure        | nothing                                             | when its operands are  |
# | revocable   | reads, gets, sends to agents that only read, spawns | early, unseen          |
# | irrevocable | writes, posts, commands, prints, people, unknown    | after all before it    |


class EffectClass(StrEnum):
    """The classes of effects, by when they may happen."""

    PURE = "pure"
    REVOCABLE = "revocable"
    IRREVOCABLE = "irrevocable"


class EffectSet(Struct, frozen=True, omit_defaults=True):
    """All that something may touch: globs of paths, hosts (`*` is any), commands, full names of
    agents, names of MCP servers. `looks` are commands that can change nothing, `unknown`
    capabilities that nobody here knows, and tools from elsewhere."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    gets: frozenset[str] = frozenset()
    posts: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    looks: frozenset[str] = frozenset()
    sends: frozenset[str] = frozenset()
    spawns: frozenset[str] = frozenset()
    servers: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    prints: bool = False
    asks_people: bool = False

    @property
    def class_(self) -> EffectClass:
        """Return the strongest class of the effects. They are irrevocable if anybody could notice
        them, people included, revocable if they only read, send or spawn, and else pure."""
        strong = self.writes or self.posts or self.commands or self.servers or self.unknown
        if strong or self.prints or self.asks_people:
            return EffectClass.IRREVOCABLE
        mild = self.reads or self.gets or self.sends or self.spawns
        return EffectClass.REVOCABLE if mild else EffectClass.PURE


NO_EFFECTS = EffectSet()


def joined(one: EffectSet, other: EffectSet) -> EffectSet:
    """Return the effects of both."""
    if one is NO_EFFECTS or other is NO_EFFECTS:
        return other if one is NO_EFFECTS else one
    count_steps(2 + (len(one.sends) + len(other.sends) + len(one.reads) + len(other.reads)) // 16)
    return EffectSet(
        *(getattr(one, name) | getattr(other, name) for name in EffectSet.__struct_fields__)
    )


def conflict(one: EffectSet, other: EffectSet) -> bool:
    """Return whether their order may be noticed in files, in the world, or by a person with a
    question. Lines that are printed stay in order anyway."""
    if one.class_ is EffectClass.PURE or other.class_ is EffectClass.PURE:
        return False
    if _conflicts_with_all(one) or _conflicts_with_all(other):
        return True
    return _touch(one.writes, other.reads | other.writes) or _touch(other.writes, one.reads)


def _conflicts_with_all(effects: EffectSet) -> bool:
    strong = effects.posts or effects.commands or effects.servers or effects.unknown
    return bool(strong or effects.asks_people)


def _touch(paths: frozenset[str], others: frozenset[str]) -> bool:
    count_steps(1 + len(paths) * len(others))
    return any(paths_touch(one, other) for one in paths for other in others)


# The effect sets of a whole program: what each body does itself, then what it does through others.


_MAIN = "main"
_EFFECT_SETS = "effect sets"
_ANYWHERE = frozenset({"**"})


Key = TypeVar("Key", bound=Hashable)


class _Body(Struct, Generic[Key]):
    """The effects of a body itself, and `through` which functions, tools and agents it does the
    rest."""

    effects: EffectSet
    through: set[Key]


def effects_of(checked: Checked) -> dict[str, EffectSet]:
    """Return the effect sets of a program by full name; what stands at the top of the file is
    `main`. Agents are `agent Name`."""
    effect_sets = checked.kept.get(_EFFECT_SETS)
    if effect_sets is None:
        with step_limit():
            effect_sets = checked.kept[_EFFECT_SETS] = _effects(checked)
    return effect_sets


def _effects(checked: Checked) -> dict[str, EffectSet]:
    module = compile_program(checked)
    functions = {function.name: function for function in module.functions}
    bodies = {name: _body(checked, module, functions[name], node) for name, node in _nodes(checked)}
    written = {tool.name for tool in module.tools}
    # Nodes are not written in Vega either, but only compute.
    written |= {one.name for one in checked.callees.values() if one.kind is CalleeKind.NODE}
    bodies |= {f"agent {spec.name}": _agent(spec, written) for spec in module.agents}
    return _closed(bodies)


def _closed(bodies: dict[Key, _Body[Key]]) -> dict[Key, EffectSet]:
    """Return what each body does with all that it does through others. Effect sets only grow and
    there are finitely many names in them, so this ends."""
    effect_sets = {name: body.effects for name, body in bodies.items()}
    changed = True
    while changed:
        changed = False
        for name, body in bodies.items():
            count_steps(1 + len(body.through))
            through = [effect_sets.get(other, NO_EFFECTS) for other in body.through]
            effects = reduce(joined, through, effect_sets[name])
            changed |= effects != effect_sets[name]
            effect_sets[name] = effects
    return effect_sets


def _nodes(checked: Checked) -> Iterator[tuple[str, FnDecl | ToolDecl | tuple[Stmt, ...]]]:
    for name, (_, decl) in bodies_of(checked):
        yield name, decl
    main: Unit = checked.units[checked.main]
    if main.source.body:
        yield _MAIN, main.source.body


def _agent(spec: AgentSpec, written: set[str]) -> _Body[str]:
    """Return what an agent does. What a tool does that is not written in Vega, nobody here
    knows."""
    elsewhere = frozenset(f"yaml {name}" for name in spec.yaml)
    elsewhere |= {name for name in spec.tools if name not in written}
    effects = EffectSet(
        sends=frozenset({spec.name}), servers=frozenset(spec.mcp), unknown=elsewhere
    )
    return _Body(effects, set(spec.tools))


def _body(checked: Checked, module: Module, function: Function, node: object) -> _Body[str]:
    rights = module.rights[function.rights]
    body = _Body[str](NO_EFFECTS, set())
    if isinstance(node, ToolDecl):
        for capability in rights.capabilities:
            body.effects = joined(body.effects, granted(capability, rights))
    for inner in below(node):
        _add(body, checked, module, rights, inner)
    return body


def _add(body: _Body[str], checked: Checked, module: Module, rights: Rights, node: Node) -> None:
    match node:
        case Call():
            _add_call(body, checked, rights, node)
        case Ask():
            body.through |= {f"agent {name}" for name in _whom(checked, module, node)}
        case Spawn():
            started = _started(checked.full_names.get(id(node.agent), ""), module)
            body.effects = joined(body.effects, EffectSet(spawns=frozenset(started)))
        case _:
            pass


def _add_call(body: _Body[str], checked: Checked, rights: Rights, node: Call) -> None:
    callee = checked.callees.get(id(node))
    if callee is None:
        return
    match callee.kind:
        case CalleeKind.FUNCTION | CalleeKind.TOOL:
            body.through.add(callee.name)
        case CalleeKind.MCP:
            server = frozenset({callee.name.partition(".")[0]})
            body.effects = joined(body.effects, EffectSet(servers=server))
        case CalleeKind.PYTHON:
            body.effects = joined(body.effects, EffectSet(unknown=frozenset({callee.name})))
        case CalleeKind.LIBRARY:
            body.effects = joined(body.effects, library_effects(callee.name, rights))
        case CalleeKind.RECORD | CalleeKind.NODE:
            pass


def library_effects(name: str, rights: Rights) -> EffectSet:
    """Return what a library function touches under these rights."""
    if name == "print":
        return EffectSet(prints=True)
    if name.startswith(ASKS_PEOPLE):
        return EffectSet(asks_people=True)
    if name == "exec::look":
        return EffectSet(reads=_ANYWHERE, looks=granted("process::exec", rights).commands)
    capability = LIBRARY[name].capability
    return granted(capability, rights) if capability else NO_EFFECTS


FILE_FUNCTIONS = frozenset({"file::read", "file::write", "file::exists", "file::list"})
"""Library functions that touch the one path they are given, or, of a folder, what is in it."""
_LONGEST_PATH = 1_000


def file_path(name: str, path: object) -> str:
    """Return the path that a file function is given, from the project's folder on; empty if it is
    not known, or written in a way that is left to who opens it."""
    if name not in FILE_FUNCTIONS or not isinstance(path, str) or len(path) > _LONGEST_PATH:
        return ""
    plain = in_project(path)
    return "" if plain.startswith(("/", "\\")) or ".." in plain or ":" in plain else plain


def on_path(effects: EffectSet, path: str) -> EffectSet:
    """Return what a file function touches whose path is known, out of all that it may touch. No
    link is followed, so paths that differ are different files."""
    if not path:
        return effects
    only = frozenset({path})
    return replace(
        effects,
        reads=only if effects.reads else frozenset(),
        writes=only if effects.writes else frozenset(),
    )


def granted(capability: str, rights: Rights) -> EffectSet:
    """Return what a capability touches under these rights."""
    paths = _ANYWHERE if rights.paths is None else frozenset(rights.paths)
    hosts = frozenset({"*"} if rights.hosts is None else rights.hosts)
    commands = frozenset({"*"} if rights.commands is None else rights.commands)
    match capability:
        case "fs::read":
            return EffectSet(reads=paths)
        case "fs::write":
            return EffectSet(writes=paths)
        case "net::get":
            return EffectSet(gets=hosts)
        case "net::post":
            return EffectSet(posts=hosts)
        case "process::exec":
            return EffectSet(commands=commands)
        case _:
            return EffectSet(unknown=frozenset({capability}))


def _whom(checked: Checked, module: Module, node: Ask) -> list[str]:
    """Return the agents that a send may reach: all of them for a handle that could be of any."""
    to, every = node.to, [spec.name for spec in module.agents]
    if isinstance(to, Name) and checked.names.get(id(to)) is NameKind.AGENT:
        return [checked.full_names[id(to)]]
    kind = checked.types.get(id(to))
    return [kind.agent] if isinstance(kind, ProcessOf) and kind.agent in every else every


def _started(name: str, module: Module) -> set[str]:
    """Return what a spawn starts. A supervisor starts its children."""
    groups: dict[str, SupervisorSpec] = {group.name: group for group in module.supervisors}
    found, due = set[str](), [name]
    while due:
        one = due.pop()
        if one and one not in found:
            found.add(one)
            due.extend(groups[one].children if one in groups else ())
    return found


# The effect sets of a module as the machine sees it: by agents, host calls and functions.
#
# What cannot be told from an instruction is taken to be everything: a send to a register that may
# hold any agent has the effect sets of all of them.


class ModuleEffects:
    """The effect sets of the functions and agents of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._specs: dict[str, AgentSpec] = {spec.name: spec for spec in module.agents}
        self._tools: dict[str, CompiledTool] = {tool.name: tool for tool in module.tools}
        self._hosts: dict[tuple[str, int], EffectSet] = {}
        bodies = dict[int | str, _Body[int | str]](
            enumerate(map(self._body, range(len(module.functions))))
        )
        bodies |= {name: self._agent(spec) for name, spec in self._specs.items()}
        bodies[ANY_AGENT] = _Body(NO_EFFECTS, {*self._specs})
        self._closed = _closed(bodies)

    def agent(self, name: str) -> EffectSet:
        """Return what a send to the agent may touch; of an unknown one all that any may."""
        return self._closed[name if name in self._specs else ANY_AGENT]

    def function(self, number: int) -> EffectSet:
        """Return what the function of this number may touch, with all that it calls."""
        return self._closed[number]

    def spec(self, name: str) -> AgentSpec | None:
        return self._specs.get(name)

    def tools_of(self, spec: AgentSpec) -> list[int]:
        """Return the functions of its tools that are written in Vega."""
        return [self._tools[name].function for name in spec.tools if name in self._tools]

    def host(self, name: str, rights: int) -> EffectSet:
        """Return what a call of the host may touch; a function that is not of the library may do
        anything."""
        key = name, rights
        if key not in self._hosts:
            in_library = name in LIBRARY
            self._hosts[key] = (
                library_effects(name, self._module.rights[rights])
                if in_library
                else EffectSet(unknown=frozenset({name}))
            )
        return self._hosts[key]

    def instruction(self, function: int, at: int) -> EffectSet:
        """Return what an instruction touches, with all that it calls."""
        through = self._through(function, at)
        return self._own(function, at) if through is None else self._closed[through]

    def called(self, function: int, at: int) -> str:
        """Return the agent whose name stands before a send; `ANY_AGENT` when the register of the
        send was not last written by it on a straight way."""
        code = self._module.functions[function].code
        register = code[at][2]
        for op, *operands in reversed(code[max(0, at - _BACK) : at]):
            if op in _WAYS:
                return ANY_AGENT
            if op == Op.AGENT and operands[0] == register:
                name = str(self._module.constants[operands[1]])
                return name if name in self._specs else ANY_AGENT
            if register in _written(op, operands):
                return ANY_AGENT
        return ANY_AGENT

    def _own(self, function: int, at: int) -> EffectSet:
        of = self._module.functions[function]
        op, *operands = of.code[at]
        if op == Op.HOST:
            return self.host(self._module.constants[operands[1]], of.rights)
        return EffectSet(prints=True) if op == Op.PRINT else NO_EFFECTS

    def _through(self, function: int, at: int) -> int | str | None:
        """Return the function that an instruction calls, or the agent that it sends to."""
        op, *operands = self._module.functions[function].code[at]
        if op == Op.CALL:
            return int(operands[1])
        return self.called(function, at) if op in (Op.ISSUE_SEND, Op.SEND_STREAM) else None

    def _body(self, number: int) -> _Body[int | str]:
        body = _Body[int | str](NO_EFFECTS, set())
        for at in range(len(self._module.functions[number].code)):
            through = self._through(number, at)
            body.through |= set() if through is None else {through}
            body.effects = joined(body.effects, self._own(number, at))
        return body

    def _agent(self, spec: AgentSpec) -> _Body[int | str]:
        body = _agent(spec, {*self._tools})
        granting = [
            self._module.rights[self._tools[name].rights]
            for name in spec.tools
            if name in self._tools
        ]
        grants = [
            granted(capability, rights) for rights in granting for capability in rights.capabilities
        ]
        return _Body(reduce(joined, grants, body.effects), {*self.tools_of(spec)})


def _written(op: int, operands: list[int | list[int]]) -> set[int]:
    found: set[int] = set()
    for kind, operand in zip(Op(op).operands, operands, strict=True):
        if kind == "w" and isinstance(operand, int):
            found.add(operand)
        elif kind == "ws" and not isinstance(operand, int):
            found.update(operand)
    return found


_BACK = 64
_WAYS = frozenset({Op.JUMP, Op.JUMP_IF, Op.JUMP_IF_NOT, Op.JUMP_IF_NULL, Op.NEXT, Op.RETURN})


# The manifest of a program: all that it may ask, call and touch, as one list for its reader.


class ManifestAgent(Struct, frozen=True):
    """An agent that the program may ask, and the models that it asks, in order."""

    name: str
    model: str
    tools: tuple[str, ...]
    fallbacks: tuple[str, ...] = ()


class Manifest(Struct, frozen=True):
    """All that a program may ask, call and touch, as far as `main` can reach it."""

    agents: tuple[ManifestAgent, ...]
    tools: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    gets: tuple[str, ...]
    posts: tuple[str, ...]
    commands: tuple[str, ...]
    servers: tuple[str, ...]
    unknown: tuple[str, ...]
    asks_people: bool


def manifest_of(checked: Checked) -> Manifest:
    """Return the manifest of a checked program."""
    module, effects = compile_program(checked), effects_of(checked).get(_MAIN, NO_EFFECTS)
    named = effects.sends | effects.spawns
    agents = tuple(
        ManifestAgent(spec.name, spec.model, (*spec.tools, *spec.mcp, *spec.yaml), spec.fallbacks)
        for spec in module.agents
        if spec.name in named
    )
    tools = sorted({tool for agent in agents for tool in agent.tools})
    effects = replace(effects, commands=effects.commands | effects.looks)
    touched = {name: tuple(sorted(getattr(effects, name))) for name in _TOUCHED}
    return Manifest(agents, tuple(tools), asks_people=effects.asks_people, **touched)


_TOUCHED = ("reads", "writes", "gets", "posts", "commands", "servers", "unknown")
