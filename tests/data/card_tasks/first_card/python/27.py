from pydantic import BaseModel
from vegakit import Agent, program, vega


class Posted(BaseModel):
    text: str


class Created(BaseModel):
    id: str


class Result(BaseModel):
    state: str
    summary: str | None


summarizer = Agent("summarizer", model="fast", system="Summarize briefly.", max_tokens=300)


@program(
    may=["net::get", "net::post", "fs::write"],
    allowed_hosts=["127.0.0.1"],
    allowed_paths=["job.txt"],
    budget="$5",
)
def main(base: str, text: str) -> Result:
    response = vega.http.post(f"{base}/jobs", vega.json.text(Posted(text=text)))
    created = vega.cast(vega.json.parse(response.body), Created)
    state = "working"
    result = ""
    for i in range(10):
        if state == "working":
            vega.process.sleep("500ms")
            answer = vega.http.get(f"{base}/jobs/{created.id}")
            job = vega.cast(vega.json.parse(answer.body), dict[str, str])
            state = job["state"]
            result = vega.default(vega.map.get(job, "result"), "")
    vega.file.write("job.txt", state)
    summary: str | None = None
    if state == "done":
        summary = summarizer(f"Summarize:\n{result}")
    return Result(state=state, summary=summary)
