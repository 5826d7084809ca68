"""Rights: what is granted, what is asked for, and whether the one covers the other (pure)."""

from vegakit.policy.capability.access import (
    AccessRequest,
    Allowed,
    Denied,
    Fetch,
    ReadPath,
    RunCommand,
    Use,
    WritePath,
)
from vegakit.policy.capability.commands import parse_command, risky_word, rule_within
from vegakit.policy.capability.grants import Grant, decide, delegate, overlap
from vegakit.policy.capability.hosts import parse_url

__all__ = [
    "AccessRequest",
    "Allowed",
    "Denied",
    "Fetch",
    "Grant",
    "ReadPath",
    "RunCommand",
    "Use",
    "WritePath",
    "decide",
    "delegate",
    "overlap",
    "parse_command",
    "parse_url",
    "risky_word",
    "rule_within",
]
