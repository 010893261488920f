"""Masks of secure sums that clients agree on in secret, and sums that outlive a client.

As in Bonawitz et al. 2017, with the complete graph of pairs. For each round of a run every client
has an X25519 key pair, whose secret with another client's makes the mask of that pair (HKDF-SHA256,
ChaCha20, added modulo 2^64 by the lower index and subtracted by the higher), and a seed of its own
for a mask that no other client has. It gives every client of the round a share of both, in secret
(Shamir; X25519, ChaCha20-Poly1305). After the answers the server asks those who answered for their
shares: of the own seed of each client that has answered, of the pair key of each that has not. Then
it can take off all masks that do not cancel. Three phases:

    keys     before the first round: a client's public keys of all rounds, signed with the key that
             stands in the study, for this study, run and client; and digests of its seeds
    shares   before the first round: every client checks all signatures itself, then sends shares
    unmask   after the answers of a round

Who learns what
---------------
**A server that keeps to the protocol, with up to threshold - 1 clients**: the sum over the other
clients that have answered, and who they are. Nothing about one client's array, nor about the array
of a client that was too late: its own seed is never asked for.

**A server that lies** may relay, withhold, replay, invent, or say that a living client is gone. It
cannot make keys: each is signed by its node, and a client knows the others' public keys from the
study. It cannot open two sums of a round, whose difference would be one client's array with nothing
but its own share of the noise: a client answers `unmask` once a round, and gives of each client
either the share of its seed or that of its key. With c colluding clients among n, of which the run
can do without m, the threshold is above c + (n - c) m / (m + 1), at least above n / 2. Were both of
one client's secrets known, each would have come from threshold - c honest clients, more than half
of them. Were more than m keys known, honest clients would have named more than m times (threshold -
c), hence more than (n - c) m, clients as gone; each names m at most. So what is opened is one sum,
over at least n - m clients, and a server that lies about who is gone gets the sum that it would get
if it were true. The graph is complete: in a sparse one c clients can be all neighbours of another,
and for some hundred clients a complete one costs seconds.

**Noise.** Clients add shares of noise that are enough without those of `Privacy.curious` clients
(K - t). `absent` of these t may be missing, so at most t - absent may collude; where more are
missing, clients give no share, and nothing is opened. Trying the round again with those left would
be worse: with the same noise, two sums whose difference is one client's array under its own share
of the noise; with fresh noise, a second release at full price.

**Small groups.** A sum of two tells each of them the other's array. A client adds to no sum that
may come out with fewer than `smallest` clients: 3, or two more than collude; 2 only by name.

**Out of scope**: more colluding clients than declared; a client that lies about its rows, or spoils
a sum (shares that do not fit are noticed, a wrong array is not); who takes part, when, and how
large arrays are; a stolen node key; a server, or a client, that ends the run. A client that has
lost its keys by a restart counts as gone.

Codes of what is refused, by clients and by the server: keys-missing, keys-garbage, keys-stranger,
keys-other (another study, run or client), keys-signature, keys-equal, keys-changed, keys-weak,
keys-twice, keys-lost; group-small, mask-twice; unmask-twice, unmask-unanswered, unmask-few,
unmask-self; shares-broken, shares-garbage, shares-few.
"""

import hashlib
import secrets as system
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.contract import Arrays, BadInput, Update
from fedsynth_lib.core.ledger import Refused
from fedsynth_lib.federation.answers import BadAnswer
from fedsynth_lib.federation.flower import Job
from fedsynth_lib.federation.masks import Ask
from fedsynth_lib.release.deploy.shares import BYTES, PRIME, joined, split

PROTOCOL = "fedsynth masks 1"
KEY = 32  # bytes of an X25519 key, of a seed, of a digest
SEALED = 2 * BYTES + 16  # both shares of a client in a round, with a tag


def threshold(clients: int, colluding: int, absent: int) -> int:
    """How many of so many clients open a sum; see above."""
    colluding = min(colluding, clients - 1)
    return max(clients // 2, colluding + (clients - colluding) * absent // (absent + 1)) + 1


@dataclass(frozen=True)
class Agreement:
    """What all parties know of a run before it begins.

    sites: the public key of each client, from the study. study: its digest, and whatever else sets
    this job apart from others in the same run.
    absent: how many clients of a round may be missing, of the `Privacy.curious` of the job.
    smallest: fewest clients of a sum; None: 3, or two more than may collude.
    Raises BadInput.
    """

    job: Job
    sites: Sequence[ec.EllipticCurvePublicKey]
    study: str
    absent: int = 0
    smallest: int | None = None

    def __post_init__(self):
        """Check that sites have keys of their own, and that sums are large enough."""
        raw = {(key.curve.name, key.public_numbers()) for key in self.sites}
        if len(self.sites) != self.job.num_clients or len(raw) < len(self.sites):
            raise BadInput(
                f"the study has {len(raw)} different keys for {self.job.num_clients} sites: give "
                "each site a key of its own."
            )
        if self.smallest is None:
            object.__setattr__(self, "smallest", max(3, self.colluding + 2))
        if not 0 <= self.absent <= self.job.privacy.clients_that_collude:
            raise BadInput(
                f"absent is {self.absent}: the noise is enough without the shares of "
                f"{self.job.privacy.clients_that_collude} clients (curious); raise that as well."
            )
        if self.smallest < 1:
            raise BadInput(f"smallest is {self.smallest}: give at least 1 client.")
        for number, clients in enumerate(self.rounds):
            if self.absent and self.threshold(len(clients)) > len(clients) - self.absent:
                raise BadInput(
                    f"round {number} has {len(clients)} clients, too few to do without "
                    f"{self.absent} safely; lower absent, or let more take part."
                )

    @property
    def colluding(self) -> int:
        """How many clients may collude, with others and with the server."""
        return self.job.privacy.clients_that_collude - self.absent

    @cached_property
    def rounds(self) -> list[list[int]]:
        """The clients of each round, as the schedule draws them."""
        return [sorted(self.job.participants(*entry)) for entry in self.job.schedule()]

    def threshold(self, clients: int) -> int:
        """How many of so many clients open a sum."""
        return threshold(clients, self.colluding, self.absent)

    def head(self, client: int, run: int) -> bytes:
        """Return what a client's keys are for."""
        return _label(PROTOCOL, self.study, run, client)

    def pair(self, round: int, one: int, other: int, run: int) -> bytes:
        """Return what the mask of two clients is for."""
        return _label(PROTOCOL, "pair", self.study, run, round, min(one, other), max(one, other))

    def own(self, round: int, client: int, run: int) -> bytes:
        """Return what the mask that a client has alone is for."""
        return _label(PROTOCOL, "own", self.study, run, round, client)

    def sealing(self, sender: int, receiver: int, run: int) -> bytes:
        """Return what the key is for that hides one client's shares on their way to another."""
        return _label(PROTOCOL, "shares", self.study, run, sender, receiver)

    def check_keys(self, client: int, run: int, keys: Arrays) -> None:
        """Check that these are the client's keys of this run, signed by its node.

        Raises BadAnswer where they are not.
        """
        shape = (1 + 2 * len(self.rounds), KEY)
        if set(keys) != {"head", "public", "signature"}:
            raise BadAnswer("keys-missing", f"client {client} has sent no keys")
        if any(part.dtype != np.uint8 for part in keys.values()) or keys["public"].shape != shape:
            raise BadAnswer("keys-garbage", f"the keys of client {client} have another form")
        head = keys["head"].tobytes()
        if head != self.head(client, run):
            raise BadAnswer("keys-other", f"keys of client {client} are of another study or run")
        try:
            text = head + keys["public"].tobytes()
            self.sites[client].verify(keys["signature"].tobytes(), text, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise BadAnswer(
                "keys-signature", f"the node of client {client} has not signed its keys"
            ) from None

    def checked(self, run: int, keys: Mapping[int, Arrays]) -> np.ndarray:
        """Check and return the public keys of all clients, uint8 (clients, 1 + 2 rounds, 32).

        Raises BadAnswer where `check_keys` does, or keys are missing or alike.
        """
        everyone = range(len(self.sites))
        if strangers := sorted(set(keys) - set(everyone)):
            raise BadAnswer("keys-stranger", f"client {strangers[0]} is not in the study")
        for client in everyone:
            self.check_keys(client, run, keys.get(client, {}))
        public = np.stack([keys[client]["public"] for client in everyone])
        if len({each.tobytes() for each in public.reshape(-1, KEY)}) < public[..., 0].size:
            raise BadAnswer("keys-equal", "two clients, or two rounds, have the same key")
        return public


@dataclass(frozen=True)
class ClientMasks:
    """A client's part, see `federation.masks.Masks`. key: its node's own, as the study has it."""

    agreement: Agreement
    key: ec.EllipticCurvePrivateKey

    def reply(
        self, phase: str, question: Arrays, *, client: int, run: int, secrets: Arrays
    ) -> Arrays:
        """Return the answer in a phase, see above."""
        phases = {"keys": self._keys, "shares": self._shares, "unmask": self._unmask}
        if phase not in phases:
            raise Refused(f"client {client}: there is no phase {phase!r} of the masks.")
        try:
            return phases[phase](question, client, run, secrets)
        except BadAnswer as error:
            raise Refused(f"client {client}: {error}") from None

    def mask(
        self,
        arrays: Arrays,
        *,
        client: int,
        clients: Sequence[int],
        run: int,
        round: int,
        groups: Mapping[str, Sequence[int]],
        secrets: Arrays,
    ) -> Arrays:
        """Add to the arrays the masks of all pairs of their group, and the client's own."""
        agreement = self.agreement
        if "public" not in secrets or _run_of(secrets) != run:
            if not arrays:
                return {}
            raise Refused(f"client {client}: it has no keys of this run [keys-lost].")
        if round <= int(secrets.get("answered", -1)):
            raise Refused(f"client {client}: masks of round {round} are used once [mask-twice].")
        for name in arrays:
            group = set(groups.get(name, clients)) & set(clients)
            if client not in group or len(group) - agreement.absent < agreement.smallest:
                raise Refused(
                    f"client {client}: the sum {name!r} of {len(group)} clients may come out with "
                    f"fewer than {agreement.smallest} [group-small]."
                )
        key, seed = secrets["own"][round]
        others = {
            other: _secret(
                key.tobytes(),
                secrets["public"][other, _place(round)].tobytes(),
                agreement.pair(round, client, other, run),
            )
            for other in clients
            if other != client
        }
        own = _derived(seed.tobytes(), agreement.own(round, client, run))
        hidden = {}
        for name, values in arrays.items():
            hidden[name] = secure_sum.whole(name, values)
            _add(hidden[name], own, name, 1)
            for other in others.keys() & set(groups.get(name, clients)):
                _add(hidden[name], others[other], name, 1 if client < other else -1)
        secrets["answered"] = np.array(round)
        return hidden

    # --- before the first round -------------------------------------------------------------------

    def _keys(self, question: Arrays, client: int, run: int, secrets: Arrays) -> Arrays:
        if "run" in secrets and _run_of(secrets) == run:
            raise BadAnswer("keys-twice", "its keys of this run were asked for before")
        secrets.clear()  # a node may keep its notebook over runs
        number = len(self.agreement.rounds)
        own = [system.token_bytes(KEY) for _ in range(1 + 2 * number)]
        public = [_public(own[0])]
        for key, seed in zip(own[1::2], own[2::2], strict=True):
            public += [_public(key), hashlib.sha256(seed).digest()]
        head = self.agreement.head(client, run)
        signature = self.key.sign(head + b"".join(public), ec.ECDSA(hashes.SHA256()))
        secrets["run"] = _bytes(str(run).encode())
        secrets["sealing"] = _bytes(own[0])
        secrets["own"] = _bytes(b"".join(own[1:])).reshape(number, 2, KEY)
        secrets["sent"] = _bytes(b"".join(public)).reshape(-1, KEY)
        return {"head": _bytes(head), "public": secrets["sent"], "signature": _bytes(signature)}

    def _shares(self, question: Arrays, client: int, run: int, secrets: Arrays) -> Arrays:
        """Return for each other client its sealed shares, which it alone can read.

        uint8 (clients, rounds, SEALED); zeros where one of the two is not in the round.
        """
        self._check_run(run, secrets)
        if "public" in secrets:
            raise BadAnswer("keys-twice", "its shares of this run were asked for before")
        agreement = self.agreement
        public = agreement.checked(run, keys_of(question))
        if not np.array_equal(public[client], secrets["sent"]):
            raise BadAnswer("keys-changed", "the keys that are said to be its own are not")
        ciphers = {
            other: self._cipher(client, other, client, run, public, secrets)
            for other in range(len(public))
            if other != client
        }
        sealed = np.zeros((len(public), len(agreement.rounds), SEALED), np.uint8)
        kept = np.zeros((len(agreement.rounds), 2, BYTES), np.uint8)
        for round, clients in enumerate(agreement.rounds):
            if client not in clients:
                continue
            places, threshold = [other + 1 for other in clients], agreement.threshold(len(clients))
            parts = [
                split(int.from_bytes(secret.tobytes()), places, threshold)
                for secret in secrets["own"][round]
            ]
            for other, *both in zip(clients, *parts, strict=True):
                text = b"".join(share.to_bytes(BYTES) for share in both)
                if other == client:
                    kept[round] = _bytes(text).reshape(2, BYTES)
                else:
                    cipher = ciphers[other].encrypt(_nonce(round), text, None)
                    sealed[other, round] = _bytes(cipher)
        secrets |= {"public": public, "kept": kept}
        return {"sealed": sealed}

    def _cipher(
        self, client: int, other: int, sender: int, run: int, public: np.ndarray, secrets: Arrays
    ) -> ChaCha20Poly1305:
        receiver = other if sender == client else client
        info = self.agreement.sealing(sender, receiver, run)
        key = _secret(secrets["sealing"].tobytes(), public[other, 0].tobytes(), info)
        return ChaCha20Poly1305(key)

    # --- after the answers of a round -------------------------------------------------------------

    def _unmask(self, question: Arrays, client: int, run: int, secrets: Arrays) -> Arrays:
        """Return this client's share of one secret of each client of the round.

        Of a client that has answered it is a share of its seed, of one that is gone a share of its
        key; never of both. uint8 (clients of the round, BYTES).
        """
        self._check_run(run, secrets)
        round = int(question["round"])
        if round != int(secrets.get("answered", -1)):
            raise BadAnswer("unmask-unanswered", f"round {round} is not what it answered last")
        if round <= int(secrets.get("unmasked", -1)):
            raise BadAnswer("unmask-twice", f"it has given its shares of round {round}")
        clients = self.agreement.rounds[round]
        gone = set(question["gone"].tolist())
        if client in gone:
            raise BadAnswer("unmask-self", "it has answered, and is said to be gone")
        if not gone <= set(clients) or len(gone) > self.agreement.absent:
            raise BadAnswer(
                "unmask-few",
                f"{len(gone)} clients are said to be gone, of which the noise allows "
                f"{self.agreement.absent}",
            )
        given = np.zeros((len(clients), BYTES), np.uint8)
        for place, other in enumerate(clients):
            both = secrets["kept"][round]
            if other != client:
                text = question["sealed"][place].tobytes()
                cipher = self._cipher(client, other, other, run, secrets["public"], secrets)
                try:
                    opened = cipher.decrypt(_nonce(round), text, None)
                except InvalidTag:
                    why = f"the share of client {other} cannot be read"
                    raise BadAnswer("shares-broken", why) from None
                both = _bytes(opened).reshape(2, BYTES)
            given[place] = both[0 if other in gone else 1]
        secrets["unmasked"] = np.array(round)
        return {"shares": given}

    def _check_run(self, run: int, secrets: Arrays) -> None:
        if "run" not in secrets or _run_of(secrets) != run:
            raise BadAnswer("keys-lost", "it has no keys of this run")


@dataclass
class ServerMasks:
    """The server's part, see `federation.masks.Opening`."""

    agreement: Agreement
    finite: bool = True
    _run: int = field(default=0, init=False)
    _public: np.ndarray | None = field(default=None, init=False)
    _sealed: np.ndarray | None = field(default=None, init=False)  # (sender, receiver, round, bytes)

    @property
    def absent(self) -> int:
        """How many clients of a round may be missing."""
        return self.agreement.absent

    @property
    def smallest(self) -> int:
        """The fewest clients of a round, with those that may be missing."""
        return self.agreement.smallest + self.agreement.absent

    def agree(self, ask: Ask, run: int) -> None:
        """Has all keys and all shares; BadAnswer where a client has sent none."""
        everyone = range(len(self.agreement.sites))
        self._run = run
        keys = ask(
            "keys",
            {client: {} for client in everyone},
            lambda client, answer: self.agreement.check_keys(client, run, answer),
        )
        self._check_all(keys)
        self._public = self.agreement.checked(run, keys)
        relayed = {
            f"{part}/{client}": values
            for client, answer in keys.items()
            for part, values in answer.items()
        }
        shape = (len(everyone), len(self.agreement.rounds), SEALED)
        shares = ask(
            "shares",
            {client: relayed for client in everyone},
            lambda client, answer: _check_form(answer, "sealed", shape),
        )
        self._check_all(shares)
        self._sealed = np.stack([shares[client]["sealed"] for client in everyone])

    def _check_all(self, answers: Mapping[int, Arrays]) -> None:
        if missing := sorted(set(range(len(self.agreement.sites))) - set(answers)):
            raise BadAnswer("keys-missing", f"clients {missing} are not ready")

    def opened(
        self, updates: list[Update], *, clients: Sequence[int], round: int, ask: Ask
    ) -> list[Update]:
        """Return updates in whose sum the masks that do not cancel are taken off."""
        if not any(update.summed for update in updates):
            return updates
        clients, answered = sorted(clients), {update.client for update in updates}
        gone = [client for client in clients if client not in answered]
        shape = (len(clients), BYTES)
        questions = {
            client: {
                "round": np.array(round),
                "gone": np.array(gone, np.int64),
                "sealed": self._sealed[clients, client, round],
            }
            for client in sorted(answered)
        }
        given = ask("unmask", questions, lambda client, answer: _check_shares(answer, shape))
        threshold = self.agreement.threshold(len(clients))
        if len(given) < threshold:
            raise BadAnswer(
                "shares-few",
                f"{len(given)} of {len(clients)} clients have given shares, and {threshold} open "
                "a sum",
            )
        secrets = self._joined(clients, gone, round, dict(sorted(given.items())[:threshold]))
        return self._without(updates, clients, round, secrets)

    def _joined(
        self, clients: list[int], gone: list[int], round: int, given: Mapping[int, Arrays]
    ) -> dict[int, bytes]:
        """Return the key of each client that is gone, the seed of each other."""
        found = {}
        for place, client in enumerate(clients):
            shares = {
                giver + 1: int.from_bytes(answer["shares"][place].tobytes())
                for giver, answer in given.items()
            }
            value = joined(shares)
            secret = value.to_bytes(BYTES)[-KEY:]
            known = self._public[client, _place(round) + (client not in gone)].tobytes()
            made = _public(secret) if client in gone else hashlib.sha256(secret).digest()
            if value >= 2 ** (8 * KEY) or made != known:
                raise BadAnswer(
                    "shares-garbage",
                    f"the shares of client {client}'s secret, from clients {sorted(given)}, do "
                    "not fit",
                )
            found[client] = secret
        return found

    def _without(
        self, updates: list[Update], clients: list[int], round: int, secrets: Mapping[int, bytes]
    ) -> list[Update]:
        """Return each update without its own mask and its masks with clients that are gone.

        What is left are the masks with those that have answered, which cancel in the sum.
        """
        answered = {update.client for update in updates}
        opened = []
        for update in updates:
            client, summed = update.client, {}
            own = _derived(secrets[client], self.agreement.own(round, client, self._run))
            lost = {
                other: _secret(
                    secrets[other],
                    self._public[client, _place(round)].tobytes(),
                    self.agreement.pair(round, client, other, self._run),
                )
                for other in clients
                if other not in answered
            }
            for name, values in update.summed.items():
                summed[name] = values.copy()
                _add(summed[name], own, name, -1)
                for other in set(update.groups.get(name, clients)) & set(lost):
                    _add(summed[name], lost[other], name, -1 if client < other else 1)
            opened.append(replace(update, summed=summed))
        return opened


# --- keys and streams -----------------------------------------------------------------------------


def _place(round: int) -> int:
    """Of a round's key among a client's public keys; the digest of its seed comes next."""
    return 1 + 2 * round


def _label(*parts: str | int) -> bytes:
    """Texts and numbers as bytes that say where each ends."""
    encoded = [str(part).encode() for part in parts]
    return b"".join(len(part).to_bytes(4) + part for part in encoded)


def _derived(secret: bytes, info: bytes) -> bytes:
    """Derive a key for one purpose (HKDF-SHA256, RFC 5869)."""
    return HKDF(hashes.SHA256(), KEY, None, info).derive(secret)


def _public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def _secret(private: bytes, public: bytes, info: bytes) -> bytes:
    """Derive a key that two have in common, for one purpose (X25519, RFC 7748)."""
    try:
        key = X25519PrivateKey.from_private_bytes(private)
        return _derived(key.exchange(X25519PublicKey.from_public_bytes(public)), info)
    except ValueError:
        raise BadAnswer("keys-weak", "a key has nothing secret with any other") from None


def _add(hidden: np.ndarray, key: bytes, name: str, sign: int) -> None:
    """Add the key's stream for an array (ChaCha20, RFC 8439), or subtract it; in place."""
    cipher = Cipher(ChaCha20(_derived(key, _label("array", name)), bytes(16)), None).encryptor()
    pad = np.frombuffer(cipher.update(bytes(hidden.nbytes)), "<u8").reshape(hidden.shape)
    if sign > 0:
        hidden += pad
    else:
        hidden -= pad


def _nonce(round: int) -> bytes:
    """Return the nonce of a round.

    It does not repeat: a key belongs to one sender and one receiver in one run, and is used once a
    round.
    """
    return round.to_bytes(12)


def _bytes(content: bytes) -> np.ndarray:
    return np.frombuffer(content, np.uint8)


def _run_of(secrets: Arrays) -> int:
    return int(secrets["run"].tobytes())


# --- what others have sent ------------------------------------------------------------------------


def keys_of(question: Arrays) -> dict[int, Arrays]:
    """Client -> its keys, from arrays named as <part>/<client>; BadAnswer."""
    found: dict[int, Arrays] = {}
    for name, values in question.items():
        part, _, client = name.partition("/")
        if not client.isdecimal():
            raise BadAnswer("keys-garbage", f"there is no {name!r} among keys")
        if part in found.setdefault(int(client), {}):
            raise BadAnswer("keys-garbage", f"client {client} has keys twice")
        found[int(client)][part] = values
    return found


def _check_form(answer: Arrays, name: str, shape: tuple[int, ...]) -> None:
    values = answer.get(name)
    if set(answer) != {name} or values.dtype != np.uint8 or values.shape != shape:
        raise BadAnswer("shares-garbage", "its shares have another form")


def _check_shares(answer: Arrays, shape: tuple[int, ...]) -> None:
    _check_form(answer, "shares", shape)
    if any(int.from_bytes(share.tobytes()) >= PRIME for share in answer["shares"]):
        raise BadAnswer("shares-garbage", "its shares are no numbers of the field")
