"""Bytes that were damaged on their way."""

import random


def spoiled(content: bytes, draw: random.Random) -> bytes:
    spoiled = bytearray(content)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(spoiled))
        match draw.randrange(5):
            case 0:
                spoiled[at] = draw.randrange(256)
            case 1:
                del spoiled[at : at + draw.randrange(1, 40)]
            case 2:
                spoiled[at:at] = spoiled[draw.randrange(len(spoiled)) :][: draw.randrange(60)]
            case 3:
                spoiled[at:at] = draw.choice([b"{", b"}", b"[", b"null", b'"', b"-1", b"1e999"])
            case _:
                del spoiled[draw.randrange(len(spoiled) // 2, len(spoiled)) :]
        spoiled = spoiled or bytearray(b"x")
    return bytes(spoiled)
