"""Which rows were released before, whatever their file is called: a file at the data owner.

A second release of the same rows costs its epsilon again, so it has to be asked for by name. Rows
are known by a digest of what stands in their file: all cells of each row, whatever their columns
are called and in whatever order these stand, and all rows, in whatever order. So a copy under
another name, reordered, in another kind of file, with another schema or another target is the
same rows.

**What it cannot notice**: the same people with a row more or less, with a column more or less, or
with a value that was corrected or rounded. For those there is the ledger, under the name of a
population.

The digest is keyed with a secret that stays in a file beside the register: whoever gets to see the
register alone cannot try out which rows these are. Neither leaves the machine.
"""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.journal import Journal, read_bytes, write_through, writing
from fedsynth_lib.core.ledger import (
    Ledger,
    Refused,
    Total,
    folder,
    of_unit,
    settled,
    total_of,
)

BYTES, KEY_BYTES = 16, 32  # of a digest, and of the key


@dataclass(frozen=True)
class Begun:
    """A release that may draw its noise now: whose rows, by their digest, and its number."""

    register: "Register"
    book: Ledger
    rows: str
    number: str

    def end(self, statement: dict, *, rows: int) -> None:
        """Note a finished run by its privacy statement, before its rows leave."""
        self.book.add(statement, rows=rows, number=self.number)
        said = of_unit(statement)
        self._settle(statement["epsilon"], statement["delta"], released=True, **said)

    def give_up(self, epsilon: float, delta: float, what: str) -> None:
        """Note a run that was refused after it had spent this much on `what`.

        The budget is spent, but the run does not count as a release of the rows.
        """
        self.book.settle(self.number, epsilon, delta, what=what)
        self._settle(epsilon, delta, released=False)

    def _settle(self, epsilon: float, delta: float, *, released: bool, **said: str) -> None:
        cost = {"epsilon": epsilon, "delta": delta, **said}
        with self.register.journal.locked():
            self.register.journal.append(
                {"keyed": self.rows, "released": released, "settles": self.number} | cost
            )

    def total(self) -> Total:
        """Of all releases of these rows, this one included, whatever population they went by."""
        return self.register.total(self.rows)


class Register:
    """The releases that were begun, by the digest of their rows; a line of JSON each."""

    def __init__(self, folder: Path):
        self.journal, self._key = Journal(folder / "releases.jsonl"), folder / "key"

    def key(self) -> bytes:
        """Return the secret of the digests, made once.

        Raises BadInput where it is gone and rows were registered with it: they would not be found
        again.
        """
        with self.journal.locked():
            if len(key := read_bytes(self._key)) == KEY_BYTES:
                return key
            if self.journal.lines():
                raise BadInput(
                    f"{self._key}: the key of the register is gone, so no rows can be found in it; "
                    "restore the file from a copy."
                )
            with writing(self._key):
                write_through(self._key, key := secrets.token_bytes(KEY_BYTES))
            return key

    def digest(self, raw: pd.DataFrame) -> str:
        """Of a file's rows, as their reader gives them, with all columns."""
        return rows_digest(raw, self.key())

    def releases(self, rows: str) -> list[dict]:
        """About the rows with this digest, as `ledger.settled`."""
        return [line for line in settled(self.journal.lines()) if line["keyed"] == rows]

    def total(self, rows: str) -> Total:
        """Return what all releases of these rows cost, and how many handed rows on or may have."""
        found = self.releases(rows)
        return replace(total_of(found), releases=len(_handed_on(found)))

    def admit(self, rows: str, *, name: str, epsilon: float, again: bool) -> None:
        """Raise Refused for rows that were released before, unless `again`."""
        earlier = [] if again else _handed_on(self.releases(rows))
        if not earlier:
            return
        begun = [line["when"] for line in earlier if "begun" in line]
        times = {1: "once", 2: "twice"}.get(len(earlier), f"{len(earlier)} times")
        what = (
            f"a release of these rows was begun at {begun[-1][:16]} and has not ended"
            if begun
            else f"these rows were released {times} before, under whatever file name"
        )
        raise Refused(
            f"{name}: {what}; to release them once more, which adds up to epsilon "
            f"{self.total(rows).epsilon + epsilon:.4g}, say so with again=True (--again)."
        )

    def begin(
        self,
        rows: str,
        book: Ledger,
        *,
        name: str,
        method: str,
        epsilon: float,
        delta: float,
        again: bool,
        **said: str,
    ) -> Begun:
        """Note a release before its noise is drawn, here and in the ledger of its population.

        Raises Refused for rows that were released before, unless `again`, and where the population
        would be overdrawn. Where two begin at once, the second finds the first begun.
        """
        with self.journal.locked():
            self.admit(rows, name=name, epsilon=epsilon, again=again)
            number = book.reserve(method, epsilon, delta, **said)
            self.journal.append(
                {
                    "keyed": rows,
                    "begun": number,
                    "when": datetime.now().astimezone().isoformat(timespec="minutes"),
                    "population": book.population,
                    "epsilon": epsilon,
                    "delta": delta,
                    **said,
                }
            )
        return Begun(self, book, rows, number)


def open_register() -> Register:
    """Return the register of this project, beside the ledger."""
    return Register(folder() / "register")


def _handed_on(releases: Iterable[dict]) -> list[dict]:
    return [line for line in releases if line.get("released", True)]


# --- the digest -----------------------------------------------------------------------------------


def rows_digest(raw: pd.DataFrame, key: bytes) -> str:
    """Return a keyed digest (BLAKE2b) of the rows, whatever the order of rows and columns.

    It is of the rows as a multiset, and of each row as a multiset of cells.

    raw: columns as a reader gives them: texts, labels, numbers, moments. A number counts by its
        value, so 2.50 is 2.5, and a text without its outer spaces. Empty cells are equal.
    """
    sums = np.zeros((len(raw), 2), dtype=np.uint64)
    for place in range(raw.shape[1]):
        codes, levels = pd.factorize(raw.iloc[:, place])
        words = np.array([_word(level, key) for level in (*levels, None)], dtype=np.uint64)
        sums += words[codes]  # code -1 is the last: an empty cell; sums wrap around
    rows = sums[np.lexsort(sums.T)].astype("<u8")
    content = hashlib.blake2b(key=key, digest_size=BYTES, person=b"rows")
    content.update(len(raw).to_bytes(8, "little") + raw.shape[1].to_bytes(8, "little"))
    content.update(rows.tobytes())
    return content.hexdigest()


def _word(value: object, key: bytes) -> tuple[int, int]:
    """Return two numbers of 64 bits for a cell.

    Those of a row are added: so the order of its columns has no part in the sum, and without the
    key nobody finds two rows with the same one.
    """
    text = _plain(value).encode("utf-8", "surrogatepass")
    found = hashlib.blake2b(text, key=key, digest_size=16, person=b"cell").digest()
    return int.from_bytes(found[:8], "little"), int.from_bytes(found[8:], "little")


def _plain(value: object) -> str:
    """Write a cell as text, alike in all kinds of file."""
    if value is None:
        return ""
    if isinstance(value, datetime):  # pandas' moments are, too
        return value.isoformat(" ").removesuffix(" 00:00:00")
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    try:
        return float(text).hex()
    except ValueError:
        return text.strip()
