"""`scripted:FILE`: a model that answers from a file."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.config.house import House
from tests.models.asking import request
from vegakit.errors import Paused, SettingsError, UserError
from vegakit.host import Agent
from vegakit.money import Money, dollars
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers import (
    SCRIPTED_PRICE,
    ProviderAccess,
    ScriptedModel,
    build_model,
    provider_of,
)
from vegakit.sdk import Runtime

ACCESS = ProviderAccess(str)


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps(["one", "two"]))
    return path


def test_a_name_leads_to_a_file_of_replies(answers: Path) -> None:
    """Said in turn, at the price of every script."""
    model = build_model(f"scripted:{answers}", ACCESS)
    assert (model.name, model.price) == (f"scripted:{answers}", SCRIPTED_PRICE)
    said = [asyncio.run(model.ask(request())).message.text for _ in range(2)]
    assert said == ["one", "two"]


def test_a_price_of_the_users_goes_first(answers: Path) -> None:
    """As with every model."""
    row = PriceRow("scripted", (PriceTier(Money(1), Money(1), Money(1), Money(1)),))
    assert build_model(f"scripted:{answers}", ProviderAccess(str, price=row)).price == row


def test_an_unknown_file_says_what_to_do(tmp_path: Path) -> None:
    """With the whole path, since a relative one hides the mistake."""
    path = tmp_path / "no.json"
    with pytest.raises(UserError, match=rf"{re.escape(str(path))} .*No such.*write it: a list"):
        build_model(f"scripted:{path}", ACCESS)


def test_a_script_without_a_file_is_no_name() -> None:
    """The forms that would do include it."""
    with pytest.raises(SettingsError, match="scripted:<file>"):
        provider_of("scripted:")


def test_an_alias_starts_at_the_file_that_names_it(tmp_path: Path) -> None:
    """Wherever the program is run; a name in code starts at the working directory."""
    house = House(tmp_path)
    house.write('[models]\nsmart = "scripted:tests/answers.json"\n')
    settings = house.load()
    assert settings.models_of("smart")[0] == f"scripted:{house.project / 'tests' / 'answers.json'}"
    assert settings.models_of("scripted:answers.json")[0] == "scripted:answers.json"


def test_other_aliases_are_left_alone(tmp_path: Path) -> None:
    """And so is a path from a flag."""
    house = House(tmp_path)
    house.write('[models]\nsmart = "openai:gpt-4o"\n')
    settings = house.load({"models.fast": "scripted:a.json"})
    assert (settings.models_of("smart")[0], settings.models_of("fast")[0]) == (
        "openai:gpt-4o",
        "scripted:a.json",
    )


def test_an_agent_by_that_name_answers(tmp_path: Path) -> None:
    """The whole way: settings, runtime, gate, without a key."""
    house = House(tmp_path)
    house.write('[models]\nsmart = "scripted:answers.json"\n')
    (house.project / "answers.json").write_text('["Good day."]')

    async def asked() -> str:
        async with Runtime.from_config(house.load()) as rt:
            return (await rt.ask(Agent("a"), "hello")).text

    assert asyncio.run(asked()) == "Good day."


@pytest.fixture
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose `fast` answers from a file, as the working directory."""
    house = House(tmp_path)
    house.write(
        '[models]\nfast = "scripted:answers.json"\n[limits.scripted]\nslots = 3\n'
        "[limits.default.retry]\nmax_attempts = 7\n"
    )
    (house.project / "answers.json").write_text('["Good day.", "Good night."]')
    for variable in ("XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(house.home))
    monkeypatch.chdir(house.project)
    return house.project


async def test_a_plain_runtime_knows_the_names_of_the_settings(settled: Path) -> None:
    """With a journal too, and with the limits that the settings give the model."""
    agent = Agent("a", model="fast")
    async with Runtime("$1", journal=settled / "run.db") as rt:
        assert (await rt.ask(agent, "hello")).text == "Good day."
        assert rt.model_registry.retry_of(agent).max_attempts == 7
        own = Agent("b", model=ScriptedModel(["x"]))
        assert rt.model_registry.retry_of(own).max_attempts != 7
    assert (settled / "run.db").exists()


async def test_the_settings_are_read_only_for_a_name(settled: Path) -> None:
    """A file that is wrong stops nobody who does not need it."""
    (settled / "vega.toml").write_text("[models\n")
    async with Runtime("$1") as rt:
        assert (await rt.ask(Agent("b", model=ScriptedModel(["x"])), "?")).text == "x"
        with pytest.raises(SettingsError, match=r"vega\.toml"):
            await rt.ask(Agent("a", model="fast"), "hello")


async def test_options_replace_what_the_settings_say(settled: Path) -> None:
    """And what they replace is not made: the journal of the user is not even opened."""
    place = settled / "own.db"
    async with Runtime.from_config(budget=2, journal=place, observable=False, name="own") as rt:
        assert await rt.remaining() == dollars("$2")
        assert (await rt.ask(Agent("a", model="fast"), "hello")).text == "Good day."
        assert rt.journaled is not None
    data = settled.parents[1] / ".local" / "share" / "vega"
    assert place.exists()
    assert not (data / "vega.db").exists()
    assert not (data / "run").exists()


async def test_a_runtime_from_settings_without_a_journal(settled: Path) -> None:
    """Its money is kept in the ledger of the user all the same."""
    async with Runtime.from_config(journal=None, on_exceed="ask", mode="read-only") as rt:
        assert rt.journaled is None
        assert rt.approvals.permits
    async with Runtime.from_config(journal=None, on_exceed="ask", budget="$0.000001") as rt:
        with pytest.raises(Paused):
            await rt.ask(Agent("a", model="fast"), "hello")
