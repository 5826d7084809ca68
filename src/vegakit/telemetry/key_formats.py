"""What keys and passwords look like: one row per format, in the order they are looked for.

A row's regex is tried only on text that holds its mark. Each takes linear time on any text: after
an unbounded run nothing more must follow, or the run cannot contain the beginning of another match.
They ask for no word boundary in front, since keys are met after `\\n` and `%3D` as well.
"""

import re
from functools import cache

__all__ = ["FORMATS", "MARGIN", "PLACEHOLDER", "hide_key_formats", "is_secret_name"]

PLACEHOLDER = "[redacted]"

MARGIN = 4096
"""Longer than any key but a PEM block, whose format does not need its end."""

_KEY = r"[A-Za-z0-9_-]"
_IS = r"['\"]?\s?[:=]\s?['\"]?"
_PEM_END = r"(?:-----END[^-]{0,50}-----|\Z)"
_OPENAI = "proj|svcacct|admin|None|or-v1"
_AWS = "secret_?access_?key|session_?token"

_ROWS: tuple[tuple[str, str, str], ...] = (
    # name, mark, regex
    ("pem", "PRIVATE KEY", rf"-----BEGIN [A-Z0-9 ]{{0,30}}PRIVATE KEY.*?{_PEM_END}"),
    ("url password", "://", r"(?<=://)(?:[^\s/:@]*:[^\s/]+|[^\s/:@]{16,})(?=@)"),
    ("url parameter", "=", r"(?i)[?&](?:api_?key|key|token|access_token|sig)=[^\s&#\"']{8,}"),
    ("authorization", "", rf"(?i)authorization{_IS}(?:[a-z]+ )?[^\s'\",;]{{8,}}"),
    ("key header", "", rf"(?i)x-(?:api|goog-api|auth)-(?:key|token){_IS}[^\s'\",;]{{8,}}"),
    ("bearer", "", r"(?i)bearer\s{1,4}[a-z0-9._~+/=-]{16,}"),
    ("anthropic", "sk-ant-", rf"sk-ant-{_KEY}{{16,}}"),
    ("openai", "sk-", rf"sk-(?:(?:{_OPENAI})-{_KEY}{{16,}}|[A-Za-z0-9]{{20,}})"),
    ("like openai", "sk-", rf"(?:(?<![A-Za-z])|(?<=\\[nrt]))sk-{_KEY}{{20,}}"),
    ("aws id", "A", r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}"),
    ("aws secret", "", rf"(?i)aws_?(?:{_AWS}){_IS}[a-z0-9/+=]{{16,}}"),
    ("github", "gh", r"gh[pousr]_[A-Za-z0-9]{30,}"),
    ("github fine-grained", "github_pat_", r"github_pat_\w{20,}"),
    ("gitlab", "gl", rf"gl(?:pat|dt|rt|ptt|soat|cbt)-{_KEY}{{20,}}"),
    ("slack", "xox", rf"xox[a-z](?:\.xox[a-z])?-{_KEY}{{10,}}"),
    ("slack app", "xapp-", rf"xapp-{_KEY}{{10,}}"),
    ("slack webhook", "hooks.slack.com", r"hooks\.slack\.com/\w{1,20}/[\w/]{10,}"),
    ("google", "AIza", rf"AIza{_KEY}{{30,}}"),
    ("google oauth", "ya29.", r"ya29\.[\w.-]{20,}"),
    ("google client", "GOCSPX-", rf"GOCSPX-{_KEY}{{20,}}"),
    ("jwt", "eyJ", r"eyJ[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]+){0,4}"),
    ("stripe", "k_", r"[srp]k_(?:live|test)_\w{10,}"),
    ("webhook", "whsec_", r"whsec_[\w+/=]{16,}"),
    ("hugging face", "hf_", r"hf_[A-Za-z0-9]{30,}"),
    ("groq", "gsk_", r"gsk_\w{20,}"),
    ("xai", "xai-", rf"xai-{_KEY}{{20,}}"),
    ("perplexity", "pplx-", rf"pplx-{_KEY}{{20,}}"),
    ("replicate", "r8_", r"r8_\w{30,}"),
    ("npm", "npm_", r"npm_[A-Za-z0-9]{30,}"),
    ("pypi", "pypi-", rf"pypi-{_KEY}{{30,}}"),
    ("sendgrid", "SG.", r"SG\.[\w-]{16,32}\.[\w-]{16,}"),
    ("twilio", "SK", r"SK[0-9a-f]{32}"),
    ("digitalocean", "_v1_", r"do[opr]_v1_[0-9a-f]{40,}"),
    ("databricks", "dapi", r"dapi[0-9a-f]{32}"),
    ("azure", "AccountKey", r"AccountKey=[A-Za-z0-9+/=]{20,}"),
    ("telegram", ":", rf"\d{{8,10}}:{_KEY}{{35}}"),
    ("shopify", "shp", r"shp(?:at|ca|pa|ss)_[0-9a-f]{32}"),
    ("docker", "dckr_", rf"dckr_[a-z]{{1,6}}_{_KEY}{{20,}}"),
    ("vault", "hv", r"hv[sbr]\.[\w-]{20,}"),
    ("linear", "lin_api_", r"lin_api_\w{20,}"),
    ("notion", "ntn_", r"ntn_\w{20,}"),
)  # fmt: skip

FORMATS = {name: (mark, regex) for name, mark, regex in _ROWS}

_NAMES = frozenset(
    """
    accesstoken apikey authorization clientsecret cookie passwd password privatekey
    proxyauthorization refreshtoken secret secretkey setcookie xapikey xauthtoken xgoogapikey
    """.split()
)


def is_secret_name(name: str) -> bool:
    """Of a field or header whose value is a secret whatever it looks like."""
    return len(name) < 40 and name.lower().replace("-", "").replace("_", "") in _NAMES


def hide_key_formats(text: str) -> str:
    for mark, regex in FORMATS.values():
        if mark in text:
            text = _compiled(regex).sub(PLACEHOLDER, text)
    return text


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    """When it is first needed: all of them would take milliseconds of every start."""
    return re.compile(regex, re.DOTALL)
