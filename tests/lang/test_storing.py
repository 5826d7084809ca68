"""`.vgb` files: there and back, and what each refusal says."""

import struct

import pytest

from tests.vm.mutating import sealed
from tests.vm.samples import SAMPLES
from tests.vm.snapshots import run
from vegakit.errors import InvalidRecordError
from vegakit.lang import from_vgb, to_vgb

FILE = to_vgb(SAMPLES["values"])


@pytest.mark.parametrize("name", SAMPLES)
def test_a_module_comes_back(name: str) -> None:
    """It runs as before and gives the same bytes again."""
    stored = to_vgb(SAMPLES[name])
    module = from_vgb(stored)
    assert to_vgb(module) == stored
    assert run(module) == run(SAMPLES[name])


REFUSED: list[tuple[bytes, str]] = [
    (b"", "does not begin as one"),
    (b"PK\x03\x04" + FILE[4:], "does not begin as one"),
    (FILE[:4] + b"\x00\x02" + FILE[6:], "it has format 2; this version of Vega reads format 1"),
    (FILE[:6] + struct.pack(">I", 2**24 + 1) + FILE[10:], "at most 16,777,216 bytes"),
    (FILE[:-1], "bytes where"),
    (FILE + b" ", "bytes where"),
    (FILE[:-1] + b" ", "does not fit its digest"),
    (sealed(b"{}"), "not a module: Object missing required field"),
    (sealed(FILE[42:-1]), "not a module: Input data was truncated"),
    (sealed(b'{"constants":' + b"[" * 100_000), "not a module: maximum recursion depth"),
]


@pytest.mark.parametrize(("stored", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_a_refusal_says_why_and_what_to_do(stored: bytes, why: str) -> None:
    """Build it again."""
    with pytest.raises(InvalidRecordError, match="build it again with `vega build`") as caught:
        from_vgb(stored)
    assert why in str(caught.value)


def test_a_module_with_the_right_digest_is_verified() -> None:
    """A digest is no proof of honesty."""
    body = FILE[42:].replace(b'"main":0', b'"main":9')
    with pytest.raises(InvalidRecordError, match="main is function 9 of 2"):
        from_vgb(sealed(body))
