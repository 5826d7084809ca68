"""Imports from below a package in tests, campaigns, benchmarks and tools.

`from vegakit.policy import Budget` imports from the package. `from vegakit.policy.budget import
Budget` reaches below it. Code outside of `src` follows the rule of `src`: it imports from the
package the names that the package exports. Other names may be imported from below it only by

- tests of that package (`FOLDERS` in tools/changes.py says which packages a folder tests),
- files that plant faults (`*faults*.py`): they replace a function inside of the package,
- the files in `REASONS`.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import changes

ROOT = Path(__file__).parent.parent
FOLDERS = ("tests", "campaigns", "benchmarks", "tools")
IMPORT = re.compile(
    r"^[ \t]*(from vegakit\.[\w.]+ import (?:\([^)]*\)|[^\n(]+)|import vegakit\.[^\n]+)",
    re.MULTILINE,
)
REASONS: dict[str, tuple[str, str]] = {
    # Tests of what several packages agree on.
    "tests/architecture/test_tables.py": ("lang vm", "each table covers the union it is keyed by"),
    "tests/docs/test_versions.py": (
        "control lang program store telemetry tools vesper",
        "the page of formats states each version, which only its module knows",
    ),
    "tests/config/test_owners.py": ("sage", "each function that reads a file of another owner"),
    "tests/runtime/oversight": (
        "cli policy server telemetry tools",
        "an action is shown to people by every door as the rules judged it",
    ),
    "tests/telemetry": ("cli sdk", "what the sinks keep is read back as commands and logs show it"),
    # Tests of a package that run what another one makes for it alone.
    "tests/vm": ("lang", "bytecode is assembled and mutated below the compiler, and verified"),
    "tests/lang/flows": ("cli vm", "told flows, as they are drawn and as the machine runs them"),
    "tests/lang/quoting": (
        "agent program providers testing",
        "bounds of a quote, beside the parts that spend",
    ),
    "tests/lang/rows/test_paths.py": ("policy", "the checker fits paths as the permissions do"),
    "tests/lang/test_sized_interop.py": ("host", "types of Python values, as the host passes them"),
    "tests/agent/test_turn_output.py": ("lang", "a note that quotes count by its length"),
    "tests/contracts/test_node_optimiser.py": ("vesper", "random inputs of nodes"),
    "tests/durability/test_lookahead_never_fails.py": ("program vm", "states of the lookahead"),
    "tests/durable": (
        "program store testing",
        "the workflow beside the core and the test programs",
    ),
    "tests/journal/test_reuse.py": ("cli", "what the history of a program says it costs"),
    "tests/runtime": (
        "cli policy program store testing wires",
        "the runtime beside an oracle, hosts by hand, broken frames and files",
    ),
    "tests/store/test_postgres_journal.py": (
        "testing",
        "effects as the checks of a journal make them",
    ),
    "tests/tools": ("policy", "a person who answers, and the permits that tools ask for"),
    # Tests of a command below the package that it shows.
    "tests/cli": (
        "policy store vesper",
        "commands are given what they show: rollouts, inputs, a lock",
    ),
    "tests/sage/test_sessions.py": ("cli", "the parser and exit codes of `vega code`"),
    "tests/sage/test_undo.py": ("tools", "stubs and scans that undo must not take for changes"),
    "tests/mcp_server/test_command.py": ("cli", "the command, without a process"),
    "tests/vesper/test_document.py": ("cli", "the command, without a process"),
    "tests/control/test_operations.py": (
        "server",
        "names of the tools that translate the operations",
    ),
    "tests/wheel/test_after_a_kill.py": ("store", "counts the queries of a recovery"),
    "tests/wheel/test_settings.py": ("config", "every key of every table"),
    # Campaigns that attack or look into what is inside.
    "campaigns/parallel": ("lang vm", "what is told beside tickets in flight; faults are planted"),
    "campaigns/consent.py": ("program providers vm", "faults are planted in barriers"),
    "campaigns/terminal": ("cli", "the reducer on random events"),
    "campaigns/code_screens.py": ("cli", "screens in states that no session reaches quickly"),
    "campaigns/code_doors": ("cli", "the terminal as one door beside the others"),
    "campaigns/screens.py": ("cli", "cells of text and the screen of `vega top`"),
    "campaigns/code_kills.py": ("sage", "waits for as long as undo takes for a pause"),
    "campaigns/attacks_carried_out.py": ("tools", "attacks on one defence, with the others away"),
    "campaigns/races.py": ("tools", "calls of confined files without a tool around them"),
    "campaigns/audit_tampering.py": ("store", "forges rows as an attacker who knows the hash"),
    "campaigns/admission.py": ("server", "an operation without a socket, beside a flood"),
    "campaigns/kernel_attacks.py": ("server", "messages that the client would never send"),
    "campaigns/card_tasks": ("control tools", "finds runs, and answers requests from a table"),
    "campaigns/fuzz_targets.py": ("sage server tools", "each parser of bytes, alone"),
    "campaigns/proofs.py": ("vesper", "random inputs and worlds of nodes"),
    "campaigns/providers.py": ("providers", "every known provider"),
    "campaigns/quote_ratios.py": ("cli host", "quotes as `vega cost` counts them"),
    "campaigns/settings.py": ("config", "every key of every table"),
    "campaigns/settings_house.py": ("testing", "the answer of a provider without a script"),
    # Benchmarks of one part of a package.
    "benchmarks/asks.py": ("host", "the limiter alone"),
    "benchmarks/growth_curves.py": ("cli store", "rows sealed and tables drawn, alone"),
    "benchmarks/kernel_doors.py": ("server", "messages without a door"),
    "benchmarks/kernel_life.py": ("server store", "messages without a door, statements without us"),
    "benchmarks/nodes.py": ("vesper", "random inputs of nodes"),
    "benchmarks/postgres.py": ("store", "the thread of a connection alone"),
    "benchmarks/postgres_cost.py": ("store", "the same statements without us"),
    "benchmarks/rollout_cost.py": ("vesper", "the record of evidence alone"),
    "benchmarks/sandbox.py": ("tools", "the same command in a sandbox without us"),
    # Generators.
    "tools/language_reference.py": ("lang testing vm", "limits and words of the language"),
    "tools/make_protos.py": ("server", "writes the protos of the kernel from its shapes"),
    "tools/screens_demo.py": ("cli", "draws screens for the documents"),
    "tools/screens_explain.py": ("cli", "draws screens for the documents"),
}
"""Files and folders that reach below packages without being their tests: packages and a reason."""


class InnerImport(NamedTuple):
    """One name that a file imports from a module below a package, or the module itself."""

    path: str
    line: int
    package: str
    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.module} {self.name}".rstrip()


class Source:
    """The modules of `src` by their dotted names, and the names that each package exports."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self._trees: dict[str, ast.Module] = {}
        for path, tree in sorted(trees.items()):  # a stub comes after its package
            self._trees[_module_name(path)] = tree
        self._imports: dict[str, dict[str, tuple[str, str]]] = {}
        self.packages = {
            path.partition("/")[0] for path in trees if path.endswith("__init__.py") and "/" in path
        }

    def exports(self, inner: InnerImport) -> bool:
        """Return whether the package exports the object that is imported from below it. A module
        may have another object of the same name."""
        front = f"vegakit.{inner.package}"
        return inner.name in self._imports_of(front) and (
            self._home(front, inner.name) == self._home(inner.module, inner.name)
        )

    def is_module(self, module: str, name: str) -> bool:
        """Return whether a name of a package is a module of it, and not something it exports."""
        return f"{module}.{name}" in self._trees and name not in self._imports_of(module)

    def _home(self, module: str, name: str) -> tuple[str, str]:
        """Return the module that defines a name, and the name that it has there."""
        while name in (imports := self._imports_of(module)):
            module, name = imports[name]
        return module, name

    def _imports_of(self, module: str) -> dict[str, tuple[str, str]]:
        """Return where each imported name of a module comes from; no import is relative."""
        if module not in self._imports:
            tree = self._trees.get(module, ast.Module([], []))
            self._imports[module] = {
                alias.asname or alias.name: (node.module or "", alias.name)
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and node.module != "vegakit.lazy"
                for alias in node.names
            }
        return self._imports[module]


def _module_name(path: str) -> str:
    return "vegakit." + path.removesuffix("i").removesuffix(".py").removesuffix(
        "/__init__"
    ).replace("/", ".")


def inner_imports(path: str, text: str, source: Source) -> Iterator[InnerImport]:
    """Return the imports of a file from below packages, also inside of functions and strings."""
    for match in IMPORT.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        [node] = ast.parse(match[1]).body
        if isinstance(node, ast.ImportFrom):
            names = [(node.module or "", alias.name) for alias in node.names]
        else:
            names = [(alias.name, "") for alias in cast("ast.Import", node).names]
        for module, name in names:
            below = module.split(".")[1:]
            if below[0] in source.packages and (below[1:] or source.is_module(module, name)):
                yield InnerImport(path, line, below[0], module, name)


def is_allowed(inner: InnerImport, source: Source) -> bool:
    """Return whether a file may reach below the package, by the rule at the top."""
    if source.exports(inner):
        return False
    if "faults" in Path(inner.path).stem or inner.package in tested_packages(inner.path):
        return True
    return any(inner.package in REASONS[reason][0].split() for reason in reasons_of(inner.path))


def tested_packages(path: str) -> set[str]:
    """Return the packages that a file below `tests` tests."""
    parts = Path(path).parts
    if parts[0] != "tests" or parts[1] not in changes.FOLDERS:
        return set()
    return set(changes.FOLDERS[parts[1]].split())


def reasons_of(path: str) -> list[str]:
    """Return the rows of `REASONS` that speak of a file."""
    return [row for row in REASONS if path == row or path.startswith(f"{row}/")]


def outside_texts() -> dict[str, str]:
    """Read the Python files outside of `src`."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def forbidden_imports(
    texts: Mapping[str, str], trees: Mapping[str, ast.Module]
) -> Iterator[InnerImport]:
    """Return the imports of files outside of `src` that break the rule."""
    source = Source(trees)
    for path, text in texts.items():
        for inner in inner_imports(path, text, source):
            if not is_allowed(inner, source):
                yield inner


def idle_reasons(texts: Mapping[str, str], trees: Mapping[str, ast.Module]) -> set[tuple[str, str]]:
    """Return rows and packages of `REASONS` that no import needs."""
    source = Source(trees)
    needed = {
        (row, inner.package)
        for path, text in texts.items()
        for inner in inner_imports(path, text, source)
        if "faults" not in Path(path).stem and inner.package not in tested_packages(path)
        for row in reasons_of(path)
    }
    stated = {(row, package) for row, reason in REASONS.items() for package in reason[0].split()}
    return stated - needed
