from pydantic import BaseModel
from vegakit import Agent, program, vega


class Mail(BaseModel):
    to: str
    text: str


writer = Agent("writer", model="smart", system="Write short, polite payment reminders.", max_tokens=300)


@program(
    may=["fs::read", "fs::write", "net::post"],
    allowed_paths=["invoices.csv", "held.txt"],
    allowed_hosts=["127.0.0.1"],
    budget="$5",
)
def main(base: str) -> list[str]:
    rows = vega.csv.parse(vega.file.read("invoices.csv"))
    overdue = [row for row in rows if int(row["days"]) > 30]
    sent: list[str] = []
    held: list[str] = []
    for row in sorted(overdue, key=lambda r: -int(r["days"])):
        number = row["number"]
        customer = row["customer"]
        reminder = writer(f"Write a reminder of invoice {number} to {customer}.")
        if vega.human.approve(f"Send this reminder of invoice {number}?\n{reminder}", timeout="10s"):
            vega.http.post(f"{base}/mail", vega.json.text(Mail(to=customer, text=reminder)))
            sent = sent + [number]
        else:
            held = held + [number]
    vega.file.write("held.txt", "\n".join(held))
    return sent
