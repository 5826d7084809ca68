"""The soft keywords: words that mean something in one place and are names everywhere else."""

from vegakit.lang.lexer import RESERVED

__all__ = [
    "AGENT_BLOCKS",
    "AGENT_FIELDS",
    "CLAUSES_OF",
    "FOREIGN_WORDS",
    "GRANTS",
    "LINE_STARTERS",
    "SESSION_SETTINGS",
    "SPAWN_OPTIONS",
    "SPAWN_RULES",
    "STATEMENT_WORDS",
    "SUPERVISOR_SETTINGS",
    "TOP_WORDS",
]

AGENT_BLOCKS = {
    "retry": ("max_attempts", "backoff", "on", "resend_unknown"),
    "circuit_breaker": ("threshold", "reset_after", "probes"),
    "rate_limit": ("requests", "tokens", "per", "burst", "slots", "strategy", "queue_size"),
}
AGENT_FIELDS = (
    "model",
    "system",
    "temperature",
    "max_tokens",
    "max_steps",
    "budget",
    "on_exceed",
    "memory",
    "priority",
    "timeout",
    "tools",
    "tool",
    *AGENT_BLOCKS,
)
SPAWN_RULES = ("strategy", "max_restarts", "window")
SUPERVISOR_SETTINGS = (*SPAWN_RULES, "children")
SPAWN_OPTIONS = ("wallet", "named", "supervised")
SESSION_SETTINGS = ("on_exceed", "speculate", "confirm")

GRANTS = {
    "may": "capabilities",
    "capabilities": "capabilities",
    "allowed_paths": "paths",
    "allowed_commands": "commands",
    "allowed_hosts": "hosts",
}
_NARROWING = ("allowed_paths", "allowed_commands", "allowed_hosts")
CLAUSES_OF = {
    "program": ("may", *_NARROWING),
    "function": ("may", *_NARROWING, "budget"),
    "tool": ("capabilities", *_NARROWING, "repeatable"),
}

TOP_WORDS = frozenset("agent tool type use supervisor program".split())
"""With `fn`, they begin a declaration where what follows fits."""

STATEMENT_WORDS = (
    "let return break continue if while for try session parallel monitor spawn await".split()
)
LINE_STARTERS = frozenset([*STATEMENT_WORDS, "fn"]) & RESERVED
"""Keywords that begin a statement and nothing else, so that parsing can go on there."""

FOREIGN_WORDS = {
    "def": "fn",
    "func": "fn",
    "function": "fn",
    "fun": "fn",
    "proc": "fn",
    "var": "let",
    "const": "let",
    "val": "let",
    "mut": "let",
    "class": "type",
    "struct": "type",
    "record": "type",
    "enum": "type",
    "interface": "type",
    "import": 'use "lib/text.vega"',
    "from": 'use "lib/text.vega"',
    "include": 'use "lib/text.vega"',
    "require": 'use "lib/text.vega"',
    "elif": "else if",
    "elsif": "else if",
    "elseif": "else if",
    "except": "catch",
    "finally": "catch",
    "foreach": "for",
    "switch": "if … else if",
    "match": "if … else if",
    "loop": "while true",
    "until": "while not",
    "raise": "fail(reason)",
    "throw": "fail(reason)",
    "yield": "process::yield()",
    "with": "session budget",
}
"""What other languages call it."""
