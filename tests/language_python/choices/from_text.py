# A string becomes a choice by `as`, which checks.
from typing import Literal

from vegakit import ContractViolated, program, vega

Severity = Literal["low", "high"]


def read(text: str) -> Severity:
    return vega.cast(text, Severity)


@program
def main() -> None:
    print(read("low"))  # expect: low
    try:
        print(read("deep"))
    except ContractViolated:
        print("no such choice")  # expect: no such choice
