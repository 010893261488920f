"""Where a table's files are: data/raw, FEDSYNTH_MIRROR, the official address; checked and fetched.

Downloads show progress, are checked against their SHA-256, and only then get their name in
data/raw, so each file there is complete.
"""

import contextlib
import gzip
import hashlib
import lzma
import os
import shutil
import sys
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import requests
from tqdm import tqdm

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import locked, project_root
from fedsynth_lib.tables.registry import Entry, File

CONNECT_SECONDS = 5  # offline must be noticed quickly
READ_SECONDS = 30
ATTEMPTS = 3  # a download whose connection breaks off begins again this often
RECEIVE = 1 << 14  # bytes at a time

_unreachable: set[str] = set()  # hosts that did not answer in this process


class Unavailable(Exception):
    """An address that cannot give the file now; the next one is tried."""


def raw_folder(folder: str) -> Path:
    """Return the folder in data/raw that holds a table's files."""
    return project_root() / "data" / "raw" / folder


def mirror() -> str:
    """Return FEDSYNTH_MIRROR: a folder, a URL, or '' where none is set.

    Raises BadInput where the folder does not exist.
    """
    place = os.environ.get("FEDSYNTH_MIRROR", "").rstrip("/")
    if place and "://" not in place and not Path(place).is_dir():
        raise BadInput(
            f"FEDSYNTH_MIRROR is {place!r}, which is no folder; correct the path or unset it."
        )
    return place


def stored_names(file: File) -> list[str]:
    """Return the names that a file may have: the mirror's, the official one, and compressed."""
    names = [file.stored, file.name, file.name + ".gz", file.name + ".xz"]
    return [name for name in dict.fromkeys(names) if name]


def find_local(folder: str, file: File) -> tuple[Path, str] | None:
    """Return (path, 'raw' or 'mirror') of a file that is already on this machine, or None.

    Nothing is read.
    """
    places = [(raw_folder(folder), "raw")]
    if mirror() and "://" not in mirror():
        places.append((Path(mirror()) / folder, "mirror"))
    for place, state in places:
        for name in stored_names(file):
            if (place / name).is_file():
                return place / name, state
    return None


def locate(
    entry: Entry, names: tuple[str, ...], otherwise: tuple[str, ...] = ()
) -> tuple[list[Path], list[str]]:
    """Return (paths of the named files, []), or ([], what was tried).

    `otherwise` are the files to take where `names` cannot be had. What is on this machine goes
    before what must be downloaded.
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
                    remedy = f"put {', '.join(names)} ({entry.page}) into data/raw/{entry.folder}"
                    warnings.warn(
                        f"{entry.key}: {', '.join(wanted)} is read in place of {', '.join(names)}; "
                        f"{remedy} to use it.",
                        stacklevel=4,
                    )
                return paths, []
    return [], tried


def fetch(folder: str, file: File, tried: list[str]) -> Path | None:
    """Download a file into data/raw and return its path; None where it cannot be had.

    The mirror comes first if it is a URL, then the official addresses. Why one fails is added to
    `tried`. Raises BadInput where an address gives something with another checksum.
    """
    names = stored_names(file) if "://" in mirror() else []
    for url in (*(f"{mirror()}/{folder}/{name}" for name in names), *file.urls):
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
    """Download `url`, check it, and put it into `folder`; a zip's member is taken out of it.

    Raises Unavailable, or BadInput for a wrong checksum; nothing stays behind.
    """
    remote_name = Path(urlsplit(url).path).name
    # Not every address ends in the file's name (figshare's is a number): then it is the stored
    # form.
    names = stored_names(file)
    is_zip = remote_name.endswith(".zip")
    target = folder / (file.name if is_zip else remote_name if remote_name in names else names[0])
    part = folder / f"{remote_name}.part"
    with locked(project_root() / "data" / "cache" / "locks" / f"{folder.name}_{remote_name}.lock"):
        if target.is_file():  # another process was faster
            return target
        arrived = target.with_name(f"{file.name}.unzipped") if is_zip else part
        try:
            _receive(url, part)
            if is_zip:
                _unzip(part, arrived, file.name, url)
            # The target's name tells how the content is compressed.
            check(arrived, file, suffix=target.suffix, url=url)
            os.replace(arrived, target)
        finally:
            part.unlink(missing_ok=True)
            arrived.unlink(missing_ok=True)
    return target


def _receive(url: str, part: Path) -> None:
    """Write the content of `url` to the .part file."""
    options = {"stream": True, "timeout": (CONNECT_SECONDS, READ_SECONDS)}
    for _ in range(ATTEMPTS):
        try:
            with requests.get(url, headers={"Accept-Encoding": "identity"}, **options) as answer:
                if answer.status_code >= 400:
                    raise Unavailable(f"HTTP {answer.status_code}")
                part.parent.mkdir(parents=True, exist_ok=True)
                with part.open("wb") as stream:
                    _copy(answer, stream, f"{part.parent.name}/{part.stem}")
            return
        except requests.exceptions.RequestException as error:
            if not part.is_file():
                _unreachable.add(urlsplit(url).netloc)
                raise Unavailable("host not reachable") from error
    raise Unavailable("the connection broke off")


def _copy(answer: requests.Response, stream: BinaryIO, label: str) -> None:
    length = answer.headers.get("Content-Length")
    with tqdm(
        total=int(length) if length else None,
        desc=label,
        unit="B",
        unit_scale=True,
        file=sys.stderr,
        mininterval=0.5 if sys.stderr.isatty() else 10,  # a log file wants few lines
    ) as bar:
        for block in answer.iter_content(RECEIVE):
            stream.write(block)
            bar.update(len(block))


def _unzip(archive: Path, target: Path, member: str, url: str) -> None:
    """Write the content of the archive's member of that name, whatever folder it is in."""
    try:
        with zipfile.ZipFile(archive) as bundle:
            name = next((each for each in bundle.namelist() if Path(each).name == member), None)
            if name is None:
                raise BadInput(
                    f"{url} holds no {member!r}; get the file by hand and put it into "
                    f"{target.parent}."
                )
            with bundle.open(name) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
    except zipfile.BadZipFile as error:
        raise Unavailable("not a zip file") from error


def sha256(stream: BinaryIO) -> str:
    """Return the SHA-256 of a binary stream, in hexadecimal."""
    return hashlib.file_digest(stream, "sha256").hexdigest()


def check(path: Path, file: File, *, suffix: str | None = None, url: str = "") -> None:
    """Raise BadInput unless the file or its decompressed content has one of the known checksums.

    suffix: how the content is compressed, where the path does not tell. url: where it was just
        fetched from.
    """
    known = {file.sha256, file.sha256_stored} - {""}
    with path.open("rb") as stream:
        got = sha256(stream)
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix if suffix is None else suffix)
    if known and got not in known and opener:
        # The checksum of the content decides, however somebody compressed it.
        broken = contextlib.suppress(OSError, EOFError, lzma.LZMAError, zlib.error)
        with broken, opener(path, "rb") as stream:
            got = sha256(stream)
    if not known or got in known:
        return
    remedy = (
        f"put the right file into {path.parent} by hand" if url else "delete it and fetch it again"
    )
    raise BadInput(
        f"{url or path} is not the expected {file.name}: its SHA-256 is {got}, expected "
        f"{file.sha256 or file.sha256_stored}; {remedy}, or use it as a table of your own (its "
        "path with schema=...)."
    )
