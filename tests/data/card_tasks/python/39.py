from pydantic import BaseModel
from vegakit import Agent, program, vega


class Hit(BaseModel):
    id: str
    title: str
    year: int


class Paper(BaseModel):
    abstract: str


class Kept(BaseModel):
    relevance: int
    title: str
    year: int
    abstract: str


judge = Agent("judge", model="fast", system="You judge how relevant papers are.", max_tokens=300)
surveyor = Agent("surveyor", model="smart", system="You write surveys of papers.", max_tokens=300)


@program(
    may=["net::get", "fs::write"],
    allowed_hosts=["127.0.0.1:8931"],
    allowed_paths=["reading.md"],
    budget="$5",
)
def main(base: str, query: str) -> str | None:
    words = query.replace(" ", "+")
    response = vega.http.get(f"{base}/search?q={words}")
    hits = vega.cast(vega.json.parse(response.body), list[Hit])
    kept: list[Kept] = []
    for hit in vega.list.take(hits, 20):
        if hit.year >= 2020:
            got = vega.http.get(f"{base}/papers/{hit.id}")
            if got.status != 404:
                paper = vega.cast(vega.json.parse(got.body), Paper)
                relevance = judge.ask(
                    f"How relevant is this paper to the query, 0 to 100?\n\nQuery: {query}\n\n"
                    f"Abstract:\n{paper.abstract}",
                    returns=int,
                )
                if relevance >= 60:
                    kept = kept + [
                        Kept(
                            relevance=relevance,
                            title=hit.title,
                            year=hit.year,
                            abstract=paper.abstract,
                        )
                    ]
    kept = sorted(kept, key=lambda k: k.title)
    kept = sorted(kept, key=lambda k: -k.relevance)
    lines = [f"{k.relevance} {k.title} ({k.year})" for k in kept]
    vega.file.write("reading.md", "\n".join(lines))
    if len(kept) == 0:
        return None
    abstracts = "\n\n".join([k.abstract for k in kept])
    return surveyor(f"Write a survey of the papers with these abstracts:\n\n{abstracts}")
