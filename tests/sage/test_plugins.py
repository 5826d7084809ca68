"""Plugins: their code runs in the sandbox only; hostile and broken ones are told, and the session
lives. Real processes, and modules with the record of an entry point as an installer writes them."""

import json
from pathlib import Path

import pytest
from campaigns.plugins import CASES, HOGS, Case, groups, install, play

from tests.sage.scene import calls, scene
from tests.sage.test_extensions import ends
from vegakit.sage.extensions.plugins import plugin_place

WORDS = '''
from vegakit import tool
from vegakit.sage import Plugin, PluginHook, SageCommand, SageSubAgent

@tool(capabilities=["fs::read"], allowed_paths=["**"], idempotent=True)
async def word_count(ctx, path: str) -> int:
    """Count the words of a file."""
    return len((await ctx.files.read(path)).split())

def no_force(event):
    """Refuse a push by force."""
    return "no force" if "--force" in event["arguments"].get("command", "") else None

plugin = Plugin(
    capabilities=["fs::read"],
    tools=[word_count],
    commands=[SageCommand("count", "Count the words of $ARGUMENTS.", "Count words.", "PATH")],
    agents=[SageSubAgent("counter", "Count.", "Counts words.", tools=("word_count",))],
    hooks=[PluginHook("no-force", "before_tool", no_force, ["shell"])],
)
'''

QUICK = "import vegakit.sage.extensions.plugins as plugins\nplugins.DESCRIBE_S = 3\n"


def test_a_plugin_adds_tools_commands_agents_and_hooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only once its user has enabled it: until then nothing of it is told."""
    force = ("shell", {"command": "git push --force"})
    script = {
        "Count the words": [calls(("word_count", {"path": "a.txt"}), force), "Three."],
        "": "Done.",
    }
    site = tmp_path / "site"
    install(site, "words", WORDS)
    monkeypatch.syspath_prepend(str(site))
    with scene(tmp_path, script) as it:
        (it.folder / "a.txt").write_text("one two three")
        it.events("-p", "Go.")
        assert "word_count" not in json.dumps(it.bodies[0]["tools"])
        it.settings('[code]\nplugins = ["words"]\n')
        events = it.events("-p", "/count a.txt")
        assert "3" in ends(events, "word_count")[0]["result"]
        assert "untrusted" in ends(events, "word_count")[0]["result"]
        assert "the hook no-force of plugin words refused" in ends(events, "shell")[0]["result"]
        (task,) = [tool for tool in it.bodies[1]["tools"] if tool["name"] == "task"]
        assert "counter" in task["input_schema"]["properties"]["agent"]["enum"]
        install(site, "words", WORDS.replace("Count the words of a file", "Changed"))
        it.events("--continue", "-p", "Go.")
        assert "Changed" in json.dumps(it.bodies[-1]["tools"])
        install(site, "words", "raise SystemExit")
        ran = it.here("--continue", "-p", "Go.")
        assert "plugin words is used as it was before" in ran.stderr
        assert "Changed" in json.dumps(it.bodies[-1]["tools"])


def test_two_packages_with_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for site in ("one", "two"):
        install(tmp_path / site, f"name-{site}", "plugin = 1")
        record = next((tmp_path / site).glob("*.dist-info")) / "entry_points.txt"
        record.write_text(record.read_text().replace(f"name-{site}", "both"))
        monkeypatch.syspath_prepend(str(tmp_path / site))
    assert plugin_place("both") == (
        "name_one_plugin and name_two_plugin both offer it; uninstall one of them"
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("group", groups(), ids=lambda group: group[0].name)
def test_hostile_and_broken_extensions_are_held(group: list[Case]) -> None:
    assert len(CASES) >= 30
    # Whoever hangs is late however little time there is, and nobody else is in that session.
    problems = play(group, fault=QUICK if group[0].name in HOGS else "")
    assert not any(problems.values()), problems


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (
            "project-is-not-trusted",
            (
                "import vegakit.sage.extensions.files as files\n"
                "files.find_trust = lambda _: files.Trust(0)\n"
            ),
        ),
        (
            "lies-about-writing",
            (
                "import vegakit.sage.extensions.plugins as plugins\n"
                "real = plugins.SandboxSpec\n"
                "plugins.SandboxSpec = lambda workspace, _, *rest: real(workspace, True, *rest)\n"
            ),
        ),
        (
            "hook-hangs",
            (
                "import vegakit.sage.extensions.hooks as hooks\n"
                "hooks.Hooks.over = lambda self, tool: tool\n"
            ),
        ),
    ],
)
def test_a_fault_is_noticed(name: str, fault: str) -> None:
    (case,) = [case for case in CASES if case.name == name]
    assert play([case], fault=fault)[name]
