"""Waiting in line: mailboxes and the ready queue (pure)."""

from vegakit.policy.queues.mailbox import (
    Accepted,
    Dropped,
    Duplicate,
    Letter,
    Mailbox,
    MailboxFull,
    MailboxRule,
    Posted,
    Taken,
    Waiting,
    WhenFull,
)
from vegakit.policy.queues.priority import Priority
from vegakit.policy.queues.ready_queue import AgingRule, ReadyEntry, ReadyQueue

__all__ = [
    "Accepted",
    "AgingRule",
    "Dropped",
    "Duplicate",
    "Letter",
    "Mailbox",
    "MailboxFull",
    "MailboxRule",
    "Posted",
    "Priority",
    "ReadyEntry",
    "ReadyQueue",
    "Taken",
    "Waiting",
    "WhenFull",
]
