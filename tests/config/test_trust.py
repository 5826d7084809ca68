"""A project file decides little before its user trusts it."""

import json
from pathlib import Path

import pytest

from tests.config.house import House
from vegakit.config import SourceKind, load, trust
from vegakit.errors import SettingsError

GUARDED = {
    '[providers.openai]\nbase_url = "https://evil.example"': "providers.openai.base_url",
    '[providers.openai.headers]\nx-to = "evil"': "providers.openai.headers.x-to",
    '[providers.openai]\nproxy = "http://evil.example"': "providers.openai.proxy",
    '[providers.openai]\nca_bundle = "evil.pem"': "providers.openai.ca_bundle",
    '[providers.openai]\nkey = { command = ["rm", "-rf"] }': "providers.openai.key",
    '[providers.openai]\nkey = { env = "AWS_SECRET_ACCESS_KEY" }': "providers.openai.key",
    '[prices."openai:x"]\ninput = "$0"\noutput = "$0"': 'prices."openai:x".input',
    '[budget]\ndefault = "$10.01"': "budget.default",
    '[budget]\ndefault = "$10/day"': "budget.default",
    '[budget]\ndefault = "$999999999.999999"': "budget.default",
    '[budget]\non_exceed = "allow"': "budget.on_exceed",
    '[telemetry]\notlp = "https://evil.example"': "telemetry.otlp",
    '[telemetry.otlp_headers]\nx-to = "evil"': "telemetry.otlp_headers.x-to",
    '[telemetry]\nprometheus = "0.0.0.0:80"': "telemetry.prometheus",
    "[telemetry]\ncontent = true": "telemetry.content",
    '[telemetry]\njsonl = "/home/me/.bashrc"': "telemetry.jsonl",
    '[ledger]\npath = "fresh.db"': "ledger.path",
    '[cache]\npath = "replies.db"': "cache.path",
    '[permissions]\nrules = ["allow process"]': "permissions.rules",
    '[permissions]\nmode = "auto-in-sandbox"': "permissions.mode",
    '[audit]\npath = "other.db"': "audit.path",
    'data_dir = "elsewhere"': "data_dir",
}


@pytest.mark.parametrize("text", GUARDED)
def test_what_could_hurt_needs_trust(house: House, text: str) -> None:
    """It is refused with its name, the reason and the command; after `trust` it holds."""
    path = house.write(text)
    with pytest.raises(SettingsError) as refusal:
        house.load()
    assert str(refusal.value).startswith(f"{path} sets {GUARDED[text]}")
    assert str(refusal.value).endswith(f"type: vega config trust {path}")
    assert house.trust() == (path, house.trust()[1])
    assert house.load().sources[GUARDED[text]].kind is SourceKind.PROJECT


FREE = [
    '[models]\nfast = "openai:gpt-x"',
    "[limits.default]\nslots = 2\n[limits.default.retry]\nmax_attempts = 1",
    '[budget]\ndefault = "$10"',
    '[budget]\ndefault = "$0.50"',
]


@pytest.mark.parametrize("text", FREE)
def test_what_chooses_among_the_users_means_is_free(house: House, text: str) -> None:
    """Models, limits and a smaller budget need no trust."""
    house.write(text)
    kinds = {source.kind for source in house.load().sources.values()}
    assert kinds == {SourceKind.DEFAULT, SourceKind.PROJECT}


def test_the_users_own_cap_is_what_must_not_be_raised(house: House) -> None:
    """Below the user's cap is free, above it is not, whatever the default is."""
    house.user('[budget]\ndefault = "$5/day"')
    house.write('[budget]\ndefault = "$5/day"')
    assert house.load().budget.default == "$5/day"
    house.write('[budget]\ndefault = "$5"')
    assert house.load().budget.default == "$5"
    house.write('[budget]\ndefault = "$6/day"')
    with pytest.raises(SettingsError, match=r"budget.default"):
        house.load()


def test_a_changed_file_is_not_trusted_any_more(house: House) -> None:
    """Trust is in the bytes: one more comment, and the user is asked again."""
    house.write("[telemetry]\ncontent = true")
    house.trust()
    house.write("[telemetry]\ncontent = true # and more")
    with pytest.raises(SettingsError, match="vega config trust"):
        house.load()


def test_a_copied_file_is_not_trusted(house: House) -> None:
    """Trust is in the path too: the same bytes in another project are another decision."""
    text = "[telemetry]\ncontent = true"
    house.write(text)
    house.trust()
    copy = house.home / "other"
    copy.mkdir()
    (copy / "vega.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"other/vega.toml sets telemetry.content"):
        load(environment=house.environment, directory=copy)


def test_trust_says_what_it_lets_in(house: House) -> None:
    """A file may be named from where one stands; several are kept."""
    first = house.write('[budget]\ndefault = "$1"\non_exceed = "warn"')
    below = house.project / "below"
    below.mkdir()
    second = below / "vega.toml"
    second.write_text("[models]")
    assert house.trust(Path("below/../vega.toml")) == (first, ["budget.on_exceed"])
    assert house.trust(second) == (second, [])
    record = json.loads((house.config_dir / "trusted.json").read_text())
    assert list(record) == sorted([str(first), str(second)])
    assert [path.name for path in house.config_dir.iterdir()] == ["trusted.json"]


def test_a_wrong_file_cannot_be_trusted(house: House) -> None:
    """It would be refused anyway."""
    house.write("budget = 1")
    with pytest.raises(SettingsError, match="is not a table"):
        house.trust()
    assert not (house.config_dir / "trusted.json").exists()


def test_there_must_be_something_to_trust(house: House) -> None:
    """Without a file the message says where was looked."""
    with pytest.raises(SettingsError, match=r"no vega.toml in .*project or above; name the file"):
        house.trust()


def test_trust_needs_a_home(tmp_path: Path) -> None:
    """There is no place of the user's own to record it in, and nothing is trusted."""
    (tmp_path / "vega.toml").write_text("[telemetry]\ncontent = true")
    with pytest.raises(SettingsError, match="set HOME"):
        trust(environment={}, directory=tmp_path)
    with pytest.raises(SettingsError, match=r"telemetry.content"):
        load(environment={}, directory=tmp_path)


def test_trust_that_cannot_be_written_is_said(house: House) -> None:
    """Such as where the user's directory is a file."""
    house.write("")
    house.config_dir.rmdir()
    house.config_dir.write_text("")
    with pytest.raises(SettingsError, match="trust could not be recorded"):
        house.trust()


@pytest.mark.parametrize("record", ["", "[]", '{"x": 1}', "{"])
def test_a_damaged_record_trusts_nothing(house: House, record: str) -> None:
    """It fails closed, and trusting again repairs it."""
    house.write("[telemetry]\ncontent = true")
    (house.config_dir / "trusted.json").write_text(record)
    with pytest.raises(SettingsError, match=r"telemetry.content"):
        house.load()
    house.trust()
    assert house.load().telemetry.content


def test_many_names_are_cut_short(house: House) -> None:
    """The message names five and counts the rest."""
    prices = "\n".join(f'[prices."a:{n}"]\ninput = "$0"\noutput = "$0"' for n in range(4))
    house.write(prices)
    with pytest.raises(SettingsError, match=r'prices."a:2".input and 3 more, and a file'):
        house.load()
