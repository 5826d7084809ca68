from pydantic import BaseModel
from vegakit import program, vega


class Result(BaseModel):
    sent: int
    dead: int


@program(
    may=["fs::read", "fs::write", "net::post"],
    allowed_paths=["events.jsonl", "dead.jsonl"],
    allowed_hosts=["127.0.0.1"],
)
def main(base: str) -> Result:
    sent = 0
    dead: list[str] = []
    lines = [line for line in vega.str.lines(vega.file.read("events.jsonl")) if line.strip() != ""]
    for line in lines:
        taken = False
        for i in range(3):
            if not taken:
                if i > 0:
                    vega.process.sleep("500ms")
                taken = vega.http.post(f"{base}/events", line).status == 200
        if taken:
            sent = sent + 1
        else:
            dead = dead + [line]
    vega.file.write("dead.jsonl", "\n".join(dead))
    return Result(sent=sent, dead=len(dead))
