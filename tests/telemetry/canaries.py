"""Keys that open nothing, one of each format. In pieces, so that no scanner takes them for real."""

import random

_ALNUM = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_chance = random.Random(17)


def _random(length: int, letters: str = _ALNUM) -> str:
    return "".join(_chance.choices(letters, k=length))


_HEX = "0123456789abcdef"
_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PASSWORD = _random(14)
_PEM = "\n".join(_random(64) for _ in range(6))

CANARIES: dict[str, tuple[str, str]] = {
    # name: how it is met, the part that must not be seen
    "anthropic": (key := "sk-" + "ant-api03-" + _random(80), key),
    "openai project": (key := "sk-" + "proj-" + _random(60), key),
    "openai": (key := "sk-" + _random(48), key),
    "openrouter": (key := "sk-" + "or-v1-" + _random(64, _HEX), key),
    "aws id": (key := "AKIA" + _random(16, _UPPER), key),
    "aws secret": ("aws_secret_access_key = " + (key := _random(40)), key),
    "github": (key := "ghp_" + _random(36), key),
    "github fine-grained": (key := "github_" + "pat_" + _random(22) + "_" + _random(59), key),
    "gitlab": (key := "glpat-" + _random(20), key),
    "slack": (key := "xoxb-" + _random(12, "123456789") + "-" + _random(24), key),
    "slack app": (key := "xapp-" + "1-A" + _random(30), key),
    "slack webhook": ("https://hooks.slack." + "com/services/" + (key := "T0/" + _random(24)), key),
    "google": (key := "AIza" + _random(35), key),
    "google oauth": (key := "ya29." + _random(60), key),
    "google client": (key := "GOCSPX-" + _random(28), key),
    "jwt": (key := "eyJ" + _random(33) + ".eyJ" + _random(60) + "." + _random(43), key),
    "bearer": ("Authorization: Bearer " + (key := _random(32)), key),
    "basic": ("authorization: Basic " + (key := _random(24) + "=="), key),
    "key header": ("{'x-api-key': '" + (key := _random(32)) + "'}", key),
    "url parameter": ("https://example.com/v1?a=1&key=" + (key := _random(32)), key),
    "postgres": (f"postgres://vega:{_PASSWORD}@db.example:5432/vega", _PASSWORD),
    "redis": (f"redis://:{_PASSWORD}@cache.example:6379/0", _PASSWORD),
    "url token": ("https://" + (key := _random(40)) + "@git.example/vega.git", key),
    "pem": (f"-----BEGIN RSA PRIVATE KEY-----\n{_PEM}\n-----END RSA PRIVATE KEY-----", _PEM),
    "pem cut off": (f"-----BEGIN PRIVATE KEY-----\n{_PEM}", _PEM),
    "pgp": (f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{_PEM}\n-----END PGP", _PEM),
    "stripe": (key := "sk_" + "live_" + _random(24), key),
    "stripe webhook": (key := "whsec_" + _random(32), key),
    "hugging face": (key := "hf_" + _random(34), key),
    "groq": (key := "gsk_" + _random(52), key),
    "xai": (key := "xai-" + _random(80), key),
    "perplexity": (key := "pplx-" + _random(48), key),
    "replicate": (key := "r8_" + _random(37), key),
    "npm": (key := "npm_" + _random(36), key),
    "pypi": (key := "pypi-" + "AgEIcHlwaS5vcmc" + _random(60), key),
    "sendgrid": (key := "SG." + _random(22) + "." + _random(43), key),
    "twilio": (key := "SK" + _random(32, _HEX), key),
    "digitalocean": (key := "dop_" + "v1_" + _random(64, _HEX), key),
    "databricks": (key := "dapi" + _random(32, _HEX), key),
    "azure": ("AccountName=vega;AccountKey=" + (key := _random(86) + "=="), key),
    "telegram": (key := _random(9, "123456789") + ":" + _random(35), key),
    "shopify": (key := "shpat_" + _random(32, _HEX), key),
    "docker": (key := "dckr_" + "pat_" + _random(27), key),
    "vault": (key := "hvs." + _random(90), key),
    "linear": (key := "lin_api_" + _random(40), key),
    "notion": (key := "ntn_" + _random(46), key),
}  # fmt: skip
