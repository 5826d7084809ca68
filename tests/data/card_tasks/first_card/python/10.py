from pydantic import BaseModel
from vegakit import Agent, program, vega


class Result(BaseModel):
    version: int
    why: str


analyst = Agent("analyst", model="smart", system="Say briefly why a build broke.", max_tokens=300)


@program(
    may=["process::exec", "fs::read"],
    allowed_commands=["sh scripts/build.sh **"],
    allowed_paths=["notes/**"],
    budget="$5",
)
def main(last: int) -> Result:
    good = 1
    bad = last
    for i in range(8):
        if bad - good > 1:
            middle = vega.quotient(good + bad, 2)
            ran = vega.exec.run(f"sh scripts/build.sh {middle}")
            if ran.code == 0:
                good = middle
            else:
                bad = middle
    notes = vega.file.read(f"notes/{bad}.txt")
    why = analyst(f"Why did this version break?\n{notes}")
    return Result(version=bad, why=why)
