from vegakit import Failed, program, vega


@program
def main() -> None:
    log: list[str] = []
    for i in range(3):
        for j in range(3):
            try:
                if j == 1:
                    continue
                if i == 1:
                    break
                if i == 2 and j == 2:
                    raise Failed("end")
                log.append(f"{i}{j}")
            except Failed:
                log.append("!")
    print(vega.text(log))  # expect: ["00","02","20","!"]
