# reply: {"output": {"file": "a.py", "severity": "high"}}
from typing import Literal

from pydantic import BaseModel
from vegakit import Agent, program, vega


class Finding(BaseModel):
    file: str
    severity: Literal["low", "high"]
    note: str | None = None


Finder = Agent("Finder", model="fast")


@program
def main() -> None:
    f = Finder.ask("Find.", returns=Finding)
    print(f.file)  # expect: a.py
    print(vega.text(f.severity == "high"))  # expect: true
    print(f.note if f.note is not None else "-")  # expect: -
