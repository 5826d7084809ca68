"""Redaction: what may leave the process, without keys, and without content unless the user asked
for it.

Keys are known by value (whoever reads a key adds it here), by format, and in JSON by name.
Values under eight characters are not secrets: hiding `none` or `ollama` would garble every text.
"""

import json
import re
import threading
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, TypeAlias, cast
from urllib.parse import quote, quote_plus

import msgspec

from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ports import SinkTrait
from vegakit.records import Json

# Values of any kind as plain ones: what JSON knows, and bytes.


_BYTES = (bytes, bytearray, memoryview)


def plain(value: object) -> Any:  # noqa: ANN401
    """A copy that its owner cannot change any more. Records become dicts; of what is no record only
    the type is told."""
    try:
        return msgspec.to_builtins(value, builtin_types=_BYTES, enc_hook=_type_of)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _type_of(value)


def _type_of(value: object) -> str:
    return f"<{type(value).__name__}>"


# Formats of keys and passwords, one row each, in the order they are looked for.
#
# A row's regex is tried only on text that holds its mark. Each takes linear time on any text:
# after an unbounded run nothing more must follow, or the run cannot contain the beginning of
# another match. They ask for no word boundary in front, since keys are met after `\n` and `%3D`
# as well.


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

_USER = r"[^\s:@/'\"\\]{1,64}"
_NETRC = r"(?:machine\s{1,4}\S{1,253}|default)\s{1,4}"

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
    ("gitlab", "gl", rf"gl(?:pat|dt|rt|rtr|wt|ptt|soat|cbt|agent|imt|ft|ffct|oas)-{_KEY}{{20,}}"),
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
    ("tailscale", "tskey-", rf"tskey-[a-z]{{3,12}}-{_KEY}{{16,}}"),
    ("hugging face organisation", "api_org_", r"api_org_[A-Za-z0-9]{30,}"),
    ("linear oauth", "lin_oauth_", r"lin_oauth_\w{20,}"),
    ("sourcegraph", "sgp_", r"sgp_\w{40,}"),
    ("gitlab runner", "GR1348941", rf"GR1348941{_KEY}{{20,}}"),
    ("slack workflow", "xwfp-", rf"xwfp-{_KEY}{{10,}}"),
    ("weights and biases", "wandb_v1_", r"wandb_v1_\w{20,}"),
    ("bedrock short", "bedrock-api-key-", r"bedrock-api-key-[\w+/=-]{20,}"),
    ("together", "tgp_v1_", rf"tgp_v1_{_KEY}{{20,}}"),
    ("openshift", "sha256~", rf"sha256~{_KEY}{{40,}}"),
    ("dynatrace", "dt0", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{60,}"),
    ("flutterwave", "FLWSECK", rf"FLWSECK(?:_TEST|_LIVE)?-{_KEY}{{12,}}"),
    ("shippo", "shippo_", r"shippo_(?:live|test)_[0-9a-f]{40}"),
    ("duffel", "duffel_", rf"duffel_(?:live|test)_{_KEY}{{40,}}"),
    ("easypost", "EZ", r"EZ[AT]K[A-Za-z0-9]{50,}"),
    ("clojars", "CLOJARS_", r"CLOJARS_[0-9a-f]{60}"),
    ("prefect", "pn", r"pn[ub]_[A-Za-z0-9]{36}"),
    ("typeform", "tfp_", rf"tfp_{_KEY}{{40,}}"),
    ("adafruit", "aio_", r"aio_[A-Za-z0-9]{28}"),
    ("readme", "rdme_", r"rdme_[a-z0-9]{60,}"),
    ("aws session", "IQoJb3JpZ2lu", r"IQoJb3JpZ2lu[A-Za-z0-9+/=_-]{40,}"),
    ("google refresh", "1//0", rf"1//0{_KEY}{{40,}}"),
    # what carries a password by its place
    ("curl user", "-u", rf"--?u(?:ser)?[ =]{_QUOTE}?{_USER}:(?!\d+\b)[^\s'\"\\]{{4,}}"),
    ("netrc", "password", rf"{_NETRC}login\s{{1,4}}\S{{1,100}}\s{{1,4}}password\s{{1,4}}\S{{4,}}"),
    ("docker auth", "auth", rf"auth{_QUOTE}\s?:\s?{_QUOTE}[A-Za-z0-9+/=]{{16,}}"),
    ("age", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{40,}"),
)  # fmt: skip

KeyFormat: TypeAlias = tuple[str, str]
"""A text that all such keys hold, and their regex."""
FORMATS: dict[str, KeyFormat] = {name: (mark, regex) for name, mark, regex in _ROWS}

_NAMES = frozenset(
    """
    accesskey accesstoken apikey apisecret apitoken authkey authorization authtoken bearertoken
    clientsecret cookie cookies credentials encryptionkey idtoken passphrase passwd password
    privatekey proxyauthorization pwd refreshtoken secret secretaccesskey secretkey sessiontoken
    setcookie signingkey xapikey xauthtoken xgoogapikey
    """.split()
)


def is_secret_name(name: str) -> bool:
    """Return whether the value of a field or header is a secret whatever it looks like."""
    return len(name) < 40 and name.lower().replace("-", "").replace("_", "") in _NAMES


def hide_key_formats(text: str, formats: Mapping[str, KeyFormat] = FORMATS) -> str:
    """Replace every key of a known format by `[redacted]`. A regex runs only if the text holds its
    mark, because most texts hold none."""
    for mark, regex in formats.values():
        if mark in text:
            text = _compiled(regex).sub(PLACEHOLDER, text)
    return text


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    """Compile a pattern when it is first needed: all of them would take milliseconds of every
    start."""
    return re.compile(regex, re.DOTALL)


# What failed, in few words: a message of a provider or a tool may quote what was said to it.


_ERROR_NAME = re.compile(r"[A-Za-z_][\w.]{0,100}(?=:|$)")
_ERROR_CLASS = re.compile(r"[A-Z]\w{0,60}(?:Error|Exception|Denied|Exceeded|Expired)(?=:|$)")
_CUT_OFF = re.compile(r"timed out after \d+ ms|was cancelled")


def error_type(call: CallTraced) -> str:
    """Return a short error type, an exception's name or how the call ended. What a tool says of its
    failure is its own text, so that only what is written as an exception is taken for one."""
    if call.status is CallStatus.OK:
        return ""
    name = (_ERROR_CLASS if call.kind is CallKind.TOOL else _ERROR_NAME).match(call.error)
    return name[0] if name else str(call.status)


def _error_without_content(call: CallTraced) -> str:
    """Return what may be told of an error without content: its type, and our own words where they
    quote nobody, of a model call that was refused and of a tool that was cut off."""
    is_refusal = call.kind is CallKind.MODEL and call.status is CallStatus.REFUSED
    is_cut_off = call.kind is CallKind.TOOL and _CUT_OFF.fullmatch(call.error) is not None
    return call.error if is_refusal or is_cut_off else error_type(call)


# Records leave without keys, and without content unless the user asked for it.
#
# Keys are known by value (whoever reads a key adds it here), by format, and in JSON by name. A
# value is also found in its base64, hex, URL and JSON spellings. Values under eight characters
# are not secrets: hiding `none` or `ollama` would garble every text.


_SHORTEST = 8
_MOST_SECRETS = 256
_MOST_TEXT = 1_000_000
_MOST_DEPTH = 32
_MOST_REMEMBERED = 1024
_REMEMBERED_LENGTH = 100
"""Names, which are the same in every call."""
_ESCAPE = re.compile("%[0-9A-F]{2}")


class _Keys:
    """Those known at one time. What short texts became is remembered with them, so that nothing
    remembered outlives the next key."""

    def __init__(self, spellings: frozenset[str], formats: Mapping[str, KeyFormat]) -> None:
        self._longest_first, self._formats = sorted(spellings, key=len, reverse=True), formats
        self.hide_short = lru_cache(_MOST_REMEMBERED)(self.hide)

    def hide(self, text: str) -> str:
        for spelling in self._longest_first:
            if spelling in text:
                text = text.replace(spelling, PLACEHOLDER)
        return hide_key_formats(text, self._formats)


class Redactor:
    """Shared by all sinks and log filters of one runtime. Remembers the last 256 keys. `formats`
    are what keys look like beyond those that are known here."""

    def __init__(
        self,
        secrets: Iterable[str] = (),
        *,
        content: bool = False,
        formats: Mapping[str, KeyFormat] = FORMATS,
    ) -> None:
        self.content, self._formats = content, {**FORMATS, **formats}
        self.traits = frozenset({SinkTrait.CONTENT} if content else ())
        self._lock = threading.Lock()
        self._spellings: dict[str, frozenset[str]] = {}
        self._names: dict[str, str] = {}
        self._keys = _Keys(frozenset(), self._formats)
        for secret in secrets:
            self.add(secret)

    def __repr__(self) -> str:
        return f"Redactor({len(self._spellings)} secrets)"

    def named(self) -> dict[str, str]:
        """The name of each secret that has one, for people who are shown the name."""
        with self._lock:
            return dict(self._names)

    def add(self, secret: str, name: str = "") -> None:
        """Each time it is read, so that a key in use is not forgotten."""
        if len(secret) < _SHORTEST:
            return
        with self._lock:
            if name:
                self._names[secret] = name
            spellings = self._spellings.pop(secret, None)
            self._spellings[secret] = spellings or frozenset(_spellings(secret))
            if spellings is None:
                self._forget_the_oldest()

    def _forget_the_oldest(self) -> None:
        if len(self._spellings) > _MOST_SECRETS:
            oldest = next(iter(self._spellings))
            del self._spellings[oldest]
            self._names.pop(oldest, None)
        self._keys = _Keys(frozenset[str]().union(*self._spellings.values()), self._formats)

    def redact(self, text: str) -> str:
        """Text beyond a million characters is cut off, and so is a key that the cut would halve."""
        if len(text) <= _REMEMBERED_LENGTH and type(text) is str:  # others may be equal by lying
            return self._keys.hide_short(text)
        if len(text) > _MOST_TEXT:
            return self._keys.hide(text[: _MOST_TEXT + MARGIN])[:-MARGIN] + "…"
        return self._keys.hide(text)

    def redact_json(self, value: object, depth: int = 0) -> Json:
        """Any value as JSON that can be written: keys of dicts are texts too."""
        match value:
            case None | bool():
                return value
            case int():
                return int(value)
            case float():
                return float(value)
            case str():
                return _writable(self.redact(value[:]))
            case bytes() | bytearray() | memoryview():
                return f"<{len(cast('bytes', value))} bytes>"
            case dict() | list() | tuple() | set() | frozenset() if depth >= _MOST_DEPTH:
                return "…"
            case dict():
                pairs = cast("dict[object, object]", value).items()
                return dict(self._pair(_word(key), inner, depth + 1) for key, inner in pairs)
            case list() | tuple() | set() | frozenset():
                items = cast("Iterable[object]", value)
                return [self.redact_json(item, depth + 1) for item in items]
            case _:
                return self.redact_json(plain(value), depth + 1)

    def _pair(self, key: str, value: object, depth: int) -> tuple[str, Json]:
        hidden = is_secret_name(key) and value is not None
        return self._text(key), PLACEHOLDER if hidden else self.redact_json(value, depth)

    def redact_call(self, call: CallTraced) -> CallTraced:
        """Return a record without secrets."""
        return msgspec.structs.replace(
            call,
            name=self._text(call.name),
            agent=self._text(call.agent),
            model=self._text(call.model),
            finish=self._text(call.finish),
            error=self._error(call) if call.error else "",
            attributes=self.redact_json(call.attributes),
            content=self.redact_json(call.content) if self.content else None,
        )

    def _error(self, call: CallTraced) -> str:
        return self._text(call.error if self.content else _error_without_content(call))

    def _text(self, text: str) -> str:
        return _writable(self.redact(text)) if text else text


_BY_FORMAT = Redactor()


def redact(text: str) -> str:
    """Return the text without anything of a known key format."""
    return _BY_FORMAT.redact(text)


def _spellings(secret: str) -> Iterator[str]:
    raw = secret.encode(errors="replace")
    yield from (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield from (repr(secret)[1:-1], raw.hex(), raw.hex().upper())
    for quoted in (quote(secret, safe="", errors="replace"), quote(secret, errors="replace")):
        yield from (quoted, _ESCAPE.sub(lambda escape: escape[0].lower(), quoted))
    yield quote_plus(secret, errors="replace")
    for offset in range(3):
        inner = _base64_inside(raw, offset)
        yield from (inner, inner.replace("+", "-").replace("/", "_"))


def _base64_inside(raw: bytes, offset: int) -> str:
    """Return what a longer base64 text shows of `raw`, whatever stands before and after it."""
    text = b64encode(bytes(offset) + raw).decode().rstrip("=")
    first = (0, 2, 3)[offset]
    whole = (offset + len(raw)) * 8 // 6
    return text[first:whole]


def _word(key: object) -> str:
    return key if isinstance(key, str) else str(plain(key))


def _writable(text: str) -> str:
    """UTF-8 has no halves of surrogate pairs."""
    return text if text.isascii() else text.encode(errors="replace").decode()
