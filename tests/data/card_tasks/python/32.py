from vegakit import program, vega


@program(
    may=["fs::read", "fs::write", "net::get"],
    allowed_paths=["invoices.csv", "euros.csv", "open.txt"],
    allowed_hosts=["127.0.0.1:8931"],
    budget="$5",
)
def main(base: str) -> float:
    response = vega.http.get(f"{base}/rates")
    rates = vega.cast(vega.json.parse(response.body), dict[str, float])
    rates["EUR"] = 1.0
    rows = vega.list.take(vega.csv.parse(vega.file.read("invoices.csv")), 30)

    for currency in vega.list.unique([row["currency"] for row in rows]):
        if vega.map.get(rates, currency) is None:
            answer = vega.human.ask(
                f"What is one unit of {currency} worth in euros? Answer with a number such as 0.25.",
                "10s",
            )
            if answer is not None:
                try:
                    worth = float(answer.strip())
                    if worth > 0.0:
                        rates[currency] = worth
                except ValueError:
                    print(f"not a rate for {currency}: {answer}")

    lines = ["number,euros"]
    left: list[str] = []
    total = 0.0
    for row in rows:
        number = row["number"]
        rate = vega.map.get(rates, row["currency"])
        if rate is None:
            left = left + [number]
        else:
            euros = round(float(row["amount"]) * rate, 2)
            total = total + euros
            lines = lines + [f"{number},{euros}"]
    vega.file.write("euros.csv", "\n".join(lines))
    vega.file.write("open.txt", "\n".join(left))
    return round(total, 2)
