from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, Failed, MaxLen, program, vega


class Shard(BaseModel):
    shard: str


class Indexed(BaseModel):
    count: int


class Index(BaseModel):
    total: int
    missing: list[str]
    note: str | None


writer = Agent("writer", model="smart", system="You write notes to the operator.", max_tokens=300)


@program(
    may=["net::post", "fs::write"],
    allowed_hosts=["127.0.0.1:8931"],
    allowed_paths=["index.json"],
    budget="$5",
)
def main(base: str, shards: Annotated[list[str], MaxLen(8)]) -> int:
    total = 0
    missing: list[str] = []
    for name in shards:
        response = vega.http.post(f"{base}/index", vega.json.text(Shard(shard=name)))
        if response.status == 200:
            indexed = vega.cast(vega.json.parse(response.body), Indexed)
            total = total + indexed.count
        else:
            missing = missing + [name]
    if len(missing) * 2 > len(shards):
        raise Failed("too many shards were not indexed")
    note: str | None = None
    if len(missing) > 0:
        names = ", ".join(missing)
        note = writer(f"Write a note to the operator: these shards were not indexed: {names}")
    vega.file.write("index.json", vega.json.text(Index(total=total, missing=missing, note=note)))
    return total
