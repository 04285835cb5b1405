"""An HTTP key-value server."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__: list[str] = []

#: the maximum size of a value in bytes
_MOST = 64 << 20


class KVHandler(BaseHTTPRequestHandler):
    """Handles GET, PUT and DELETE of `/scope/key`."""

    protocol_version = "HTTP/1.1"
    server: KVHTTPServer

    def _place(self) -> tuple[str, str] | None:
        parts = self.path.split("/")
        return (parts[1], parts[2]) if len(parts) == 3 else None

    def _answer(self, code: int, body: bytes = b"") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        """Sends the value, or 404."""
        place = self._place()
        with self.server.kv_lock:
            value = self.server.kv.get(place[0], {}).get(place[1]) if place else None
        self._answer(404) if value is None else self._answer(200, value)

    def do_PUT(self) -> None:
        """Sets the value."""
        place, length = self._place(), int(self.headers.get("Content-Length") or 0)
        if place is None or not 0 <= length <= _MOST:
            self.close_connection = True
            return self._answer(400)
        try:
            value = self.rfile.read(length)
        except (OSError, ValueError):
            self.close_connection = True
            return self._answer(400)
        with self.server.kv_lock:
            self.server.kv.setdefault(place[0], {})[place[1]] = value
        self._answer(200)

    def do_DELETE(self) -> None:
        """Removes the value, and counts the removal in its scope."""
        place = self._place()
        with self.server.kv_lock:
            gone = self.server.kv.get(place[0], {}).pop(place[1], None) if place else None
        if place and gone is not None:
            with self.server.delete_kv_lock:
                self.server.delete_kv[place[0]] = self.server.delete_kv.get(place[0], 0) + 1
        self._answer(200)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Does nothing: requests are not logged."""


class KVHTTPServer(ThreadingHTTPServer):
    """Stores the values."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, handler: type[KVHandler]) -> None:
        #: scope -> key -> value
        self.kv: dict[str, dict[str, bytes]] = {}
        self.kv_lock = threading.Lock()
        #: scope -> number of removals
        self.delete_kv: dict[str, int] = {}
        self.delete_kv_lock = threading.Lock()
        super().__init__(("", port), handler)

    def get_deleted_size(self, key: str) -> int:
        """The number of removals in a scope."""
        with self.delete_kv_lock:
            return self.delete_kv.get(key, 0)


class KVServer:
    """Runs a KVHTTPServer in a thread.

    Args:
        port (int): the port; 0 for a free one (`http_server.server_port`).
        size (dict, optional): scope to the number of removals after which :meth:`should_stop` is true.

    Examples:
        >>> import urllib.request
        >>> from paddle.distributed.fleet.utils.http_server import KVServer
        >>> server = KVServer(0)
        >>> server.start()
        >>> url = f"http://127.0.0.1:{server.http_server.server_port}/scope/key"
        >>> _ = urllib.request.urlopen(urllib.request.Request(url, data=b"1", method="PUT")).read()
        >>> urllib.request.urlopen(url).read()
        b'1'
        >>> server.stop()
    """

    def __init__(self, port: int, size: dict[str, int] | None = None) -> None:
        self.http_server = KVHTTPServer(port, KVHandler)
        self.size = dict(size or {})
        self.listen_thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts listening."""
        self.listen_thread = threading.Thread(target=self.http_server.serve_forever, args=(0.05,), daemon=True)
        self.listen_thread.start()

    def stop(self) -> None:
        """Stops; requests in progress are completed."""
        self.http_server.shutdown()
        if self.listen_thread is not None:
            self.listen_thread.join()
        self.http_server.server_close()

    def should_stop(self) -> bool:
        """Whether every scope of `size` has reached its number of removals."""
        return all(self.http_server.get_deleted_size(key) >= count for key, count in self.size.items())
