"""Agents: their fields, their blocks of settings and their tools."""

from vegakit.lang.parsing.cursor import FaultError
from vegakit.lang.parsing.declarations import DeclarationParser
from vegakit.lang.parsing.words import AGENT_BLOCKS, AGENT_FIELDS
from vegakit.lang.tree import AgentDecl, AgentField, Expr, Setting, ToolDecl, ToolRef

__all__ = ["AgentParser"]


class AgentParser(DeclarationParser):
    def agent(self) -> AgentDecl:
        i = self.i
        self.i += 1
        name = self.name("after `agent`")
        if self.kinds[self.i] != "{":
            sample = f'agent {name} {{ model "…" }}'
            self.expected("`{` after the name of the agent", f"write it like: {sample}")
        opener = self.i
        self.i += 1
        self.open_blocks.append(opener)
        fields: list[AgentField] = []
        tools: list[ToolDecl] = []
        while self.kinds[self.i] not in {"}", "eof"}:
            depth = self.depth
            try:
                self.part(fields, tools)
            except FaultError:
                self.depth = depth
                self.skip_setting(AGENT_FIELDS)
        if self.kinds[self.i] == "eof":
            self.never_closed(opener)
        self.open_blocks.pop()
        self.i += 1
        end = self.ends[self.i - 1]
        return AgentDecl(self.starts[i], end, name, tuple(fields), tuple(tools))

    def part(self, fields: list[AgentField], tools: list[ToolDecl]) -> None:
        i = self.i
        if self.kinds[i] == "fn" or (self.is_word("agent") and self.kinds[i + 1] == "name"):
            self.declaration_inside()
        word = self.field_name()
        if word == "tool":
            self.i = i
            tools.append(self.tool())
            return
        value = self.field_value(word)
        fields.append(AgentField(self.starts[i], self.ends[self.i - 1], word, value))

    def field_name(self) -> str:
        """A word that is nearly right is reported and then taken for the right one."""
        self.no_separator()
        i = self.i
        word = self.name("of a field of the agent")
        if word in AGENT_FIELDS:
            return word
        found = f"an agent has no field `{word}`"
        return self.nearly(i, AGENT_FIELDS, "unknown-setting", found)

    def field_value(self, word: str) -> "Expr | tuple[Setting, ...] | tuple[ToolRef, ...]":
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

    def tool_ref(self) -> ToolRef:
        i = self.i
        word = self.values[i]
        if word in {"mcp", "yaml"} and self.kinds[i + 1] in {"text", "open"}:
            self.i += 1
            text = self.plain_text()
            name = "".join(part for part in text.parts if isinstance(part, str))
            return ToolRef(self.starts[i], self.ends[self.i - 1], name, word)
        if self.kinds[i] in {"text", "open"}:
            remedy = 'write the tool\'s name without quotes, or mcp "server"'
            self.fail("expected", "a tool is named without quotes", remedy)
        path = self.path()
        return ToolRef(self.starts[i], self.ends[self.i - 1], path)
