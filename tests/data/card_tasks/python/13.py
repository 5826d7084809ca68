from typing import Annotated, Literal

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Advice(BaseModel):
    city: str
    wear: Literal["coat", "shirt"]


@program.tool(capabilities=["net::get"], allowed_hosts=["127.0.0.1:8931"])
def weather(city: str) -> str:
    "The weather in a city."
    place = city.replace(" ", "%20")
    return vega.http.get(f"http://127.0.0.1:8931/weather/{place}").body


adviser = Agent(
    "adviser",
    model="fast",
    system="Look up the weather and say what to wear.",
    max_tokens=300,
    max_steps=4,
    tools=[weather],
)


@program(may=["fs::write"], allowed_paths=["wear.json"], budget="$5")
def main(cities: Annotated[list[str], MaxLen(8)]) -> int:
    wear: dict[str, Literal["coat", "shirt"]] = {}
    coats = 0
    for city in cities:
        advice = adviser.ask(f"What should one wear in {city}?", returns=Advice)
        wear[city] = advice.wear
        if advice.wear == "coat":
            coats = coats + 1
    vega.file.write("wear.json", vega.json.text(wear))
    return coats
