"""A site in its study, with what is its own: its rows, and the folder of its key and its budget.

Nothing here starts a process or sends anything.
"""

import math
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import Field, StrictFloat

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.core.journal import read_bytes
from fedsynth_lib.core.ledger import ClientLedger, Ledger, Refused, last_of, path_of
from fedsynth_lib.core.store import write_atomically
from fedsynth_lib.federation import flower
from fedsynth_lib.release.deploy import evaluation, keys
from fedsynth_lib.release.deploy.study import Study, load_site
from fedsynth_lib.runs.typed import typed
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import read_toml

Limit = Annotated[StrictFloat, Field(ge=0)]
SPLIT_BYTES = 32  # of the key that says which rows are set aside


@dataclass(frozen=True)
class Place:
    """A site of a study, with what is its own.

    table: all of its rows. key: private; None in a rehearsal without keys. ledger: None where none
        is kept, as in a simulation. split_key: says which rows are set aside, or left out;
        b'' in a rehearsal, where it follows from the seed.
    """

    study: Study
    index: int
    table: Table
    key: ec.EllipticCurvePrivateKey | None = None
    ledger: ClientLedger | None = None
    split_key: bytes = b""

    def __post_init__(self):
        """Check that the place has the keys that a release needs."""
        if self.key is None and self.study.release:
            raise BadInput(f"site {self.name!r}: a release needs its key.")
        if self.study.is_divided_in_secret and not self.split_key:
            raise BadInput(
                f"site {self.name!r}: in a release only the site may know which rows are set aside "
                "or left out."
            )

    @property
    def name(self) -> str:
        """The site's name."""
        return self.study.sites[self.index].name

    def rows(self) -> np.ndarray:
        """Return the rows to learn from, encoded."""
        return self.study.plan.encoded(self.divided()[0])

    def rows_set_aside(self, job: flower.Job) -> np.ndarray:
        """Return the rows that are set aside, encoded for the evaluation."""
        encoder = evaluation.encoder(self.study.form.schema, job.config)
        return encoder.transform(self.divided()[1])

    def divided(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return (rows to learn from, rows set aside)."""
        key = self.split_key or stream(self.study.seed, "key", self.index).bytes(32)
        return self.study.rows_to_learn_from(self.table, key)


@dataclass(frozen=True)
class Budget:
    """The content of a site's budget.toml: whose rows these are, and the limits of its owner."""

    population: str
    most_epsilon: Limit | None = None
    most_delta: Limit | None = None


@dataclass(frozen=True)
class Own:
    """A site's own folder: its key, its budget, its ledger; only node.pub of it is shared."""

    folder: Path

    def open_ledger(self, study: Study | None = None, runs: int = 1) -> ClientLedger:
        """Return the ledger of the population that the budget file names, with its limits.

        runs: of the study, that the operator is about to agree to. A limit that the file does not
            give is what the runs cost that the operator agrees to, with the count of the rows that
            the study names, and no more. Without a study there is none: a count names its cost.
        Raise Refused for a new ledger where the project has releases of a population of this name,
        which it would not count.
        """
        path = self.folder / keys.BUDGET
        if not path.is_file():
            raise BadInput(f"{path}: there is no budget; `fedsynth deploy keys --site` writes one.")
        budget = typed(Budget, read_toml(path), str(path))
        ledger = ClientLedger(
            path_of(budget.population, self.folder),
            study=study.digest if study else "",
            last=last_of(budget.population, self.folder),
            most_rows=study.most_rows if study else 1,
            unit=study.unit if study else "",
        )
        earlier = Ledger(path_of(budget.population))
        spent = earlier.total()
        if spent.releases and not ledger.journal.lines():
            raise Refused(
                f"{earlier.journal.path}: {spent.releases} releases about {budget.population!r} "
                f"have spent epsilon {spent.epsilon:.4g}, delta {spent.delta:.3g}, which this "
                f"site's ledger does not count; in {path}, give most_epsilon and most_delta "
                "without what was spent, and another name of the population."
            )
        epsilon, delta = math.inf, 1.0
        if study is not None:
            runs = max(1, runs, ledger.agreed())
            epsilon, delta = (runs * each for each in study.cost)
            epsilon += study.counted_epsilon
        if budget.most_epsilon is not None:
            epsilon = budget.most_epsilon
        if budget.most_delta is not None:
            delta = budget.most_delta
        ledger.most_epsilon, ledger.most_delta = epsilon, delta
        return ledger

    def split_key(self, study: Study) -> bytes:
        """Return the key that says which rows are set aside.

        In a release only the site has it. In a rehearsal it is b'': the rows follow from the seed.
        """
        if not study.is_divided_in_secret:
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
        """Return the site in its study; runs: as for `open_ledger`.

        Raise BadInput for a key that is not the one which the study has of it, and BadRows for
        rows that do not fit, which the message names for the operator.
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
        loaded = load_site(study, name, table)
        ledger = self.open_ledger(study, runs)
        return Place(study, index, loaded, key, ledger, self.split_key(study))
