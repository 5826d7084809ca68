from pydantic import BaseModel
from vegakit import Agent, program, vega


class Comment(BaseModel):
    user: str
    text: str


class Ban(BaseModel):
    user: str


moderator = Agent("moderator", model="fast", system="You moderate comments.", max_tokens=300)


@program(
    may=["fs::read", "fs::write", "net::post"],
    allowed_paths=["comments.jsonl", "shown.jsonl"],
    allowed_hosts=["127.0.0.1:8931"],
    budget="$5",
)
def main(base: str) -> dict[str, int]:
    lines = [x for x in vega.str.lines(vega.file.read("comments.jsonl")) if len(x.strip()) > 0]
    strikes: dict[str, int] = {}
    shown: list[str] = []
    for line in vega.list.take(lines, 50):
        comment = vega.cast(vega.json.parse(line), Comment)
        before = vega.default(vega.map.get(strikes, comment.user), 0)
        if before < 3:
            abusive = moderator.ask(f"Is this comment abusive?\n{comment.text}", returns=bool)
            if abusive:
                strikes[comment.user] = before + 1
                if before + 1 == 3:
                    vega.http.post(f"{base}/bans", vega.json.text(Ban(user=comment.user)))
            else:
                shown = shown + [vega.json.text(comment)]
    vega.file.write("shown.jsonl", "\n".join(shown))
    return strikes
