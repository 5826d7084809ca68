from typing import Annotated

from pydantic import BaseModel
from vegakit import MaxLen, program, vega


class Calendar(BaseModel):
    free: list[str]


class Meeting(BaseModel):
    time: str
    people: list[str]


@program(
    may=["net::get", "net::post", "fs::write"],
    allowed_hosts=["127.0.0.1:8931"],
    allowed_paths=["meeting.txt"],
    budget="$5",
)
def main(base: str, people: Annotated[list[str], MaxLen(6)]) -> str | None:
    common: list[str] = []
    for i, name in enumerate(people):
        response = vega.http.get(f"{base}/calendar/{name}")
        calendar = vega.cast(vega.json.parse(response.body), Calendar)
        if i == 0:
            common = vega.list.unique(calendar.free)
        else:
            common = [t for t in common if t in calendar.free]
    chosen: str | None = None
    for time in vega.list.take(sorted(common), 3):
        if chosen is None:
            if vega.human.approve(f"Shall the meeting be at {time}?", "10s"):
                chosen = time
    if chosen is not None:
        vega.http.post(f"{base}/meetings", vega.json.text(Meeting(time=chosen, people=people)))
        vega.file.write("meeting.txt", chosen)
    return chosen
