from pydantic import BaseModel
from vegakit import Agent, program, vega


class Person(BaseModel):
    name: str
    email: str
    age: str


class Fixed(BaseModel):
    name: str
    email: str
    age: int


class Report(BaseModel):
    good: int
    repaired: int
    rejected: int


fixer = Agent("fixer", model="fast", system="You repair records of people.", max_tokens=300)


def is_good(email: str, age: str) -> bool:
    good = False
    if vega.str.find(email, "@") is not None:
        try:
            years = int(age.strip())
            good = years >= 0 and years <= 130
        except ValueError:
            good = False
    return good


def table(people: list[Person]) -> str:
    if len(people) == 0:
        return "name,email,age"
    return vega.csv.text(people)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["people.csv", "clean.csv", "rejected.csv"],
    budget="$5",
)
def main() -> Report:
    rows = vega.csv.parse(vega.file.read("people.csv"))
    clean: list[Person] = []
    refused: list[Person] = []
    good = 0
    repaired = 0
    rejected = 0
    for row in vega.list.take(rows, 40):
        name = row["name"]
        email = row["email"]
        age = row["age"]
        if is_good(email, age):
            good = good + 1
            clean = clean + [Person(name=name, email=email, age=age)]
        else:
            fixed = fixer.ask(
                "Repair this record (the email holds an @, the age is a whole number from 0 to "
                f"130).\nname: {name}\nemail: {email}\nage: {age}",
                returns=Fixed,
            )
            years = f"{fixed.age}"
            if is_good(fixed.email, years):
                repaired = repaired + 1
                clean = clean + [Person(name=fixed.name, email=fixed.email, age=years)]
            else:
                rejected = rejected + 1
                refused = refused + [Person(name=name, email=email, age=age)]
    vega.file.write("clean.csv", table(clean))
    vega.file.write("rejected.csv", table(refused))
    return Report(good=good, repaired=repaired, rejected=rejected)
