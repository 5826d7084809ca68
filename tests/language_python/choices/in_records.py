from typing import Literal

from pydantic import BaseModel
from vegakit import program, vega


class Finding(BaseModel):
    file: str
    severity: Literal["low", "high"]


@program
def main() -> None:
    f = Finding(file="a", severity="low")
    f.severity = "high"
    print(f.severity)  # expect: high
    print(vega.text([g.file for g in [f] if g.severity == "high"]))  # expect: ["a"]
