"""The Vega language: source, tokens, tree, checked tree, bytecode; formatter, diagnostics (pure).

text ── tokens ── tree ── checked ── module        parse, check, compile_program
             └─ format_source                      diagnostics come from every step

Who runs a compiled program needs neither parser nor checker, so each part is loaded when it is
first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.lang.arguments import (
        arguments_of,
    )
    from vegakit.lang.bytecode import (
        AgentSpec,
        Function,
        Handler,
        Module,
        Rights,
        Site,
        SupervisorSpec,
        ToolSpec,
    )
    from vegakit.lang.catching import (
        CATCHABLE,
    )
    from vegakit.lang.checked import (
        Checked,
    )
    from vegakit.lang.checking import (
        check,
    )
    from vegakit.lang.compiling import (
        compile_program,
    )
    from vegakit.lang.diagnostics import (
        Diagnostic,
        Edit,
        as_json,
        render,
    )
    from vegakit.lang.disassembling import (
        disassemble,
    )
    from vegakit.lang.formatting import (
        format_source,
    )
    from vegakit.lang.library import (
        LIBRARY,
        Row,
    )
    from vegakit.lang.opcodes import (
        Op,
    )
    from vegakit.lang.parsing import (
        Parsed,
        parse,
    )
    from vegakit.lang.quoting import (
        ModelTerms,
        Quote,
        QuotedLine,
        Unbounded,
        quote,
    )
    from vegakit.lang.rows import (
        Effects,
        Manifest,
        conflict,
        effects_of,
        manifest_of,
    )
    from vegakit.lang.schemas import (
        Problem,
        answer_of,
        answer_schema,
        schema_of,
        value_of,
    )
    from vegakit.lang.signatures import (
        Parameter,
        Signature,
    )
    from vegakit.lang.storing import (
        from_vgb,
        to_vgb,
    )
    from vegakit.lang.types import (
        ANY,
        BOOL,
        DURATION,
        FILE,
        FLOAT,
        INT,
        MONEY,
        NOTHING,
        NULL,
        STR,
        ChoiceOf,
        FutureOf,
        ListOf,
        MapOf,
        OptionalOf,
        Plain,
        ProcessOf,
        RecordOf,
        StreamOf,
        Type,
    )
    from vegakit.lang.verifying import (
        verify,
    )

_HOME_OF = {
    "ANY": "types",
    "AgentSpec": "bytecode",
    "BOOL": "types",
    "CATCHABLE": "catching",
    "Checked": "checked",
    "ChoiceOf": "types",
    "DURATION": "types",
    "Diagnostic": "diagnostics",
    "Edit": "diagnostics",
    "Effects": "rows",
    "FILE": "types",
    "FLOAT": "types",
    "Function": "bytecode",
    "FutureOf": "types",
    "Handler": "bytecode",
    "INT": "types",
    "LIBRARY": "library",
    "ListOf": "types",
    "MONEY": "types",
    "Manifest": "rows",
    "MapOf": "types",
    "ModelTerms": "quoting",
    "Module": "bytecode",
    "NOTHING": "types",
    "NULL": "types",
    "Op": "opcodes",
    "OptionalOf": "types",
    "Parameter": "signatures",
    "Parsed": "parsing",
    "Plain": "types",
    "Problem": "schemas",
    "ProcessOf": "types",
    "Quote": "quoting",
    "QuotedLine": "quoting",
    "RecordOf": "types",
    "Rights": "bytecode",
    "Row": "library",
    "STR": "types",
    "Signature": "signatures",
    "Site": "bytecode",
    "StreamOf": "types",
    "SupervisorSpec": "bytecode",
    "ToolSpec": "bytecode",
    "Type": "types",
    "Unbounded": "quoting",
    "answer_of": "schemas",
    "answer_schema": "schemas",
    "arguments_of": "arguments",
    "as_json": "diagnostics",
    "check": "checking",
    "compile_program": "compiling",
    "conflict": "rows",
    "disassemble": "disassembling",
    "effects_of": "rows",
    "format_source": "formatting",
    "from_vgb": "storing",
    "manifest_of": "rows",
    "parse": "parsing",
    "quote": "quoting",
    "render": "diagnostics",
    "schema_of": "schemas",
    "to_vgb": "storing",
    "value_of": "schemas",
    "verify": "verifying",
}

__all__ = [
    "ANY",
    "BOOL",
    "CATCHABLE",
    "DURATION",
    "FILE",
    "FLOAT",
    "INT",
    "LIBRARY",
    "MONEY",
    "NOTHING",
    "NULL",
    "STR",
    "AgentSpec",
    "Checked",
    "ChoiceOf",
    "Diagnostic",
    "Edit",
    "Effects",
    "Function",
    "FutureOf",
    "Handler",
    "ListOf",
    "Manifest",
    "MapOf",
    "ModelTerms",
    "Module",
    "Op",
    "OptionalOf",
    "Parameter",
    "Parsed",
    "Plain",
    "Problem",
    "ProcessOf",
    "Quote",
    "QuotedLine",
    "RecordOf",
    "Rights",
    "Row",
    "Signature",
    "Site",
    "StreamOf",
    "SupervisorSpec",
    "ToolSpec",
    "Type",
    "Unbounded",
    "answer_of",
    "answer_schema",
    "arguments_of",
    "as_json",
    "check",
    "compile_program",
    "conflict",
    "disassemble",
    "effects_of",
    "format_source",
    "from_vgb",
    "manifest_of",
    "parse",
    "quote",
    "render",
    "schema_of",
    "to_vgb",
    "value_of",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"vegakit.lang has no {name!r}; it has {', '.join(__all__)}")
    value = getattr(__import__(f"vegakit.lang.{_HOME_OF[name]}", fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
