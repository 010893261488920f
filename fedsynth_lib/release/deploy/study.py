"""What all parties of a study agree on, in two files: `study.toml`, and `schema.toml` beside it.

Every site and the server have the same two. From them alone each party derives the job of the run:
method, noise, rounds. So no site has to believe what a server says about the budget, and any
difference shows before anything is released: the parties compare the `terms` of the study, and
`differences` names the entry or the column.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import StrictBool, StrictFloat, StrictInt

from fedsynth_lib import __version__
from fedsynth_lib.core.contract import BadInput, Charge, Encoder, Method, Privacy
from fedsynth_lib.core.errors import BadRows, checked_seed
from fedsynth_lib.core.statement import TRUST, server_of
from fedsynth_lib.core.store import CODE
from fedsynth_lib.federation.flower import Job
from fedsynth_lib.federation.settings import ROW_COUNT, as_counted, job_of
from fedsynth_lib.methods import METHODS
from fedsynth_lib.release.deploy import evaluation, keys
from fedsynth_lib.release.persons import row_budget, rows_that_count, unit_of
from fedsynth_lib.runs.typed import typed
from fedsynth_lib.tables.encode import clamped
from fedsynth_lib.tables.form import Counted, Form, read_form
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.tables.partition import by_hash
from fedsynth_lib.tables.schema import Schema, closest, read_toml

STUDY, SCHEMA = "study.toml", "schema.toml"
APPS = ("server_app.py", "client_app.py")  # of the study, beside them
# what a study runs of the library: whole rooms, and what these need besides
STUDIED = ("core", "tables", "methods", "federation", "release/deploy")
_OF_RELEASE = (
    *("analyses", "ask", "check", "draft", "draft_rules", "intervals", "noisy_tables"),
    *("open_levels", "persons", "progress", "register", "saved", "summary", "your_table"),
)
STUDIED_TOO = (
    "__init__.py",
    "runs/progress.py",
    "runs/typed.py",
    *(f"release/{name}.py" for name in _OF_RELEASE),
)
# 1.41 is the first whose SuperLink has all of its APIs on one port; what is used of its private
# parts (tests/test_deploy_crashes.py has the list) may be another in the next one
OLDEST_FLOWER, NEXT_FLOWER = (1, 41), (1, 42)
FLOWER = f">={OLDEST_FLOWER[0]}.{OLDEST_FLOWER[1]},<{NEXT_FLOWER[0]}.{NEXT_FLOWER[1]}"
IDENTIFIER = "give letters, digits and '_', no digit first"
FEWEST_ROWS = 2  # of a site: with one, all that it says is about one person


@dataclass(frozen=True)
class Site:
    """A data owner as the others know it.

    rows: as declared before the run, or as counted with noise; where the schema has a unit, without
        those of a person beyond `most_rows`. key: public, in OpenSSH's form; '' in a simulation.
    publishes: its own figures of the evaluation as well.
    """

    name: str
    rows: StrictInt
    key: str = ""
    publishes: StrictBool = False

    def __post_init__(self):
        """Check what is declared of the site."""
        if not self.name.isidentifier():
            raise BadInput(f"a site has the name {self.name!r}; {IDENTIFIER}.")
        if self.rows < FEWEST_ROWS:
            raise BadInput(
                f"site {self.name!r} has rows = {self.rows}; a site needs {FEWEST_ROWS} rows at "
                "least."
            )
        if self.key:
            keys.public_key(self.key, f"site {self.name!r}")


@dataclass(frozen=True)
class Study:
    """The content of study.toml, checked, and what follows from it.

    colluding: sites that may pool what they know, with the server, against another one.
    absent: sites that the run can do without, once it has begun; their shares of the noise are
        made by the others.
    minimum_group: a site adds to no sum over fewer sites.
    release: noise from the operating system, which nobody can repeat; else from `seed`.
    counted_epsilon: what each site has spent on counting its rows with noise; 0: they are declared.
    holdout: share of the rows that each site sets aside, for evaluation at the sites.
    evaluation_epsilon: of that evaluation; 0: there is none. Its rows are others than those that
        were learned from. other_people: and of other people, as where each person has one row;
        else what both runs cost adds up.
    synthetic_rows: 0 are as many as the sites have together.
    server: host:port. ca: the certificate that the server's one is signed with, as PEM.
    timeout: seconds that a site may take for an answer.
    """

    folder: Path
    name: str
    method: str
    epsilon: StrictFloat
    delta: StrictFloat
    sites: tuple[Site, ...]
    colluding: StrictInt = 1
    absent: StrictInt = 0
    minimum_group: StrictInt = 3
    release: StrictBool = False
    seed: StrictInt = 0
    counted_epsilon: StrictFloat = 0.0
    holdout: StrictFloat = 0.0
    evaluation_epsilon: StrictFloat = 0.0
    other_people: StrictBool = True
    synthetic_rows: StrictInt = 0
    server: str = "localhost:9443"
    ca: str = ""
    timeout: StrictFloat = 600.0
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        """Check what is declared together."""
        names, used = [site.name for site in self.sites], [s.key for s in self.sites if s.key]
        if not self.name.isidentifier():
            raise BadInput(f"name is {self.name!r}; {IDENTIFIER}.")
        if self.method not in METHODS:
            raise BadInput(
                f"method {self.method!r} is unknown{closest(self.method, METHODS)}; choose one of "
                f"{', '.join(METHODS)}."
            )
        if not names or len(set(names)) < len(names):
            raise BadInput(
                f"the sites are called {', '.join(map(repr, names)) or 'nothing'}; write a "
                "[[site]] for each, with a name of its own."
            )
        if len(set(used)) < len(used):
            raise BadInput("two sites have the same key; each needs one of its own.")
        if self.release and not self.secure:
            raise BadInput(
                "a release needs ca and the key of every site; add them, or write release = false "
                "for a rehearsal."
            )
        for name, low, high in (
            ("absent", 0, len(self.sites) - 1),
            ("minimum_group", 1, len(self.sites) - self.absent),
            ("colluding", 0, len(self.sites) - 1 - self.absent),
            ("holdout", 0, 0.9),
            ("counted_epsilon", 0, min(self.epsilon, self.evaluation_epsilon or self.epsilon)),
            ("evaluation_epsilon", 0, 1e6 if self.holdout else 0),
            ("timeout", 1, math.inf),
            ("synthetic_rows", 0, math.inf),
        ):
            if not low <= getattr(self, name) <= high:
                raise BadInput(f"{name} is {getattr(self, name):g}; give {low:g} to {high:g}.")
        checked_seed(self.seed)
        host, _, port = self.server.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 2**16:
            raise BadInput(f"server is {self.server!r}; write host:port, such as 'localhost:9443'.")

    # --- who and where ---------------------------------------------------------------------------

    @property
    def secure(self) -> bool:
        """Whether the study says by which keys the parties know each other."""
        return bool(self.ca) and all(site.key for site in self.sites)

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port of the server."""
        host, _, port = self.server.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def on_loopback(self) -> bool:
        """Whether the server can be reached from its own machine only."""
        host = self.address[0]
        try:
            return host == "localhost" or ip_address(host).is_loopback
        except ValueError:  # a name
            return False

    def index_of(self, name: str) -> int:
        """Return the place of a site: the number of its client and of its partition."""
        names = [site.name for site in self.sites]
        if name not in names:
            raise BadInput(
                f"site {name!r} is not in study {self.name}{closest(name, names)}; it has "
                f"{', '.join(names)}."
            )
        return names.index(name)

    def state(self, own: Path) -> Path:
        """Return where a party keeps Flower's files of this study, in its own folder."""
        return own / f"state-{self.name}-{self.digest[:8]}"

    # --- the run ---------------------------------------------------------------------------------

    @cached_property
    def form(self) -> Form:
        """The columns of every site's file."""
        form = read_form(self.folder / SCHEMA)
        where = self.folder / SCHEMA
        if form.questions:
            raise BadInput(
                f"{where}: the draft asks about {', '.join(form.questions)}; correct each column, "
                "and delete its question."
            )
        form.refuse_open(str(where), "several sites cannot select its categories together")
        gaps = {each.missing.name for each in form.gaps}  # no column of the file
        if read := [name for name in form.schema.from_rows if name not in gaps]:
            raise BadInput(
                f"{where}: {', '.join(read)} {'was' if len(read) == 1 else 'were'} read from rows; "
                "all that sites share must be declared: correct each by what documents say, and "
                "delete its source and from_rows."
            )
        return form

    @property
    def is_divided_in_secret(self) -> bool:
        """Whether a site alone may know which of its rows are learned from."""
        return self.release and bool(self.holdout or self.form.unit)

    @property
    def most_rows(self) -> int:
        """How many rows of a person count; 1 where the unit of privacy is a row."""
        return max(1, self.form.most_rows)

    @property
    def unit(self) -> str:
        """Whom epsilon and delta are for, in words."""
        return unit_of(self.form) if self.form.unit else "each record"

    def promised(self, epsilon: float) -> Privacy:
        """Return what one of the study's jobs promises to a person.

        Where the unit is a row, it is promised to a row.
        """
        return Privacy(
            epsilon,
            self.delta,
            curious=self.colluding + self.absent,  # whose shares of the noise are not needed
            noise_seed=None if self.release else "run",
        )

    @property
    def privacy(self) -> Privacy:
        """The budget of the run for one row."""
        return self._of_row(self.epsilon)

    def _of_row(self, epsilon: float) -> Privacy:
        """Return the budget for one row that gives what is promised.

        This takes all rows of a person to be at one site (see `release/persons.py`).
        """
        return row_budget(self.promised(epsilon), self.most_rows)

    @property
    def costs(self) -> dict[str, float]:
        """Return the epsilon of one run of each job of the study, by the name of its method.

        Each has the study's delta.
        """
        costs = {METHODS[self.method].name: self.epsilon}
        if self.evaluation_epsilon:
            costs[evaluation.METHOD.name] = self.evaluation_epsilon
        return costs

    @property
    def cost(self) -> tuple[float, float]:
        """The epsilon and delta of one run of each job together."""
        return math.fsum(self.costs.values()), self.delta * len(self.costs)

    @property
    def sizes(self) -> list[int]:
        """The number of rows to learn from that each site is taken to have."""
        return [max(1, round(site.rows * (1 - self.holdout))) for site in self.sites]

    @property
    def before(self) -> list[Charge]:
        """What each row has paid before the run: the count of its site's rows."""
        if not self.counted_epsilon:
            return []
        return [Charge(ROW_COUNT, "laplace", self.most_rows / self.counted_epsilon)]

    @cached_property
    def plan(self) -> "Plan":
        """Plan the job of the run.

        Raises BadInput for settings that the method does not have, and for all that
        `settings.planned` refuses.
        """
        method, where = METHODS[self.method], self.folder / STUDY
        known = {each.name for each in fields(method.Config)}
        for name in self.config:
            if name not in known:
                raise BadInput(
                    f"{where}: method {self.method} has no setting {name!r}"
                    f"{closest(name, known)}; it has {', '.join(sorted(known))}."
                )
        settings = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in self.config.items()
        }
        config = method.Config(**settings)
        if not getattr(config, "private", True):
            raise BadInput(f"{where}: method {self.method} adds no noise; choose one that does.")
        schema, modelled, counted = as_counted(method, self.form, config)
        job, encoder = job_of(
            method,
            schema,
            self.sizes,
            config=modelled,
            privacy=self.privacy,
            seed=self.seed,
            before=self.before,
        )
        charges = method.plan(1.0, job.domain, max(self.sizes), modelled)
        if bare := [charge.what for charge in charges if charge.mechanism == "unprotected"]:
            raise BadInput(
                f"{where}: with these settings method {self.method} releases without noise: "
                f"{', '.join(bare)}; set private_structure = true in [config] where it has that "
                "setting, or choose another method."
            )
        fewest = min(len(job.participants(*entry)) for entry in job.schedule()) - self.absent
        if fewest < self.minimum_group:
            raise BadInput(
                f"{where}: minimum_group is {self.minimum_group} and some round may have {fewest} "
                "sites; set participation = 1.0 in [config], or lower it."
            )
        return Plan(job, encoder, schema, counted, config)

    def evaluation(self, synthetic: pd.DataFrame | None = None) -> Job:
        """Return the job of the evaluation; synthetic: rows of the schema, which a server has."""
        where = self.folder / STUDY
        if not self.evaluation_epsilon:
            raise BadInput(
                f"{where}: evaluation_epsilon is 0, so the sites evaluate nothing; "
                "give holdout and evaluation_epsilon, and agree on the study again."
            )
        published = tuple(k for k, site in enumerate(self.sites) if site.publishes)
        # what these show can be subtracted from the sum
        hidden = len(self.sites) - len(published)
        if published and 0 < hidden < self.minimum_group + self.absent:
            raise BadInput(
                f"{where}: {len(published)} sites publish their figures, which leaves a sum of "
                f"{hidden} others, {self.absent} of them absent at most, and minimum_group is "
                f"{self.minimum_group}; let fewer sites publish, or lower it."
            )
        return evaluation.job_for(
            self.form.schema,
            self._of_row(self.evaluation_epsilon),
            [max(1, round(site.rows * self.holdout)) for site in self.sites],
            synthetic=synthetic,
            config=evaluation.config_for(self.form.schema, published=published),
            seed=self.seed,
            names=[site.name for site in self.sites],
            before=self.before,
        )

    def rows_to_learn_from(self, table: Table, key: bytes) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return (rows to learn from, rows set aside) of a site's table, which the key divides.

        Rows of a person beyond `most_rows` are in neither; the others are all on one side.
        """
        table = rows_that_count(table, key=key)
        if not self.holdout:
            return table.frame, table.frame.iloc[:0]
        by = {"key": key, "persons": table.persons}
        shares = [self.holdout, 1 - self.holdout]
        aside, train = by_hash(table.frame, shares, purpose="split", **by)
        return table.frame.iloc[train], table.frame.iloc[aside]

    def synthetic_rows_in(self, path: Path) -> pd.DataFrame:
        """Return the rows of a synthetic file, which are nobody's."""
        columns = tuple(column for column in self.form.columns if column.name != self.form.unit)
        form = replace(self.form, columns=columns, unit="", most_rows=0)
        return load_table(path, schema=form.to_toml()).frame

    # --- what the parties compare -----------------------------------------------------------------

    @cached_property
    def beside(self) -> dict[str, Any]:
        """Return what the files beside study.toml have that is no column.

        It is how cells are read, and the source of the apps. The files are read once, when the
        study is first compared.
        """
        document = read_toml(self.folder / SCHEMA)
        return {
            # with those left out: where a file has no header, this is what says which is which
            "order in files": [column["name"] for column in document["column"]],
            "reader": _plain(document.get("reader", {})),
            "apps": {name: _digest_of(self.folder, [name]) for name in APPS},
        }

    def terms(self) -> dict[str, Any]:
        """Return all that two parties must agree on, as JSON has it.

        Columns come first, which a person must look at.
        """
        columns = {
            f"column {column.name!r}": _plain(asdict(column), but=("source", "question"))
            for column in self.form.columns
        }
        entries = {each.name: getattr(self, each.name) for each in fields(self)}
        del entries["folder"], entries["sites"]
        return {
            **columns,
            **entries,
            "config": dict(self.config),
            **{f"site {site.name}": asdict(site) for site in self.sites},
            "order of sites": [site.name for site in self.sites],
            "order of columns": list(self.form.names),
            "ignored columns": list(self.form.ignored),
            "target": self.form.target,
            "unit": [self.form.unit, self.form.most_rows],
            **self.beside,
            "code": f"fedsynth {__version__}, {code_digest()}",
        }

    def lines(self, name: str = "") -> list[str]:
        """Return for people what the study asks, and the fingerprints to compare.

        name: the reader's site.
        """
        settings = ", ".join(
            f"{key} = {value}" for key, value in asdict(self.plan.job.config).items()
        )
        sites = [
            f"    {site.name}{' (you)' if site.name == name else ''}: about {site.rows} rows, "
            f"key {keys.fingerprint(site.key) if site.key else 'none'}"
            + ", publishes its own figures"
            * site.publishes
            for site in self.sites
        ]
        method, trust = self.plan.method, self.plan.method.TRUST
        safe = f"safe from {server_of(method)} and {self.colluding} other site(s) together"
        return [
            f"  method   {self.method}: {settings}",
            f"  columns  {', '.join(self.form.names)} (see {self.folder / SCHEMA})",
            f"  budget   epsilon {self.epsilon:g}, delta {self.delta:g}, for {self.unit}"
            + f"; {self.holdout:.0%} of the rows are set aside for an evaluation with epsilon "
            f"{self.evaluation_epsilon:g}, "
            f"{'paid by these people alone' if self.other_people else 'and both add up'}"
            * bool(self.evaluation_epsilon),
            f"  trust    {safe if trust == 'secure sum' else TRUST[trust]}; no sum over fewer than "
            f"{self.minimum_group} sites; {self.absent} may drop out",
            f"  server   {self.server}",
            f"    its authority {keys.certificate_fingerprint(self.ca) if self.ca else 'none'}",
            "  sites",
            *sites,
            f"  code     {code_digest()}",
            f"  study    {self.digest}",
        ]

    @property
    def digest(self) -> str:
        """A fingerprint of the terms, code included, to be compared by telephone."""
        text = json.dumps(self.terms(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Plan:
    """The job of a run.

    schema: as the method sees the table; counted: the way there and back, where columns have gaps;
        config: as the study gives it, of columns that may have gaps.
    """

    job: Job
    encoder: Encoder
    schema: Schema
    counted: Counted | None
    config: Any

    @property
    def method(self) -> Method:
        """The method."""
        return self.job.method

    def encoded(self, frame: pd.DataFrame) -> np.ndarray:
        """Return rows as the method works on them."""
        joined = frame if self.counted is None else self.counted.join(frame)
        return self.encoder.transform(clamped(joined, self.schema))


def read_study(folder: str | Path) -> Study:
    """Read the study in a folder.

    Raises BadInput, in one sentence, for an entry that is missing, unknown, of another type, or out
    of range.
    """
    folder = Path(folder).expanduser().absolute()
    path = folder / STUDY
    if not path.is_file():
        inside = [each for each in folder.glob(f"*/{STUDY}") if each.is_file()]
        if len(inside) == 1:  # the folder of an app, with the study in its package
            return read_study(inside[0].parent)
        raise BadInput(f"{folder}: there is no {STUDY}; `fedsynth deploy init` writes one.")
    document = read_toml(path)
    sites = document.pop("site", [])
    if not isinstance(sites, list) or not all(isinstance(site, dict) for site in sites):
        raise BadInput(f"{path}: write [[site]], with name, rows and key, for each site.")
    read = tuple(typed(Site, site, f"{path}: site {n}") for n, site in enumerate(sites, 1))
    return typed(Study, document | {"folder": folder, "sites": read}, str(path))


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """Return what two parties' `terms` differ in, an entry or a column each.

    Nothing in it is of anybody's rows.
    """
    found: list[str] = []
    for name in dict.fromkeys([*ours, *theirs]):
        here, there = ours.get(name), theirs.get(name)
        if here == there or (found and name.startswith("order")):
            continue
        if not name.startswith("column "):
            found.append(f"{name} is {_shown(here)} here and {_shown(there)} at the server")
        elif here is None or there is None:
            found.append(f"{name} is in one of the two schemas alone")
        else:
            found += [
                f"{name} has {entry} = {_shown(here.get(entry))} here and "
                f"{_shown(there.get(entry))} at the server"
                for entry in dict.fromkeys([*here, *there])
                if here.get(entry) != there.get(entry)
            ]
    return found


def load_site(study: Study, name: str, path: str | Path) -> Table:
    """Load a site's file with the schema that all share.

    Raises BadInput for a file that does not fit it, BadRows where its rows do not: with how many,
    for the eyes of its owner alone.
    """
    table = load_table(Path(path), schema=study.folder / SCHEMA, private=True)
    declared = study.sites[study.index_of(name)].rows
    rows = len(rows_that_count(table, key=b""))  # as many by any key
    if rows < FEWEST_ROWS:
        raise BadRows(
            f"{path}: there is one row; a site needs {FEWEST_ROWS} at least, for with one, all "
            "that it says is about one person.",
            "a site needs more rows",
        )
    if not 0.5 < rows / declared < 2:
        raise BadRows(
            f"{path}: there are {rows} rows and {declared} are declared for {name!r}; is "
            "this the right file?",
            "the file is not of about the declared number of rows",
        )
    return table


def check_plan(study: Study) -> None:
    """Raise BadInput for settings and budgets that no run can have."""
    _ = study.plan


def check_flower() -> None:
    """Raise BadInput where Flower is too old, or too new."""
    found = version("flwr")
    if not OLDEST_FLOWER <= tuple(int(part) for part in found.split(".")[:2]) < NEXT_FLOWER:
        raise BadInput(
            f"Flower {found} is installed, and a deployment needs {FLOWER}: pip install "
            f"'flwr{FLOWER}'."
        )


@lru_cache(maxsize=1)
def code_digest(code: Path = CODE) -> str:
    """Return a fingerprint of the source that a study runs, to compare two installations.

    Code that draws, teaches, or judges results of published works may differ between parties.
    code: the folder that the package is in.
    """
    package = code / "fedsynth_lib"
    rooms = [path for room in STUDIED for path in (package / room).rglob("*.py")]
    rooms += (package / "methods").glob("*.toml")
    names = [path.relative_to(package).as_posix() for path in rooms]
    return _digest_of(package, sorted([*names, *STUDIED_TOO]))


def _digest_of(folder: Path, names: Sequence[str]) -> str:
    """Return a digest of these files, whatever ends their lines; a missing one counts as empty."""
    content = hashlib.blake2b(digest_size=8)
    for path in (folder / name for name in names):
        content.update(path.relative_to(folder).as_posix().encode())
        content.update(path.read_bytes().replace(b"\r\n", b"\n") if path.is_file() else b"")
    return content.hexdigest()


def _plain(entries: Mapping[str, Any], but: tuple[str, ...] = ()) -> dict[str, Any]:
    return json.loads(json.dumps({k: v for k, v in entries.items() if k not in but}))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
