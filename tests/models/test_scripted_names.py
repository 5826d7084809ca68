"""`scripted:FILE`: a model that answers from a file."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.config.house import House
from tests.models.asking import request
from vegakit.errors import SettingsError, UserError
from vegakit.host import Agent
from vegakit.money import Money
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers.access import ProviderAccess, provider_of
from vegakit.providers.registry import build_model
from vegakit.providers.scripted import SCRIPTED_PRICE
from vegakit.sdk.runtime import Runtime

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
    assert settings.model("smart") == f"scripted:{house.project / 'tests' / 'answers.json'}"
    assert settings.model("scripted:answers.json") == "scripted:answers.json"


def test_other_aliases_are_left_alone(tmp_path: Path) -> None:
    """And so is a path from a flag."""
    house = House(tmp_path)
    house.write('[models]\nsmart = "openai:gpt-4o"\n')
    settings = house.load({"models.fast": "scripted:a.json"})
    assert (settings.model("smart"), settings.model("fast")) == ("openai:gpt-4o", "scripted:a.json")


def test_an_agent_by_that_name_answers(tmp_path: Path) -> None:
    """The whole way: settings, runtime, gate, without a key."""
    house = House(tmp_path)
    house.write('[models]\nsmart = "scripted:answers.json"\n')
    (house.project / "answers.json").write_text('["Good day."]')

    async def asked() -> str:
        async with Runtime.from_config(house.load()) as rt:
            return (await rt.ask(Agent("a"), "hello")).text

    assert asyncio.run(asked()) == "Good day."
