"""Downloads: attempts, resumed parts, checksums, mirrors, the folder of the cache, messages."""

from __future__ import annotations

import hashlib
import http.server
import os
import subprocess
import sys
import threading

import pytest
from paddle._basics import fetch as module
from paddle._basics.fetch import cache_home, fetch, mirrored

CONTENT = bytes(range(256)) * 4096
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves CONTENT; `plan` lists what the next requests get: "cut", "busy", "wrong" or "whole"."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan, self.ranges, self.knows_ranges = [], [], True
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/folder/file.bin"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        server = self.server
        step = server.plan.pop(0) if server.plan else "whole"
        given = self.headers.get("Range")
        server.ranges.append(given)
        if step == "busy":
            return self.send_error(503)
        if step == "gone" or not self.path.endswith("/folder/file.bin"):
            return self.send_error(404)
        start = int(given[6:-1]) if given and server.knows_ranges else 0
        body = (b"x" * len(CONTENT) if step == "wrong" else CONTENT)[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if step == "cut" else body)


@pytest.fixture
def server(monkeypatch):
    pauses = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    made = Server()
    made.pauses = pauses
    yield made
    made.shutdown()
    made.server_close()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def test_a_cut_connection_is_resumed(server, tmp_path):
    server.plan = ["cut", "cut"]
    path = fetch(server.url, str(tmp_path / "new" / "file.bin"), MD5)
    half = len(CONTENT) // 2
    assert read(path) == CONTENT and server.ranges == [None, f"bytes={half}-", f"bytes={half + half // 2}-"]
    assert server.pauses == [1.0, 4.0] and os.listdir(tmp_path / "new") == ["file.bin"]
    assert fetch(server.url, path, MD5) == path and len(server.ranges) == 3


def test_a_server_without_ranges(server, tmp_path):
    server.plan, server.knows_ranges = ["cut"], False
    assert read(fetch(server.url, str(tmp_path / "file.bin"), MD5)) == CONTENT


def test_a_later_process_goes_on(server, tmp_path):
    server.plan = ["cut", "busy", "busy"]
    path = str(tmp_path / "file.bin")
    with pytest.raises(RuntimeError, match="could not be fetched in 3 attempts: HTTP Error 503"):
        fetch(server.url, path, MD5)
    assert os.listdir(tmp_path) == ["file.bin.part"]
    assert read(fetch(server.url, path, MD5)) == CONTENT and server.ranges[-1] == f"bytes={len(CONTENT) // 2}-"
    assert os.listdir(tmp_path) == ["file.bin"]


def test_checksums(server, tmp_path):
    server.plan = ["wrong"]
    path = str(tmp_path / "file.bin")
    assert read(fetch(server.url, path, MD5)) == CONTENT and server.ranges == [None, None]
    with open(path, "wb") as file:
        file.write(b"damaged")
    assert read(fetch(server.url, path, MD5)) == CONTENT
    server.plan = ["wrong"] * 3
    with pytest.raises(RuntimeError, match=f"its MD5 sum is .*, expected {MD5}. .*belongs at"):
        fetch(server.url, str(tmp_path / "other.bin"), MD5)
    assert sorted(os.listdir(tmp_path)) == ["file.bin"]


def test_a_missing_file_is_asked_for_once(server, tmp_path):
    server.plan = ["gone"]
    path = str(tmp_path / "file.bin")
    with pytest.raises(RuntimeError, match=f"{server.url} could not be fetched in one attempt: HTTP 404 .*at {path}"):
        fetch(server.url, path)
    assert server.pauses == [] and os.listdir(tmp_path) == []


def test_a_part_that_is_complete(server, tmp_path):
    path = tmp_path / "file.bin"
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert read(fetch(server.url, str(path), MD5)) == CONTENT  # an empty range, or the whole again


def test_mirrors(server, tmp_path, monkeypatch):
    address = "https://example.org/folder/file.bin"
    monkeypatch.setenv("PADDLE_MIRROR", server.url.removesuffix("/folder/file.bin") + "/")
    assert mirrored(address) == server.url
    assert read(fetch(address, str(tmp_path / "a.bin"), MD5)) == CONTENT
    (tmp_path / "files" / "folder").mkdir(parents=True)
    (tmp_path / "files" / "folder" / "file.bin").write_bytes(CONTENT)
    monkeypatch.setenv("PADDLE_MIRROR", str(tmp_path / "files"))
    assert read(fetch(address, str(tmp_path / "b.bin"), MD5)) == CONTENT
    with pytest.raises(RuntimeError, match="in one attempt: .*No such file"):
        fetch("https://example.org/folder/missing.bin", str(tmp_path / "c.bin"))
    monkeypatch.setenv("PADDLE_MIRROR", "")
    assert mirrored(address) == address


def test_the_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("OAR_CACHE", raising=False)
    monkeypatch.delenv("PADDLE_HOME", raising=False)
    assert cache_home("x") == os.path.join(os.path.expanduser("~"), ".cache", "paddle", "x")
    monkeypatch.setenv("PADDLE_HOME", str(tmp_path / "paddle"))
    assert cache_home("x") == str(tmp_path / "paddle" / "x")
    monkeypatch.setenv("OAR_CACHE", "~/oar")
    assert cache_home() == os.path.join(os.path.expanduser("~"), "oar")
    code = "import paddle; print(paddle.dataset.common.DATA_HOME, paddle.utils.download.WEIGHTS_HOME)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    home = os.path.expanduser("~/oar")
    assert done.stdout.split() == [f"{home}/dataset", f"{home}/hapi/weights"], done.stderr
