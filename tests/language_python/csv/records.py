# Records as lines: amounts as they are written, null as nothing.
from pydantic import BaseModel
from vegakit import program, vega


class Person(BaseModel):
    name: str
    age: int | None = None
    pay: vega.Money


@program(may=["fs::read", "fs::write"])
def main() -> None:
    people = [
        Person(name="Ada", age=36, pay=vega.money("$1.50")),
        Person(name="Bob", pay=vega.money("$2")),
    ]
    vega.file.write("out.csv", vega.csv.text(people))
    print(vega.file.read("out.csv"))
    # expect: name,age,pay
    # expect: Ada,36,$1.50
    # expect: Bob,,$2.00
    # expect:
