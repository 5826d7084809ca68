from pydantic import BaseModel
from vegakit import Agent, program, vega


class Broken(BaseModel):
    version: int
    why: str


analyst = Agent("analyst", model="smart", system="Explain why a version broke.", max_tokens=300)


@program(
    may=["process::exec", "fs::read"],
    allowed_commands=["sh scripts/build.sh **"],
    allowed_paths=["notes/**"],
    budget="$5",
)
def main(last: int) -> Broken:
    good = 1
    bad = last
    while bad - good > 1:
        middle = vega.quotient(good + bad, 2)
        ran = vega.exec.look(f"sh scripts/build.sh {middle}")
        if ran.code == 0:
            good = middle
        else:
            bad = middle
    notes = vega.file.read(f"notes/{bad}.txt")
    why = analyst(f"Why did this version break?\n{notes}")
    return Broken(version=bad, why=why)
