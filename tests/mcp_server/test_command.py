"""`vega mcp` and `vega card` as they are typed."""

import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest

from vegakit import card
from vegakit.cli import main, mcp, mcp as mcp_serve
from vegakit.config import load
from vegakit.money import dollars


def typed(*words: str) -> tuple[int, str]:
    """Status, and how `serve` would have been called."""
    seen: list[str] = []

    def serve(chosen: object) -> int:
        seen.append(str(chosen))
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mcp_serve, "serve_clients", serve)
        return mcp.mcp_command(words), "".join(seen)


def test_without_a_word_it_serves() -> None:
    """With flags too; `list` and `accept` stay what they were."""
    for words in ((), ("serve",), ("--budget", "$2"), ("serve", "--budget", "$2")):
        status, seen = typed(*words)
        assert status == 0
        assert "action='serve'" in seen
    assert "budget='$2'" in typed("--budget", "$2")[1]


def test_for_a_kernel_it_is_short_for_the_server_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that `vega serve` takes."""
    seen: list[list[str]] = []
    monkeypatch.setattr(mcp, "serve_command", lambda words: seen.append([*words]) or 0)
    assert mcp.mcp_command(["kernel", "--store", "kernel.db"]) == 0
    assert seen == [["--doors", "mcp", "--store", "kernel.db"]]


def test_the_help_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Where one looks first."""
    with pytest.raises(SystemExit):
        main(["mcp", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "Without a word after it, as `vega mcp serve`" in said
    assert "list" in said
    assert "accept" in said


def test_a_charter_is_made_of_flags_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is granted that nobody named; aliases of models are."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "vega.toml").write_text(
        '[models]\nfast = "scripted:s.json"\n[budget]\ndefault = "$3"\n'
    )
    parser, settings = ArgumentParser(), load({}, directory=tmp_path)
    mcp_serve.add_arguments(parser)
    bare = mcp_serve._server_policy(parser.parse_args([]), tmp_path, settings)
    assert bare.budget == dollars("$3")
    assert bare.models == {*settings.models, "default"}
    assert bare.may.grant.capabilities == ()
    assert not bare.people
    assert not bare.all_runtimes
    words = "--budget $1 --may-read src/** --may-read doc/* --may-run git --may-ask openai:gpt-5"
    wide = mcp_serve._server_policy(parser.parse_args(words.split()), tmp_path, settings)
    assert wide.budget == dollars("$1")
    assert wide.reads == ("src/**", "doc/*")
    assert wide.may.grant.capabilities == ("fs::read", "process::exec")
    assert "openai:gpt-5" in wide.models


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--http", "0.0.0.0:8765"], "--remote vega.example.com"),
        (["--http", "here"], "--http 127.0.0.1:8765"),
        (["--root", "nowhere"], "--root FOLDER"),
        (["--budget", "much"], "like $1.50"),
    ],
)
def test_what_is_typed_wrong_is_said(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With what to type."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["mcp", "serve", *words]) == 1
    assert said in capsys.readouterr().err


def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is opened."""
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    assert main(["mcp"]) == 1
    assert "pip install 'vegakit[mcp]'" in capsys.readouterr().err


def test_the_card_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """In either syntax."""
    assert main(["card"]) == 0
    assert capsys.readouterr().out == card()
    assert main(["card", "--python"]) == 0
    assert capsys.readouterr().out == card("python")
