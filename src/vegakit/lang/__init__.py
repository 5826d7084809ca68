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
        ANY_AGENT,
        AgentSpec,
        Function,
        Handler,
        Module,
        Rights,
        Site,
        SupervisorSpec,
        ToolSpec,
    )
    from vegakit.lang.cards import (
        card,
    )
    from vegakit.lang.catching import (
        CATCHABLE,
    )
    from vegakit.lang.checked import (
        Checked,
    )
    from vegakit.lang.checking.given import (
        signature_text,
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
    from vegakit.lang.flows import (
        Flow,
        FlowLink,
        FlowStep,
        LinkKind,
        StepKind,
        ToldStep,
        deciding_links,
        flows_of,
        side_by_side,
        told_steps,
    )
    from vegakit.lang.formatting import (
        format_source,
    )
    from vegakit.lang.fronts import (
        check,
    )
    from vegakit.lang.library import (
        CONFIRM,
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
    from vegakit.lang.python import (
        AtLoad,
        Lowered,
        code_at_load,
        lower,
        to_python,
        to_vega,
    )
    from vegakit.lang.quoting import (
        ModelTerms,
        Quote,
        QuotedLine,
        Unbounded,
        cost_of_round,
        quote,
    )
    from vegakit.lang.rows import (
        NOTHING_TOUCHED,
        Class,
        Effects,
        Manifest,
        ModuleRows,
        conflict,
        effects_of,
        joined,
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
    from vegakit.lang.steps import (
        MOST_STEPS,
        StepsSpentError,
        counted,
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
    "ANY_AGENT": "bytecode",
    "AgentSpec": "bytecode",
    "AtLoad": "python",
    "BOOL": "types",
    "CATCHABLE": "catching",
    "CONFIRM": "library",
    "Checked": "checked",
    "ChoiceOf": "types",
    "Class": "rows",
    "DURATION": "types",
    "Diagnostic": "diagnostics",
    "Edit": "diagnostics",
    "Effects": "rows",
    "FILE": "types",
    "FLOAT": "types",
    "Flow": "flows",
    "FlowLink": "flows",
    "FlowStep": "flows",
    "Function": "bytecode",
    "FutureOf": "types",
    "Handler": "bytecode",
    "INT": "types",
    "LIBRARY": "library",
    "LinkKind": "flows",
    "ListOf": "types",
    "Lowered": "python",
    "MONEY": "types",
    "MOST_STEPS": "steps",
    "Manifest": "rows",
    "MapOf": "types",
    "ModelTerms": "quoting",
    "Module": "bytecode",
    "ModuleRows": "rows",
    "NOTHING": "types",
    "NOTHING_TOUCHED": "rows",
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
    "StepKind": "flows",
    "StepsSpentError": "steps",
    "StreamOf": "types",
    "SupervisorSpec": "bytecode",
    "ToldStep": "flows",
    "ToolSpec": "bytecode",
    "Type": "types",
    "Unbounded": "quoting",
    "answer_of": "schemas",
    "answer_schema": "schemas",
    "arguments_of": "arguments",
    "as_json": "diagnostics",
    "card": "cards",
    "check": "fronts",
    "code_at_load": "python",
    "compile_program": "compiling",
    "conflict": "rows",
    "cost_of_round": "quoting",
    "counted": "steps",
    "deciding_links": "flows",
    "disassemble": "disassembling",
    "effects_of": "rows",
    "flows_of": "flows",
    "format_source": "formatting",
    "from_vgb": "storing",
    "joined": "rows",
    "lower": "python",
    "manifest_of": "rows",
    "parse": "parsing",
    "quote": "quoting",
    "render": "diagnostics",
    "schema_of": "schemas",
    "side_by_side": "flows",
    "signature_text": "checking.given",
    "to_python": "python",
    "to_vega": "python",
    "to_vgb": "storing",
    "told_steps": "flows",
    "value_of": "schemas",
    "verify": "verifying",
}

__all__ = [
    "ANY",
    "ANY_AGENT",
    "BOOL",
    "CATCHABLE",
    "CONFIRM",
    "DURATION",
    "FILE",
    "FLOAT",
    "INT",
    "LIBRARY",
    "MONEY",
    "MOST_STEPS",
    "NOTHING",
    "NOTHING_TOUCHED",
    "NULL",
    "STR",
    "AgentSpec",
    "AtLoad",
    "Checked",
    "ChoiceOf",
    "Class",
    "Diagnostic",
    "Edit",
    "Effects",
    "Flow",
    "FlowLink",
    "FlowStep",
    "Function",
    "FutureOf",
    "Handler",
    "LinkKind",
    "ListOf",
    "Lowered",
    "Manifest",
    "MapOf",
    "ModelTerms",
    "Module",
    "ModuleRows",
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
    "StepKind",
    "StepsSpentError",
    "StreamOf",
    "SupervisorSpec",
    "ToldStep",
    "ToolSpec",
    "Type",
    "Unbounded",
    "answer_of",
    "answer_schema",
    "arguments_of",
    "as_json",
    "card",
    "check",
    "code_at_load",
    "compile_program",
    "conflict",
    "cost_of_round",
    "counted",
    "deciding_links",
    "disassemble",
    "effects_of",
    "flows_of",
    "format_source",
    "from_vgb",
    "joined",
    "lower",
    "manifest_of",
    "parse",
    "quote",
    "render",
    "schema_of",
    "side_by_side",
    "signature_text",
    "to_python",
    "to_vega",
    "to_vgb",
    "told_steps",
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
