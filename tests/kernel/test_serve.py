"""`vega serve` and `vega token` as a person and a service manager use them: real processes, real
sockets, real signals."""

import asyncio
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.kernel.serving import a_server, a_token, environment_of, vega
from tests.kernel.web import Client, free_port
from tests.patience import PATIENCE_S, until, wait_until
from tests.store.postgres import own_schema, url_of
from vegakit.cli import main
from vegakit.server import DOORS


def test_a_server_says_where_it_is_and_what_to_type(tmp_path: Path) -> None:
    """What it says to type makes a token that it takes."""
    with a_server(tmp_path) as server:
        assert f"store  {tmp_path}/data/kernel.db" in server.said
        assert "nobody has a token yet" in server.said
        (typed,) = [line for line in server.said.splitlines() if line.startswith("  token  vega ")]
        made = vega(tmp_path, *typed.split()[2:])
        assert made.returncode == 0, made.stderr
        token = made.stdout.strip()
        assert server.call(token, "submit", pid="p1")["state"] == "ready"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            server.call(f"{token}x", "submit", pid="p2")
        server.process.send_signal(signal.SIGINT)
        assert server.ended() == 0
    with a_server(tmp_path, "--store", "other.db") as server:
        # From any folder.
        found = f"vega token create --tenant acme --user ann --store {tmp_path}/other.db"
        assert found in server.said
    for words, status in (("list", 0), ("revoke 0", 1)):
        said = vega(tmp_path, "token", *words.split(), "--store", "new.db")
        assert said.returncode == status
        told = " ".join((said.stdout + said.stderr).split())
        assert re.search(rf"vega token .* --store {tmp_path}/new.db", told)


def test_a_drained_server_ends_its_streams_and_waiting_calls(tmp_path: Path) -> None:
    """Without waiting for the deadline: a stream ends as if it were over, and whoever waits for an
    instruction is told what there is."""
    token = a_token(tmp_path)
    pipeline = {"stages": [{"name": "plan", "agent": "planner"}]}
    with a_server(tmp_path, "--drain", "120s") as server:
        server.call(token, "submit", pid="p1")
        server.call(token, "get_next_runnable", holder="w")
        server.call(token, "initialize_session", pid="p1", pipeline=pipeline)
        client = Client(server.port, token)
        with (
            client.opened("POST", "/v1/watch_events", {"follow": True}) as stream,
            client.opened("POST", "/v1/get_process_counts", {}) as idle,
        ):
            assert stream.readline().startswith(b"id: 1")
            waiting = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
            body = b'{"pid": "p1", "wait_ms": 60000}'
            head = (
                f"POST /v1/get_next_instruction HTTP/1.1\r\nHost: a\r\n"
                f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            waiting.sendall(head.encode() + body)
            assert idle.read()
            server.call(token, "get_process_counts")  # the one that waits is there by now
            server.process.send_signal(signal.SIGTERM)
            rest = stream.read()  # raises if the body was cut
            assert rest.count(b"\ndata: ") >= 1
            answered = b"".join(iter(lambda: waiting.recv(65_536), b""))
            waiting.close()
        assert b" 200 " in answered.partition(b"\r\n")[0] + b" "
        assert b"WaitForTasks" in answered
        # Its deadline is later than the patience of any of these.
        assert server.ended() == 0


def test_calls_that_do_not_end_are_cut_off_at_the_deadline(tmp_path: Path) -> None:
    """A body that never comes."""
    token = a_token(tmp_path)
    with a_server(tmp_path, "--drain", "1s") as server:
        slow = _half_a_request(server.port, token)
        server.call(token, "get_process_counts")
        server.process.send_signal(signal.SIGTERM)
        assert server.ended() == 0
        slow.close()


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    token = a_token(tmp_path)
    with a_server(tmp_path, "--drain", "1h") as server:
        slow = _half_a_request(server.port, token)
        server.call(token, "get_process_counts")
        server.process.send_signal(signal.SIGTERM)
        _refuses(server.port)
        assert server.process.poll() is None, "it waits for the call"
        server.process.send_signal(signal.SIGTERM)
        assert server.ended() == 128 + signal.SIGTERM
        slow.close()


def _half_a_request(port: int, token: str) -> socket.socket:
    slow = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    slow.sendall(
        f"POST /v1/submit HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{".encode()
    )
    return slow


def _refuses(port: int) -> None:
    """Wait until nobody is admitted any more."""

    def is_refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
        except ConnectionRefusedError:
            return True
        return False

    wait_until(is_refused)


def test_a_server_that_was_killed_goes_on_with_its_store(tmp_path: Path) -> None:
    port, token = free_port(), a_token(tmp_path)
    with a_server(tmp_path, port=port) as server:
        assert "nobody has a token" not in server.said
        server.call(token, "submit", pid="p1")
        server.process.kill()
        assert server.ended() == -signal.SIGKILL
    with a_server(tmp_path, port=port) as server:
        assert server.call(token, "get_process", pid="p1")["state"] == "ready"
        assert [number for number, _ in Client(port, token).events(9, after="1")] == [2]


def test_servers_share_a_postgresql_store(tmp_path: Path) -> None:
    """It is named by a variable; the password in it is not shown."""
    with own_schema() as schema:
        place = url_of(schema).replace("@", ":tell-nobody@")
        made = vega(
            tmp_path, "token", "create", "--tenant", "t", "--user", "u", VEGA_SERVE_STORE=place
        )
        token = made.stdout.strip()
        with (
            a_server(tmp_path, VEGA_SERVE_STORE=place) as one,
            a_server(tmp_path, "--store", place) as other,
        ):
            one.call(token, "submit", pid="p1")
            assert other.call(token, "get_process", pid="p1")["state"] == "ready"
            shown = one.said + vega(tmp_path, "config", VEGA_SERVE_STORE=place).stdout
            assert "store  postgresql://" in shown
            assert "--store 'postgresql://…@" in other.said
            for words in ("token list --tenant nobody", "token revoke 0"):
                said = vega(tmp_path, *words.split(), "--store", f"{place}&password=tell-nobody")
                assert "--store 'postgresql://…@" in said.stdout + " ".join(said.stderr.split())
                shown += said.stdout + said.stderr
            assert "tell-nobody" not in shown + other.said


def test_a_bus_that_does_not_answer_is_told_and_the_rest_is_served(tmp_path: Path) -> None:
    token = a_token(tmp_path)
    with a_server(tmp_path, "--bus", f"redis://u:tell-nobody@127.0.0.1:{free_port()}") as server:
        assert server.call(token, "submit", pid="p1")["state"] == "ready"
        said = "does not answer: publish and subscribe are refused"
        asyncio.run(until(lambda: said in server.said))
        assert "tell-nobody" not in server.said


def test_settings_of_the_file_and_the_environment_hold(tmp_path: Path) -> None:
    """A flag goes before the environment, and that before the file."""
    file = tmp_path / ".config" / "vega" / "vega.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[serve]\nhost = "localhost"\nstore = "mine.db"\ndrain = "7s"\n')
    with a_server(tmp_path, VEGA_SERVE_DRAIN="9s") as server:
        assert server.url.startswith("http://localhost:")
        assert f"store  {file.parent}/mine.db" in server.said
        assert "open calls have 9.0 s" in server.said


# TLS.


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities; `server` and `client` are of `ca`, `stranger` is of `other`."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(words: str) -> None:
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)

    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    for ca in ("ca", "other"):
        openssl(f"req -x509 {key} -days 2 -subj /CN={ca} -keyout {ca}.key -out {ca}.pem")
    for name, ca in {"server": "ca", "client": "ca", "stranger": "other"}.items():
        openssl(
            f"req -x509 {key} -days 2 -subj /CN={name} -addext subjectAltName=IP:127.0.0.1 "
            f"-addext basicConstraints=critical,CA:FALSE "
            f"-CA {ca}.pem -CAkey {ca}.key -keyout {name}.key -out {name}.pem"
        )
    return folder


def _status(url: str, token: str, certificates: Path, client: str = "") -> int:
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    if client:
        context.load_cert_chain(certificates / f"{client}.pem", certificates / f"{client}.key")
    request = urllib.request.Request(
        f"{url}/v1/get_process_counts",
        b"{}",
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S, context=context) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_server_with_tls_is_called_by_its_certificate(tmp_path: Path, certificates: Path) -> None:
    token, at = a_token(tmp_path), certificates
    files = ["--certificate", str(at / "server.pem"), "--key", str(at / "server.key")]
    with a_server(tmp_path, *files) as server:
        assert server.url.startswith("https://127.0.0.1:")
        assert _status(server.url, token, at) == 200
        with pytest.raises((OSError, ValueError)):
            Client(server.port, token).call("get_process_counts")


def test_only_clients_of_the_authority_get_in(tmp_path: Path, certificates: Path) -> None:
    """Who they are is still said by their token."""
    token, at = a_token(tmp_path), certificates
    words = ["--certificate", str(at / "server.pem"), "--key", str(at / "server.key")]
    with a_server(tmp_path, *words, "--client-ca", str(at / "ca.pem")) as server:
        assert _status(server.url, token, at, "client") == 200
        assert _status(server.url, "wrong", at, "client") == 401
        for client in ("", "stranger"):
            with pytest.raises(OSError, match=r"(?i)alert|closed|reset|eof|broken"):
                _status(server.url, token, at, client)


# What is refused.


REFUSED = {
    "other machines": (["--host", "0.0.0.0"], "--certificate FILE --key FILE"),
    "no certificate": (["--certificate", "none.pem", "--key", "k.pem"], "none.pem with the key"),
    "no memory": (["--store", ":memory:"], "gone with its server"),
    "no such store": (["--store", "mysql://a/b"], "no store is reached by mysql://"),
    "words": (["--store", "host=127.0.0.1 dbname=test"], "write postgresql://USER@HOST"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_served_safely_is_refused(tmp_path: Path, case: str) -> None:
    words, why = REFUSED[case]
    done = vega(tmp_path, "serve", *words)
    assert done.returncode == 1
    assert why in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_wrong_flags_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for words, why in {
        "--certificate a.pem": "needs --certificate FILE and --key FILE",
        "--doors smtp": f"'smtp' is none of {', '.join(DOORS)}",
        "--port 80000": "--port: '80000' is no port; write one from 0 to 65535",
        "--grpc-port x": "--grpc-port: 'x' is no port",
        "--port -1": "--port: '-1' is no port",
        "--drain -1s": "--drain: '-1s' is no value for it",
        "--drain=-1s": "--drain: '-1s' is not a duration",
        "--drain 2d": "--drain: 2d is more than a day",
        "--drain --no-tls": "--drain: its value is missing",
    }.items():
        with pytest.raises(SystemExit, match="2"):
            main(["serve", *words.split()])
        said = capsys.readouterr().err.replace("\n  write", "; write")
        assert why in " ".join(said.split())


def test_a_taken_port_and_a_user_who_insists(tmp_path: Path) -> None:
    """Beyond this machine without TLS, if told so."""
    with a_server(tmp_path, "--host", "0.0.0.0", "--no-tls") as server:
        assert server.url.startswith("http://0.0.0.0:")
        done = vega(tmp_path, "serve", "--port", str(server.port), "--host", "0.0.0.0", "--no-tls")
        assert done.returncode == 1
        assert "cannot be listened on" in done.stderr


def test_without_uvicorn_it_says_what_to_type(tmp_path: Path) -> None:
    hidden = (
        "import sys; sys.modules['uvicorn'] = None; "
        "from vegakit.cli import main; sys.exit(main(['serve']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden],
        cwd=tmp_path,
        env=environment_of(tmp_path),
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1
    assert "pip install 'vegakit[server]'" in done.stderr


def test_a_token_shows_its_wallet_and_its_role(tmp_path: Path) -> None:
    making = ("token", "create", "--tenant", "acme", "--user", "ann")
    made = vega(tmp_path, *making, "--wallet", "$5")
    assert "with $5.00 to spend" in made.stderr
    assert vega(tmp_path, *making, "--role", "admin").returncode == 0
    listed = vega(tmp_path, "token", "list").stdout
    assert [word in listed for word in ("Wallet", "$5.00", "admin")] == [True] * 3
    shown = json.loads(vega(tmp_path, "token", "list", "--json").stdout)
    assert [one["wallet_usd"] for one in shown] == [5.0, None]
    for wrong in ("$5/day", "much", "$0"):
        assert vega(tmp_path, *making, "--wallet", wrong).returncode == 2
    for role in ("viewer", "admin"):
        refused = vega(tmp_path, *making, "--wallet", "$5", "--role", role)
        assert refused.returncode == 1
        assert f"the role {role} spends nothing" in refused.stderr
    blank = vega(tmp_path, "token", "create", "--tenant", "acme ", "--user", "ann")
    assert (blank.returncode, "without blanks" in " ".join(blank.stderr.split())) == (1, True)


def test_logs_are_lines_of_json(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "vegakit", "serve", "--port", "0", "--json-logs"],
        cwd=tmp_path,
        env=environment_of(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        first = json.loads(process.stderr.readline())
        assert first["message"].startswith("serving the kernel at http://127.0.0.1:")
        process.terminate()
        out, err = process.communicate(timeout=2 * PATIENCE_S)
    assert (process.returncode, out) == (0, "")
    assert [json.loads(line)["level"] for line in err.splitlines()] == ["info", "info"]


# Tokens.


def test_a_token_is_shown_once(tmp_path: Path) -> None:
    made = vega(tmp_path, "token", "create", "--tenant", "acme", "--user", "ann", "--json")
    page = json.loads(made.stdout)
    assert {page["tenant"], page["user"], page["role"]} == {"acme", "ann", "worker"}
    secret = page["token"].split("_", 2)[2]
    a_token(tmp_path, "--expires", "30d", tenant="other")
    for words in ([], ["--json"], ["--tenant", "acme"]):
        listed = vega(tmp_path, "token", "list", *words)
        assert page["id"] in listed.stdout
        assert secret not in listed.stdout
        assert "digest" not in listed.stdout
    assert len(json.loads(vega(tmp_path, "token", "list", "--json").stdout)) == 2
    assert "until revoked" in vega(tmp_path, "token", "list", "--tenant", "acme").stdout


def test_a_revoked_and_an_expired_token_are_refused(tmp_path: Path) -> None:
    """While the server runs; a token is named by its id, or by itself."""
    first, second = a_token(tmp_path), a_token(tmp_path)
    late = a_token(tmp_path, "--expires", "1ms")
    with a_server(tmp_path) as server:
        for token, named in ((first, first.split("_")[1]), (second, second)):
            assert server.call(token, "get_process_counts")["total"] == 0
            assert vega(tmp_path, "token", "revoke", named).returncode == 0
            with pytest.raises(urllib.error.HTTPError, match="401"):
                server.call(token, "get_process_counts")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            server.call(late, "get_process_counts")
    again = vega(tmp_path, "token", "revoke", first.split("_")[1])
    assert again.returncode == 1
    assert "vega token list" in again.stderr
    listed = vega(tmp_path, "token", "list").stdout
    assert listed.count("revoked ") == 2
    assert listed.count("expired ") == 1


def test_a_role_bounds_what_a_token_may_do(tmp_path: Path) -> None:
    token = a_token(tmp_path, role="viewer")
    with a_server(tmp_path) as server, pytest.raises(urllib.error.HTTPError, match="403"):
        server.call(token, "submit", pid="p1")


@pytest.mark.parametrize("words", ["--tenant acme", "--tenant a --user b --role king"])
def test_a_token_needs_whose_it_is(tmp_path: Path, words: str) -> None:
    said = vega(tmp_path, "token", "create", *words.split())
    assert said.returncode == 2
    if "king" in words:
        assert "--role: 'king' is none of viewer, worker, operator" in said.stderr


def test_what_tenants_spent_is_kept_over_a_restart(tmp_path: Path) -> None:
    """A budget of a day is that of all servers on the store, and of the next ones."""
    reply = {"text": "Hello", "usage": {"input_tokens": 1, "output_tokens": 90}}
    (tmp_path / "script.json").write_text(json.dumps([reply] * 9))
    grants = ("--may-ask", "scripted:script.json", "--tenant-budget", "$0.0008/day")
    ask = {"model": "scripted:script.json", "prompt": "Hi", "max_tokens": 100}
    with a_server(tmp_path, *grants) as server:
        assert "each tenant $0.0008/day" in server.said
        # By another process, while the server has the file open in two places.
        token = a_token(tmp_path)
        client = Client(server.port, token)
        statuses = [client.call("dispatch_inference", **ask)[0] for _ in range(3)]
        assert statuses == [200, 402, 402]
    with a_server(tmp_path, *grants) as server:
        assert Client(server.port, token).call("dispatch_inference", **ask)[0] == 402


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--may-ask", "scripted:script.json"], "--tenant-budget '$5/day'"),
        (["--tenant-budget", "$5/day"], "--may-ask MODEL"),
        (["--may-ask", "nosuch", "--tenant-budget", "$5"], "no provider for the model 'nosuch'"),
        (["--may-ask", "scripted:none.json", "--tenant-budget", "$5"], "none.json"),
        (
            ["--may-ask", "scripted:script.json", "--tenant-budget", "lots"],
            "not an amount",
        ),
    ],
)
def test_what_agents_may_is_checked_at_the_start(
    tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "script.json").write_text('["Hello"]')
    told = vega(tmp_path, "serve", "--port", "0", *words)
    assert told.returncode != 0
    assert said in told.stderr


def test_connections_that_say_nothing_are_bounded(tmp_path: Path) -> None:
    """With few descriptors: the server keeps some for itself, and does not fill its log."""
    port, log = free_port(), tmp_path / "log"
    words = f"{sys.executable} -m vegakit serve --store kernel.db --port {port}"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            ["bash", "-c", f"ulimit -n 128; exec {words}"],
            cwd=tmp_path,
            env=environment_of(tmp_path),
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        wires: list[socket.socket] = []
        for _ in range(100):
            wire = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
            wire.sendall(b"GET /health HTTP/1.1\r\nX: a")
            wires.append(wire)
        closed = 0
        for wire in wires[70:]:
            try:
                closed += wire.recv(1) == b""
            except ConnectionResetError:
                closed += 1
        assert closed == 30
        for wire in wires:
            wire.close()
        wait_until(Client(port).is_served)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert log.stat().st_size < 1_000
