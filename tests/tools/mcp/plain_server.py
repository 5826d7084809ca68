"""An MCP server in a hundred lines of plain Python, so that it starts at once and can misbehave.

It offers what `tools.json` in its folder says at that moment. A call of `NAME` does what the
function `NAME` here does; one that is not here says what it was given.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def write(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def notify(method: str, **params: Any) -> None:
    write({"jsonrpc": "2.0", "method": method, "params": params})


def ask(method: str, **params: Any) -> Json:
    """Of the client; what else it says meanwhile is passed over."""
    write({"jsonrpc": "2.0", "id": "ours", "method": method, "params": params})
    for line in sys.stdin:
        answer = json.loads(line)
        if answer.get("id") == "ours":
            return answer
    return {}


def text(value: Any) -> Json:
    return {"content": [{"type": "text", "text": value if type(value) is str else repr(value)}]}


def die(_: Json) -> Json:
    print("goodbye \x1b[31mcruel world", file=sys.stderr, flush=True)
    os._exit(3)


def sleep(given: Json) -> Json:
    """For ever, or until somebody has opened this pipe to write, and closed it."""
    if pipe := given.get("pipe"):
        Path(pipe).read_bytes()
    else:
        signal.pause()
    return text("slept")


def change(_: Json) -> Json:
    for _again in range(20):
        notify("notifications/tools/list_changed")
    return text("changed")


def flood(given: Json) -> Json:
    for _ in range(given["messages"]):
        notify(given["method"])
    return text("flooded")


def raw(given: Json) -> Json:
    """Writes a text so many times before it answers."""
    for _ in range(given["times"]):
        sys.stdout.write(given["text"])
    sys.stdout.flush()
    return text("wrote")


def result(given: Json) -> Json:
    return given["result"]


def environment(_: Json) -> Json:
    return text(dict(os.environ))


def read(given: Json) -> Json:
    return text(Path(given["path"]).read_text("utf-8"))


def save(given: Json) -> Json:
    Path(given["path"]).write_text(given["text"], "utf-8")
    return text("saved")


def connect(given: Json) -> Json:
    socket.create_connection((given["host"], given["port"]), timeout=2)
    return text("connected")


def sample(given: Json) -> Json:
    said = {"role": "user", "content": {"type": "text", "text": given["prompt"]}}
    asked = {"messages": [said], "maxTokens": 50, **given.get("more", {})}
    return text(ask("sampling/createMessage", **asked))


def request(given: Json) -> Json:
    return text(ask(given["method"], **given.get("params", {})))


def tools() -> list[Json]:
    return json.loads(Path("tools.json").read_text("utf-8"))


def call(params: Json) -> Json:
    name, given = params["name"], params.get("arguments") or {}
    try:
        return globals()[name](given) if name in globals() else text([name, given])
    except OSError as error:
        return {**text(error), "isError": True}


def answer(method: str, params: Json) -> Json:
    if method == "initialize":
        version = params["protocolVersion"]
        who = {"name": "plain", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": who}
    return {"tools": tools()} if method == "tools/list" else call(params)


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "method" in asked and "id" in asked:
            result = answer(asked["method"], asked.get("params") or {})
            write({"jsonrpc": "2.0", "id": asked["id"], "result": result})


if __name__ == "__main__":
    main()
