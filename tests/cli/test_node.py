"""`vega node`, as a person would call it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vegakit.cli import main
from vegakit.store import open_records, read_audit
from vegakit.vesper import load_node

SAMPLES = Path(__file__).parents[2] / "examples/nodes"
TRANSFER = SAMPLES / "transfer.vsp"
GIVEN = {"source": 1_000, "target": 5, "fees": 0, "amount": 400}

Captured = pytest.CaptureFixture[str]


def _json(arguments: list[object], capsys: Captured) -> tuple[int, Any]:
    status = main(["node", *map(str, arguments), "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("path", ["python", "direct"])
def test_a_run_prints_outputs(path: str, capsys: Captured) -> None:
    """As JSON, the same by both paths."""
    given = json.dumps(GIVEN)
    assert main(["node", "run", str(TRANSFER), "--inputs", given, "--path", path]) == 0
    assert json.loads(capsys.readouterr().out) == {"source": 599, "target": 405, "fees": 1}


def test_inputs_come_from_a_file_and_decimals_stay_exact(tmp_path: Path, capsys: Captured) -> None:
    """A number with a point never passes through a float."""
    given = tmp_path / "inputs.json"
    given.write_text('{"net": 0.3, "country": "de", "rates": {"de": 0.19}}')
    arguments: list[object] = ["run", SAMPLES / "sales_tax.vsp", "--inputs", f"@{given}"]
    status, told = _json(arguments, capsys)
    assert (status, told["outputs"]) == (0, {"rate": "0.1900", "tax": "0.06", "gross": "0.36"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"source": 1}, "transfer_v1 ends with the error insufficient_funds at step source"),
        ({"amount": -1}, "constraint of amount 'amount > 0' does not hold: amount = -1"),
        ({"amount": "1"}, "amount: '1' is no whole number"),
        ({"amonut": 1}, "did you mean amount?"),
    ],
)
def test_a_run_without_outputs_says_why(
    change: dict[str, Any], said: str, capsys: Captured
) -> None:
    """With the values that were looked at, and status 1."""
    given = json.dumps({**GIVEN, **change})
    assert main(["node", "run", str(TRANSFER), "--inputs", given]) == 1
    assert said in " ".join(capsys.readouterr().err.split())


def test_all_that_is_wrong_is_told_with_its_line(tmp_path: Path, capsys: Captured) -> None:
    """One bad file does not hide another."""
    text = TRANSFER.read_text()
    (tmp_path / "a.vsp").write_text(text.replace("amount > 0", "amuont > 0"))
    (tmp_path / "b.vsp").write_text(text.replace("operation: compute", "operation: compote", 1))
    (tmp_path / "c.vsp").write_text(text)
    status, told = _json(["check", tmp_path], capsys)
    assert (status, len(told["nodes"])) == (1, 1)
    assert ["a.vsp:9: " in told["errors"][0], "b.vsp:31: " in told["errors"][1]] == [True, True]
    assert main(["node", "check", str(tmp_path)]) == 1
    assert "did you mean compute?" in capsys.readouterr().err


def test_versions_that_differ_are_shown_with_the_least_inputs(
    tmp_path: Path, capsys: Captured
) -> None:
    """A rounding that changed is found."""
    changed = tmp_path / "v2.vsp"
    text = (SAMPLES / "shipping_cost.vsp").read_text()
    changed.write_text(text.replace("(grams + 999) / 1000", "(grams + 998) / 1000 + 1"))
    arguments: list[object] = ["diff", SAMPLES / "shipping_cost.vsp", changed, "--cases", 100]
    status, told = _json(arguments, capsys)
    assert status == 1
    least = {"grams": 2, "zone": "local", "express": False, "fragile": False}
    assert least in [each["inputs"] for each in told["report"]["divergences"]]
    with pytest.raises(SystemExit, match="2"):
        main(["node", "diff", str(changed)])


def test_nodes_with_other_inputs_are_not_compared(capsys: Captured) -> None:
    """It says which input."""
    assert main(["node", "diff", str(TRANSFER), str(SAMPLES / "refund.vsp")]) == 1
    assert "amount is integer in one and nothing in the other" in " ".join(
        capsys.readouterr().err.split()
    )


def test_generated_python_runs_without_vega(tmp_path: Path) -> None:
    """A module for the standard library alone."""
    made = tmp_path / "transfer.py"
    assert main(["node", "compile", str(TRANSFER), "-o", str(made)]) == 0
    code = "import transfer; print(transfer.transfer_v1(source=10, target=0, fees=0, amount=4))"
    ran = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; {code}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "{'source': 6, 'target': 4, 'fees': 0}\n"


def test_what_the_machine_lacks_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """And not for each file."""
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    assert main(["node", "check", str(SAMPLES)]) == 1
    assert capsys.readouterr().err.count("pip install 'vegakit[yaml]'") == 1


STATEFUL = SAMPLES / "account_transfer.vsp"
REQUEST = {"request_id": "r1", "source_id": "a", "target_id": "b", "amount": "30.00"}
ACCOUNTS = {
    "accounts": [
        {"id": "a", "owner": "Ann", "balance": "100.00"},
        {"id": "b", "owner": "Bob", "balance": "5.00"},
    ]
}


def _with_state(*more: object) -> list[object]:
    return ["run", STATEFUL, "--inputs", json.dumps(REQUEST), *more]


@pytest.mark.parametrize("path", ["python", "direct"])
def test_a_node_with_state_runs_over_records_in_memory(path: str, capsys: Captured) -> None:
    """What is left of them is told, and what is sensitive is not."""
    begun = ["--records", json.dumps(ACCOUNTS), "--path", path]
    status, told = _json(_with_state(*begun), capsys)
    assert (status, told["outputs"]["source_balance"]) == (0, "70.00")
    assert told["records"]["accounts"][0] == {"id": "a", "owner": "[redacted]", "balance": "70.00"}
    assert "Ann" in json.dumps(_json(_with_state(*begun, "--reveal"), capsys)[1])


def test_a_file_keeps_state_and_the_audit_what_was_done(tmp_path: Path, capsys: Captured) -> None:
    """The same request is answered again and changes nothing."""
    where = ["--state", tmp_path / "bank.db", "--audit", tmp_path / "audit.db", "--user", "eve"]
    first = _json(
        _with_state(*where, "--allow", "database", "--records", json.dumps(ACCOUNTS)), capsys
    )
    again = _json(_with_state(*where, "--allow", "database"), capsys)
    assert first[0] == again[0] == 0
    assert first[1]["transaction_id"] == again[1]["transaction_id"]
    entries = [json.loads(link.text) for link in read_audit(tmp_path / "audit.db", 9)]
    assert [each["decision"] for each in entries] == ["begun", "success"] * 2
    entry = entries[1]
    assert (entry["user"], entry["trace_id"]) == ("eve", first[1]["transaction_id"])
    assert entry["inputs"] == REQUEST


def test_records_that_break_a_constraint_are_refused(tmp_path: Path, capsys: Captured) -> None:
    """None of them is written."""
    wrong = {"accounts": [*ACCOUNTS["accounts"], {"id": "c", "owner": "C", "balance": "-1.00"}]}
    begun = ["--state", tmp_path / "bank.db", "--allow", "database"]
    typed = _with_state(*begun, "--records", json.dumps(wrong))
    assert main(["node", *map(str, typed)]) == 1
    assert "accounts are refused" in capsys.readouterr().err
    assert not (tmp_path / "bank.db").exists() or not _balances(tmp_path)


def test_a_broken_postcondition_is_in_json(tmp_path: Path, capsys: Captured) -> None:
    """With its kind and its line, as clauses before a run are."""
    text = """\
node_id: wrong_v1
type: test
intent: Break a promise.
inputs: {number: {type: integer}}
outputs: {success: {found: integer}}
contracts: {postconditions: [found > number]}
flow: [{step: found, operation: compute, parameters: {value: number}}]
performance: {memory_limit_mb: 64}
"""
    file = tmp_path / "wrong.vsp"
    file.write_text(text)
    _, told = _json(["run", file, "--inputs", '{"number": 1}'], capsys)
    [broken] = told["broken"]
    assert (broken["kind"], broken["text"], broken["line"]) == (
        "postcondition",
        "found > number",
        6,
    )
    assert main(["node", "check", str(file)]) == 0
    assert "memory_limit_mb is not enforced" in capsys.readouterr().out


def test_records_to_begin_with_take_nothing_back(tmp_path: Path, capsys: Captured) -> None:
    """A command that is typed again, or that is refused, leaves the records that are there."""
    begun = ["--state", tmp_path / "bank.db", "--records", json.dumps(ACCOUNTS)]
    refused = _with_state(*begun)
    assert main(["node", *map(str, refused)]) == 1
    capsys.readouterr()
    assert not (tmp_path / "bank.db").exists() or not _balances(tmp_path)
    for _ in range(2):
        assert _json(_with_state(*begun, "--allow", "database"), capsys)[0] == 0
        assert _balances(tmp_path) == {"a": "70.00", "b": "35.00"}


def _balances(folder: Path) -> dict[str, str]:
    node = load_node(STATEFUL).program
    records = open_records(folder / "bank.db")
    records.put(node.state("accounts"), [])
    found = records.all_records(node.state("accounts"))
    records.close()
    return {record["id"]: record["balance"] for record in found}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--records", '{"accounts": [{"id": "a", "id": "b"}]}'], "'id' stands twice"),
        (["--state", "bank.db"], "try: --allow database.read.accounts --allow database.write"),
        (["--state", "bank.db", "--allow", "databse"], "there is no capability 'databse'"),
        (["--records", '{"acounts": []}'], "did you mean accounts"),
        (["--records", '{"accounts": 5}'], "the records of accounts are no list"),
        (["--records", "[]"], "--records is no object"),
        (["--records", '{"accounts": [{"id": "a"}]}'], "accounts: owner is missing"),
    ],
)
def test_what_a_node_with_state_lacks_is_told(
    more: list[object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Before it runs, with what to type."""
    monkeypatch.chdir(tmp_path)
    assert main(["node", *map(str, _with_state(*more))]) == 1
    assert said in " ".join(capsys.readouterr().err.split())
