"""A provider is one file: what is particular to it stands in its record and nowhere else."""

import ast
import asyncio
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import vegakit.providers
from tests.models.asking import answer, request
from vegakit.errors import Phase, WorldError
from vegakit.providers import (
    ProviderAccess,
    ProviderRecord,
    build_model,
    key_formats,
    needs_key,
    provider_names,
)
from vegakit.providers.access import parse_model_name
from vegakit.providers.known import PROVIDERS
from vegakit.providers.provider import OutgoingRequest, ProviderWire
from vegakit.telemetry import Redactor

SOURCE = Path(vegakit.providers.__file__).parents[1]
KNOWN = SOURCE / "providers" / "known"
CODECS = SOURCE / "wires"
NAMES = {name for one in PROVIDERS for name in (one.name, *(wire.name for wire in one.wires))}
KEYS = {
    "anthropic": "sk-ant-api03-" + "x" * 40,
    "openai": "sk-proj-" + "x" * 40,
    "google": "AIza" + "x" * 35,
    "bedrock": "ABSK" + "x" * 120,
    "vertex": "ya29." + "x" * 60,
}
"""A key of each, as it looks; those of Azure and Ollama look like any other word."""


def authorized(wire: ProviderWire) -> tuple[tuple[bytes, bytes], ...]:
    """The headers that carry the key `k`."""

    async def run() -> tuple[tuple[bytes, bytes], ...]:
        made = wire.authorize("k", OutgoingRequest(wire.base_url, b"{}"))
        return await made if inspect.isawaitable(made) else made

    return asyncio.run(run())


def test_every_file_is_a_provider() -> None:
    """Whoever puts a file there has added one."""
    files = {path.stem for path in KNOWN.glob("*.py")} - {"__init__"}
    assert files == {provider.name for provider in PROVIDERS}


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
def test_a_record_is_whole(provider: ProviderRecord) -> None:
    """Names lead back to it, images have a price, and keys are known by sight."""
    for wire in provider.wires:
        assert parse_model_name(f"{wire.name}:m") == (provider, wire, "m")
        assert wire.base_url.startswith(("https://", "http://127.0.0.1", "{"))
        ((_, sent),) = authorized(wire)
        assert sent.endswith(b"k")
    assert 0 < provider.image_tokens("m", (1, 1)) < provider.image_tokens("m", (900, 900))
    assert provider.tokens_a_byte >= 1
    if (key := KEYS.get(provider.name)) is None:
        return
    assert key not in Redactor(formats=key_formats()).redact(f"it is {key}")


def test_a_format_of_a_provider_is_hidden() -> None:
    """Beside those that are always known."""
    redactor = Redactor(formats={"mine": ("mine-", r"mine-\w{8,}")})
    assert redactor.redact("mine-12345678") == "[redacted]"
    redactor.add("another secret")
    assert redactor.redact("mine-12345678 sk-ant-" + "x" * 20) == "[redacted] [redacted]"


def decisions(tree: ast.AST) -> Iterator[str]:
    """Constants that code decides by: compared, matched, or looked up."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                parts = [node.left, *node.comparators]
            case ast.MatchValue():
                parts = [node.value]
            case ast.Subscript(slice=ast.Constant()):
                parts = [node.slice]
            case _:
                continue
        for part in parts:
            for inner in ast.walk(part):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield inner.value


def test_nobody_else_decides_by_a_providers_name() -> None:
    """A seventh provider would have to be told to each of them."""
    found = [
        f"{path.relative_to(SOURCE)}: {constant}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not {KNOWN, CODECS} & {*path.parents}  # a codec knows its own name
        for constant in decisions(ast.parse(path.read_text()))
        if constant in NAMES
    ]
    assert found == []


def test_such_a_decision_would_be_found() -> None:
    """In each way that it was written before."""
    for code in ('a == "openai"', 'b["anthropic"]', 'c in {"openai-chat"}'):
        assert NAMES & {*decisions(ast.parse(code))}
    assert not re.search("openai", (SOURCE / "providers" / "model.py").read_text())


@pytest.mark.parametrize(
    ("wire", "variables", "address"),
    [
        ("azure", {"AZURE_OPENAI_ENDPOINT": "https://a.test/"}, "https://a.test/openai/v1"),
        (
            "azure",
            {"AZURE_OPENAI_ENDPOINT": "https://a.test/openai/v1/"},
            "https://a.test/openai/v1",
        ),
        (
            "vertex",
            {"GOOGLE_CLOUD_LOCATION": "global", "GOOGLE_CLOUD_PROJECT": "p"},
            "https://aiplatform.googleapis.com/v1/projects/p/locations/global",
        ),
        ("bedrock", {"AWS_REGION": "r"}, "https://bedrock-runtime.r.amazonaws.com"),
        ("bedrock", {"AWS_DEFAULT_REGION": "d"}, "https://bedrock-runtime.d.amazonaws.com"),
        (
            "bedrock",
            {"AWS_REGION": "r", "AWS_DEFAULT_REGION": "d"},
            "https://bedrock-runtime.r.amazonaws.com",
        ),
        ("ollama", {}, "http://127.0.0.1:11434"),
        ("ollama", {"OLLAMA_HOST": "gpu"}, "http://gpu:11434"),
        ("ollama", {"OLLAMA_HOST": "gpu:8000"}, "http://gpu:8000"),
        ("ollama", {"OLLAMA_HOST": ":8000"}, "http://127.0.0.1:8000"),
        ("ollama", {"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434"),
        ("ollama", {"OLLAMA_HOST": "[::1]:8000"}, "http://[::1]:8000"),
        ("ollama", {"OLLAMA_HOST": "https://gpu/"}, "https://gpu"),
        ("ollama", {"OLLAMA_HOST": "http://0.0.0.0:8000"}, "http://127.0.0.1:8000"),
    ],
)
def test_an_address_is_made_of_variables(
    wire: str, variables: dict[str, str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As people write them."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert parse_model_name(f"{wire}:m").wire.address(None) == address


@pytest.mark.parametrize(
    ("wire", "base_url", "address"),
    [
        ("anthropic", "https://a.test/v1/", "https://a.test"),
        ("anthropic", "https://a.test/anthropic/v1", "https://a.test/anthropic"),
        ("anthropic", "https://a.test/v1/messages", "https://a.test"),
        ("anthropic", "https://a.test", "https://a.test"),
        ("google", "https://a.test/v1beta", "https://a.test"),
        ("ollama", "http://a.test:11434/api", "http://a.test:11434"),
        ("openai", "https://a.test/v1", "https://a.test/v1"),
    ],
)
def test_a_path_that_the_format_adds_is_not_there_twice(
    wire: str, base_url: str, address: str
) -> None:
    """Others want it in their base_url, so it is often copied."""
    assert parse_model_name(f"{wire}:m").wire.address(base_url) == address


@pytest.mark.parametrize(("host", "is_free"), [("127.0.0.1:1", True), ("gpu:1", False)])
def test_only_a_server_at_home_is_free(
    host: str, is_free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    model = build_model("ollama:llama3.2", ProviderAccess(lambda: ""))
    assert (model.price is not None) is is_free


def test_without_its_variables_a_price_is_known_but_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever only asks what it would cost needs no address."""
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    model = build_model("bedrock:amazon.nova-lite-v1:0", ProviderAccess(lambda: "k"))
    assert model.price is not None
    with pytest.raises(WorldError, match="set AWS_REGION") as refused:
        asyncio.run(answer(model, request(), stream=False))
    assert refused.value.phase is Phase.NOTHING_SENT


def test_who_finds_an_account_or_is_at_home_needs_no_key() -> None:
    """A run of theirs is not refused before it begins."""
    assert [name for name in provider_names() if not needs_key(name)] == [
        "bedrock",
        "ollama",
        "vertex",
    ]
