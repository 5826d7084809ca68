"""Rights: what is granted, what is asked for, and whether the one covers the other (pure)."""

from vegakit.policy.capability.command_rules import parse_command, rule_within
from vegakit.policy.capability.grants import Grant, decide, delegate
from vegakit.policy.capability.host_rules import parse_url
from vegakit.policy.capability.overlap import overlap
from vegakit.policy.capability.programs import risky_word
from vegakit.policy.capability.wanted import (
    Allowed,
    Denied,
    Fetch,
    ReadPath,
    RunCommand,
    Use,
    Wanted,
    WritePath,
)

__all__ = [
    "Allowed",
    "Denied",
    "Fetch",
    "Grant",
    "ReadPath",
    "RunCommand",
    "Use",
    "Wanted",
    "WritePath",
    "decide",
    "delegate",
    "overlap",
    "parse_command",
    "parse_url",
    "risky_word",
    "rule_within",
]
