"""Parse declarations, agents and whole files, continuing after every error (pure)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from vegakit.lang.diagnostics import (
    Diagnostic,
    DiagnosticCollector,
    Edit,
    TooManyDiagnosticsError,
    count_steps,
    nearest,
)
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.cursor import (
    AGENT_BLOCKS,
    AGENT_FIELDS,
    CLAUSES_OF,
    FOREIGN_WORDS,
    GRANTS,
    SPAWN_RULES,
    SUPERVISOR_SETTINGS,
    ParseError,
)
from vegakit.lang.syntax.lexer import tokenize
from vegakit.lang.syntax.statement_parser import StatementParser, UnclosedBlockError

# Declarations: functions, tools, types, supervisors, `use` and the header of the program.


_OR = 2
_OTHER_WORD = {"may": "capabilities", "capabilities": "may"}
"""A tool has capabilities, a function or program may."""

_Head: TypeAlias = tuple[tuple[tree.Param, ...], tree.TypeExpr | None, dict[str, Any]]


class DeclarationParser(StatementParser):
    """Parses functions, tools, types, supervisors, `use` and `node`."""

    def function(self) -> tree.FnDecl:
        """Parse `fn name(…) -> T` with its clauses and its body."""
        i = self.i
        self.i += 1
        name = self.name("after `fn`")
        params, result, found = self.head_of("function")
        body = self.block("and the body of the function")
        end = self.ends[self.i - 1]
        budget = found.get("budget")
        return tree.FnDecl(
            self.starts[i], end, name, params, result, self.grants(found), budget, body
        )

    def tool(self) -> tree.ToolDecl:
        """Parse `tool name(…) -> T` with its description, its clauses and its body."""
        i = self.i
        self.i += 1
        name = self.name("after `tool`")
        params, result, found = self.head_of("tool")
        body = self.block("and the body of the tool")
        end = self.ends[self.i - 1]
        described: tree.Text | None = found.get("description")
        grants, settings = self.grants(found), found.get("idempotent", ())
        return tree.ToolDecl(
            self.starts[i], end, name, params, result, described, grants, body, settings
        )

    def head_of(self, owner: str) -> "_Head":
        """A fault in it does not hide the body."""
        depth = self.depth
        try:
            params, result = self.signature()
            return params, result, self.clauses(owner)
        except ParseError:
            self.depth = depth
            self.skip_to_block()
            return (), None, {}

    def signature(self) -> tuple[tuple[tree.Param, ...], tree.TypeExpr | None]:
        """Parse the parameters and the result, which is None if none is written."""
        if self.kinds[self.i] != "(":
            self.expected("`(` and the parameters", "without parameters write ()")
        params = self.series("(", self.param)
        if self.kinds[self.i] == ":" and not self.begins_line(self.i + 1):
            edit = Edit(self.starts[self.i], self.ends[self.i], " ->")
            self.fail("expected", "the result is written after `->`", "write `-> T`", edit)
        if self.kinds[self.i] != "->":
            return params, None
        self.i += 1
        return params, self.type("after `->`")

    def param(self) -> tree.Param:
        """Parse `name: T`; a default is refused, since parameters have none."""
        i = self.i
        name = self.name("of a parameter")
        if self.kinds[self.i] == "?" and self.kinds[self.i + 1] == ":":
            made = self.optional_type(name)
            return tree.Param(self.starts[i], self.ends[self.i - 1], name, made)
        if self.kinds[self.i] != ":":
            self.expected(f"`:` and the type of `{name}`", f"write it like: {name}: str")
        self.i += 1
        written = self.type("after `:`")
        if self.kinds[self.i] == "=":
            remedy = f"give it the type T? and use `{name} ?? …`"
            self.fail("expected", "a parameter has no default", remedy)
        return tree.Param(self.starts[i], self.ends[self.i - 1], name, written)

    # Clauses: what a function, tool or program may do

    def clauses(self, owner: str) -> dict[str, Any]:
        """Parse what stands between the signature and the body, in any order, and return it by
        name. `first` and `last` are the offsets between which the grants stand."""
        found: dict[str, Any] = {}
        while (word := self.clause_word(owner)) != "":
            if word in found:
                self.fail("twice", f"`{word}` stands here twice", "join them into one")
            if word in GRANTS:
                found.setdefault("first", self.starts[self.i])
            found[word] = self.clause(word)
            if word in GRANTS:
                found["last"] = self.ends[self.i - 1]
        return found

    def clause_word(self, owner: str) -> str:
        """The clause that begins here, or ''. A word that is nearly right is reported and then
        taken for the right one."""
        kind, word, known = self.kinds[self.i], self.values[self.i], CLAUSES_OF[owner]
        if kind != "name":
            return "description" if owner == "tool" and kind in {"text", "open"} else ""
        if word in known:
            return word
        if owner == "program" and not (self.kinds[self.i + 1] == "[" and nearest(word, known)):
            return ""  # the first statement begins
        if word in _OTHER_WORD:
            known = (_OTHER_WORD[word],)
            edit = Edit(self.starts[self.i], self.ends[self.i], known[0])
            found = f"what a {owner} may do is written `{known[0]} [...]`"
            self.report("unknown-clause", found, edit.at, edit.end, f"write `{known[0]}`", edit)
            return known[0]
        return self.nearly(self.i, known, "unknown-clause", f"a {owner} has no `{word}`")

    def header(self) -> tree.Grants | None:
        """`program may [...] allowed_paths [...]`."""
        self.i += 1
        found = self.clauses("program")
        if not found:
            self.expected("`may [...]` after `program`")
        self.optional_semicolon()
        return self.grants(found)

    def clause(self, word: str) -> object:
        """Parse the clause of this word. Its value depends on the word: a text, settings, an
        amount, or a list of capabilities or texts."""
        i = self.i
        if word == "description":
            return self.plain_text()
        self.i += 1
        if word == "idempotent":
            at, end = self.starts[i], self.ends[i]
            return (tree.Setting(at, end, word, tree.Word(at, end, True)),)
        if word == "budget":
            return self.allowance() or self.operators(_OR)
        if self.kinds[self.i] != "[":
            sample = "[fs::read]" if word in {"may", "capabilities"} else '["…"]'
            self.expected(f"a list after `{word}`", f"write it like: {word} {sample}")
        return self.series(
            "[", self.capability if GRANTS[word] == "capabilities" else self.plain_text
        )

    def capability(self) -> tree.CapName:
        """Parse the name of a capability, such as `fs::read`."""
        i = self.i
        if self.kinds[i] == "text":
            edit = Edit(self.starts[i], self.ends[i], self.values[i][1:-1])
            edit = Edit(edit.at, edit.end, edit.text.replace(".", "::"))
            remedy = f"write it like: {edit.text if '::' in edit.text else 'fs::read'}"
            self.fail("expected", "a capability has no quotes", remedy, edit)
        path = self.path()
        if self.kinds[self.i] == "." and self.kinds[self.i + 1] == "name":
            written = f"{path}::{self.values[self.i + 1]}"
            found = "the parts of a capability are joined by `::`"
            self.foreign(found, f"write `{written}`", i, self.i + 1, written, "expected")
        return tree.CapName(self.starts[i], self.ends[self.i - 1], path)

    def grants(self, found: dict[str, Any]) -> tree.Grants | None:
        """Return the grants among the clauses that were found, None if there are none."""
        given = {GRANTS[word]: value for word, value in found.items() if word in GRANTS}
        return tree.Grants(found["first"], found["last"], **given) if given else None

    # The rest

    def type_decl(self) -> tree.TypeDecl:
        """Parse `type Name { … }`, or `type Name = T`."""
        i = self.i
        self.i += 1
        name = self.name("after `type`")
        fields: tuple[tree.Field, ...] = ()
        alias: tree.TypeExpr | None = None
        if self.kinds[self.i] == "=":
            self.i += 1
            alias = self.type("after `=`")
            self.optional_semicolon()
        else:
            fields = self.fields(name)
        return tree.TypeDecl(self.starts[i], self.ends[self.i - 1], name, fields, alias)

    def fields(self, record: str) -> tuple[tree.Field, ...]:
        """Parse the fields of a record in braces. A faulty one is reported and left out."""
        if self.kinds[self.i] != "{":
            sample = f"type {record} {{ note: str }}"
            self.expected("`{` or `=` after the name of a type", f"write it like: {sample}")
        opener = self.i
        self.i += 1
        found: list[tree.Field] = []
        while (kind := self.kinds[self.i]) not in {"}", "eof"}:
            if kind == "fn" or (kind == "name" and FOREIGN_WORDS.get(self.values[self.i]) == "fn"):
                self.no_method(record)
                continue
            try:
                found.append(self.field())
            except ParseError:
                self.skip_field()
            if self.kinds[self.i] == ",":
                self.i += 1
            elif self.kinds[self.i] == ";":
                self.no_separator("write fields one after another, or with commas")
        self.close("}", opener)
        return tuple(found)

    def no_method(self, record: str) -> None:
        """Report a function among the fields of a record, and go on behind it."""
        i, name = self.i, self.values[self.i + 1]
        found = "a type has fields, and no functions of its own"
        remedy = f"write a function at top level: `fn {name}(it: {record}) {{ … }}`"
        self.report("misplaced", found, self.starts[i], self.ends[i + 1], remedy)
        while self.kinds[self.i] not in {"{", "}", "eof"}:
            self.i += 1
        if self.kinds[self.i] == "{":
            self.skip_braces()

    def optional_type(self, name: str) -> tree.TypeExpr:
        """Report `name?: T`, and take it as `name: T?`."""
        at = self.starts[self.i]
        self.i += 2
        inner = self.type("after `:`")
        end = self.ends[self.i - 1]
        written = f": {self.source[inner.at : end]}?"
        found = "what may be null has `?` after its type"
        edit = Edit(at, end, written)
        self.report("expected", found, at, at + 1, f"write `{name}{written}`", edit)
        return tree.OptionalType(inner.at, end, inner)

    def field(self) -> tree.Field:
        """Parse `name: T`."""
        i = self.i
        name = self.name("of a field")
        if self.kinds[self.i] == "?" and self.kinds[self.i + 1] == ":":
            made = self.optional_type(name)
            return tree.Field(self.starts[i], self.ends[self.i - 1], name, made)
        if self.kinds[self.i] != ":":
            self.expected(f"`:` and the type of `{name}`", f"write it like: {name}: str")
        self.i += 1
        written = self.type("after `:`")
        return tree.Field(self.starts[i], self.ends[self.i - 1], name, written)

    def skip_field(self) -> None:
        """Skip to the next `name:` or comma, or to the end of the record."""
        self.i += self.kinds[self.i] not in {"}", "eof"}
        while self.kinds[self.i] not in {"}", "eof", ","}:
            if self.kinds[self.i] == "name" and self.kinds[self.i + 1] == ":":
                return
            self.i += 1

    def supervisor(self) -> tree.SupervisorDecl:
        """Parse `supervisor Name { … }`. A faulty setting is reported and left out."""
        i = self.i
        self.i += 1
        name = self.name("after `supervisor`")
        opener = self.take("{", "after the name")
        settings: list[tree.Setting] = []
        children: list[tuple[tree.Name, ...]] = []
        while self.kinds[self.i] not in {"}", "eof"}:
            try:
                self.supervisor_setting(settings, children)
            except ParseError:
                self.skip_setting(SUPERVISOR_SETTINGS)
        self.close("}", opener)
        end = self.ends[self.i - 1]
        first = children[0] if children else ()
        return tree.SupervisorDecl(self.starts[i], end, name, tuple(settings), first)

    def supervisor_setting(
        self, settings: list[tree.Setting], children: list[tuple[tree.Name, ...]]
    ) -> None:
        """Parse one setting of a supervisor into `settings`, or its list of children into
        `children`."""
        i = self.i
        word = self.setting_name(SUPERVISOR_SETTINGS, "a supervisor")
        if word in SPAWN_RULES:
            value = self.setting_value(word, SUPERVISOR_SETTINGS)
            settings.append(tree.Setting(self.starts[i], self.ends[self.i - 1], word, value))
            return
        if children:
            self.fail("twice", "`children` stands here twice", "join them into one", i=i)
        children.append(self.series("[", lambda: self.name_path("of a child")))

    def use(self) -> tree.UseMcp | tree.UseFile:
        """Parse `use mcp "server"` or `use "file.vega"`. Without `as`, a server has its own name,
        and a file that of its path."""
        i = self.i
        self.i += 1
        mcp = self.is_word("mcp")
        self.i += mcp
        if self.kinds[self.i] not in {"text", "open"}:
            what = "the name of a server in quotes" if mcp else "the path of a file in quotes"
            self.expected(what, 'write it like: use mcp "github", or: use "lib/text.vega"')
        text = self.plain_text()
        path = "".join(part for part in text.parts if isinstance(part, str))
        name = self.given_name() or (path if mcp else tree.name_of_file(path))
        self.optional_semicolon()
        made = tree.UseMcp if mcp else tree.UseFile
        return made(self.starts[i], self.ends[self.i - 1], path, name)

    def node(self) -> tree.UseNode:
        """Parse `node pay = "transfer_v1"`."""
        i = self.i
        self.i += 1
        name = self.name("after `node`")
        if self.kinds[self.i] != "=":
            self.expected("`=` and the id of the node", f'write it like: node {name} = "{name}_v1"')
        self.i += 1
        if self.kinds[self.i] not in {"text", "open"}:
            self.expected("the id of a node in quotes", f'write it like: node {name} = "{name}_v1"')
        text = self.plain_text()
        id_ = "".join(part for part in text.parts if isinstance(part, str))
        self.optional_semicolon()
        return tree.UseNode(self.starts[i], self.ends[self.i - 1], id_, name)

    def given_name(self) -> str:
        """Parse `as name`; empty if there is none."""
        if self.kinds[self.i] != "as":
            return ""
        self.i += 1
        return self.name("after `as`")

    def optional_semicolon(self) -> None:
        """Take a `;` if there is one."""
        if self.kinds[self.i] == ";":
            self.i += 1


# Agents: their fields, their blocks of settings and their tools.


class AgentParser(DeclarationParser):
    """Parses agents."""

    def agent(self) -> tree.AgentDecl:
        """Parse `agent Name { … }`. A faulty part is reported and left out."""
        i = self.i
        self.i += 1
        if self.kinds[self.i] == "text":
            sample = f"agent Assistant {{ model {self.shown().strip('`')} }}"
            self.expected("a name after `agent`", f"write it like: {sample}")
        name = self.name("after `agent`")
        if self.kinds[self.i] != "{":
            sample = f'agent {name} {{ model "…" }}'
            self.expected("`{` after the name of the agent", f"write it like: {sample}")
        opener = self.i
        self.i += 1
        self.open_blocks.append(opener)
        fields: list[tree.AgentField] = []
        tools: list[tree.ToolDecl] = []
        while self.kinds[self.i] not in {"}", "eof"}:
            depth = self.depth
            try:
                self.part(fields, tools)
            except ParseError:
                self.depth = depth
                self.skip_setting(AGENT_FIELDS)
        if self.kinds[self.i] == "eof":
            self.never_closed(opener)
        self.open_blocks.pop()
        self.i += 1
        end = self.ends[self.i - 1]
        return tree.AgentDecl(self.starts[i], end, name, tuple(fields), tuple(tools))

    def part(self, fields: list[tree.AgentField], tools: list[tree.ToolDecl]) -> None:
        """Parse one part of an agent: a field into `fields`, or a tool of its own into `tools`."""
        i = self.i
        if self.kinds[i] == "fn" or (self.is_word("agent") and self.kinds[i + 1] == "name"):
            self.declaration_inside()
        self.no_separator()
        if self.kinds[self.i] == "}":
            return
        i = self.i
        word = self.field_name()
        if word == "tool":
            self.i = i
            tools.append(self.tool())
            return
        value = self.field_value(word)
        fields.append(tree.AgentField(self.starts[i], self.ends[self.i - 1], word, value))

    def field_name(self) -> str:
        """A word that is nearly right is reported and then taken for the right one."""
        i = self.i
        word = self.name("of a field of the agent")
        if word in AGENT_FIELDS:
            return word
        found = f"an agent has no field `{word}`"
        return self.nearly(i, AGENT_FIELDS, "unknown-setting", found)

    def field_value(
        self, word: str
    ) -> tree.Expr | tuple[tree.Setting, ...] | tuple[tree.ToolRef, ...]:
        """Parse the value of a field: settings in braces, a list of tools, or a single value."""
        if word in AGENT_BLOCKS:
            if self.kinds[self.i] != "{":
                first = AGENT_BLOCKS[word][0]
                self.expected(f"`{{` after `{word}`", f"write it like: {word} {{ {first} 3 }}")
            return self.settings(AGENT_BLOCKS[word], f"`{word}`")
        if word == "tools":
            if self.kinds[self.i] != "[":
                self.expected("a list after `tools`", "write it like: tools [read_file]")
            return self.series("[", self.tool_ref)
        allowance = self.allowance() if word == "budget" else None
        value = allowance or self.setting_value(word, AGENT_FIELDS)
        if word == "budget" and self.kinds[self.i] == "/":
            self.expected("the end of the amount", "a period is /hour, /day or /month")
        return value

    def tool_ref(self) -> tree.ToolRef:
        """Parse a tool in a list: its name, or `mcp` or `yaml` and a text."""
        i = self.i
        word = self.values[i]
        if word in {"mcp", "yaml"} and self.kinds[i + 1] in {"text", "open"}:
            self.i += 1
            text = self.plain_text()
            name = "".join(part for part in text.parts if isinstance(part, str))
            return tree.ToolRef(self.starts[i], self.ends[self.i - 1], name, word)
        if self.kinds[i] in {"text", "open"}:
            remedy = 'write the tool\'s name without quotes, or mcp "server"'
            name = self.values[i][1:-1]
            edit = Edit(self.starts[i], self.ends[i], name) if name.isidentifier() else None
            self.fail("expected", "a tool is named without quotes", remedy, edit)
        path = self.path()
        return tree.ToolRef(self.starts[i], self.ends[self.i - 1], path)


# One file of source to its tree.


_T = TypeVar("_T")
_AFTER_KEYWORDS = frozenset(["name", "text", "open", "{"])
_AFTER_VALUES = frozenset(
    "<- <~ . = ( [ ; :: ?? or and == != < <= > >= in + - * / % as && || += -= *= /= %= eof".split()
)
"""Behind a word that could begin a declaration these show that it is a name."""


class Parsed(Struct, frozen=True):
    """The tree of a file. With diagnostics, it holds only what could be read."""

    source: tree.Source
    diagnostics: tuple[Diagnostic, ...]


def parse(text: str, file: str = "main.vega") -> Parsed:
    """Return the tree of a file, and all faults that could be found in its form."""
    findings = DiagnosticCollector(file)
    source = tree.Source(0, len(text), None, (), ())
    count_steps(1 + len(text) // 20)
    with suppress(TooManyDiagnosticsError):
        parser = _Parser(text, tokenize(text, findings), findings)
        count_steps(len(parser.kinds))
        source = parser.file()
    return Parsed(source, findings.in_order())


class _Parser(AgentParser):
    def file(self) -> tree.Source:
        """200 levels fit on a fresh stack; whoever calls may have used some of it already."""
        try:
            return self.program()
        except RecursionError:
            self.too_deep()

    def program(self) -> tree.Source:
        decls: list[tree.Decl] = []
        body: list[tree.Stmt] = []
        header = self.recovered(self.header) if self.has_header() else None
        while (kind := self.kinds[self.i]) != "eof":
            if kind in {";", "}"}:
                self.stray(kind)
                continue
            found = self.recovered(self.item)
            if isinstance(found, tree.Decl):
                decls.append(found)
            elif found is not None:
                body.append(found)
        return tree.Source(0, len(self.source), header, tuple(decls), tuple(body))

    def has_header(self) -> bool:
        return self.is_word("program") and self.kinds[1] == "name"

    def item(self) -> tree.Decl | tree.Stmt:
        kind, word, follows = self.kinds[self.i], self.values[self.i], self.kinds[self.i + 1]
        if kind != "name":
            return self.function() if kind == "fn" else self.statement(kind)
        if word not in _DECLARATIONS and follows in _AFTER_KEYWORDS:
            word = self.meant_word(outside=True)
            if word and word not in _DECLARATIONS:
                return self.meant_statement(word)
        parse = _DECLARATIONS.get(word)
        return parse(self) if parse and follows not in _AFTER_VALUES else self.statement(kind)

    def stray(self, kind: str) -> None:
        if kind == ";":
            self.stray_semicolon()
            return
        at, end = self.starts[self.i], self.ends[self.i]
        self.report("unopened", "this `}` closes nothing", at, end, "remove it", Edit(at, end, ""))
        self.i += 1

    def late_header(self) -> tree.Decl:
        if self.i == 0:
            self.i = 1
            self.expected("`may [...]` after `program`")
        found = "`program` begins a file; it cannot stand further down"
        self.fail("misplaced", found, "move the line to the top of the file")

    def recovered(self, parse: Callable[[], _T]) -> _T | None:
        """After a fault the rest of what was parsed is skipped."""
        began, self.depth = self.i, 0
        self.open_blocks.clear()
        try:
            return parse()
        except ParseError:
            self.go_on(began)
            if self.kinds[self.i] == "}":
                self.i += 1
        except UnclosedBlockError:
            self.i = max(self.i, began + 1)
        return None


_DECLARATIONS: dict[str, Callable[[_Parser], tree.Decl]] = {
    "fn": _Parser.function,
    "agent": _Parser.agent,
    "tool": _Parser.tool,
    "type": _Parser.type_decl,
    "use": _Parser.use,
    "node": _Parser.node,
    "supervisor": _Parser.supervisor,
    "program": _Parser.late_header,
}
