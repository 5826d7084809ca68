"""A provider is one file: what is particular to it stands in its record and nowhere else."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import vegakit.providers
from vegakit.providers.access import key_formats, parse_model_name
from vegakit.providers.known import PROVIDERS
from vegakit.providers.provider import ProviderRecord
from vegakit.telemetry import Redactor

SOURCE = Path(vegakit.providers.__file__).parents[1]
KNOWN = SOURCE / "providers" / "known"
NAMES = {name for one in PROVIDERS for name in (one.name, *(wire.name for wire in one.wires))}
KEYS = {"anthropic": "sk-ant-api03-" + "x" * 40, "openai": "sk-proj-" + "x" * 40}
"""A key of each, as it looks."""


def test_every_file_is_a_provider() -> None:
    """Whoever puts a file there has added one."""
    files = {path.stem for path in KNOWN.glob("*.py")} - {"__init__"}
    assert files == {provider.name for provider in PROVIDERS}


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
def test_a_record_is_whole(provider: ProviderRecord) -> None:
    """Names lead back to it, images have a price, and keys are known by sight."""
    for wire in provider.wires:
        assert parse_model_name(f"{wire.name}:m") == (provider, wire, "m")
        assert wire.base_url.startswith("https://")
        assert wire.key_form.format("k").endswith("k")
    assert 0 < provider.image_tokens("m", (1, 1)) < provider.image_tokens("m", (900, 900))
    assert provider.tokens_a_byte >= 1
    key = KEYS[provider.name]
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
        if KNOWN not in path.parents
        for constant in decisions(ast.parse(path.read_text()))
        if constant in NAMES
    ]
    assert found == []


def test_such_a_decision_would_be_found() -> None:
    """In each way that it was written before."""
    for code in ('a == "openai"', 'b["anthropic"]', 'c in {"openai-chat"}'):
        assert NAMES & {*decisions(ast.parse(code))}
    assert not re.search("openai", (SOURCE / "providers" / "model.py").read_text())
