from pydantic import BaseModel
from vegakit import Agent, program, vega


class Report(BaseModel):
    score: int
    rounds: int


short = Agent("short", model="fast", system="You write short ads.", max_tokens=300)
funny = Agent("funny", model="fast", system="You write funny ads.", max_tokens=300)
solemn = Agent("solemn", model="fast", system="You write solemn ads.", max_tokens=300)
critic = Agent("critic", model="smart", system="You score ads from 0 to 100.", max_tokens=300)


@program(may=["fs::write"], allowed_paths=["ad.txt"], budget="$0.40")
def main(brief: str) -> Report:
    short_ad = short(f"Write an ad. The brief:\n{brief}")
    funny_ad = funny(f"Write an ad. The brief:\n{brief}")
    solemn_ad = solemn(f"Write an ad. The brief:\n{brief}")
    short_score = critic.ask(f"Score this ad, 0 to 100:\n{short_ad}", returns=int)
    funny_score = critic.ask(f"Score this ad, 0 to 100:\n{funny_ad}", returns=int)
    solemn_score = critic.ask(f"Score this ad, 0 to 100:\n{solemn_ad}", returns=int)

    who = 0
    best = short_ad
    score = short_score
    if funny_score > score:
        who = 1
        best = funny_ad
        score = funny_score
    if solemn_score > score:
        who = 2
        best = solemn_ad
        score = solemn_score

    rounds = 0
    for i in range(3):
        if score < 90:
            rounds = rounds + 1
            wish = f"Write a better ad. The brief:\n{brief}\n\nThe best ad so far:\n{best}"
            ad = ""
            if who == 0:
                ad = short(wish)
            elif who == 1:
                ad = funny(wish)
            else:
                ad = solemn(wish)
            points = critic.ask(f"Score this ad, 0 to 100:\n{ad}", returns=int)
            if points > score:
                best = ad
                score = points
    vega.file.write("ad.txt", best)
    return Report(score=score, rounds=rounds)
