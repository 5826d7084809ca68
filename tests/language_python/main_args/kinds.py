# args: 2.5 true $1.50 30s low
from typing import Literal

from vegakit import program, vega


@program
def main(
    x: float, yes: bool, price: vega.Money, wait: vega.Duration, how: Literal["low", "high"]
) -> str:
    return f"{vega.text(x * 2.0)} {vega.text(yes)} {vega.text(price)} {vega.text(wait)} {how}"


# expect result: 5.0 true $1.50 30s low
