"""Finding, checking and downloading files, against a real HTTP server on this machine."""

import contextlib
import gzip
import hashlib
import io
import lzma
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables import fetch
from fedsynth_lib.tables.registry import File

CONTENT = np.random.default_rng(0).bytes(300_000)  # incompressible, several blocks
FILE = File("big.csv", sha256=hashlib.sha256(CONTENT).hexdigest(), stored="big.csv.gz")


class Server:
    """Serves `files` (path -> bytes); each of `cuts` ends an answer after so many bytes, as a broken
    line does."""

    def __init__(self):
        self.files, self.asked, self.cuts = {}, [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = outer.files.get(self.path)
                outer.asked.append(self.path)
                if body is None:
                    return self.send_error(404)
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.wfile.write(body[: outer.cuts.pop()] if outer.cuts else body)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(
            target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()


@pytest.fixture
def server():
    it = Server()
    yield it
    it.http.shutdown()
    it.http.server_close()


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """An empty project, no mirror, no memory of hosts that did not answer."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    monkeypatch.delenv("FEDSYNTH_MIRROR", raising=False)
    monkeypatch.setattr(fetch, "_unreachable", set())
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def left_in(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_download_lands_whole(server, tmp_path, capfd):
    server.files["/big.csv"] = CONTENT
    path = fetch.download(f"{server.url}/big.csv", tmp_path / "t", FILE)
    assert path.read_bytes() == CONTENT
    assert left_in(tmp_path / "t") == ["big.csv"]
    assert "t/big.csv" in capfd.readouterr().err  # progress


def test_a_broken_download_begins_again_and_leaves_nothing(server, tmp_path):
    server.files["/big.csv"], server.cuts = CONTENT, [1_000] * fetch.ATTEMPTS
    with pytest.raises(fetch.Unavailable, match="broke off"):
        fetch.download(f"{server.url}/big.csv", tmp_path / "t", FILE)
    assert left_in(tmp_path / "t") == [] and not server.cuts
    server.cuts = [1_000]
    path = fetch.download(f"{server.url}/big.csv", tmp_path / "t", FILE)
    assert path.read_bytes() == CONTENT
    assert left_in(tmp_path / "t") == ["big.csv"]


@pytest.mark.parametrize("name", ["big.csv", "big.csv.gz", "big.zip"])
def test_a_wrong_checksum_leaves_nothing_behind(server, tmp_path, name):
    wrong = b"something else"
    server.files["/" + name] = zipped(wrong) if name.endswith("zip") else wrong
    with pytest.raises(BadInput, match="SHA-256") as error:
        fetch.download(f"{server.url}/{name}", tmp_path / "t", FILE)
    assert FILE.sha256 in str(error.value)
    assert hashlib.sha256(wrong).hexdigest() in str(error.value)
    assert name in str(error.value)
    assert left_in(tmp_path / "t") == []


def zipped(content, member="folder/big.csv"):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr("readme.txt", "x")
        bundle.writestr(member, content)
    return archive.getvalue()


def test_the_member_of_a_zip_is_taken_out(server, tmp_path):
    server.files["/data.zip"] = zipped(CONTENT)
    path = fetch.download(f"{server.url}/data.zip", tmp_path / "t", FILE)
    assert (path.name, path.read_bytes()) == ("big.csv", CONTENT)
    assert left_in(tmp_path / "t") == ["big.csv"]
    server.files["/data.zip"] = zipped(CONTENT, "other.csv")
    with pytest.raises(BadInput, match=r"holds no 'big\.csv'"):
        fetch.download(f"{server.url}/data.zip", tmp_path / "u", FILE)
    assert left_in(tmp_path / "u") == []


def test_a_mirror_address_goes_before_the_official_one(server, tmp_path, monkeypatch):
    official = replace(FILE, urls=(f"{server.url}/official/17",))
    # an address that does not end in the file's name
    server.files["/official/17"] = gzip.compress(CONTENT)
    tried = []
    path = fetch.fetch("t", official, tried)
    assert (path.name, gzip.decompress(path.read_bytes()), tried) == ("big.csv.gz", CONTENT, [])
    path.unlink()
    monkeypatch.setenv("FEDSYNTH_MIRROR", f"{server.url}/mirror/")
    server.files["/mirror/t/big.csv"] = CONTENT  # stored uncompressed: the first name is a 404
    assert fetch.fetch("t", official, tried).name == "big.csv"
    assert tried == [f"{server.url}/mirror/t/big.csv.gz (HTTP 404)"]


def test_a_host_that_does_not_answer_is_asked_once(server, tmp_path, monkeypatch):
    url = server.url
    server.http.shutdown()
    server.http.server_close()
    file, tried = replace(FILE, urls=(f"{url}/a", f"{url}/b")), []
    asked = []
    get = fetch.requests.get
    monkeypatch.setattr(
        fetch.requests, "get", lambda url, **options: (asked.append(url), get(url, **options))[1]
    )
    assert fetch.fetch("t", file, tried) is None
    assert fetch.fetch("t", file, tried) is None
    assert asked == [f"{url}/a"]
    assert len(tried) == 4
    assert left_in(tmp_path) == ["data"]
    assert left_in(tmp_path / "data" / "raw") == []  # no empty .part, no empty folder


def test_downloads_at_once_give_one_file(server, tmp_path):
    """Many times: whoever comes second may meet the .part file just as the first takes it away."""
    server.files["/big.csv"] = CONTENT
    for folder in (tmp_path / str(turn) for turn in range(20)):
        server.asked.clear()
        with ThreadPoolExecutor(8) as pool:
            tasks = [
                pool.submit(fetch.download, f"{server.url}/big.csv", folder, FILE)
                for _ in range(16)
            ]
        assert {task.result().read_bytes() == CONTENT for task in tasks} == {True}
        assert server.asked == ["/big.csv"]
        assert left_in(folder) == ["big.csv"]


def test_a_local_file_is_found_by_any_of_its_names(tmp_path, monkeypatch):
    mirror = tmp_path / "mirror"
    (mirror / "t").mkdir(parents=True)
    (mirror / "t" / "big.csv.xz").write_bytes(lzma.compress(CONTENT))
    assert fetch.find_local("t", FILE) is None
    monkeypatch.setenv("FEDSYNTH_MIRROR", str(mirror))
    assert fetch.find_local("t", FILE) == (mirror / "t" / "big.csv.xz", "mirror")
    fetch.raw_folder("t").mkdir(parents=True)
    (fetch.raw_folder("t") / "big.csv").write_bytes(CONTENT)
    assert fetch.find_local("t", FILE) == (tmp_path / "data" / "raw" / "t" / "big.csv", "raw")
    monkeypatch.setenv("FEDSYNTH_MIRROR", str(tmp_path / "nowhere"))
    with pytest.raises(BadInput, match=r"FEDSYNTH_MIRROR is '.*nowhere'"):
        fetch.find_local("t", FILE)


def test_the_checksum_is_that_of_the_content_or_of_the_stored_file(tmp_path):
    stored = gzip.compress(CONTENT, 1)
    (tmp_path / "big.csv.gz").write_bytes(stored)
    fetch.check(tmp_path / "big.csv.gz", FILE)  # compressed by somebody else: the content counts
    fetch.check(
        tmp_path / "big.csv.gz", File("big.csv", sha256_stored=hashlib.sha256(stored).hexdigest())
    )
    (tmp_path / "big.csv.gz").write_bytes(stored[:-20])
    with pytest.raises(BadInput, match=r"big\.csv\.gz is not the expected big\.csv: its SHA-256"):
        fetch.check(tmp_path / "big.csv.gz", FILE)
