from pydantic import BaseModel
from vegakit import Agent, program, vega


class Invoice(BaseModel):
    number: str
    customer: str
    days: int


class Mail(BaseModel):
    to: str
    text: str


writer = Agent("writer", model="smart", system="Write polite reminders.", max_tokens=300)


@program(
    may=["fs::read", "fs::write", "net::post"],
    allowed_paths=["invoices.csv", "held.txt"],
    allowed_hosts=["127.0.0.1:8931"],
    budget="$5",
)
def main(base: str) -> list[str]:
    invoices: list[Invoice] = []
    for row in vega.csv.parse(vega.file.read("invoices.csv")):
        days = int(row["days"])
        if days > 30:
            invoice = Invoice(number=row["number"], customer=row["customer"], days=days)
            invoices = invoices + [invoice]
    sent: list[str] = []
    held: list[str] = []
    for i in vega.list.take(sorted(invoices, key=lambda x: -x.days), 30):
        text = writer(f"Write a reminder of the overdue invoice {i.number} to {i.customer}.")
        if vega.human.approve(f"Send this reminder of invoice {i.number}?\n{text}", timeout="10s"):
            vega.http.post(f"{base}/mail", vega.json.text(Mail(to=i.customer, text=text)))
            sent = sent + [i.number]
        else:
            held = held + [i.number]
    vega.file.write("held.txt", "\n".join(held))
    return sent
