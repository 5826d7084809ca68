"""The open tree of capability names: `fs` covers `fs::read`, `fs::read` covers itself.

`fs::read`, `fs::write`, `process::exec`, `net::get` and `net::post` are known to the gate; tools
may bring any others, up to 8 names of ASCII letters, digits and `_`, 128 characters in all.
"""

import re

from vegakit.errors import InvalidRuleError
from vegakit.policy.capability.doubts import refused, shown
from vegakit.policy.capability.wanted import Denied, Use

__all__ = ["EXEC", "GET", "POST", "READ", "WRITE", "check_capability", "clean_use", "covers"]

READ = "fs::read"
WRITE = "fs::write"
EXEC = "process::exec"
GET = "net::get"
POST = "net::post"

_MAX_CHARACTERS = 128
_PART = "[A-Za-z_][A-Za-z0-9_]*"
_NAME = re.compile(f"{_PART}(::{_PART}){{0,7}}")
_EXPECTED = "a capability is up to 8 names of letters, digits and _ joined by ::, such as fs::read"


def covers(branch: str, name: str) -> bool:
    return name == branch or name.startswith(f"{branch}::")


def clean_use(wanted: Use) -> Use | Denied:
    name = wanted.capability
    return wanted if _is_name(name) else refused("capability", name, _EXPECTED)


def check_capability(name: str) -> None:
    if not _is_name(name):
        raise InvalidRuleError(f"{shown(name)} names no capability: {_EXPECTED}")


def _is_name(text: str) -> bool:
    return len(text) <= _MAX_CHARACTERS and _NAME.fullmatch(text) is not None
