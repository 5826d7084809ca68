# What is added first says what an empty list holds.
from pydantic import BaseModel
from vegakit import program, vega


class Finding(BaseModel):
    file: str


@program
def main() -> None:
    found = []
    for name in ["a", "b"]:
        found.append(Finding(file=name))
    print(vega.text(found))  # expect: [{"file":"a"},{"file":"b"}]
    print(found[1].file)  # expect: b
