"""`vega lsp` and a real client, over its stdin and stdout."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from tests.patience import PATIENCE_S

SERVER = "from vegakit.cli import main; main(['lsp'])"
BROKEN = 'let a = "😀" + nope;\nprint(a);\n'


class Editor:
    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.told: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()

    def uri(self, name: str = "main.vega") -> str:
        return (self.folder / name).as_uri()

    def open(self, text: str, name: str = "main.vega") -> None:
        item = types.TextDocumentItem(self.uri(name), "vega", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change(self, text: str) -> None:
        now = types.VersionedTextDocumentIdentifier(2, self.uri())
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(now, [whole]))

    async def format(self) -> list[types.TextEdit]:
        here = types.TextDocumentIdentifier(self.uri())
        asked = types.DocumentFormattingParams(here, types.FormattingOptions(2, insert_spaces=True))
        return list(await self.client.text_document_formatting_async(asked) or ())

    async def next(self) -> list[types.Diagnostic]:
        return list((await asyncio.wait_for(self.told.get(), PATIENCE_S)).diagnostics)


@asynccontextmanager
async def editing(folder: Path) -> AsyncGenerator[Editor]:
    client = LanguageClient("test", "1")
    editor = Editor(client, folder)

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def on_told(params: types.PublishDiagnosticsParams) -> None:  # pyright: ignore[reportUnusedFunction]
        editor.told.put_nowait(params)

    await client.start_io(sys.executable, "-c", SERVER)
    await client.initialize_async(types.InitializeParams(types.ClientCapabilities()))
    client.initialized(types.InitializedParams())
    yield editor
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()


async def test_an_editor_is_told_what_is_wrong(tmp_path: Path) -> None:
    """Where it stands as editors count, which take an emoji for two."""
    async with editing(tmp_path) as editor:
        editor.open(BROKEN)
        [wrong] = await editor.next()
        assert (wrong.code, wrong.source) == ("unknown-name", "vega")
        assert (wrong.range.start.line, wrong.range.start.character) == (0, 15)
        assert wrong.range.end.character == 19
        editor.change(BROKEN.replace("nope", '"!"'))
        assert await editor.next() == []


async def test_a_document_is_formatted(tmp_path: Path) -> None:
    """As `vega fmt` does; while it is broken it stays as it is."""
    async with editing(tmp_path) as editor:
        editor.open("let a=1 ;print( a );")
        assert await editor.next() == []
        [edit] = await editor.format()
        assert edit.new_text == "let a = 1;\nprint(a);\n"
        editor.change("let a = ")
        assert await editor.next()
        assert await editor.format() == []


async def test_what_is_open_is_read_from_the_editor(tmp_path: Path) -> None:
    """A file that is used and not saved yet is there already."""
    async with editing(tmp_path) as editor:
        editor.open("fn twice(a: int) -> int { return a * 2; }\n", "lib.vega")
        assert await editor.next() == []
        editor.open('use "lib.vega"\nprint(lib::twice(2));\n')
        assert await editor.next() == []
