from pydantic import BaseModel
from vegakit import program, vega


class Message(BaseModel):
    text: str


class Accepted(BaseModel):
    id: int


class Wait(BaseModel):
    wait_ms: int


class Row(BaseModel):
    text: str
    id: int


class Report(BaseModel):
    taken: int
    given_up: int
    waited_ms: int


@program(
    may=["fs::read", "fs::write", "net::post"],
    allowed_paths=["messages.txt", "ids.csv"],
    allowed_hosts=["127.0.0.1:8931"],
    budget="$5",
)
def main(base: str) -> Report:
    lines = [x for x in vega.str.lines(vega.file.read("messages.txt")) if len(x) > 0]
    rows: list[Row] = []
    given_up = 0
    waited = 0
    for line in vega.list.take(lines, 20):
        taken = False
        finished = False
        for i in range(4):
            if not finished:
                response = vega.http.post(f"{base}/send", vega.json.text(Message(text=line)))
                if response.status == 200:
                    accepted = vega.cast(vega.json.parse(response.body), Accepted)
                    rows = rows + [Row(text=line, id=accepted.id)]
                    taken = True
                    finished = True
                elif response.status == 429:
                    if i < 3:
                        wait = vega.cast(vega.json.parse(response.body), Wait)
                        vega.process.sleep(vega.duration("1ms") * wait.wait_ms)
                        waited = waited + wait.wait_ms
                else:
                    finished = True
        if not taken:
            given_up = given_up + 1
    content = "text,id"
    if len(rows) > 0:
        content = vega.csv.text(rows)
    vega.file.write("ids.csv", content)
    return Report(taken=len(rows), given_up=given_up, waited_ms=waited)
