from pydantic import BaseModel
from vegakit import Agent, program, vega


class Order(BaseModel):
    text: str


class Job(BaseModel):
    id: str


class Status(BaseModel):
    state: str


class Finished(BaseModel):
    result: str


class Result(BaseModel):
    state: str
    summary: str | None


summarizer = Agent("summarizer", model="fast", system="Summarize.", max_tokens=300)


@program(
    may=["net::get", "net::post", "fs::write"],
    allowed_hosts=["127.0.0.1:8931"],
    allowed_paths=["job.txt"],
    budget="$5",
)
def main(base: str, text: str) -> Result:
    response = vega.http.post(f"{base}/jobs", vega.json.text(Order(text=text)))
    job = vega.cast(vega.json.parse(response.body), Job)
    state = "working"
    body = ""
    for turn in range(10):
        if state == "working":
            vega.process.sleep("500ms")
            body = vega.http.get(f"{base}/jobs/{job.id}").body
            state = vega.cast(vega.json.parse(body), Status).state
    vega.file.write("job.txt", state)
    if state == "done":
        finished = vega.cast(vega.json.parse(body), Finished)
        return Result(state=state, summary=summarizer(f"Summarize this:\n{finished.result}"))
    return Result(state=state, summary=None)
