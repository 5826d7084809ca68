"""Files of pipelines: read, refused with the line, and the published schema."""

import json
from pathlib import Path

import pytest

from vegakit import Runtime, load
from vegakit.cli.run import run_command
from vegakit.errors import UserError
from vegakit.records import to_json
from vegakit.sdk import pipeline_schema, read_pipeline
from vegakit.testing import ScriptedModel

REPOSITORY = Path(__file__).parents[2]
SCHEMA = REPOSITORY / "docs/reference/pipeline.schema.json"
ARTICLE = REPOSITORY / "examples/pipelines/article.yaml"
GOOD = """\
stages:
  - {name: plan, agent: planner, default_next: write}
  - name: write
    agent: writer
    retries: 1
agents:
  planner: {model: fast, prompt: "Plan {input}"}
  writer:
    model: fast
    budget: "$0.05"
bounds: {max_iterations: 3}
"""


def refusal(tmp_path: Path, text: str, name: str = "p.yaml") -> str:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as caught:
        read_pipeline(tmp_path / name)
    return str(caught.value)


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD)
    read = read_pipeline(tmp_path / "p.yaml")
    assert read.lines == {"plan": 2, "write": 3}
    assert read.definition.agents["writer"].budget == "$0.05"
    (tmp_path / "p.json").write_bytes(to_json(read.definition))
    again = read_pipeline(tmp_path / "p.json")
    assert again.definition == read.definition
    assert again.lines == {"plan": 0, "write": 0}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("default_next: w", "default_nxt: w", "p.yaml:2: 'default_nxt' is not known; did you mean"),
        ("retries: 1", "retries: one", "p.yaml:5: retries: Expected `int`, got `str`"),
        ("default_next: write", "default_next: wrte", "p.yaml:2: plan: default_next names 'wrte'"),
        ("{input}", "{inputs}", "p.yaml:7: agents.planner.prompt: {inputs} is no stage; did you"),
        ("agent: writer", "agent: other", "p.yaml:8: agents.writer: no stage names it"),
        ('"$0.05"', '"5 cents"', "p.yaml:10: agents.writer.budget:"),
        (
            "    model: fast",
            "    modle: fast",
            "p.yaml:9: 'modle' is not known; did you mean model",
        ),
        ("stages:", "stages: [", "p.yaml:"),
        ("retries: 1", "retries: no", "p.yaml:5: 'no' is read differently by different programs"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert refusal(tmp_path, GOOD.replace(old, new, 1)).startswith(told)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("{input}", "{x}").replace("default_next: write", "default_next: x")
    assert [line[:9] for line in refusal(tmp_path, text).splitlines()] == [
        "p.yaml:2:",
        "p.yaml:3:",
        "p.yaml:7:",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has 0 bytes; write `stages:`"),
        ("{", "is no JSON"),
        ('{"stages": [{"name": 1, "agent": "a"}]}', "p.json: name: Expected `str`, got `int`"),
        ('{"stages": [], "agent": {}}', "p.json: 'agent' is not known; did you mean agents"),
        ("[]", "p.json: the file: Expected `object`"),
    ],
)
def test_json_is_refused_with_the_field(tmp_path: Path, text: str, told: str) -> None:
    assert told in refusal(tmp_path, text, "p.json")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_pipeline(tmp_path / "none.yaml")


def test_the_published_schema_is_made_from_the_records() -> None:
    assert json.loads(SCHEMA.read_text()) == pipeline_schema()


def test_the_example_is_sound() -> None:
    assert read_pipeline(ARTICLE).definition.agents["editor"].asks == "agent_review"


def test_only_a_kernel_may_know_other_agents(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD.partition("  writer:")[0])
    with pytest.raises(UserError, match=r"p\.yaml:3: write: agent writer is not defined in this"):
        load(tmp_path / "p.yaml")


async def test_a_stage_may_have_fewer_tools_than_its_agent(tmp_path: Path) -> None:
    """Both stages ask one agent, and one of them leaves it no tool."""
    text = GOOD.replace("retries: 1", "tools: []").replace("agent: planner", "agent: writer")
    text = text.replace('  planner: {model: fast, prompt: "Plan {input}"}\n', "")
    (tmp_path / "p.yaml").write_text(text.replace("    budget", "    tools: [look]\n    budget"))

    def look() -> str:
        return "seen"

    model = ScriptedModel(["eyes", "owls"])
    async with Runtime("$1", models=lambda _: model) as rt:
        outputs = await rt.run(load(tmp_path / "p.yaml", tools=[look]), "owls")
    assert outputs == {"plan": "eyes", "write": "owls"}
    assert [len(request.tools) for request in model.requests] == [1, 0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("p.yaml", "owls"), "but its input; type: vega run p.yaml --input owls"),
        (("p.vega", "--input", "owls"), "--input is for pipelines"),
        (("p.vega", "--tools", "t.py"), "--tools is for pipelines"),
    ],
)
def test_words_for_the_other_kind_are_refused(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(UserError, match=told):
        run_command(words)
