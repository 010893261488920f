"""Masks by key agreement: exact sums, with a client less too; what a server sees and what it can
make of it; who is refused, and by which code."""

from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import ArrayRecord, Context, Error, Message, RecordDict
from scipy.stats import chisquare
from test_methods import broken

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.contract import BadInput, Domain, Privacy, Update
from fedsynth_lib.core.ledger import Refused
from fedsynth_lib.federation import flower
from fedsynth_lib.methods.marginals import independent
from fedsynth_lib.release.deploy import masks, shares

KEYS = [ec.generate_private_key(ec.SECP256R1()) for _ in range(12)]
RUN = 2**64 - 3  # as large as Flower's numbers of runs


def job_of(num_clients=5, rounds=2, method=independent, curious=1):
    domain, config = Domain(("x", "y"), (2, 3)), independent.Config(rounds=rounds)
    return flower.Job(method, config, domain, None, 1, num_clients, Privacy(curious=curious))


def agreement_of(job=None, **options):
    job = job or job_of()
    sites = [key.public_key() for key in KEYS[: job.num_clients]]
    return masks.Agreement(job, sites, **{"study": "a study"} | options)


class Parties:
    """All clients and what each keeps, and a server, without a network. lost: who is dead."""

    def __init__(self, agreement, run=RUN):
        self.agreement, self.run, self.lost, self.seen = agreement, run, set(), []
        self.clients = [masks.ClientMasks(agreement, key) for key in KEYS[: len(agreement.sites)]]
        self.secrets = [{} for _ in self.clients]
        self.server = masks.ServerMasks(agreement)

    def ready(self):
        self.server.agree(self.ask, self.run)
        return self

    def reply(self, client, phase, **question):
        own = self.secrets[client]
        return self.clients[client].reply(phase, question, client=client, run=self.run, secrets=own)

    def ask(self, phase, questions, check):
        found = {}
        for client in questions.keys() - self.lost:
            found[client] = self.reply(client, phase, **questions[client])
            self.seen += [questions[client], found[client]]
            check(client, found[client])
        return found

    def mask(self, client, arrays, round=0, groups=None):
        return self.clients[client].mask(
            arrays,
            client=client,
            clients=self.agreement.rounds[round],
            run=self.run,
            round=round,
            groups=groups or {},
            secrets=self.secrets[client],
        )

    def updates(self, arrays, round=0, groups=None):
        """Of those who are not lost; arrays and groups by client."""
        groups = groups or {}
        return [
            Update(
                summed=self.mask(client, arrays[client], round, groups.get(client)),
                groups=groups.get(client, {}),
                client=client,
            )
            for client in self.agreement.rounds[round]
            if client not in self.lost
        ]

    def sums(self, updates, round=0):
        clients = self.agreement.rounds[round]
        opened = self.server.opened(updates, clients=clients, round=round, ask=self.ask)
        return secure_sum.total(opened)


# --- sums -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [set(), {0}, {2}, {4}])
@pytest.mark.parametrize("num_clients", [5, 7])
def test_sums_are_those_of_the_simulation(num_clients, lost):
    """Of every whole dtype and shape, in both rounds; without a client, of the rest."""
    rng = np.random.default_rng(0)
    parties = Parties(agreement_of(job_of(num_clients), absent=1)).ready()
    parties.lost = lost
    shapes = {"matrix": (5, 3), "scalar": (), "none": (0, 4), "long": (1000,)}
    dtypes = [np.dtype(kind + size) for kind in "iu" for size in "1248"] + [np.dtype(">i4")]
    for round in (0, 1):
        arrays = []
        for _ in range(num_clients):
            own = {
                f"{dtype} {shape}": rng.integers(0, 100, shapes[shape]).astype(dtype)
                for dtype in dtypes
                for shape in shapes
            }
            own["wide"] = rng.integers(-(2**59), 2**59, 50)
            arrays.append(own)
        sums = parties.sums(parties.updates(arrays, round), round)
        left = sorted(set(range(num_clients)) - lost)
        simulated = [
            Update(summed=secure_sum.mask(arrays[k], client=k, clients=left, round=0, seed=3))
            for k in left
        ]
        expected = secure_sum.total(simulated)
        assert sums.keys() == expected.keys()
        for name, values in expected.items():
            assert sums[name].dtype == np.int64 and np.array_equal(sums[name], values), name
            plain = sum(arrays[k][name].astype(np.int64) for k in left)
            assert np.array_equal(sums[name], np.broadcast_to(plain, values.shape))


@pytest.mark.parametrize("lost", [set(), {1}, {6}])
def test_sums_of_some_of_the_clients(lost):
    """Each group's sum is over those of it who have answered; groups overlap."""
    parties = Parties(agreement_of(job_of(9), absent=1)).ready()
    parties.lost = lost
    members = {
        "low": (0, 1, 2, 3),
        "odd": (1, 3, 5, 7),
        "all": tuple(range(9)),
        "top": (5, 6, 7, 8),
    }
    arrays = [
        {name: np.array([10**k]) for name, group in members.items() if k in group} for k in range(9)
    ]
    groups = {k: {name: members[name] for name in arrays[k] if name != "all"} for k in range(9)}
    sums = parties.sums(parties.updates(arrays, groups=groups))
    for name, group in members.items():
        assert sums[name].tolist() == [sum(10**k for k in group if k not in lost)]


def test_who_adds_nothing_helps_to_open_all_the_same():
    parties = Parties(agreement_of(absent=1)).ready()
    parties.lost = {0}
    group = {"a": (0, 1, 2, 3)}
    arrays = [{"a": np.array([10**k])} if k < 4 else {} for k in range(5)]
    updates = parties.updates(arrays, groups=dict.fromkeys(range(4), group))
    assert updates[-1].summed == {}
    assert parties.sums(updates)["a"].tolist() == [1110]
    assert sum("shares" in each for each in parties.seen) == 4


def test_rounds_that_only_some_clients_are_in():
    schedule = [(1, 0.6), (3, 0.6), (99, 1.0), (5, 0.6)]
    method = broken(independent, schedule=lambda domain, config: schedule)
    parties = Parties(agreement_of(job_of(8, method=method))).ready()
    rounds = parties.agreement.rounds
    assert len(set(map(tuple, rounds))) == 4 and min(map(len, rounds)) >= 3
    for number, clients in enumerate(rounds):
        arrays = {k: {"a": np.arange(4) * 10**k} for k in clients}
        sums = parties.sums(parties.updates(arrays, number), number)
        assert sums["a"].tolist() == [place * sum(10**k for k in clients) for place in range(4)]


def test_only_whole_numbers_can_be_summed():
    parties = Parties(agreement_of()).ready()
    for values in (np.zeros(3), np.zeros(3, bool)):
        with pytest.raises(TypeError, match="'a' has"):
            parties.mask(0, {"a": values})


# --- what masks look like -------------------------------------------------------------------------


# how often uniform bytes fail a test: of some 260 of them one does in 400,000 runs, and a mask that
# comes again has a p-value of 0
FALSE_ALARM = 1e-8


def pvalue(values):
    """That bytes are uniform, each and pairs of neighbours in the low ones."""
    found = np.bincount(np.ascontiguousarray(values).view(np.uint8).ravel(), minlength=256)
    return chisquare(found).pvalue


def test_masked_arrays_are_uniform_and_rounds_independent():
    """So are their differences: between rounds, arrays, clients and runs no mask comes again."""
    job, size = job_of(5, rounds=2), 20_000
    seen = {}
    for run in (1, 2):
        parties = Parties(agreement_of(job), run).ready()
        for round, client in product(range(2), range(2)):
            zeros = {"a": np.zeros(size, int), "b": np.zeros(size, int)}
            masked = parties.mask(client, zeros, round)
            seen |= {(run, round, client, name): masked[name] for name in zeros}
    assert min(map(pvalue, seen.values())) > FALSE_ALARM
    pairs = list(combinations(seen, 2))
    assert len(pairs) == 120
    assert min(pvalue(seen[one] - seen[other]) for one, other in pairs) > FALSE_ALARM
    assert min(pvalue(seen[one] + seen[other]) for one, other in pairs) > FALSE_ALARM
    # what a colluding pair of clients and the server can take off leaves the rest uniform
    parties = Parties(agreement_of(job)).ready()
    masked = parties.mask(0, {"a": np.full(size, 7)})["a"]
    for other in (1, 2):
        key = masks._secret(
            parties.secrets[other]["own"][0, 0].tobytes(),
            parties.secrets[0]["sent"][1].tobytes(),
            parties.agreement.pair(0, 0, other, RUN),
        )
        masks._add(masked, key, "a", -1)
    assert pvalue(masked) > FALSE_ALARM


def test_the_check_of_uniformity_can_fail():
    assert pvalue(np.arange(20_000)) < FALSE_ALARM


# --- what the server learns -----------------------------------------------------------------------


def told(parties, client, gone, round=0):
    """What a client answers that is told that these are gone."""
    question = {"round": np.array(round), "gone": np.array(gone, np.int64)}
    question["sealed"] = parties.server._sealed[parties.agreement.rounds[round], client, round]
    return parties.reply(client, "unmask", **question)["shares"]


def secrets_made(parties, answers, victim):
    """Which of a client's two secrets of round 0 come out of answers: (told gone, shares)."""
    made, true = set(), parties.secrets[victim]["own"][0]
    for kind in (0, 1):
        given = {
            client + 1: int.from_bytes(values[victim].tobytes())
            for client, (gone, values) in answers.items()
            if (victim in gone) == (kind == 0)
        }
        if given and shares.joined(given) == int.from_bytes(true[kind].tobytes()):
            made.add(("key", "seed")[kind])
    return made


def test_a_server_that_lies_gets_the_sum_without_a_living_client_and_nothing_else():
    parties = Parties(agreement_of(absent=1)).ready()
    updates = parties.updates([{"a": np.array([10**k])} for k in range(5)])
    parties.lost = {2}  # it is alive, and has answered
    kept = [update for update in updates if update.client != 2]
    assert parties.sums(kept)["a"].tolist() == [11011]
    for client, gone in product(
        (0, 1, 3, 4), ([], [2], [0], [3])
    ):  # the other sum, for a difference
        with pytest.raises(Refused, match="unmask-twice"):
            told(parties, client, gone)
    with pytest.raises(Refused, match="unmask-self"):
        told(parties, 2, [2])


def test_however_clients_are_lied_to_no_client_is_opened():
    """All five have answered. Each is told that nobody, client 0 or client 1 is gone: 3^5 ways,
    of which none gives both secrets of a client, or the keys of two."""
    made, views = Counter(), [(), (0,), (1,)]
    first = Parties(agreement_of(absent=1)).ready()
    first.updates([{"a": np.array([k])} for k in range(5)])
    before = first.secrets
    for choice in product(views, repeat=5):
        first.secrets = [dict(each) for each in before]
        answers = {}
        for client, gone in enumerate(choice):
            if client in gone:
                with pytest.raises(Refused, match="unmask-self"):
                    told(first, client, gone)
            else:
                answers[client] = gone, told(first, client, gone)
        found = [secrets_made(first, answers, victim) for victim in range(5)]
        assert all(len(each) <= 1 for each in found)
        assert sum("key" in each for each in found) <= 1
        made += Counter(str(each) for each in found)
    assert made["{'key'}"] > 0 and made["{'seed'}"] > 0 and made["set()"] > 0


def worst(agreement, clients, threshold):
    """Over all ways to tell each honest client who is gone, the most keys that a server can have,
    and whether it can have both secrets of an honest client."""
    colluding, absent = agreement.colluding, agreement.absent
    honest = range(clients - colluding)
    views = [
        [
            gone
            for size in range(absent + 1)
            for gone in combinations(honest, size)
            if me not in gone
        ]
        for me in honest
    ]
    most, both = 0, False
    for choice in product(*views):
        named = Counter(victim for gone in choice for victim in gone)
        keys = {victim for victim in honest if named[victim] + colluding >= threshold}
        seeds = {k for k in honest if len(honest) - named[k] + colluding >= threshold}
        most, both = max(most, len(keys)), both or bool(keys & seeds)
    return most, both


@pytest.mark.parametrize(
    ("clients", "curious", "absent"), [(3, 1, 1), (4, 1, 1), (5, 1, 1), (5, 2, 1), (6, 2, 1)]
)
def test_a_threshold_by_brute_force(clients, curious, absent):
    agreement = agreement_of(job_of(clients, curious=curious), absent=absent, smallest=1)
    threshold = agreement.threshold(clients)
    assert worst(agreement, clients, threshold) == (absent, False)
    most, both = worst(agreement, clients, threshold - 1)
    assert most > absent or both


def test_thresholds_for_a_hundred_clients():
    """As in the argument: more than half of the honest, and too many for one key too much."""
    counted = 0
    for clients, colluding, absent in product(range(1, 101), range(10), range(10)):
        found = masks.threshold(clients, colluding, absent)
        own = min(colluding, clients - 1)
        honest = clients - own
        assert own < found and 2 * found > clients
        if absent and found <= clients - absent:  # else the study is refused
            counted += 1
            assert 2 * (found - own) > honest
            assert (absent + 1) * (found - own) > honest * absent
    assert masks.threshold(3, 1, 0) == 2 and masks.threshold(100, 1, 9) == 91
    assert counted > 500


class Draws(list):
    """The numbers that are drawn, in order."""

    def __call__(self, below):
        return self.pop(0)


def test_fewer_shares_than_needed_say_nothing():
    """Brute force over a small field: with one share less, each secret goes with as many
    polynomials as any other."""
    prime, threshold, places = 7, 3, (1, 2, 4, 6)
    seen = {}
    for secret, *others in product(range(prime), repeat=threshold):
        own = shares.split(secret, places, threshold, prime=prime, draw=Draws(others))
        for few in combinations(zip(places, own, strict=True), threshold - 1):
            seen.setdefault(few, Counter())[secret] += 1
        for enough in combinations(zip(places, own, strict=True), threshold):
            assert shares.joined(dict(enough), prime=prime) == secret
    assert len(seen) == 6 * prime**2
    assert all(found == dict.fromkeys(range(prime), 1) for found in seen.values())


def test_shares_of_real_secrets():
    assert pow(3, shares.PRIME - 1, shares.PRIME) == 1 and shares.PRIME < 256**shares.BYTES
    for secret in (0, 1, 2**256 - 1):
        own = dict(zip(range(1, 101), shares.split(secret, range(1, 101), 51), strict=True))
        assert shares.joined(dict(list(own.items())[49:])) == secret
        assert shares.joined(dict(list(own.items())[50:])) != secret
        assert max(own.values()) < shares.PRIME and len(set(own.values())) == 100


# --- keys and their refusal -----------------------------------------------------------------------


def relayed(parties, **changed):
    """What a server sends on of all clients' keys, with some parts changed."""
    found = {}
    for client in range(len(parties.clients)):
        answer = parties.reply(client, "keys")
        found |= {f"{part}/{client}": values for part, values in answer.items()}
    return found


def stranger_signs(parties, keys):
    """Client 1's keys made by somebody without its node's key."""
    impostor = masks.ClientMasks(parties.agreement, KEYS[-1])
    made = impostor.reply("keys", {}, client=1, run=RUN, secrets={})
    return keys | {f"{part}/1": values for part, values in made.items()}


def of_another(name):
    def change(parties, keys):
        agreement, run = parties.agreement, RUN
        if name == "study":
            agreement = agreement_of(study="another study")
        if name == "run":
            run = 17
        made = masks.ClientMasks(agreement, KEYS[1]).reply(
            "keys", {}, client=1, run=run, secrets={}
        )
        return keys | {f"{part}/1": values for part, values in made.items()}

    return change


def without(name):
    return lambda parties, keys: {k: v for k, v in keys.items() if k != name}


def swapped(parties, keys):
    return keys | {f"{part}/1": keys[f"{part}/2"] for part in ("head", "public", "signature")}


def same_key(parties, keys):
    """Client 1 takes client 2's public key for its own, and signs it."""
    public = keys["public/1"].copy()
    public[1] = keys["public/2"][1]
    text = keys["head/1"].tobytes() + public.tobytes()
    signature = KEYS[1].sign(text, masks.ec.ECDSA(masks.hashes.SHA256()))
    return keys | {"public/1": public, "signature/1": np.frombuffer(signature, np.uint8)}


def one_bit(parties, keys):
    public = keys["public/1"].copy()
    public[3, 7] ^= 1
    return keys | {"public/1": public}


def low_order(parties, keys):
    """A point with which every exchange gives zeros."""
    public = keys["public/1"].copy()
    public[0] = 0
    text = keys["head/1"].tobytes() + public.tobytes()
    signature = KEYS[1].sign(text, masks.ec.ECDSA(masks.hashes.SHA256()))
    return keys | {"public/1": public, "signature/1": np.frombuffer(signature, np.uint8)}


def own_exchanged(parties, keys):
    """Client 0 is shown keys that it has not made now, but with its own signature."""
    made = parties.clients[0].reply("keys", {}, client=0, run=RUN, secrets={})
    return keys | {f"{part}/0": values for part, values in made.items()}


BAD_KEYS = {
    "missing": ("keys-missing", without("public/1")),
    "stranger signs": ("keys-signature", stranger_signs),
    "one bit": ("keys-signature", one_bit),
    "another study": ("keys-other", of_another("study")),
    "another run": ("keys-other", of_another("run")),
    "another client": ("keys-other", swapped),
    "equal": ("keys-equal", same_key),
    "weak": ("keys-weak", low_order),
    "own": ("keys-changed", own_exchanged),
    "one more": ("keys-stranger", lambda parties, keys: keys | {"head/5": keys["head/1"]}),
    "short": ("keys-garbage", lambda p, keys: keys | {"public/1": keys["public/1"][1:]}),
    "numbers": ("keys-garbage", lambda p, keys: keys | {"head/1": keys["head/1"].astype(float)}),
    "odd name": ("keys-garbage", lambda p, keys: keys | {"head": keys["head/1"]}),
    "doubled": ("keys-garbage", lambda p, keys: keys | {"head/01": keys["head/1"]}),
}


@pytest.mark.parametrize("case", BAD_KEYS)
def test_a_client_checks_all_keys_itself(case):
    """Whatever the server relays; and then it masks nothing."""
    code, change = BAD_KEYS[case]
    parties = Parties(agreement_of())
    keys = change(parties, relayed(parties))
    with pytest.raises(Refused, match=rf"client 0: .*\[{code}\]"):
        parties.reply(0, "shares", **keys)
    with pytest.raises(Refused, match="keys-lost"):
        parties.mask(0, {"a": np.arange(3)})


def test_keys_and_shares_are_given_once_a_run():
    parties = Parties(agreement_of())
    keys = relayed(parties)
    with pytest.raises(Refused, match="keys-twice"):
        parties.reply(0, "keys")
    parties.reply(0, "shares", **keys)
    with pytest.raises(Refused, match="keys-twice"):
        parties.reply(0, "shares", **keys)
    with pytest.raises(Refused, match="no phase 'secrets'"):
        parties.reply(0, "secrets")


def test_a_mask_is_used_once_and_for_its_run():
    """A node may keep its notebook over runs: the difference of two arrays under one mask would
    be theirs."""
    parties = Parties(agreement_of()).ready()
    parties.mask(0, {"a": np.arange(3)}, round=0)
    with pytest.raises(Refused, match="mask-twice"):
        parties.mask(0, {"a": np.arange(3)}, round=0)
    parties.run = 4  # the server leaves out the phases of a new run
    for act in (
        lambda: parties.mask(0, {"a": np.arange(3)}, round=1),
        lambda: told(parties, 0, []),
        lambda: parties.reply(0, "shares"),
    ):
        with pytest.raises(Refused, match="keys-lost"):
            act()
    old = parties.secrets[0]["own"].copy()
    parties.ready()
    assert not np.any(np.all(parties.secrets[0]["own"] == old, axis=-1))
    parties.mask(0, {"a": np.arange(3)}, round=0)


def test_a_client_opens_only_what_it_has_answered_last():
    parties = Parties(agreement_of(absent=1)).ready()
    with pytest.raises(Refused, match="unmask-unanswered"):
        told(parties, 0, [])
    parties.updates([{"a": np.array([1])}] * 5, round=0)
    with pytest.raises(Refused, match="unmask-unanswered"):
        told(parties, 0, [], round=1)
    for gone in ([1, 2], [7]):
        with pytest.raises(Refused, match="unmask-few"):
            told(parties, 0, gone)
    told(parties, 0, [1])


# --- groups, and what is agreed on ----------------------------------------------------------------


def test_small_groups_are_refused():
    parties = Parties(agreement_of(absent=1)).ready()
    for group in ((0, 1), (0, 1, 2), (1, 2, 3, 4), (0, 1, 2, 77)):
        with pytest.raises(Refused, match="group-small"):
            parties.mask(0, {"a": np.arange(3)}, groups={"a": group})
    parties.mask(0, {"a": np.arange(3)}, groups={"a": (0, 1, 2, 3)})
    # three sites of whom one is lost are two
    parties = Parties(agreement_of(job_of(3), absent=1)).ready()
    with pytest.raises(Refused, match="fewer than 3"):
        parties.mask(0, {"a": np.arange(3)})
    two = Parties(agreement_of(job_of(3), absent=1, smallest=2)).ready()  # by name
    two.lost = {1}
    assert two.sums(two.updates([{"a": np.array([10**k])} for k in range(3)]))["a"] == [101]


def test_what_cannot_be_agreed_on():
    job = job_of(5, curious=3)
    assert agreement_of(job).smallest == 5 and agreement_of(job, absent=1).smallest == 4
    for options, words in (
        ({"absent": 4}, "enough without the shares of 3 clients"),
        ({"absent": -1}, "absent is -1"),
        ({"smallest": 0}, "smallest is 0"),
        ({"absent": 2}, "round 0 has 4 clients, too few to do without 2"),
    ):
        chosen = job if "round" not in words else job_of(4, curious=3)
        with pytest.raises(BadInput, match=words):
            agreement_of(chosen, **options)
    keys = [KEYS[0].public_key()] * 2 + [KEYS[1].public_key()]
    for sites in (keys, keys[1:]):
        with pytest.raises(BadInput, match="2 different keys for 3 sites"):
            masks.Agreement(job_of(3), sites, "a study")


# --- through Flower's messages --------------------------------------------------------------------


class Each:
    """In one process: every client has masks of its own."""

    def __init__(self, agreement):
        self.each = [masks.ClientMasks(agreement, key) for key in KEYS]

    def mask(self, arrays, *, client, **options):
        return self.each[client].mask(arrays, client=client, **options)

    def reply(self, phase, question, *, client, **options):
        return self.each[client].reply(phase, question, client=client, **options)


class Wire(flower.LocalGrid):
    """As behind a SuperLink: a client's error comes back as a message, and all is overheard.

    meddle: (what is asked, round, client, reply) -> what arrives in its place, in a list.
    """

    def __init__(self, app, num_clients, meddle=None):
        super().__init__(app, num_clients)
        self.meddle, self.seen, self.timeouts = meddle or (lambda *_: [_[3]]), [], set()

    def send_and_receive(self, messages, *, timeout=None):
        self.timeouts.add(timeout)
        arrived = []
        for message in messages:
            node, content = message.metadata.dst_node_id, message.content
            message.metadata.__dict__["_message_id"] = f"{node} {len(self.seen)}"
            job = content.get("job", {})
            what, number = job.get("phase", message.metadata.message_type), job.get("round")
            self.seen.append(content)
            try:
                reply = self._app(message, self._contexts[node])
            except Exception as error:
                reply = Message(Error(1, str(error)), reply_to=message)
            for each in self.meddle(what, number, node - 1, reply):
                arrived.append(each)
                if not each.has_error():
                    self.seen.append(each.content)
        return arrived


LEVELS = np.array([2, 3])
ROWS = [np.array([[k % 2, k % 3]] * (10**k)) for k in range(5)]
COUNTS = [np.bincount([k % 2, 2 + k % 3], minlength=5) * 10**k for k in range(5)]


def run(meddle=None, *, absent=1, own=None, **options):
    """A run of five clients in two rounds; outcome and grid."""
    job = job_of()
    agreement = agreement_of(job, absent=absent)
    client = flower.client_app(job, lambda index: ROWS[index], masks=own or Each(agreement))
    outcome = flower.Outcome()
    server = masks.ServerMasks(agreement) if own is None else own
    grid = Wire(client, job.num_clients, meddle)
    app = flower.server_app(job, outcome, masks=server, **options)
    app(grid, Context(flower.LOCAL_RUN, 0, {}, RecordDict(), {}))
    return outcome, grid


def counts(*rounds):
    """What the state comes to if these clients are in the sum of each round."""
    return sum(COUNTS[k] for clients in rounds for k in clients).tolist()


ALL, STEP = range(5), flower.STEP


def test_through_messages_the_sums_are_those_of_the_simulation():
    outcome, grid = run(timeout=7.5)
    assert outcome.state["counts"].tolist() == counts(ALL, ALL) and outcome.refused == []
    assert grid.timeouts == {7.5}
    simulated, _ = run(own=job_of().simulated_masks, absent=0)
    assert outcome.state["counts"].tolist() == simulated.state["counts"].tolist()

    def size(run, *kinds):
        return sum(line["bytes"] for line in run.traffic if line["kind"] in kinds)

    kinds = {(line["round"], line["kind"]) for line in outcome.traffic}
    assert kinds == {(-1, "arrays"), *product((0, 1), ("arrays", "state", "summed"))}
    assert size(outcome, "state", "summed") == size(simulated, "state", "summed")
    assert size(simulated, "arrays") == 0


def test_the_server_sees_no_count_and_no_secret_that_is_not_given():
    _, grid = run()
    text = transcript(grid)
    for client, own in enumerate(COUNTS):
        assert own.astype(np.int64).tobytes() not in text
        secrets = flower.unpack(grid._contexts[client + 1].state["masks"])
        for key in (secrets["sealing"], *secrets["own"].reshape(-1, 32)):
            assert key.tobytes() not in text
        assert secrets["sent"].tobytes() in text  # what is public is there
    # the search finds what is there
    _, bare = run(own=Bare(), absent=0)
    assert all(own.astype(np.int64).tobytes() in transcript(bare) for own in COUNTS)


class Bare(flower.Simulated):
    """No masks."""

    def __init__(self):
        super().__init__(0)

    def mask(self, arrays, **options):
        return {name: secure_sum.whole(name, values) for name, values in arrays.items()}


def transcript(grid):
    return b"|".join(
        array.data
        for content in grid.seen
        for record in content.array_records.values()
        for array in record.values()
    )


def dies(client, what, number):
    """Says nothing any more from there on, in which the answer is computed and lost."""
    dead = []

    def meddle(asked, round, who, reply):
        dead.extend([client] * ((asked, round, who) == (what, number, client)))
        return [] if who in dead else [reply]

    return meddle


def left(client):
    return [k for k in ALL if k != client]


@pytest.mark.parametrize("client", ALL)
@pytest.mark.parametrize(
    ("what", "number"),
    [(STEP, 0), ("unmask", 0), (STEP, 1), ("unmask", 1), ("keys", -1), ("shares", -1)],
)
def test_any_client_may_die_at_any_time(client, what, number):
    """After the keys the sums are over who has answered; before, the run does not begin."""
    meddle = dies(client, what, number)
    if number == -1:
        with pytest.raises(RuntimeError, match=rf"before the first round: .*client {client}: no"):
            run(meddle)
        return
    outcome, _ = run(meddle)
    first = left(client) if (what, number) == (STEP, 0) else ALL
    second = left(client) if (what, number) != ("unmask", 1) else ALL
    assert outcome.state["counts"].tolist() == counts(first, second)
    (line,) = outcome.refused
    assert line == {"round": number, "client": client, "code": "late", "why": "no answer"}


@pytest.mark.parametrize("absent", [0, 1])
def test_where_more_die_than_the_noise_allows_nothing_is_opened(absent):
    outcome = {}

    def meddle(asked, round, who, reply):
        outcome.setdefault("asked", []).append(asked)
        return [] if asked == STEP and who in range(absent + 1) else [reply]

    match = rf"client {absent}: no answer \[late\]; the run can do without {absent} of its 5"
    with pytest.raises(RuntimeError, match=match):
        run(meddle, absent=absent)
    assert "unmask" not in outcome["asked"]


def test_where_too_few_help_nothing_is_opened():
    def meddle(asked, round, who, reply):
        return [] if asked == "unmask" and who < 3 else [reply]

    with pytest.raises(RuntimeError, match=r"2 of 5 clients have given shares, and 3 open a sum"):
        run(meddle)


# --- answers that are refused ---------------------------------------------------------------------


def changed(kind, change):
    """Client 3's answer in round 1 with a record changed: kind -> change(arrays)."""

    def meddle(asked, round, who, reply):
        if (asked, round, who) == (STEP, 1, 3):
            change(reply.content[kind]) if kind == "about" else reply.content.update(
                {kind: flower.pack(change(flower.unpack(reply.content[kind])))}
            )
        return [reply]

    return meddle


def said(**about):
    return changed("about", lambda record: record.update(about))


def summed(change):
    return changed("summed", lambda arrays: {"counts": change(arrays["counts"])})


def raw(**options):
    """A packed array whose bytes do not make what it says."""

    def meddle(asked, round, who, reply):
        if (asked, round, who) == (STEP, 1, 3):
            array = {"dtype": "<u8", "shape": (5,), "stype": "raw", "data": bytes(40)} | options
            reply.content["summed"] = ArrayRecord(array_dict={"counts": flower.Array(**array)})
        return [reply]

    return meddle


def at_step(act):
    return lambda asked, round, who, reply: (
        act(reply) if (asked, round, who) == (STEP, 1, 3) else [reply]
    )


def replays():
    """In round 1 what it has said in round 0."""
    kept = []

    def meddle(asked, round, who, reply):
        if (asked, who) == (STEP, 3):
            kept.append(reply)
            return [kept[0]]
        return [reply]

    return meddle


def fails(reply):
    return [Message(Error(1, "out of memory"), reply_to=Asked(reply))]


class Asked:
    """The message that a reply answers, as far as an error needs it."""

    def __init__(self, reply):
        self.metadata = reply.metadata.__class__(
            run_id=reply.metadata.run_id,
            message_id=reply.metadata.reply_to_message_id,
            src_node_id=reply.metadata.dst_node_id,
            dst_node_id=reply.metadata.src_node_id,
            reply_to_message_id="",
            group_id="",
            created_at=reply.metadata.created_at,
            ttl=reply.metadata.ttl,
            message_type=reply.metadata.message_type,
        )


def no_record(reply):
    del reply.content["summed"]
    return [reply]


BAD_ANSWERS = {
    "late": at_step(lambda reply: []),
    "twice": at_step(lambda reply: [reply, reply]),
    "client": said(client=2),
    "replay": replays(),
    "replay of a run": said(run="12"),
    "garbage: about": changed("about", lambda record: record.pop("client")),
    "garbage: spent": said(spent="[{"),
    "garbage: groups": said(groups="[1]"),
    "garbage: no record": at_step(no_record),
    "garbage: bytes": raw(data=bytes(39)),
    "garbage: shape": raw(shape=(6,)),
    "garbage: dtype": raw(dtype="|O"),
    "garbage: text": raw(dtype="<U2"),
    "dtype": summed(lambda counts: counts.view(np.int64)),
    "dtype of floats": summed(lambda counts: counts.astype(float)),
    "size": summed(lambda counts: counts[1:]),
    "size of rows": said(num_rows=7),
    "size of shape": summed(lambda counts: counts.reshape(5, 1)),
    "nan": changed("arrays", lambda arrays: {"weights": np.array([1.0, np.nan])}),
    "nan: infinite": changed("arrays", lambda arrays: {"weights": np.array([np.inf])}),
    "names: another": changed("summed", lambda arrays: {"count": arrays["counts"]}),
    "names: one more": changed("summed", lambda arrays: arrays | {"b": arrays["counts"]}),
    "names: none": changed("summed", lambda arrays: {}),
    "groups": said(groups='{"counts": [0, 1, 2, 3]}'),
    "groups: small": said(groups='{"counts": [2, 3]}'),
    "groups: without it": said(groups='{"counts": [0, 1, 2, 4]}'),
}


@pytest.mark.parametrize("case", BAD_ANSWERS)
def test_a_bad_answer_is_refused_by_its_code_and_the_sum_is_that_of_the_others(case, monkeypatch):
    job = job_of()
    declared = flower.Job(**vars(job) | {"sizes": tuple(map(len, ROWS))})
    monkeypatch.setattr("test_deploy_masks.job_of", lambda *_, **__: declared)
    code = case.split(":")[0].split(" ")[0]
    outcome, _ = run(BAD_ANSWERS[case])
    (line,) = outcome.refused
    assert (line["round"], line["client"], line["code"]) == (1, 3, code)
    assert outcome.state["counts"].tolist() == counts(ALL, left(3))


def test_without_clients_to_spare_a_bad_answer_ends_the_run():
    with pytest.raises(RuntimeError, match=r"round 2: client 3: 2 answers \[twice\]; the run can"):
        run(BAD_ANSWERS["twice"], absent=0)


def test_shares_that_do_not_fit_are_noticed():
    """Else the sum would be noise, and nobody would know."""

    def meddle(asked, round, who, reply):
        if asked == "unmask" and who == 1:
            shares_ = flower.unpack(reply.content["arrays"])["shares"]
            shares_[2, -1] ^= 1
            reply.content["arrays"] = flower.pack({"shares": shares_})
        return [reply]

    with pytest.raises(
        RuntimeError, match=r"client 2's secret, from clients .* \[shares-garbage\]"
    ):
        run(meddle)


@pytest.mark.parametrize("change", [lambda s: s[1:], lambda s: s.astype(int), lambda s: s | 255])
def test_shares_of_another_form_are_refused(change):
    def meddle(asked, round, who, reply):
        if asked == "unmask" and who == 1:
            shares_ = flower.unpack(reply.content["arrays"])["shares"]
            reply.content["arrays"] = flower.pack({"shares": change(shares_)})
        return [reply]

    outcome, _ = run(meddle)
    (line,) = outcome.refused
    assert (line["client"], line["code"]) == (1, "shares-garbage")
    assert outcome.state["counts"].tolist() == counts(ALL, left(1))


def test_a_client_that_has_lost_its_keys_is_gone():
    """As after a restart of its node; what is refused says so."""

    def meddle(asked, round, who, reply):
        return [reply]

    grids = []

    def forgets(asked, round, who, reply):
        if (asked, round, who) == ("unmask", 0, 4):
            del grids[0]._contexts[5].state["masks"]
        return [reply]

    made = Wire.__init__

    def noting(self, *arguments):
        made(self, *arguments)
        grids.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wire, "__init__", noting)
        outcome, _ = run(forgets)
    (line,) = outcome.refused
    assert (line["round"], line["client"], line["code"]) == (1, 4, "failed")
    assert "keys-lost" in line["why"]
    assert outcome.state["counts"].tolist() == counts(ALL, left(4))
