from datetime import datetime
from vegakit import program


@program
def main() -> str:
    return datetime.now().isoformat()
