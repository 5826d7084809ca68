from pydantic import BaseModel
from vegakit import program, vega


class Result(BaseModel):
    sent: int
    dead: int


@program(
    may=["fs::read", "fs::write", "net::post"],
    allowed_paths=["events.jsonl", "dead.jsonl"],
    allowed_hosts=["127.0.0.1:8931"],
)
def main(base: str) -> Result:
    lines = [x for x in vega.str.lines(vega.file.read("events.jsonl")) if len(x.strip()) > 0]
    sent = 0
    dead: list[str] = []
    for line in lines:
        taken = False
        for attempt in range(3):
            if not taken:
                if attempt > 0:
                    vega.process.sleep("500ms")
                response = vega.http.post(f"{base}/events", line)
                taken = response.status == 200
        if taken:
            sent = sent + 1
        else:
            dead = dead + [line]
    vega.file.write("dead.jsonl", "\n".join(dead))
    return Result(sent=sent, dead=len(dead))
