"""Whether the noise that is drawn is the noise that is charged.

A client that has no rows sends nothing but noise. So its own `client_step`, asked a few hundred
times, shows how wide the noise on every number of every round is, and one row more shows which
numbers it moves, and how far. From both follows what a row costs by what is sent, whatever the
method's own code says of it: that must be what is charged, in each round. Of several clients some
may be curious, so that the noise is made by the others alone: `Privacy.curious` counts.

Gradients are not sent as such. There each step of `core/dp_sgd.py` is looked at: bound, divisor,
number of steps and rate as charged and whatever the rows are, and the noise on the sum by
measurement. Beside the networks nothing is sent that is not charged. What a trusted server or a
client draws and does not send shows in the stream that it draws from.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.contract import Arrays, Charge, Method, Noise, Privacy, Update, stream
from fedsynth_lib.federation import flower, settings
from fedsynth_lib.federation.rounds import Round, copied, received, run_rounds
from fedsynth_lib.tables.load import Table

DRAWS = 300  # answers of a client that has no rows
ROWS = 20  # of which each is given to it once
PAIRS = 2  # answers with such a row, each beside one of the same noise without it
SURE = 6  # standard errors by which a measurement must miss what is charged
SLACK = 0.02  # for what is rounded to whole numbers, and for gradients of rows that are public
ALIKE = 0.5  # correlation of two numbers' noise that chance does not make
SEED = 5


class Draw(NamedTuple):
    """One call for noise: of which distribution, how wide, and for how many numbers."""

    kind: str
    scale: float
    values: int


class Listening(np.random.Generator):
    """A stream of the same numbers as another one, which notes what noise is drawn from it."""

    def __init__(self, rng: np.random.Generator):
        super().__init__(rng.bit_generator)
        self.draws: list[Draw] = []

    def _note(self, kind: str, scale: float, drawn: Any) -> Any:
        self.draws.append(Draw(kind, float(scale), int(np.size(drawn))))
        return drawn

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
        """Draw normal noise, and note it."""
        return self._note("normal", scale, super().normal(loc, scale, size))

    def laplace(self, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
        """Draw Laplace noise, and note it."""
        return self._note("laplace", scale, super().laplace(loc, scale, size))

    def gumbel(self, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
        """Draw Gumbel noise, and note it."""
        return self._note("gumbel", scale, super().gumbel(loc, scale, size))

    def poisson(self, lam: float = 1.0, size: Any = None) -> Any:
        """Draw Poisson variables, and note them."""
        return self._note("poisson", lam, super().poisson(lam, size))

    def negative_binomial(self, n: float, p: float, size: Any = None) -> Any:
        """Draw negative binomial variables, and note them."""
        return self._note("negative binomial", p, super().negative_binomial(n, p, size))


class Step(NamedTuple):
    """One step of private gradients.

    clip, multiplier, expected: what the step was told.
    records: how many records its batch has.
    square: the mean square of the gradient that it left.
    values: how many numbers the gradient has.
    """

    clip: float
    multiplier: float
    expected: float
    records: int
    square: float
    values: int


@contextmanager
def private_steps() -> Iterator[list[Step]]:
    """Collect all steps of private gradients that are made meanwhile."""
    from fedsynth_lib.core.dp_sgd import Tape  # torch takes long to import

    steps: list[Step] = []
    backward = Tape.backward

    def noted(tape: Tape, losses: Any, **told: Any) -> Any:
        norms = backward(tape, losses, **told)
        parts = [p.grad for layer in tape.layers for p in layer.parameters(recurse=False)]
        values = sum(part.numel() for part in parts)
        square = sum(float(part.double().square().sum()) for part in parts) / values
        names = ("clip", "noise_multiplier", "expected_records", "num_records")
        steps.append(Step(*(told[name] for name in names), square, values))
        return norms

    Tape.backward = noted
    try:
        yield steps
    finally:
        Tape.backward = backward


def overheard(method: Method, hear: Callable[[str, list[Draw]], None]) -> Method:
    """Return the method with its draws of noise reported to `hear`.

    After each step of a client or of the server, `hear` is called with whose step it was and with
    its draws.
    """

    def listened(step: Callable, who: str) -> Callable:
        def heard(state: Arrays, other: Any, config: Any, noise: Noise | None, rng: Any) -> Any:
            own = noise and replace(noise, rng=Listening(noise.rng))
            made = step(state, other, config=config, noise=own, rng=rng)
            hear(who, own.rng.draws if own else [])
            return made

        return heard

    verbs = {"client_step": "client", "server_step": "server"}
    return replace(
        method, **{verb: listened(getattr(method, verb), who) for verb, who in verbs.items()}
    )


@dataclass
class Probe:
    """A client in the place of the first one, in one round.

    rows: the rows that the first client has.
    memories: of a client without rows, one for each draw.
    memory: of a client with all rows, where private gradients are made.
    """

    job: flower.Job
    rows: np.ndarray
    memories: list[Arrays]
    memory: Arrays
    sent: Arrays = field(default_factory=dict)
    number: int = 0

    def answer(
        self, rows: np.ndarray, memory: Arrays, draw: int
    ) -> tuple[Update, list[Draw], list[Step]]:
        """Return the update with the noise of number `draw`, the draws, and the private steps."""
        own, path = self.job.noise("client", 0, self.number), (self.number, draw)
        heard = Listening(stream(SEED, "noise", *path))
        with private_steps() as steps:
            update = self.job.method.client_step(
                copied(self.sent),
                self.job.client(rows, 0, self.job.num_clients, memory),
                config=self.job.config,
                noise=replace(own, rng=heard),
                rng=stream(SEED, "other", *path),
            )
        return received(update), heard.draws, steps


def remember_choice(memories: Sequence[Arrays], update: Update) -> None:
    """Let clients in the place of the one that sent this update remember its choice as their own.

    The server says what this one chose, and a client answers no other choice.
    """
    for memory in memories:
        if "chosen" in memory and "chosen" in update.arrays:
            memory["chosen"] = update.arrays["chosen"]


def audit(
    method: Method, table: Table, *, config: Any = None, privacy: Privacy, clients: int = 3
) -> list[str]:
    """Return where what is drawn is not what is charged, a sentence each.

    The result is empty if the audit finds nothing.

    method: with all clients in every round by these settings.
    """
    parts = np.array_split(np.arange(len(table.frame)), clients)
    job, encoder = settings.job_of(
        method, table.schema, [len(part) for part in parts], config=config, privacy=privacy
    )
    rows = [encoder.transform(table.frame.iloc[part]) for part in parts]
    heard: list[Draw] = []  # by the server, in the last round
    hear = lambda who, draws: heard.extend(draws * (who == "server"))  # noqa: E731
    tapped = replace(job, method=overheard(job.method, hear))
    probe = Probe(job, rows[0], [{} for _ in range(DRAWS)], {})
    found, noise = [], []
    for probe.number, made in enumerate(run_rounds(tapped, rows)):
        probe.sent = made.sent
        wrong, shown = _round(probe, made, heard)
        first = next(update for update in made.updates if update.client == 0)
        remember_choice([*probe.memories, probe.memory], first)
        found += [f"round {probe.number}: {sentence}" for sentence in wrong]
        noise += [shown] * (shown is not None)
        heard.clear()
    return found + _repeated(noise)


def _round(probe: Probe, made: Round, heard: list[Draw]) -> tuple[list[str], np.ndarray | None]:
    """Return what is wrong with a round, and its noise, (draws, numbers).

    The noise is that of the numbers which rows move. It is None if the round is not judged by what
    is sent.

    heard: what the server drew.
    """
    paid = [c for c in made.charges if c.client in (None, 0) and c.mechanism != "public"]
    noisy = [charge for charge in paid if charge.protected]
    none, before = probe.rows[:0], copied(probe.memories[0])
    update, draws, steps = probe.answer(none, probe.memories[0], 0)
    if steps:
        full = probe.answer(probe.rows, probe.memory, 0)[2]
        wrong, rest = _gradients(steps, full, noisy, len(probe.rows))
        wrong += _beside(update, probe.sent, made.state if rest else {})
        return wrong + _draws(draws, [], rest, probe.job, once=True), None
    if heard or any(draw.kind == "gumbel" for draw in draws):
        cells = sum(values.size for values in secure_sum.total(made.updates).values())
        drawn = sum(draw.values for draw in heard if draw.kind == "normal")
        wrong = [f"{cells} sums have noise for {drawn}"] * (drawn < cells)
        return wrong + _draws(draws, heard, noisy, probe.job), None
    if not draws:
        wrong = [f"{charge.what}: charged, and no noise is drawn" for charge in noisy]
        held = probe.answer(probe.rows, probe.memory, 0)[0]
        if not paid and not np.array_equal(_flat(update), _flat(held)):
            wrong.append("what is sent follows rows, and nothing is charged")
        return wrong, None
    probe.memories[0] = before
    return _sent(probe, paid)


# --- what is sent ---------------------------------------------------------------------------------


def _flat(update: Update) -> np.ndarray:
    """Return all numbers that are sent, those of sums first."""
    summed = [values.view(np.int64) for values in update.summed.values()]
    found = [np.ravel(v).astype(float) for v in (*summed, *update.arrays.values())]
    return np.concatenate([np.zeros(0), *found])


def _sent(probe: Probe, paid: list[Charge]) -> tuple[list[str], np.ndarray]:
    """Return what is wrong by measurement, and the noise of the numbers that rows move.

    The width of the noise on each number, and what a row costs, are measured and compared with what
    was paid.
    """
    rows, memories, num_clients = probe.rows, probe.memories, probe.job.num_clients
    none, shares = rows[:0], probe.job.privacy.shares(num_clients)
    chosen = rows[np.linspace(0, len(rows) - 1, min(ROWS, len(rows))).astype(int)]
    with_row = np.array(
        [
            [_flat(probe.answer(row[None], copied(memories[k]), k)[0]) for k in range(PAIRS)]
            for row in chosen
        ]
    )
    updates = [probe.answer(none, memory, k)[0] for k, memory in enumerate(memories)]
    shown = np.array([_flat(update) for update in updates])
    summed = sum(values.size for values in updates[0].summed.values())
    # of a sum: all honest clients together
    many = np.where(np.arange(shown.shape[1]) < summed, shares, 1)
    moved = np.abs((with_row - shown[:PAIRS]).mean(axis=1))  # (rows, numbers)
    moved[moved < 1e-9] = 0
    squares = (shown - shown.mean(axis=0)) ** 2 * many * len(shown) / (len(shown) - 1)
    variance, error = squares.mean(axis=0), squares.std(axis=0) / np.sqrt(len(shown))
    bare = moved.any(axis=0) & (variance == 0)
    wrong = []
    if bare.any() and all(charge.protected for charge in paid):
        wrong.append(f"{bare.sum()} numbers move with a row and have no noise")
    noisy, charged = variance > 0, [charge for charge in paid if charge.protected]
    scales = _scales(charged, moved)
    if not scales:
        return [*wrong, "noise is sent, and nothing is charged"], shown[:, noisy]
    nearest = np.abs(np.log(variance[noisy][:, None]) - 2 * np.log([s for _, s in scales]))
    wrong += _widths(scales, charged, nearest.argmin(axis=1), variance[noisy], error[noisy])
    pure = np.array([charge.mechanism == "laplace" for charge, _ in scales])
    kinds = pure[nearest.argmin(axis=1)]
    wrong += _costs(moved[:, noisy], variance[noisy], error[noisy], kinds, charged)
    return wrong, shown[:, noisy & moved.any(axis=0)]


def _scales(charges: Sequence[Charge], moved: np.ndarray) -> list[tuple[Charge, float]]:
    """Return the standard deviations that noise may have.

    They are those of each charge. Counts with Skellam noise may also be sent as the sum of r
    measurements; the deviation is then sqrt(r) times as large.
    """
    repeats = {1} | {round(by) for by in np.unique(moved) if by > 1 and by == round(by)}
    found = []
    for charge in charges:
        scale = charge.noise * charge.sensitivity
        if charge.mechanism == "laplace":  # of whole numbers, as all that clients make together
            stay = np.exp(-1 / scale)
            found.append((charge, float(np.sqrt(2 * stay) / (1 - stay))))
        elif charge.mechanism == "skellam":
            found += [(charge, scale * np.sqrt(times)) for times in sorted(repeats)]
        else:
            found.append((charge, scale))
    return found


def _widths(
    scales: Sequence[tuple[Charge, float]],
    charged: Sequence[Charge],
    nearest: np.ndarray,
    variance: np.ndarray,
    error: np.ndarray,
) -> list[str]:
    """Return what does not fit between widths of noise and charges, a sentence each.

    These are numbers whose noise is not as wide as any charge says, and charges that no noise has.
    """
    wrong, seen = [], set()
    for place, (charge, scale) in enumerate(scales):
        if not (own := nearest == place).any():
            continue
        # charges of the same noise are found together
        seen |= {other.what for other, width in scales if np.isclose(width, scale, rtol=SLACK)}
        found, least = variance[own].mean(), scale**2
        unsure = SURE * float(np.sqrt((error[own] ** 2).sum())) / own.sum()
        if abs(found - least) > unsure + 2 * SLACK * least:
            wrong.append(
                f"{charge.what}: charged for noise of deviation {scale:.4g}, drawn is "
                f"{np.sqrt(found):.4g}, on {own.sum()} numbers"
            )
    missing = dict.fromkeys(charge.what for charge in charged if charge.what not in seen)
    return [*wrong, *(f"{what}: charged, and no number has this noise" for what in missing)]


def _costs(
    moved: np.ndarray,
    variance: np.ndarray,
    error: np.ndarray,
    pure: np.ndarray,
    charges: Sequence[Charge],
) -> list[str]:
    """Return whether a row costs more than is charged, a sentence for each kind of cost.

    The cost follows from how far the row moves each number and from the noise on it. It is epsilon
    for noise with pure epsilon, and 1 / noise^2 for other noise.
    """
    wrong = []
    for kind, power, what in ((pure, 1, "epsilon"), (~pure, 2, "1 / noise^2")):
        paid = [c for c in charges if (c.mechanism == "laplace") == (power == 1)]
        charged = sum(charge.times / charge.noise**power for charge in paid)
        scale = np.sqrt(variance[kind] / (2 if power == 1 else 1))
        costs = (moved[:, kind] / scale) ** power
        unsure = costs * (power / 2) * error[kind] / variance[kind]
        excess = costs.sum(axis=1) - charged * (1 + 2 * SLACK) - SURE * np.sqrt((unsure**2).sum(1))
        if len(excess) and excess.max() > 0:
            worst = costs.sum(axis=1)[excess.argmax()]
            wrong.append(f"a row costs {worst:.4g} ({what}), charged is {charged:.4g}")
    return wrong


def _repeated(noise: Sequence[np.ndarray]) -> list[str]:
    """Return a sentence if any two numbers have noise that is not independent.

    They may be in one round or in two. If their noise is the same, their difference has none.
    """
    if not noise:
        return []
    together = np.concatenate(noise, axis=1)
    alike = np.abs(np.corrcoef(together.T)) if together.shape[1] > 1 else np.eye(1)
    number = int((np.triu(alike, 1) > ALIKE).sum())
    return [f"{number} pairs of numbers have noise that is not independent"] * (number > 0)


# --- what is not sent -----------------------------------------------------------------------------


def _gradients(
    none: Sequence[Step], full: Sequence[Step], charges: Sequence[Charge], rows: int
) -> tuple[list[str], list[Charge]]:
    """Return what is wrong with private gradients, and the charges of other releases.

    none, full: the steps of a client without rows, and of one with `rows` rows.
    """
    told = {step[:3] for step in (*none, *full)}
    if len(told) > 1:
        shown = "; ".join(", ".join(f"{value:.4g}" for value in each) for each in sorted(told)[:3])
        return [f"clip, noise or divisor of gradients follow the rows: {shown}"], []
    ((clip, multiplier, expected),) = told
    ours = [c for c in charges if c.rate < 1 or (c.noise, c.sensitivity) == (multiplier, clip)]
    rest = [charge for charge in charges if charge not in ours]
    if len(ours) != 1:
        return [f"{len(ours)} charges for gradients with noise {multiplier:.4g}"], rest
    charge, wrong = ours[0], []
    for what, drawn, said in (
        ("noise", multiplier, charge.noise),
        ("clip", clip, charge.sensitivity),
        ("number of steps", len(none), charge.times),
        ("number of steps", len(full), charge.times),
    ):
        if not np.isclose(drawn, said):
            wrong.append(f"{charge.what}: {what} {drawn:.6g}, charged is {said:.6g}")
    values = sum(step.values for step in none)
    found = np.sqrt(np.mean([step.square for step in none])) * expected
    due = charge.noise * charge.sensitivity
    if abs(found / due - 1) > SLACK + SURE / np.sqrt(2 * values):
        wrong.append(
            f"{charge.what}: charged for noise {due:.4g} on their sum, drawn is {found:.4g}"
        )
    drawn = sum(step.records for step in full) - sum(step.records for step in none)
    most = rows * len(full)
    spread = np.sqrt(max(most * charge.rate * (1 - charge.rate), 1)) * 2  # of both together
    if abs(drawn - most * charge.rate) > SURE * spread:
        wrong.append(f"{charge.what}: rate {drawn / most:.4g}, charged is {charge.rate:.4g}")
    return wrong, rest


def _beside(update: Update, sent: Arrays, state: Arrays) -> list[str]:
    """Return what a client sends beside the networks that it was sent.

    What a client hides in the parameters of a network is not seen here.

    state: of the server afterwards, if more than gradients is charged. What the server keeps of
        that is no finding, even with the name of a client before or after its own name.
    """
    kept = {part for name in state for part in name.split("/")}
    networks = {
        name
        for name, values in update.arrays.items()
        if name in sent and sent[name].shape == values.shape
    }
    names = [*update.summed, *(update.arrays.keys() - networks - kept)]
    return [f"{name}: sent beside the gradients, and not charged" for name in sorted(names)]


def _draws(
    client: Sequence[Draw],
    server: Sequence[Draw],
    charges: Sequence[Charge],
    job: flower.Job,
    *,
    once: bool = False,
) -> list[str]:
    """Return noise that is drawn and not charged, or charged and not drawn, by how wide it is.

    once: whether a charge says how many draws there are. The scores by which choices are made are
    in records, or in shares of the rows that they look at.
    """
    sizes = (job.sizes[0], sum(job.sizes))
    drawn, due = Counter(), Counter()
    for own, size in ((client, sizes[0]), (server, sizes[1])):
        drawn.update(("gaussian", f"{d.scale:.6g}") for d in own if d.kind == "normal")
        drawn.update(("exponential", f"{d.scale * size:.6g}") for d in own if d.kind == "gumbel")
    for charge in charges:
        due[charge.mechanism, f"{charge.noise * charge.sensitivity:.6g}"] += charge.times
    wrong = [
        f"{mechanism} noise of {scale}: {drawn[mechanism, scale]} draws, "
        f"{due[mechanism, scale]} charged"
        for mechanism, scale in sorted(drawn | due)
        if (drawn[mechanism, scale] != due[mechanism, scale])
        and (
            once
            or mechanism == "exponential"
            or not (drawn[mechanism, scale] and due[mechanism, scale])
        )
    ]
    return wrong


def in_words(draws: Sequence[Draw]) -> str:
    """Write the kinds and widths of the noise, in an order that does not depend on the draws."""
    return ", ".join(sorted({f"{draw.kind} {draw.scale:.4g}" for draw in draws}))
