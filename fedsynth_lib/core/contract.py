"""The method contract, and the few types that pass through it.

A method is six verbs and a promise; there is no base class. An author writes a module of these
names, and `Method` holds them:

    VERSION                                      raised whenever the method's output changes
    Config                                       frozen dataclass with the work's own values as
                                                 defaults; its `rounds`, a field or a property, is
                                                 the number of rounds
    encoder(schema, config)           -> Encoder how the method sees a table, from the declared
                                                 schema alone
    plan(noise_multiplier, domain, num_rows, config) -> [Charge]
                                                 the promise: everything one record's owner will
                                                 spend
    start(domain, config, rng)        -> state   before any data is seen: dict of arrays
    client_step(state, client, config, noise, rng) -> Update
                                                 the ONLY function that sees rows
    server_step(state, updates, config, noise, rng) -> (state, [Charge])
                                                 sees updates, never rows
    sample(state, num_rows, config, rng) -> rows post-processing, costs nothing

and, where the defaults do not serve:

    schedule(domain, config) -> [(draw, share), ...]
                                                 one entry per round: every client takes part with
                                                 probability `share`, and rounds of the same draw
                                                 have the same clients. Default: all clients in
                                                 each of Config.rounds rounds
    broadcast(state, config)          -> arrays  what clients are sent of the state. Default: all
    check_broadcast(state, domain, config, round) -> None
                                                 run at a client on what it was sent, before a row
                                                 is touched: raises BadBroadcast unless every array
                                                 has exactly the names, shapes, types and ranges
                                                 that the client's own domain and config allow in
                                                 this round. A method without it trusts its server
                                                 to keep to the protocol, and its statement says so
    OWN_NOISE = True                             where all noise is a client's own: its multiplier
                                                 is solved for its own rows, not for the client
                                                 that pays most
    TRUST = "local noise" | "secure sum" | "server"
                                                 who adds the noise: each client to what it sends;
                                                 the clients together, to a sum that alone is seen;
                                                 or a server that sees exact sums and must be
                                                 trusted. Left out without noise
    ADVERSARY                                    whom the guarantee holds against, where the words
                                                 of `core/statement.py` do not fit
    AS_PUBLISHED                                 settings that make the releases of the work as it
                                                 published them, where the defaults do not

A state whose array `finished` is true ends the run before the schedule does. Arrays whose names
begin with `secret/` stay on the server: clients are not sent them, and `Run.state` does not have
them.

State, updates and a client's memory are dicts of numpy arrays, so they travel
through Flower, hash and save as they are. A method with stages keeps the stage
in its state. Every release of noisy or clean information about rows appends a
Charge; epsilon is computed from all charges of all rounds in `core/accounting.py`, never
per round. Noise is a multiple of the sensitivity, drawn from `noise.rng`, which
is a stream apart from `rng` so that a release can use the system's entropy.

Unit of privacy: one record. Adjacency: add or remove one record; it is gone from the table, no
place is kept for it. How many rows a client has is declared before the run (`Client.size`) and
public: rates, steps, weights and noise follow from that number alone, never from
`len(client.rows)`. Each record belongs to exactly one client, hence clients compose in parallel.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from numbers import Real
from types import ModuleType
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

from fedsynth_lib.core.errors import BadBroadcast, BadInput, BadRows, checked_epsilon

Arrays = dict[str, np.ndarray]
Mechanism = Literal["laplace", "gaussian", "skellam", "exponential", "public", "unprotected"]
NOISY = ("laplace", "gaussian", "skellam", "exponential")
Relation = Literal["add_remove", "replace_one"]
SECRET = "secret/"  # begins the names of arrays that never leave the server


@dataclass(frozen=True)
class Charge:
    """One release, repeated `times`, with enough said about it to account for it.

    noise: scale of the noise as a multiple of the sensitivity. Laplace: scale / L1
        sensitivity, so one release costs 1 / noise. Gaussian: standard deviation / L2
        sensitivity. Skellam: standard deviation, of whole-number noise on counts of which a record
        changes one by 1. Exponential mechanism: Gumbel scale / score sensitivity, so one
        selection costs 2 / noise.
    sensitivity: how far one added or removed record moves the release, in the norm above.
    rate: Poisson sampling rate of records (Gaussian only).
    `public` and `unprotected` releases carry no noise: the first rest on an assumption
    that the statement names, the second are information about rows without any guarantee.
    """

    what: str
    mechanism: Mechanism
    noise: float = 0.0
    sensitivity: float = 1.0
    rate: float = 1.0
    times: int = 1
    round: int = 0
    client: int | None = None  # None: a release about the records of all clients

    @property
    def protected(self) -> bool:
        """Whether the release carries noise, so that epsilon accounts for it."""
        return self.mechanism in NOISY


@dataclass(frozen=True)
class Noise:
    """The noise multiplier of a run, and the stream that privacy noise is drawn from.

    secret: the stream began from the operating system's entropy, not from a seed.
    whole: Gaussian noise on counts is rounded to whole numbers (see `privacy.gaussian_counts`).
    """

    multiplier: float
    rng: np.random.Generator
    secret: bool = False
    whole: bool = True


@dataclass(frozen=True)
class Privacy:
    """What a run must guarantee; `epsilon=None` asks for no noise at all.

    relation: the convention in which `epsilon` is meant. The bundle accounts in
        add_remove; a work that bounds the replacement of a record (PrivBayes) says so here.
    noise_seed: 'run' derives the noise from the run's seed: repeatable, and void for whoever
        knows the seed. None draws it from the operating system: use that for releases.
        A number takes its place for the noise alone: for two runs that differ in nothing but noise.
    noise_multiplier: None has it calibrated to epsilon; a number is used as it is and refused
        if it would spend more than epsilon.
    curious: how many clients may pool what they know against another one. Noise that clients make
        together is made by the others alone: each adds a share of 1 / (clients - curious).
    reproduction: draw and account as the committed rows of the works do: Renyi accounting alone,
        shares of 1 / clients (curious is 0), and Gaussian noise on counts that is not rounded.
        Never for a release.
    large_delta: allow a delta above 1 / rows of the run, at which publishing whole records would be
        within the budget.
    """

    epsilon: float | None = None
    delta: float = 0.0
    relation: Relation = "add_remove"
    noise_seed: Literal["run"] | int | None = "run"
    noise_multiplier: float | None = None
    curious: int = 1
    reproduction: bool = False
    large_delta: bool = False

    def __post_init__(self):
        """Raise BadInput unless epsilon, delta, `curious` and `reproduction` are valid."""
        if self.epsilon is not None and checked_epsilon(self.epsilon) == float("inf"):
            raise BadInput("epsilon is inf: give a number, or None for a run without noise.")
        number = isinstance(self.delta, Real) and not isinstance(self.delta, bool)
        if not number or not 0 <= self.delta < 1:
            raise BadInput(
                f"delta is {self.delta!r}: give a number from 0 up to (not including) 1."
            )
        if self.curious < 0:
            raise BadInput(
                f"curious is {self.curious}: give the number of clients that may "
                "collude, 0 or more."
            )
        if self.reproduction and self.noise_seed is None:
            raise BadInput(
                "reproduction=True keeps draws that are not fit for release: leave it out, or "
                "keep the seed."
            )

    @property
    def whole(self) -> bool:
        """Whether Gaussian noise on counts is rounded."""
        return not self.reproduction

    @property
    def clients_that_collude(self) -> int:
        """The number `curious`; a reproduction assumes that no clients collude."""
        return 0 if self.reproduction else self.curious

    def shares(self, num_clients: int) -> int:
        """Return among how many clients the noise that they make together is divided.

        It is the number of clients less those that may collude, and at least 1. If it is 1, each
        client adds all of the noise by itself.
        """
        return max(1, num_clients - self.clients_that_collude)


@dataclass
class Client:
    """One data owner: its encoded rows, its place, and its private notebook between rounds.

    size: the declared, public number of its rows, which the number that it has may differ from.
    shares: among how many noise that is made together is divided: `num_clients` less the curious
        ones (see `Privacy.curious`). A method that divides by `num_clients` instead makes too
        little where one is curious.
    """

    rows: np.ndarray  # (rows, columns), as the method's encoder made them
    index: int
    num_clients: int  # that take part in this round
    memory: Arrays = field(default_factory=dict)  # never travels
    size: int = -1  # as many as `rows` has, where nothing else is declared
    shares: int = 0  # as many as `num_clients`, where nothing else is said

    def __post_init__(self):
        """Fill in the size and the shares if they are not given."""
        self.size = len(self.rows) if self.size < 0 else self.size
        self.shares = self.shares or self.num_clients


@dataclass(frozen=True)
class Update:
    """What a client sends.

    arrays: seen by the server as they are.
    summed: integer arrays of which the server learns only the sum over the round's clients
        (the runtime masks them; see `core/secure_sum.py`).
    groups: the clients that add to a summed array, where those are not all of the round; each must
        name the same.
    spent: the charges of this step, for what the server sees as it is.
    summed_spent: the charges of the summed arrays, stated by the client from what it really adds.
        They are for its own ledger alone: the server states the charges of the sum. Where the
        server is trusted to add the noise, they are of the noise that it is trusted to add.
    """

    arrays: Arrays = field(default_factory=dict)
    summed: Arrays = field(default_factory=dict)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    num_rows: int = 0  # declared for the client; set by the runtime
    spent: list[Charge] = field(default_factory=list)
    summed_spent: list[Charge] = field(default_factory=list)
    client: int = -1  # who sent it; set by the runtime


@dataclass(frozen=True)
class Domain:
    """Column names and the number of categories or bins of each.

    An encoder with discrete output sees the columns in this way.

    gaps: the columns whose last category says that there is no value.
    """

    names: tuple[str, ...]
    levels: tuple[int, ...]
    gaps: tuple[str, ...] = ()


class Encoder(Protocol):
    """Turns a table into a method's rows and back; made from the schema, never from rows."""

    domain: Domain

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Encode a frame as the rows that the method works on."""
        ...

    def inverse(self, rows: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
        """Decode such rows to a frame."""
        ...


def every_client_in_every_round(domain: Domain, config: Any) -> list[tuple[int, float]]:
    """Return the default schedule of a method: all clients take part in each round.

    Each round has a draw of its own.
    """
    return [(number, 1.0) for number in range(config.rounds)]


def whole_state(state: Arrays, config: Any) -> Arrays:
    """Return the whole state, which a method without `broadcast` sends its clients."""
    return state


@dataclass(frozen=True)
class Method:
    """The parts of a method, as the contract above names them, under one name.

    name: of the module or variant; statements, ledgers and messages say it.
    Two are equal where all their parts are the same, so that one module makes one method however
    often it is asked for.
    """

    name: str
    VERSION: int
    Config: type
    encoder: Callable[..., Encoder]
    plan: Callable[..., list[Charge]]
    start: Callable[..., Arrays]
    client_step: Callable[..., Update]
    server_step: Callable[..., tuple[Arrays, list[Charge]]]
    sample: Callable[..., np.ndarray]
    schedule: Callable[..., list[tuple[int, float]]] = every_client_in_every_round
    broadcast: Callable[..., Arrays] = whole_state
    check_broadcast: Callable[..., None] | None = None
    OWN_NOISE: bool = False
    TRUST: str = ""
    ADVERSARY: str = ""
    AS_PUBLISHED: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, source: "Method | ModuleType") -> "Method":
        """Return the method that a module is; a Method comes back as it is.

        Raises BadInput for a module that lacks a verb, VERSION or Config.
        """
        if isinstance(source, cls):
            return source
        name = source.__name__.rpartition(".")[2]
        parts = [each for each in fields(cls) if each.name != "name"]
        for part in parts:
            default = part.default is not MISSING or part.default_factory is not MISSING
            if not default and not hasattr(source, part.name):
                raise BadInput(f"method {name}: there is no {part.name}; see core/contract.py.")
        found = {part.name for part in parts if hasattr(source, part.name)}
        return cls(name, **{part: getattr(source, part) for part in found})

    def variant(
        self,
        name: str,
        *,
        trust: str | None = None,
        version: int | None = None,
        as_published: Mapping[str, Any] | None = None,
        module: str = "__main__",
        **defaults: Any,
    ) -> "Method":
        """Return the same verbs under another name, with other defaults in Config.

        trust, version: the base's, where None. as_published: of the variant; the base's are not
            handed on, since they speak of another work.
        module: where the variant is found under its name, so that its Config can be pickled; a
            variant made in a notebook travels to other processes by value.
        Raises BadInput for a default of no setting.
        """
        settings = {each.name: each.type for each in fields(self.Config)}
        if unknown := [setting for setting in defaults if setting not in settings]:
            raise BadInput(f"variant {name}: {self.name} has no setting {unknown[0]!r}.")
        changed = {
            "__doc__": f"As `{self.name}.Config`, with other defaults.",
            "__annotations__": {setting: settings[setting] for setting in defaults},
            "__module__": module,
            "__qualname__": f"{name}.Config",
        }
        return replace(
            self,
            name=name,
            Config=dataclass(frozen=True)(type("Config", (self.Config,), defaults | changed)),
            TRUST=self.TRUST if trust is None else trust,
            VERSION=self.VERSION if version is None else version,
            AS_PUBLISHED=as_published or {},
        )


@dataclass(frozen=True)
class Run:
    """What a finished run leaves behind: the model, its cost, and what it disclosed."""

    state: Arrays
    synthetic: pd.DataFrame
    statement: dict  # see privacy.statement
    seconds: float
    bytes_up: int
    bytes_down: int
    traffic: list[dict]  # one line per round, client, direction and kind of content, with its bytes


def stamp(charges: Iterable[Charge], *, round: int, client: int | None = None) -> list[Charge]:
    """Return the charges with the round and the client that they belong to.

    A charge that names a client already keeps that client.
    """
    return [
        replace(c, round=round, client=client if c.client is None else c.client) for c in charges
    ]


def stream(seed: int, *path: int | str) -> np.random.Generator:
    """Return a random generator of its own for every (seed, path).

    Its numbers do not depend on what other generators have drawn.

    >>> float(stream(7, "client", 3).random()) == float(stream(7, "client", 3).random())
    True
    """
    words = [
        int.from_bytes(part.encode(), "little") if isinstance(part, str) else part for part in path
    ]
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))


__all__ = [
    "SECRET",
    "Arrays",
    "BadBroadcast",
    "BadInput",
    "BadRows",
    "Charge",
    "Client",
    "Domain",
    "Encoder",
    "Mechanism",
    "Method",
    "Noise",
    "Privacy",
    "Relation",
    "Run",
    "Update",
    "every_client_in_every_round",
    "stamp",
    "stream",
]
