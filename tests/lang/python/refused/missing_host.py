from vegakit import program, vega


@program(may=["net::get"])
def main(path: str) -> str:
    return vega.http.get("https://api.example.com/" + path).body
