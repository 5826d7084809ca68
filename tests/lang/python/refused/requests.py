import requests
from vegakit import program


@program(may=["net::get"], allowed_hosts=["api.example.com"])
def main(url: str) -> str:
    return requests.get(url).body
