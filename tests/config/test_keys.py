"""Keys are read when they are needed, and are nowhere else."""

import asyncio
import sys

import pytest

from tests.config.house import House
from vegakit.config import KeySource, environment_proxy, environment_secrets, explain, load, toml_of
from vegakit.errors import SettingsError


async def wait_key(source: KeySource) -> str:
    return await source.read()


def read(source: KeySource) -> str:
    return asyncio.run(wait_key(source))


def python(code: str, *words: str) -> str:
    """A user's file whose key comes from a Python program."""
    return f"[providers.openai.key]\ncommand = {toml_of([sys.executable, '-c', code, *words])}\n"


def test_a_variable_is_read_at_the_call(house: House) -> None:
    """A key that is set or changed after loading is the one that is used."""
    environment = {"OPENAI_API_KEY": " sk-1 \n"}
    settings = load(environment=environment, directory=house.project)
    assert read(settings.key("openai")) == "sk-1"
    environment["OPENAI_API_KEY"] = "sk-2"
    assert read(settings.key("openai")) == "sk-2"


@pytest.mark.parametrize(
    ("provider", "variable"),
    [("anthropic", "ANTHROPIC_API_KEY"), ("mistral", "MISTRAL_API_KEY"), ("x-y", "X_Y_API_KEY")],
)
def test_every_provider_has_a_variable(house: House, provider: str, variable: str) -> None:
    """Named after the provider, unless a file says otherwise."""
    assert read(house.load(None, **{variable: "k"}).key(provider)) == "k"


def test_a_file_may_name_another_variable(house: House) -> None:
    """And then the usual one is not looked at."""
    house.user('[providers.openai]\nkey = { env = "WORK_KEY" }')
    assert read(house.load(WORK_KEY="w", OPENAI_API_KEY="o").key("openai")) == "w"


@pytest.mark.parametrize("text", ["", "  ", "two\nlines"])
def test_a_missing_key_says_what_to_set(house: House, text: str) -> None:
    """A key of several lines is none."""
    with pytest.raises(SettingsError, match="OPENAI_API_KEY holds no key; set it"):
        read(house.load(OPENAI_API_KEY=text).key("openai"))


def test_the_first_line_of_a_command_is_the_key(house: House) -> None:
    """As password stores print it: the secret first, notes below; much output harms nobody."""
    house.user(python("print('sk-1'); print('x' * 300_000)"))
    assert read(house.load().key("openai")) == "sk-1"


def test_no_shell_reads_a_command(house: House) -> None:
    """A word with shell syntax is just a word."""
    house.user(python("import sys; print(sys.argv[1])", "$(id); echo x"))
    assert read(house.load().key("openai")) == "$(id); echo x"


@pytest.mark.parametrize(
    ("code", "problem"),
    [("raise SystemExit(3)", "ended with status 3"), ("pass", "printed no key in its first line")],
)
def test_a_failing_command_is_said_in_words(house: House, code: str, problem: str) -> None:
    """Without what it printed."""
    house.user(python(code))
    with pytest.raises(SettingsError, match=f"{problem}; run it by hand to see why"):
        read(house.load().key("openai"))


def test_a_command_that_is_not_there(house: House) -> None:
    """Says so."""
    house.user('[providers.openai]\nkey = { command = ["no-such-program-here"] }')
    with pytest.raises(SettingsError, match=r"no-such-program-here .* could not be started"):
        read(house.load().key("openai"))


LINGER = """
import subprocess, sys
subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], stdin=subprocess.PIPE)
import signal; signal.pause()
"""


def test_a_command_has_a_deadline(house: House) -> None:
    """Even if a child of its own keeps the pipe open, it is killed and let go."""
    house.user(python(LINGER) + 'timeout = "300ms"')
    with pytest.raises(SettingsError, match=r"took longer than 0\.3 s"):
        read(house.load().key("openai"))


CALL_AND_STAY = (
    "import signal, socket; s = socket.create_connection(('127.0.0.1', {})); signal.pause()"
)


def test_a_cancelled_read_ends_its_command(house: House) -> None:
    """Cancelling is passed on, and the command is gone when the read has ended."""

    async def cancel() -> tuple[bool, bytes]:
        came: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue(1)
        server = await asyncio.start_server(lambda *pair: came.put_nowait(pair), "127.0.0.1", 0)
        house.user(python(CALL_AND_STAY.format(server.sockets[0].getsockname()[1])))
        reading = asyncio.create_task(wait_key(house.load().key("openai")))
        reader, writer = await came.get()
        reading.cancel()
        await asyncio.wait([reading])
        said = await reader.read()
        writer.close()
        server.close()
        return reading.cancelled(), said

    assert asyncio.run(cancel()) == (True, b"")


def test_a_function_gives_a_key(house: House) -> None:
    """Plain or async, from code only; it goes before files and variables."""

    async def slowly() -> str:
        await asyncio.sleep(0)
        return "async"

    settings = house.load(
        {"providers.openai.key": lambda: "plain", "providers": {"new": {"key": slowly}}},
        OPENAI_API_KEY="o",
    )
    assert read(settings.key("openai")) == "plain"
    assert read(settings.key("new")) == "async"
    shown = {row.name: row.value for row in explain(settings) if row.name.endswith("key")}
    assert shown["providers.openai.key"] == shown["providers.new.key"] == "a Python function"
    assert shown["providers.anthropic.key"] == "env ANTHROPIC_API_KEY"


def test_a_function_without_a_key_is_said_in_words(house: House) -> None:
    """An empty answer is not sent to a provider."""
    with pytest.raises(SettingsError, match="returned no key"):
        read(house.load({"providers.openai.key": str}).key("openai"))


SECRET = "sk-canary-0123456789"
FILE = f"""
[providers.openai]
base_url = "https://me:{SECRET}@models.example/v1?key={SECRET}"
proxy = "http://me:{SECRET}@proxy.example:3128"
headers = {{ authorization = "{SECRET}" }}
key = {{ command = ["echo", "{SECRET}"] }}
[telemetry]
otlp = "https://{SECRET}@traces.example"
otlp_headers = {{ authorization = "{SECRET}" }}
"""


def test_no_secret_is_shown(house: House) -> None:
    """Neither by `explain` nor by printing the settings or any part of them."""
    house.user(FILE)
    settings = house.load(ANTHROPIC_API_KEY=SECRET)
    rows = {row.name: row.value for row in explain(settings)}
    assert rows["providers.openai.base_url"] == "https://…@models.example/v1…"
    assert rows["providers.openai.proxy"] == "http://…@proxy.example:3128"
    assert rows["providers.openai.headers.authorization"] == "…"
    assert rows["providers.openai.key"] == "command echo"
    assert rows["telemetry.otlp_headers.authorization"] == "…"
    parts = [settings, settings.providers, settings.telemetry, settings.keys]
    parts += [settings.otlp_target]
    parts += [settings.key("openai"), settings.key("anthropic"), settings.providers["openai"].key]
    assert SECRET not in f"{rows}{parts}"


def test_an_address_that_cannot_be_taken_apart_is_hidden_whole(house: House) -> None:
    """Nobody knows where its secret is."""
    house.user('[providers.headers]\nbase_url = "http://[me:secret@x"\nproxy = "http://p"')
    rows = {row.name: row.value for row in explain(house.load())}
    assert rows["providers.headers.base_url"] == "…"
    assert rows["providers.headers.proxy"] == "http://p"


@pytest.mark.parametrize(
    "text",
    [
        f'[providers.openai]\nkey = "{SECRET}"',
        f'[providers]\nopenai = "{SECRET}"',
        f'[providers.openai.key]\nenv = "A"\ncommand = ["{SECRET}"]',
        f'[providers.openai]\nproxy = "{SECRET}"',
        f'[providers.openai]\nheaders = "{SECRET}"',
        f'[providers.openai.headers]\nx = ["{SECRET}"]',
        f'[providers.openai]\nbase_url = "{SECRET}"',
        f'[telemetry.otlp_headers]\nx = ["{SECRET}"]',
    ],
)
def test_no_secret_is_in_a_message(house: House, text: str) -> None:
    """People paste keys in wrong places; the message must not repeat them."""
    house.user(text)
    with pytest.raises(SettingsError) as refusal:
        house.load()
    assert SECRET not in str(refusal.value)


def test_a_key_in_a_variable_of_ours_is_not_repeated(house: House) -> None:
    """It says where a key is read instead."""
    with pytest.raises(SettingsError) as refusal:
        house.load(VEGA_PROVIDERS_OPENAI_KEY=SECRET)
    assert SECRET not in str(refusal.value)
    assert 'write key = { env = "OPENAI_API_KEY" }' in str(refusal.value)


def test_secrets_of_variables_are_known_by_their_names() -> None:
    """By what they are called, or because somebody names them; not what every text holds."""
    environment = {
        "GITHUB_TOKEN": "ghp_abcdefgh",
        "DB_PASSWORD_FILE": "/run/secret",
        "aws_secret_access_key": "wJalrXUt",
        "NOTES": "named-by-settings",
        "HOME": "/home/somebody",
        "MONKEY": "not-a-key-at-all",
        "SHORT_KEY": "1234567",
        "EMPTY_KEY": "",
    }
    assert environment_secrets(["NOTES"], environment) == {
        "ghp_abcdefgh": "GITHUB_TOKEN",
        "/run/secret": "DB_PASSWORD_FILE",
        "wJalrXUt": "aws_secret_access_key",
        "named-by-settings": "NOTES",
    }


@pytest.mark.parametrize(
    ("url", "variables", "proxy"),
    [
        ("https://a.test/v1", {}, None),
        ("https://a.test/v1", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.test/v1", {"https_proxy": "p:1"}, "http://p:1"),
        ("https://a.test/v1", {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.test/v1", {"ALL_PROXY": "socks5://p:1"}, None),
        ("http://a.test/v1", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://a.test/v1", {"http_proxy": "http://p:1"}, "http://p:1"),
        ("https://a.test/v1", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "b.test, .test"}, None),
        ("https://a.test/v1", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "est"}, "http://p:1"),
        ("https://a.test/v1", {"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}, None),
        ("https://a.test/v1", {"HTTPS_PROXY": "http://p:1", "no_proxy": "a.test:443"}, None),
        ("https://a.test:8443", {"HTTPS_PROXY": "http://p:1", "no_proxy": ".test:8443"}, None),
        ("https://a.test/v1", {"HTTPS_PROXY": "http://p:1", "no_proxy": "a.test:80"}, "http://p:1"),
        ("https://a.test/v1", {"HTTPS_PROXY": "http://p:1", "no_proxy": "*.test"}, None),
        ("https://10.2.3.4", {"HTTPS_PROXY": "http://p:1", "no_proxy": "10.0.0.0/8"}, None),
        ("https://11.2.3.4", {"HTTPS_PROXY": "http://p:1", "no_proxy": "10.0.0.0/8"}, "http://p:1"),
        ("https://a.test", {"HTTPS_PROXY": "http://p:1", "no_proxy": "10.0.0.0/8"}, "http://p:1"),
        ("https://[fd00::7]:9", {"HTTPS_PROXY": "http://p:1", "no_proxy": "fd00::/8"}, None),
        ("https://[fd00::7]:9", {"HTTPS_PROXY": "http://p:1", "no_proxy": "[fd00::7]:9"}, None),
        ("https://[fd00::7]", {"HTTPS_PROXY": "http://p:1", "no_proxy": "[fd00::7]"}, None),
        ("http://127.0.0.1:9/v1", {"http_proxy": "http://p:1"}, None),
    ],
)
def test_the_environment_names_a_proxy(
    url: str, variables: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As other programs read it."""
    for name in ("http", "https", "all", "no"):
        for spelled in (f"{name}_proxy", f"{name}_PROXY".upper()):
            monkeypatch.delenv(spelled, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert environment_proxy(url) == proxy
