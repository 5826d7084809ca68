from pydantic import BaseModel
from vegakit import program


class Row(BaseModel):
    name: str


@program
def main() -> None:
    print(len(sorted([Row(name="a")], key=lambda r: -r.name)))
