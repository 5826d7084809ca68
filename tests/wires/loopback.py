"""A server of one wire format on a real socket, for the provider's own SDK to ask."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

from tests.wires.varied import Broken, ServedAsk
from vegakit.records import to_json
from vegakit.wires import ServedReply, WireServer


class Loopback:
    """Answers each request with `reply`, or with `failure` if it is set, streamed if `streams` says
    so of its path and body. `breaks` ends a stream after its first piece by a failure."""

    def __init__(self, wire: WireServer, streams: Callable[[str, bytes], bool]) -> None:
        self.wire = wire
        self.streams = streams
        self.reply: ServedReply | None = None
        self.whole: bytes | None = None
        self.failure: Broken | None = None
        self.breaks: Broken | None = None
        self.paths: list[str] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                loopback.paths.append(self.path)
                loopback.bodies.append(body)
                loopback.headers.append({k.lower(): v for k, v in self.headers.items()})
                if loopback.failure is not None:
                    error = loopback.wire.error_of(loopback.failure)
                    self.send_whole(error.status, to_json(error.body))
                elif loopback.streams(self.path, body):
                    self.send_stream()
                else:
                    assert loopback.reply is not None
                    said = loopback.wire.whole(loopback.reply, ServedAsk())
                    self.send_whole(200, to_json(said))

            def send_whole(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def send_stream(self) -> None:
                self.send_response(200)
                self.send_header("content-type", loopback.wire.content_type)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for piece in (*filter(None, loopback._pieces()), b""):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    self.wfile.flush()

        return Handler

    def _pieces(self) -> list[bytes]:
        if self.whole is not None:
            return [self.whole]
        assert self.reply is not None
        stream = self.wire.stream(self.reply, ServedAsk())
        if self.breaks is not None:
            broken = self.wire.broken(self.breaks, ServedAsk())
            return [stream.opening, *stream.pieces[:1], broken]
        return [stream.opening, *stream.pieces, stream.closing]
