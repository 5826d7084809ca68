"""The language server: every change of a document is checked, and a document can be formatted.

Open documents are read from the editor, everything else of the project from its files. It needs
pygls, so only `vega lsp` imports it.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

from vegakit.errors import UserError
from vegakit.lang import Diagnostic, Signature, check_program, format_source, parse
from vegakit.sdk import Source, with_rules

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
}
_BYTES = {
    types.PositionEncodingKind.Utf8: ("utf-8", 1),
    types.PositionEncodingKind.Utf16: ("utf-16-le", 2),
    types.PositionEncodingKind.Utf32: ("utf-32-le", 4),
}


NodesOf: TypeAlias = Callable[[Path, str], "Mapping[str, Signature] | None"]
"""Returns what the nodes that a program declares take and give, by its path and its text."""


def serve(nodes_of: NodesOf) -> None:
    """Serve an editor on stdin and stdout."""
    made(nodes_of).start_io()


def made(nodes_of: NodesOf) -> LanguageServer:
    """Return the language server."""
    server = LanguageServer("vega", version("vegakit"))

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def on_open(params: types.DidOpenTextDocumentParams) -> None:  # pyright: ignore[reportUnusedFunction]
        _tell(server, params.text_document.uri, nodes_of)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def on_change(params: types.DidChangeTextDocumentParams) -> None:  # pyright: ignore[reportUnusedFunction]
        _tell(server, params.text_document.uri, nodes_of)

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def on_format(params: types.DocumentFormattingParams) -> list[types.TextEdit]:  # pyright: ignore[reportUnusedFunction]
        document = server.workspace.get_text_document(params.text_document.uri)
        return _formatted(document.source, _encoding(server))

    return server


def _tell(server: LanguageServer, uri: str, nodes_of: NodesOf) -> None:
    document = server.workspace.get_text_document(uri)
    name, found = _checked(server, document, nodes_of)
    here = [one for one in found if one.file == name]
    text, encoding = document.source, _encoding(server)
    server.text_document_publish_diagnostics(
        types.PublishDiagnosticsParams(
            uri, [_diagnostic(one, text, encoding) for one in here], document.version
        )
    )


def _checked(
    server: LanguageServer, document: TextDocument, nodes_of: NodesOf
) -> tuple[str, Sequence[Diagnostic]]:
    path = to_fs_path(document.uri) if document.uri.startswith("file:") else None
    if path is None:
        return "main.vega", check_program(document.source, "main.vega", lambda _: None)[1]
    source = Source(Path(path))
    try:
        nodes = nodes_of(Path(path), document.source)
        read = _read(server, source)
        checked = check_program(document.source, source.name, read, tools=nodes)
        return source.name, with_rules(*checked)
    except UserError as error:
        return source.name, [Diagnostic("unreadable", str(error), source.name, 0, 0)]


def _read(server: LanguageServer, source: Source) -> Callable[[str], str | None]:
    def read(name: str) -> str | None:
        opened = server.workspace.text_documents.get((source.root / name).as_uri())
        return source.read(name) if opened is None else opened.source

    return read


def _diagnostic(found: Diagnostic, text: str, encoding: str) -> types.Diagnostic:
    message = f"{found.message}\n{found.help}" if found.help else found.message
    return types.Diagnostic(
        _range(text, found.at, found.end, encoding),
        message,
        _SEVERITIES.get(found.severity, types.DiagnosticSeverity.Information),
        code=found.code,
        source="vega",
    )


def _formatted(text: str, encoding: str) -> list[types.TextEdit]:
    """Return the edits that format a text; none while it cannot be read, since its author is in the
    middle of it."""
    if any(found.severity == "error" for found in parse(text).diagnostics):
        return []
    made = format_source(text)
    return [] if made == text else [types.TextEdit(_range(text, 0, len(text), encoding), made)]


def _range(text: str, at: int, end: int, encoding: str) -> types.Range:
    return types.Range(_position(text, at, encoding), _position(text, max(at, end), encoding))


def _position(text: str, at: int, encoding: str) -> types.Position:
    """Return a position with columns as the editor counts them."""
    before = text[: min(at, len(text))]
    line, start = before.count("\n"), before.rfind("\n") + 1
    codec, size = _BYTES[types.PositionEncodingKind(encoding)]
    return types.Position(line, len(before[start:].encode(codec, "surrogatepass")) // size)


def _encoding(server: LanguageServer) -> str:
    return server.workspace.position_encoding or types.PositionEncodingKind.Utf16
