from typing import Literal

from pydantic import BaseModel
from vegakit import Agent, program, vega


class Difference(BaseModel):
    key: str
    prod: str | None
    stage: str | None
    risk: Literal["low", "high"]


assessor = Agent("assessor", model="smart", system="Assess risks of settings.", max_tokens=300)


@program(
    may=["net::get", "fs::write"],
    allowed_hosts=["127.0.0.1:8931"],
    allowed_paths=["high.txt"],
    budget="$5",
)
def main(base: str) -> list[Difference]:
    prod = vega.cast(vega.json.parse(vega.http.get(f"{base}/config/prod").body), dict[str, str])
    stage = vega.cast(vega.json.parse(vega.http.get(f"{base}/config/stage").body), dict[str, str])
    keys: list[str] = []
    for k, v in prod.items():
        keys = keys + [k]
    for k, v in stage.items():
        keys = keys + [k]
    differences: list[Difference] = []
    for key in vega.list.take(sorted(vega.list.unique(keys)), 60):
        a = vega.map.get(prod, key)
        b = vega.map.get(stage, key)
        if a != b:
            risk = assessor.ask(
                f"How risky is a difference between prod and stage in the setting {key}?",
                returns=Literal["low", "high"],
            )
            differences = differences + [Difference(key=key, prod=a, stage=b, risk=risk)]
    high = [d.key for d in differences if d.risk == "high"]
    vega.file.write("high.txt", "\n".join(high))
    return differences
