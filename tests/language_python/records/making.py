from typing import Literal

from pydantic import BaseModel
from vegakit import program, vega


class Finding(BaseModel):
    file: str
    severity: Literal["low", "high"]
    note: str | None = None


@program
def main() -> None:
    f = Finding(file="a.py", severity="low")
    print(f.file)  # expect: a.py
    print(f.note if f.note is not None else "none")  # expect: none
    print(vega.text(f))  # expect: {"file":"a.py","severity":"low","note":null}
