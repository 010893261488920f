"""Where a table's files are: data/raw, FEDSYNTH_MIRROR, the official address; checked and fetched.

Downloads show progress, go on where they stopped (`.part` file, HTTP Range), are checked against
their SHA-256 and only then land in data/raw, so what lies there is complete.
"""

import contextlib
import gzip
import hashlib
import lzma
import os
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import requests
from tqdm import tqdm

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.tables.registry import Entry, File

CONNECT_SECONDS = 5  # offline must be noticed quickly
READ_SECONDS = 30
ATTEMPTS = 3  # a broken connection is taken up again this often
RECEIVE = 1 << 14  # bytes at a time; a broken connection loses less than this
UNPACK = 1 << 20

_unreachable: set[str] = set()  # hosts that did not answer in this process


class Unavailable(Exception):
    """An address that cannot give the file now; the next one is tried."""


def raw_folder(folder: str) -> Path:
    return project_root() / "data" / "raw" / folder


def mirror() -> str:
    """FEDSYNTH_MIRROR: a folder, a URL, or '' where none is set. BadInput where the folder does not
    exist."""
    place = os.environ.get("FEDSYNTH_MIRROR", "").rstrip("/")
    if place and "://" not in place and not Path(place).is_dir():
        raise BadInput(
            f"FEDSYNTH_MIRROR is {place!r}, which is no folder; correct the path or unset it."
        )
    return place


def stored_names(file: File) -> list[str]:
    """The names that a file may have: as the mirror stores it, the official one, and compressed."""
    names = [file.stored, file.name, file.name + ".gz", file.name + ".xz"]
    return [name for name in dict.fromkeys(names) if name]


def find_local(folder: str, file: File) -> tuple[Path, str] | None:
    """(path, 'raw' or 'mirror') of a file that is already on this machine, or None. Nothing is
    read."""
    places = [(raw_folder(folder), "raw")]
    if mirror() and "://" not in mirror():
        places.append((Path(mirror()) / folder, "mirror"))
    for place, state in places:
        for name in stored_names(file):
            if (place / name).is_file():
                return place / name, state
    return None


def addresses(folder: str, file: File) -> list[str]:
    """Where a file can be downloaded from: the mirror if it is a URL, then the official
    addresses."""
    remote = (
        [f"{mirror()}/{folder}/{name}" for name in stored_names(file)] if "://" in mirror() else []
    )
    return remote + list(file.urls)


def locate(
    entry: Entry, names: tuple[str, ...], otherwise: tuple[str, ...] = ()
) -> tuple[list[Path], list[str]]:
    """(paths of the named files, []), or ([], what was tried); `otherwise` where `names` cannot be
    had.

    What is on this machine goes before what must be downloaded.
    """
    tried: list[str] = []
    for download in (False, True):
        for wanted in filter(None, (names, otherwise)):
            paths = []
            for name in wanted:
                file = entry.files[name]
                found = find_local(entry.folder, file)
                path = found[0] if found else fetch(entry.folder, file, tried) if download else None
                if path is None:
                    break
                paths.append(path)
            else:
                if wanted is not names:
                    _say_otherwise(entry, names, wanted)
                return paths, []
    return [], tried


def _say_otherwise(entry: Entry, names: tuple[str, ...], taken: tuple[str, ...]) -> None:
    remedy = f"put {', '.join(names)} ({entry.page}) into data/raw/{entry.folder} to use it"
    warnings.warn(
        f"{entry.key}: {', '.join(taken)} is read in place of {', '.join(names)}; {remedy}.",
        stacklevel=5,
    )


def fetch(folder: str, file: File, tried: list[str]) -> Path | None:
    """The path of the file after a download into data/raw, or None; why not is added to `tried`.

    Raises BadInput where an address gives something with another checksum.
    """
    for url in addresses(folder, file):
        host = urlsplit(url).netloc
        if host in _unreachable:
            tried.append(f"{url} (host not reachable)")
            continue
        try:
            return download(url, raw_folder(folder), file)
        # OSError: a folder that cannot be written, a full disk
        except (Unavailable, OSError) as error:
            tried.append(f"{url} ({error})")
    return None


def download(url: str, folder: Path, file: File) -> Path:
    """Fetches `url`, checks it, and puts it into `folder`; a zip's member is taken out of it.

    Raises Unavailable (what arrived stays in a .part file for the next time), or BadInput for
    a wrong checksum (nothing stays behind).
    """
    remote_name = Path(urlsplit(url).path).name
    # Not every address ends in the file's name (figshare's is a number): then it is the stored
    # form.
    names = stored_names(file)
    is_zip = remote_name.endswith(".zip")
    target = folder / (file.name if is_zip else remote_name if remote_name in names else names[0])
    part = folder / f"{remote_name}.part"
    with _locked(part) as stream:
        if target.is_file():  # another process was faster
            part.unlink(missing_ok=True)
            return target
        resumed = _receive(url, stream, f"{folder.name}/{remote_name}")
        stream.flush()
        arrived = _unzip(part, folder / f"{file.name}.unzipped", file.name, url) if is_zip else part
        try:
            # The target's name tells how the content is compressed.
            check(arrived, file, suffix=target.suffix, url=url)
        except BadInput:
            arrived.unlink()
            part.unlink(missing_ok=True)
            if not resumed:
                raise
        else:
            os.replace(arrived, target)
            part.unlink(missing_ok=True)
            return target
    # the beginning was of another version: once more from the start
    return download(url, folder, file)


@contextlib.contextmanager
def _locked(part: Path) -> Iterator[BinaryIO]:
    """The .part file open for appending; a second process that wants it waits. An empty one is
    removed."""
    while (stream := _opened(part)) is None:
        pass  # the process before us finished and took the file away
    stream.seek(0, os.SEEK_END)
    try:
        yield stream
    finally:
        stream.close()
        with contextlib.suppress(OSError):  # nothing arrived: leave no trace
            if part.stat().st_size == 0:
                part.unlink()
        with contextlib.suppress(OSError):
            part.parent.rmdir()  # only succeeds while it is empty


def _opened(part: Path) -> BinaryIO | None:
    """The file, open and locked; None where another process removed it (or its empty folder)
    meanwhile."""
    part.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as undo, contextlib.suppress(FileNotFoundError):
        stream = undo.enter_context(part.open("ab"))
        _lock(stream)
        if os.path.samestat(os.fstat(stream.fileno()), part.stat()):
            undo.pop_all()
            return stream
    return None


def _lock(stream: BinaryIO) -> None:
    # Windows has no fcntl: there two runs must not download at once
    with contextlib.suppress(ImportError):
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX)


def _receive(url: str, stream: BinaryIO, label: str) -> bool:
    """Appends to `stream` what is missing of `url`; True where the beginning was there already."""
    resumed = stream.tell() > 0
    for attempt in range(ATTEMPTS):
        start = stream.tell()
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        try:
            with requests.get(
                url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, READ_SECONDS)
            ) as answer:
                # nothing is missing, or the part is of another version
                if start and answer.status_code == 416:
                    return True
                if answer.status_code >= 400:
                    raise Unavailable(f"HTTP {answer.status_code}")
                if start and answer.status_code != 206:  # the server sends it from the beginning
                    stream.seek(0)
                    stream.truncate()
                    start, resumed = 0, False
                _copy(answer, stream, start, label)
            return resumed
        except requests.exceptions.RequestException as error:
            if stream.tell() == start and attempt == 0:  # not a byte came
                _unreachable.add(urlsplit(url).netloc)
                raise Unavailable("host not reachable") from error
    raise Unavailable("the connection broke off; the next run goes on from there")


def _copy(answer: requests.Response, stream: BinaryIO, start: int, label: str) -> None:
    length = answer.headers.get("Content-Length")
    total = int(length) + start if length else None
    every = 0.5 if sys.stderr.isatty() else 10  # a log file wants few lines
    with tqdm(
        total=total,
        initial=start,
        desc=label,
        unit="B",
        unit_scale=True,
        file=sys.stderr,
        mininterval=every,
    ) as bar:
        for block in answer.iter_content(RECEIVE):
            stream.write(block)
            bar.update(len(block))


def _unzip(archive: Path, target: Path, member: str, url: str) -> Path:
    """`target` with the content of the archive's member of that name, in whatever folder it is."""
    try:
        with zipfile.ZipFile(archive) as bundle:
            name = next((each for each in bundle.namelist() if Path(each).name == member), None)
            if name is None:
                raise BadInput(
                    f"{url} holds no {member!r}; get the file by hand and put it into "
                    f"{target.parent}."
                )
            with bundle.open(name) as source, target.open("wb") as sink:
                while block := source.read(UNPACK):
                    sink.write(block)
    except (zipfile.BadZipFile, BadInput) as error:
        archive.unlink()
        if isinstance(error, BadInput):
            raise
        raise Unavailable("not a zip file") from error
    return target


def sha256(stream: BinaryIO) -> str:
    """The SHA-256 of a binary stream, in hexadecimal."""
    return hashlib.file_digest(stream, "sha256").hexdigest()


def check(path: Path, file: File, *, suffix: str | None = None, url: str = "") -> None:
    """Raises BadInput unless the file or its decompressed content has one of the known checksums.

    suffix: how the content is compressed, where the path does not tell. url: where it was just
        fetched from.
    """
    known = {file.sha256, file.sha256_stored} - {""}
    with path.open("rb") as stream:
        got = sha256(stream)
    if not known or got in known:
        return
    # The checksum of the content decides, however somebody compressed it.
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix if suffix is None else suffix)
    with contextlib.suppress(OSError, EOFError, lzma.LZMAError, zlib.error):
        if opener:
            with opener(path, "rb") as stream:
                got = sha256(stream)
    if got in known:
        return
    remedy = (
        f"put the right file into {path.parent} by hand" if url else "delete it and fetch it again"
    )
    raise BadInput(
        f"{url or path} is not the expected {file.name}: its SHA-256 is {got}, expected "
        f"{file.sha256 or file.sha256_stored}; {remedy}, or use it as a table of your own (its "
        "path with schema=...)."
    )
