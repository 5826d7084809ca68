from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Status(BaseModel):
    down: list[str]
    text: str


announcer = Agent(
    "announcer", model="smart", system="You write announcements for users.", max_tokens=300
)


@program(
    may=["net::get", "net::post"],
    allowed_hosts=["127.0.0.1:8931"],
    budget="$5",
)
def main(base: str, services: Annotated[list[str], MaxLen(10)]) -> list[str]:
    up: list[str] = []
    down: list[str] = []
    for name in services:
        answered = False
        for i in range(3):
            if not answered:
                if i > 0:
                    vega.process.sleep("300ms")
                response = vega.http.get(f"{base}/health/{name}")
                if response.status == 200:
                    answered = True
        if answered:
            up = up + [name]
        else:
            down = down + [name]
    if len(down) > 0:
        names = ", ".join(down)
        text = announcer(f"Write an announcement that these services are down: {names}")
        vega.http.post(f"{base}/status", vega.json.text(Status(down=down, text=text)))
    return up
