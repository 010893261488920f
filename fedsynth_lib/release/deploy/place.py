"""A site in its study, with what is its own: its rows, and the folder of its key and its budget.

Nothing here starts a process or sends anything.
"""

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric import ec

from fedsynth_lib.core.contract import BadInput, BadRows, stream
from fedsynth_lib.core.journal import read_bytes
from fedsynth_lib.core.ledger import ClientLedger, Ledger, last_of, path_of
from fedsynth_lib.core.store import write_atomically
from fedsynth_lib.federation import flower
from fedsynth_lib.release.deploy import keys
from fedsynth_lib.release.deploy.study import SCHEMA, Study, load_site
from fedsynth_lib.tables.container import Container
from fedsynth_lib.tables.files import NOT_A_NUMBER
from fedsynth_lib.tables.kinds import FileColumn, Gaps
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Schema, read_toml, validate

SPLIT_BYTES = 32  # of the key that says which rows are set aside


@dataclass(frozen=True)
class Place:
    """A site of a study, with what is its own.

    table: all of its rows. key: private; None in a rehearsal without keys. ledger: None where none
        is kept, as in a simulation. split_key: says which rows are set aside (`Study.holdout`);
        b'' in a rehearsal, where it follows from the seed.
    """

    study: Study
    index: int
    table: Table
    key: ec.EllipticCurvePrivateKey | None = None
    ledger: ClientLedger | None = None
    split_key: bytes = b""

    def __post_init__(self):
        if self.key is None and self.study.release:
            raise BadInput(f"site {self.name!r}: a release needs its key.")
        if self.study.release and self.study.holdout and not self.split_key:
            raise BadInput(
                f"site {self.name!r}: in a release only the site may know who is set aside."
            )

    @property
    def name(self) -> str:
        return self.study.sites[self.index].name

    def rows(self) -> np.ndarray:
        """The rows to learn from, encoded."""
        return self.study.plan.encoded(self.divided()[0])

    def rows_set_aside(self, job: flower.Job) -> np.ndarray:
        """The other ones, encoded for the evaluation."""
        from fedsynth_lib.release.deploy import evaluation

        encoder = evaluation.encoder(self.study.form.schema, job.config)
        return encoder.transform(self.divided()[1])

    def divided(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """(rows to learn from, rows set aside)."""
        key = self.split_key or stream(self.study.seed, "key", self.index).bytes(32)
        return self.study.rows_to_learn_from(self.table, key)


@dataclass(frozen=True)
class Own:
    """A site's own folder: its key, its budget, its ledger; nothing of it is shared but node.pub.

    say: is told what its owner should know, a sentence each.
    """

    folder: Path
    say: Callable[[str], None] = lambda text: None

    def open_ledger(self, study: Study | None = None, runs: int = 1) -> ClientLedger:
        """The ledger of the population that the budget file names, with its limits.

        runs: of the study, that the operator is about to agree to. A limit that the file does not
            give is what the runs cost that the operator agrees to, with the count of the rows that
            the study names, and no more. Without a study there is none: a count names its cost.
        """
        path = self.folder / keys.BUDGET
        if not path.is_file():
            raise BadInput(f"{path}: there is no budget; `fedsynth deploy keys --site` writes one.")
        found = read_toml(path)
        if unknown := set(found) - {"population", "most_epsilon", "most_delta"}:
            raise BadInput(f"{path}: unknown entry {min(unknown)!r}.")
        if not isinstance(found.get("population"), str):
            raise BadInput(f"{path}: population is no text; name whose rows these are.")
        name = found["population"]
        ledger = ClientLedger(
            path_of(name, self.folder),
            study=study.digest if study else "",
            last=last_of(name, self.folder),
        )
        self._count_earlier(ledger)
        limits = {"most_epsilon": math.inf, "most_delta": 1.0}
        if study is not None:
            (epsilon, delta), runs = study.cost, max(1, runs, ledger.agreed())
            epsilon = study.counted_epsilon + runs * epsilon
            limits = {"most_epsilon": epsilon, "most_delta": runs * delta}
        limits |= {entry: found[entry] for entry in limits if entry in found}
        for entry, value in limits.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise BadInput(f"{path}: {entry} is {value!r}; give a number, 0 or more.")
        ledger.most_epsilon, ledger.most_delta = limits["most_epsilon"], limits["most_delta"]
        return ledger

    def _count_earlier(self, ledger: ClientLedger) -> None:
        """Carry over, once, what the project's ledger has of the same population: until now the
        ledgers of sites were kept there, too."""
        if ledger.journal.lines():
            return
        earlier = Ledger(path_of(ledger.population))
        total, path = earlier.total(), earlier.journal.path
        if total.releases:
            ledger.carry_over(total, f"{total.releases} releases that {path} has")
            self.say(
                f"{path}: its {total.releases} releases about {ledger.population!r} are counted in "
                f"{ledger.journal.path} from now on, with epsilon {total.epsilon:.4g}"
            )

    def split_key(self, study: Study) -> bytes:
        """What says which rows are set aside: of the site alone in a release; in a rehearsal b'',
        which has it follow from the seed."""
        if not (study.release and study.holdout):
            return b""
        path = self.folder / "split.key"
        if not path.exists():
            write_atomically(path, secrets.token_bytes(SPLIT_BYTES), private=True)
        key = read_bytes(path)
        if len(key) != SPLIT_BYTES:
            raise BadInput(
                f"{path}: this is no key of {SPLIT_BYTES} bytes, and it says which rows are set "
                "aside; restore it from a copy, or delete it if this site has answered no run yet."
            )
        return key

    def place(self, study: Study, name: str, table: str | Path, runs: int = 1) -> Place:
        """The site in its study; runs: as for `open_ledger`.

        Raises BadInput for a key that is not the one which the study has of it, and for rows that
        do not fit: how many cells of which column, for its operator.
        """
        index = study.index_of(name)
        key = None
        if study.sites[index].key:
            key = keys.private_key(self.folder / keys.NODE_KEY)
            if not keys.same_key(key, study.sites[index].key):
                raise BadInput(
                    f"{self.folder / keys.NODE_KEY}: this is not the key that study {study.name} "
                    f"has of site {name!r}; take the right folder, or have the study corrected."
                )
        loaded = load_checked(study, name, table)
        ledger = self.open_ledger(study, runs)
        return Place(study, index, loaded, key, ledger, self.split_key(study))


def load_checked(study: Study, name: str, path: str | Path) -> Table:
    """`load_site`; where rows do not fit, how many cells of each column do not."""
    try:
        return load_site(study, name, path)
    except BadRows as error:
        counts = violations(study, Path(path))
        if not counts:
            raise
        found = ", ".join(f"{column} ({count})" for column, count in counts.items())
        raise BadRows(
            f"{path}: cells that do not fit the schema, by column: {found}; the first: {error}",
            error.told,
        ) from error


def violations(study: Study, path: Path) -> dict[str, int]:
    """Column -> how many cells of a file do not fit its declaration, of those that have any."""
    form, document = study.form, read_toml(study.folder / SCHEMA)
    container = Container.of(path, document.get("reader"))
    missing = {c.name: (*NOT_A_NUMBER, *c.missing) for c in form.columns if not c.is_text}
    raw = container.raw(path, list(form.names), missing)
    found = {}
    for column in form.columns:
        if column.modelled is None or column.name not in raw:
            continue
        cells = raw[column.name]
        gaps = int(column.gaps(cells).sum()) if not column.missing else 0
        kept = cells[~column.gaps(cells)]
        # one look at each value, however many cells have it
        counts = kept.value_counts()
        wrong = sum(int(n) for value, n in counts.items() if not _fits(column, value))
        if gaps + wrong:
            found[column.name] = gaps + wrong
    return found


def _fits(column: FileColumn, value: object) -> bool:
    """Whether a cell that is no gap is what its declaration says."""
    modelled = column.modelled
    columns = (modelled.number, modelled.missing) if isinstance(modelled, Gaps) else (modelled,)
    try:
        parsed = column.parse(pd.Series([value]), column.name, moved=[])
        validate(pd.DataFrame(parsed), Schema(columns), column.name)
    except BadInput:
        return False
    return True
