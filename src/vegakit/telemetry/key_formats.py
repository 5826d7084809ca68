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
_START = r"(?:(?<![A-Za-z])|(?<=\\[nrt]))"
_IS = r"['\"]?\s?[:=]\s?['\"]?"
_PEM_END = r"(?:-----END[^-]{0,50}-----|\Z)"
_OPENAI = "proj|svcacct|admin|None|or-v1"
_AWS = "secret_?access_?key|session_?token"

_NAME = (
    "passw(?:or)?d|passphrase|pwd|secret|api[-_ ]?(?:key|token|secret)|access[-_]?(?:key|token)|"
    "auth[-_]?(?:key|token)|(?:refresh|session|bearer|id)[-_]?token|client[-_]?secret|"
    "private[-_]?key|signing[-_]?key|encryption[-_]?key|_token"
)
_QUOTE = r"(?:\\{0,3}['\"])"
_VALUE = rf"(?:{_QUOTE}[^'\"\r\n]{{4,400}}|[^\s'\",;&\\]{{6,}})"

_ROWS: tuple[tuple[str, str, str], ...] = (
    # name, mark, regex
    ("pem", "PRIVATE KEY", rf"-----BEGIN [A-Z0-9 ]{{0,30}}PRIVATE KEY.*?{_PEM_END}"),
    ("url password", "://", r"(?<=://)(?:[^\s/:@]*:[^\s/]+|[^\s/:@]{16,})(?=@)"),
    ("url parameter", "=", r"(?i)[?&](?:api_?key|key|token|access_token|sig)=[^\s&#\"']{8,}"),
    ("authorization", "", rf"(?i)authorization{_IS}(?:[a-z]+ )?[^\s'\",;]{{8,}}"),
    ("key header", "", rf"(?i)x-(?:api|goog-api|auth)-(?:key|token){_IS}[^\s'\",;]{{8,}}"),
    ("bearer", "", r"(?i)bearer\s{1,4}[a-z0-9._~+/=-]{16,}"),
    ("cookie", "", rf"(?i)cookie{_QUOTE}?\s?[:=]\s?{_QUOTE}?[^\s=;'\"]{{1,100}}=[^\r\n'\"]+"),
    ("named with =", "=", rf"(?i)(?:{_NAME}){_QUOTE}?\s?=>?\s?{_VALUE}"),
    ("named with :", ":", rf"(?i)(?:{_NAME}){_QUOTE}?\s?:\s?{_VALUE}"),
    ("command option", "--", rf"(?i)--(?:{_NAME}|token)\s{_VALUE}"),
    ("anthropic", "sk-ant-", rf"sk-ant-{_KEY}{{16,}}"),
    ("openai", "sk-", rf"sk-(?:(?:{_OPENAI})-{_KEY}{{16,}}|[A-Za-z0-9]{{20,}})"),
    ("like openai", "sk-", rf"{_START}sk-{_KEY}{{20,}}"),
    ("aws id", "A", r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}"),
    ("aws secret", "", rf"(?i)aws_?(?:{_AWS}){_IS}[a-z0-9/+=]{{16,}}"),
    ("github", "gh", r"gh[pousr]_[A-Za-z0-9]{30,}"),
    ("github fine-grained", "github_pat_", r"github_pat_\w{20,}"),
    ("gitlab", "gl", rf"gl(?:pat|dt|rt|ptt|soat|cbt|agent|imt|ft|ffct|oas)-{_KEY}{{20,}}"),
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
    # models and what is built on them
    ("nvidia", "nvapi-", rf"nvapi-{_KEY}{{20,}}"),
    ("tavily", "tvly-", rf"tvly-{_KEY}{{16,}}"),
    ("langsmith", "ls", r"ls(?:v2_(?:pt|sk)_|__)\w{20,}"),
    ("langfuse", "-lf-", rf"[sp]k-lf-{_KEY}{{20,}}"),
    ("fireworks", "fw_", r"fw_[A-Za-z0-9]{20,}"),
    ("cerebras", "csk-", rf"csk-{_KEY}{{20,}}"),
    ("elevenlabs", "sk_", r"sk_[0-9a-f]{40,}"),
    ("voyage", "pa-", rf"{_START}pa-{_KEY}{{30,}}"),
    ("jina", "jina_", r"jina_\w{30,}"),
    ("firecrawl", "fc-", r"fc-[0-9a-f]{30,}"),
    ("pinecone", "pcsk_", r"pcsk_\w{20,}"),
    ("bedrock", "ABSK", r"ABSK[A-Za-z0-9+/=]{40,}"),
    ("anyscale", "esecret_", r"esecret_\w{20,}"),
    ("runpod", "rpa_", r"rpa_\w{20,}"),
    ("apify", "apify_", r"apify_\w{2,8}_\w{20,}"),
    ("e2b", "e2b_", r"e2b_[0-9a-f]{30,}"),
    ("brave", "BSA", rf"BSA{_KEY}{{24,}}"),
    # clouds and databases
    ("supabase", "sb", r"sb(?:p_[0-9a-f]{40}|_secret_\w{20,})"),
    ("planetscale", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.-]{20,}"),
    ("neon", "napi_", r"napi_\w{30,}"),
    ("heroku", "HRKU-", rf"HRKU-{_KEY}{{30,}}"),
    ("netlify", "nf", r"nf[cpou]_\w{30,}"),
    ("vercel", "vc", r"vc[apikr]_\w{20,}"),
    ("render", "rnd_", r"rnd_\w{20,}"),
    ("fly", "f", r"f(?:o1_[\w-]{30,}|m[12][ar]?_[\w+/=-]{30,})"),
    ("doppler", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.]{30,}"),
    ("terraform", ".atlasv1.", r"\w{14}\.atlasv1\.[\w=-]{40,}"),
    ("pulumi", "pul-", r"pul-[0-9a-f]{40}"),
    ("alibaba", "LTAI", r"LTAI[A-Za-z0-9]{16,}"),
    ("tencent", "AKID", r"AKID[A-Za-z0-9]{20,}"),
    ("cloudflare", "v1.0-", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}"),
    # code, work and mail
    ("atlassian", "ATATT3", r"ATATT3[\w=-]{40,}"),
    ("bitbucket", "ATBB", r"ATBB[A-Za-z0-9]{24,}"),
    ("postman", "PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("figma", "fig", rf"fig[dou]_{_KEY}{{30,}}"),
    ("airtable", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{60,}"),
    ("sentry", "sntry", r"sntry[su]_[\w+/=-]{30,}"),
    ("grafana", "gl", r"gl(?:sa|c)_[\w+/=]{30,}"),
    ("new relic", "NRAK-", r"NRAK-[A-Z0-9]{24,}"),
    ("posthog", "ph", r"ph[cx]_\w{30,}"),
    ("mailgun", "key-", r"key-[0-9a-f]{32}"),
    ("mailchimp", "-us", r"[0-9a-f]{32}-us\d{1,2}"),
    ("brevo", "xkeysib-", r"xkeysib-[0-9a-f]{40,}"),
    ("resend", "re_", rf"{_START}re_[A-Za-z0-9]{{8,40}}_[A-Za-z0-9]{{16,}}"),
    ("rubygems", "rubygems_", r"rubygems_[0-9a-f]{40,}"),
    ("circleci", "CCIPAT_", r"CCIPAT_\w{20,}"),
    ("buildkite", "bk", r"bk(?:ua|at|ct)_\w{30,}"),
    ("discord", ".", r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}"),
    ("square", "sq0", rf"sq0[a-z]{{3}}-{_KEY}{{20,}}"),
    ("facebook", "EAA", r"EAA[A-Za-z0-9]{60,}"),
    ("1password", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/=_-]{40,}"),
    ("age", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{40,}"),
)  # fmt: skip

FORMATS = {name: (mark, regex) for name, mark, regex in _ROWS}

_NAMES = frozenset(
    """
    accesskey accesstoken apikey apisecret apitoken authkey authorization authtoken bearertoken
    clientsecret cookie cookies credentials encryptionkey idtoken passphrase passwd password
    privatekey proxyauthorization pwd refreshtoken secret secretaccesskey secretkey sessiontoken
    setcookie signingkey xapikey xauthtoken xgoogapikey
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
