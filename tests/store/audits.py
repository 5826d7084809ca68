"""What tests of the audit share: entries, a file that is written and closed, what is in it."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from vegakit.ports import AuditEntry, AuditHead, AuditLevel
from vegakit.records import from_json
from vegakit.store import SqliteAudit, read_audit
from vegakit.telemetry import Redactor

GIVEN = "a-key-of-no-known-format/é+"
"""A key that the redactor was told of."""


def entry(at_ms: int = 0, subject: str = "notes.md", **facts: Any) -> AuditEntry:
    return AuditEntry(at_ms, "agent", "tool.call", subject, **facts)


def audit_on(path: Path) -> SqliteAudit:
    return SqliteAudit(path, Redactor([GIVEN]).redact_json, synchronous="normal")


def append_all(
    path: Path, entries: Sequence[AuditEntry], level: AuditLevel = AuditLevel.DETAILED
) -> AuditHead:
    async def run() -> AuditHead:
        async with aclosing(audit_on(path)) as audit:
            for one in entries:
                await audit.append(one, level)
            return await audit.head()

    return asyncio.run(run())


def written(path: Path) -> list[AuditEntry]:
    return [from_json(AuditEntry, link.text) for link in read_audit(path, 1_000)]
