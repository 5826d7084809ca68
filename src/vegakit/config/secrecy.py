"""Settings and variables that may hold a secret, and what is shown instead."""

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from vegakit.config.names import ANY, Name

__all__ = ["held_secrets", "hide_secrets_of_url", "is_secret"]

_SHORTEST = 8
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SAYS_SO = re.compile(
    r"(?:^|_)(?:APIKEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)S?(?:$|_)",
    re.IGNORECASE,
)
_SECRET: set[Name] = {
    ("mcp", ANY, "url"),
    ("providers", ANY, "base_url"),
    ("providers", ANY, "headers", ANY),
    ("providers", ANY, "key"),
    ("providers", ANY, "proxy"),
    ("telemetry", "otlp"),
}


def is_secret(name: Name) -> bool:
    return any(
        len(name) == len(secret) and all(s in {ANY, n} for n, s in zip(name, secret, strict=True))
        for secret in _SECRET
    )


def held_secrets(
    named: Iterable[str] = (), environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Values of variables that are `named` or whose names say that they are secret, with those
    names. What is shorter than a key is no secret: every text would hold it."""
    variables = os.environ if environment is None else environment
    chosen = {*named}
    return {
        value: name
        for name, value in variables.items()
        if len(value) >= _SHORTEST
        and _VARIABLE.fullmatch(name)
        and (name in chosen or _SAYS_SO.search(name))
    }


def hide_secrets_of_url(url: str) -> str:
    """Without what stands before the host, the query and the fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "…"
    host = parts.netloc.rpartition("@")[2]
    hidden = "…@" if "@" in parts.netloc else ""
    rest = "…" if parts.query or parts.fragment else ""
    return f"{parts.scheme}://{hidden}{host}{parts.path}{rest}"
