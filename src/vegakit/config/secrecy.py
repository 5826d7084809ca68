"""Settings that may hold a secret, and what is shown instead."""

from urllib.parse import urlsplit

from vegakit.config.names import ANY, Name

__all__ = ["hide_secrets_of_url", "is_secret"]

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
