"""`vega audit`: verify that an audit is as it was written, and show its last entries."""

import argparse
import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vegakit.cli.look import money, one_line
from vegakit.cli.main import Argument, CommandParser
from vegakit.errors import InvalidRecordError
from vegakit.money import to_usd
from vegakit.ports import AuditEntry
from vegakit.records import from_json
from vegakit.store import AuditFaultKind, AuditLink, parse_head, read_audit, verify_audit

_MEANING = {
    AuditFaultKind.EDITED: "its text, number or link was changed",
    AuditFaultKind.GAP: "it is missing",
    AuditFaultKind.DUPLICATE: "it is there twice",
    AuditFaultKind.FORK: "it follows another entry than the one before it",
    AuditFaultKind.TRUNCATED: "it and all after it were cut off: the head you gave is further on",
    AuditFaultKind.REWRITTEN: "it is another one than the head you gave",
}
_UNCHECKED = """\
Entries cut off at the end do not show by themselves. Keep the head where nobody who writes the file
can change it, and next time type: vega audit verify {file} --head {head}"""


def audit_command(arguments: Sequence[str]) -> int:
    """Run `vega audit`."""
    chosen = _parser().parse_args(arguments)
    return _show(chosen) if chosen.action == "show" else _verify(chosen)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega audit", description="Verify an audit, or show its last entries."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="verify | show")
    actions.add_parser(
        "verify",
        help="look whether any entry was changed",
        arguments=[
            Argument("file", type=Path),
            Argument(
                "--head",
                metavar="COUNT:HASH",
                help="as an earlier verify printed it: it must still fit",
            ),
        ],
    )
    actions.add_parser(
        "show",
        help="the last entries, the latest last",
        arguments=[
            Argument("file", type=Path),
            Argument("--last", type=int, default=20, metavar="N", help="how many; 20"),
            Argument("--json", action="store_true", help="as lines of JSON, for programs"),
        ],
    )
    return parser


def _verify(chosen: argparse.Namespace) -> int:
    verdict = verify_audit(chosen.file, parse_head(chosen.head) if chosen.head else None)
    for fault in verdict.faults:
        print(f"entry {fault.number:,}: {fault.kind}: {_MEANING[fault.kind]}")
    if verdict.back_ms:
        print(f"a clock ran back by up to {verdict.back_ms:,} ms; the order of entries still holds")
    if verdict.faults:
        print("the audit was changed after it was written; compare it with a copy")
        return 1
    head = f"{verdict.head.count}:{verdict.head.hash}"
    print(f"{verdict.head.count:,} entries, none changed\nhead {head}")
    if not chosen.head:
        print(_UNCHECKED.format(file=chosen.file, head=head))
    return 0


def _show(chosen: argparse.Namespace) -> int:
    """Print the last entries. What was edited may be anything, and is shown as it is; `verify` says
    that it was."""
    for link in read_audit(chosen.file, max(0, chosen.last)):
        print(_json(link) if chosen.json else _line(link))
    return 0


def _json(link: AuditLink) -> str:
    """Return an entry as JSON, in ASCII: nothing in it steers a terminal."""
    entry: Any
    try:
        entry = json.loads(link.text)
    except (ValueError, RecursionError):
        entry = link.text
    with suppress(TypeError, KeyError, AttributeError):  # what was edited may be anything
        entry["cost_usd"] = to_usd(entry.pop("cost"))
    return json.dumps({"number": link.number, "hash": link.hash, "entry": entry})


def _line(link: AuditLink) -> str:
    try:
        entry = from_json(AuditEntry, link.text)
        at = datetime.fromtimestamp(entry.at_ms / 1000, UTC)
    except (InvalidRecordError, ValueError, OverflowError, OSError):
        return f"{link.number}  {one_line(link.text)}"
    whom = f"{entry.actor} for {entry.user}" if entry.user else entry.actor
    facts = [
        str(link.number),
        f"{at:%Y-%m-%d %H:%M:%S}Z",
        entry.tenant,
        whom,
        entry.action,
        entry.subject,
        entry.decision,
        entry.result,
        money(entry.cost) if entry.cost else "",
        entry.trace_id,
    ]
    return "  ".join(one_line(fact) for fact in facts if fact)
