"""Every known attack by YAML is a file that is refused, for the reason meant and at once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cost import ratio
from tests.tools.confined.attacks import known
from tests.tools.yaml_tools.stage import ECHO, refusal

KNOWN = known("yaml")
REASONS = {
    "tags are not read": (1, 2, 3, 4, 19),
    "anchors are not read": (6, 8),
    "stands here again": (9, 32),
    "read differently": (7, 10, 11, 12, 13, 14, 15, 17, 21, 22, 33, 34),
    "is not known": (16, 18, 20, 29, 30, 31, 35),
    "a key is a name": (23,),
    "a second document": (24,),
    "directives are not read": (25,),
    "invisible or control character": (26, 27, 28),
    "this is no YAML": (5, 36),
    "Expected `object`, got `str`": (37,),
}
TOO_LARGE = "larger than 65536 bytes"
BOUNDED: dict[str, tuple[Callable[[], str], str]] = {
    "yaml-038": (lambda: "\n".join("-  " * i for i in range(1100)), TOO_LARGE),
    "yaml-039": (lambda: "[" * 100_000, TOO_LARGE),
    "yaml-040": (
        lambda: (
            "a: &a [x,x,x,x,x,x,x,x,x]\n"
            + "".join(
                f"{chr(98 + i)}: &{chr(98 + i)} [" + ",".join(["*" + chr(97 + i)] * 9) + "]\n"
                for i in range(9)
            )
        ),
        "anchors are not read",
    ),
    "yaml-041": (lambda: "{" + ",".join(f'"k{i}":1' for i in range(10**6)) + "}", TOO_LARGE),
    "yaml-042": (lambda: '"' + "a" * 50_000_000 + '"', TOO_LARGE),
}
UNDER_THE_CAP = {
    "stairs of lists": ("\n".join("-  " * i + "a" for i in range(1, 200)), "nested deeper"),
    "lists in a line": ("- " * 32_000, "nested deeper"),
    "brackets": ("[" * 65_000, "nested deeper"),
    "keys in keys": ("? " * 32_000, "nested deeper"),
    "indents": ("".join(" " * i + "a:\n" for i in range(350)), "nested deeper"),
    "many values": ("[" + "a," * 32_000 + "]", "more than 5000 values"),
    "many keys": ("".join(f"k{i}: 1\n" for i in range(6_000)), "more than 5000 values"),
}
IN_PLACE = {
    "yaml-016": "timeout_ms: -1",
    "yaml-018": "timeout_ms: '1.00 '",
    "yaml-020": "timeout_ms: 0",
    "yaml-035": 'timeout_ms: "1"',
    "yaml-030": "include: ../../../../etc/passwd",
    "yaml-031": "include: http://evil/x.yaml",
}
"""Values that are well written: what is wrong is what they say, so they stand where they count."""

BY_ID = {f"yaml-{number:03}": why for why, numbers in REASONS.items() for number in numbers}


@pytest.mark.parametrize("attack_id", BY_ID)
def test_an_attack_is_refused_for_its_own_reason(attack_id: str, tmp_path: Path) -> None:
    assert BY_ID[attack_id] in refusal(tmp_path, KNOWN[attack_id]["input"])


@pytest.mark.parametrize("attack_id", BOUNDED)
def test_a_bomb_is_refused_at_once(attack_id: str, tmp_path: Path) -> None:
    make, why = BOUNDED[attack_id]
    assert_refused_quickly(tmp_path, make(), why)


@pytest.mark.parametrize("name", UNDER_THE_CAP)
def test_a_bomb_that_is_small_enough_to_be_read_is_refused_while_reading(
    name: str, tmp_path: Path
) -> None:
    assert_refused_quickly(tmp_path, *UNDER_THE_CAP[name])


def assert_refused_quickly(folder: Path, text: str, why: str) -> None:
    """A file may hold five times as many values as that with which it is compared."""
    assert why in refusal(folder, text)
    harmless = "[" + "a," * 1_000 + "]"
    assert ratio(lambda: refusal(folder, text), lambda: refusal(folder, harmless), 20) <= 20


@pytest.mark.parametrize("attack_id", IN_PLACE)
def test_a_value_that_is_wrong_is_refused_where_it_counts(attack_id: str, tmp_path: Path) -> None:
    said = refusal(tmp_path, f"{ECHO}    {IN_PLACE[attack_id]}\n")
    assert said.startswith("tools.yaml:8: ")
    assert IN_PLACE[attack_id].split(":")[0] in said


def test_a_name_that_means_something_elsewhere_is_no_name(tmp_path: Path) -> None:
    for name in ("__proto__", '"say\\n"', "Say", "s\u0430y", '"say "'):
        said = refusal(tmp_path, ECHO.replace("name: say", f"name: {name}"))
        assert said.startswith("tools.yaml:2: name: ")


def test_every_known_attack_is_carried_out() -> None:
    assert sorted([*BY_ID, *BOUNDED]) == sorted(KNOWN)
