"""A file of JSON lines that only grows, and that notices what it has lost.

Each line carries the hash of all lines before it. A second file, the head, says how many lines
there are and what all of them hash to. A line is written first and the head after it, so a killed
process leaves a head that is one line behind, and the next line puts that right. A power cut may
leave a part of a line, whose writer was told of no success: it counts for nothing. Every other
difference means that the file is lost, emptied, cut or edited, and is refused.

The last head may be kept in a second place, too. Who deletes both files, or puts older ones in
their place, is then found out.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedsynth_lib.core.errors import BadInput
from fedsynth_lib.core.store import locked, unwritable

BEFORE = "before"  # of a line: the hash of all lines before it
EVENTS = {"round", "spent", "runs"}  # of a line that is not a release and has no cost
NUMBERS = ("epsilon", "delta", "run", "round", "runs")


class Journal:
    """A file of JSON lines that only grows, with its head.

    A process that reads in order to append holds the lock from reading to appending.

    last: the file, in another folder, that keeps the last head as well; None if no file does.
    """

    def __init__(self, path: Path, last: Path | None = None):
        self.path, self.last = Path(path), last
        self.head = self.path.with_suffix(".head")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file's lock, so that nobody else writes meanwhile."""
        with contextlib.ExitStack() as stack:
            with writing(self.path):
                stack.enter_context(locked(self.path.with_suffix(".lock")))
            yield

    def lines(self) -> list[dict]:
        """Return all lines, the oldest first.

        Raises BadInput if a line is missing or changed, or has something else where a number
        belongs.
        """
        return self._checked()[0]

    def append(self, line: dict[str, Any]) -> None:
        """Add one line, whole or not at all, which is on the disk before anything else happens."""
        lines, last, whole = self._checked()
        row = (json.dumps(line | {BEFORE: last}, allow_nan=False) + "\n").encode()
        _line(row)  # what could not be read again is not written
        head = f"{len(lines) + 1} {_hash(last, row)}\n".encode()
        with writing(self.path):
            if self.path.exists():
                os.truncate(self.path, whole)  # without what a power cut has left
            size = write_through(self.path, row, os.O_APPEND)
            try:
                write_through(self.head, head)
            except OSError:
                os.truncate(self.path, size)
                raise
        if self.last is not None:
            with writing(self.last):
                write_through(self.last, head)

    def _checked(self) -> tuple[list[dict], str, int]:
        """Return the lines without their hashes, the hash of all of them, and their bytes."""
        known = read_bytes(self.last) if self.last is not None else b""  # the last that is written
        head, content = self._snapshot()
        rows = content.splitlines(keepends=True)
        if rows and not rows[-1].endswith(b"\n"):
            rows.pop()
        lines, hashes = [], [""]
        for number, row in enumerate(rows, 1):
            try:
                line = _line(row)
            except ValueError as error:
                raise self._damaged(f"line {number} {error}") from None
            if BEFORE not in line:
                raise self._damaged(
                    f"line {number} has no {BEFORE!r}, the hash of the lines above it, as lines of "
                    "earlier versions and lines written by hand have none"
                )
            if line.pop(BEFORE) != hashes[-1]:
                raise self._damaged(f"a line before line {number}, or that line, was changed")
            lines.append(line)
            hashes.append(_hash(hashes[-1], row))
        if len(lines) > 1 and not head:
            raise self._damaged(f"{self.head.name} is lost")
        count, _, last = head.decode("ascii", "replace").strip().partition(" ")
        if head and not (count.isdigit() and int(count) in (len(lines) - 1, len(lines))):
            raise self._damaged(f"it has {len(lines)} lines and {self.head.name} says {count!r}")
        if head and hashes[int(count)] != last:
            raise self._damaged(f"its last line was changed, or {self.head.name}")
        count, _, last = known.decode("ascii", "replace").strip().partition(" ")
        if known and not (count.isdigit() and last in hashes[int(count) : int(count) + 1]):
            raise self._damaged(f"it has {len(lines)} lines, not those of which {self.last} tells")
        return lines, hashes[-1], sum(map(len, rows))

    def _snapshot(self) -> tuple[bytes, bytes]:
        """Return the head and the file as they are together.

        They are read until nothing was written to the head in between.
        """
        while True:
            head, content = read_bytes(self.head), read_bytes(self.path)
            if head == read_bytes(self.head):
                return head, content

    def _damaged(self, what: str) -> BadInput:
        delete = f"delete {self.last} and " if self.last is not None else ""
        return BadInput(
            f"{self.path}: {what}, so the releases cannot be counted; restore the file and "
            f"{self.head.name} from a copy; is it older than the last release, {delete}take off "
            "most_epsilon and most_delta what was released since."
        )


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise BadInput, in one sentence, if the file cannot be written."""
    try:
        yield
    except OSError as error:
        raise BadInput(unwritable(path, error)) from error


def write_through(path: Path, content: bytes, flags: int = 0) -> int:
    """Write all of the content through to the disk, or nothing; give the file's former size."""
    place = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    try:
        size = os.fstat(place).st_size
        if os.write(place, content) < len(content):  # a full disk
            os.ftruncate(place, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(place)
    finally:
        os.close(place)
    return size


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, or no bytes where there is none.

    Raises BadInput for a file that this user may not read.
    """
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read ({error.strerror}): run the command as the user who owns it."
        ) from error


def _hash(before: str, row: bytes) -> str:
    return hashlib.blake2b(before.encode() + row, digest_size=16).hexdigest()


def _line(row: bytes) -> dict:
    """Return a line's entries.

    Raises ValueError, saying what is wrong, if this cannot be a line.
    """
    try:
        line = json.loads(row)
    except ValueError:
        raise ValueError("is not JSON") from None
    if not isinstance(line, dict):
        raise ValueError("is not an object of JSON")
    required = () if line.keys() & EVENTS else ("epsilon", "delta")
    for name in {*required, *line} & {*NUMBERS}:
        value = line.get(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < math.inf:
            raise ValueError(
                f"has {name} = {json.dumps(value)}, which is not a number of 0 or more"
            )
    return line
