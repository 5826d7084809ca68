"""Modules made wrong at random, with a digest that fits: what an attacker would send."""

import json
import random
from typing import Any

import msgspec

from tests.vm.samples import SAMPLES
from vegakit.lang import to_vgb
from vegakit.lang.codegen.verifier import _HEAD, _MAGIC, _VERSION, _digest

__all__ = ["flipped", "mutated", "sealed"]

_FILES = {name: to_vgb(module) for name, module in SAMPLES.items()}
_ATOMS: tuple[Any, ...] = (
    *(-1, 0, 1, 2, 3, 5, 15, 16, 255, 256, 65_536, 2**31, 2**63, -(2**63), 10**400),
    *(0.5, 1e308, True, None, "", "a", "main", "Failed", "str::repeat", "$", "\x00", [], {}, [[]]),
    *({"$": "money", "of": 5}, {"$": "process", "of": "x"}, {"$": "future", "of": "main:0"}),
    *({"$": "map", "of": [["$", 1]]}, {"type": "plain", "name": "any"}, [1, 2, 3], "x" * 5000),
)


def sealed(form: object) -> bytes:
    """A file of this JSON with the right head."""
    body = form if isinstance(form, bytes) else json.dumps(form).encode()
    return _HEAD.pack(_MAGIC, _VERSION, len(body), _digest(body)) + body


def flipped(draw: random.Random) -> bytes:
    """One to four bytes of a file are others."""
    stored = bytearray(_FILES[draw.choice([*_FILES])])
    for _ in range(draw.randint(1, 4)):
        stored[draw.randrange(len(stored))] ^= draw.randint(1, 255)
    return bytes(stored[: draw.choice([len(stored)] * 4 + [draw.randrange(len(stored))])])


def mutated(draw: random.Random) -> bytes:
    """One to three places of a module are others; most of them in its code, so that many pass the
    verifier and run."""
    form: Any = msgspec.json.decode(msgspec.json.encode(draw.choice([*SAMPLES.values()])))
    for operands in sorted((draw.random() < 0.7 for _ in range(draw.randint(1, 3))), reverse=True):
        (_mutate_code if operands else _mutate_anything)(form, draw)
    return sealed(form)


def _mutate_code(form: Any, draw: random.Random) -> None:
    code = draw.choice(form["functions"])["code"]
    at = draw.randrange(len(code))
    match draw.randrange(4):
        case 0:
            code[at], code[draw.randrange(len(code))] = code[draw.randrange(len(code))], code[at]
        case 1:
            code[at] = list(draw.choice(code))
        case 2 if len(code[at]) > 1 and type(code[at][1]) is int:
            code[at][1] = draw.randrange(20)
        case _:
            operand = draw.randrange(len(code[at]))
            old = code[at][operand]
            new = [draw.randrange(16)] * draw.randrange(4) if type(old) is list else old
            code[at][operand] = draw.randrange(-1, 20) if type(old) is int else new


def _mutate_anything(form: Any, draw: random.Random) -> None:
    while True:
        keys = [*form] if isinstance(form, dict) else [*range(len(form))]
        if not keys:
            return
        key = draw.choice(keys)
        if isinstance(form[key], dict | list) and form[key] and draw.random() < 0.8:
            form = form[key]
            continue
        match draw.randrange(5):
            case 0:
                del form[key]
            case 1 if isinstance(form, list):
                form.insert(key, form[key])
            case _:
                form[key] = draw.choice(_ATOMS)
        return
