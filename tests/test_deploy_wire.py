"""What who listens between a site and the server can read: real processes, and a relay on the way
that keeps all bytes. Here without TLS, as nobody would have it, so that nothing but the masks hides
what is sent."""

import json

import numpy as np
import pytest
from relay import Relay
from scipy.stats import chisquare
from sites import ROWS, Parties, make, ports

from fedsynth_lib.release.deploy.place import Own
from fedsynth_lib.release.deploy.study import read_study

FALSE_ALARM = 1e-8  # how often bytes that are uniform fail a test of uniformity, about
BINS = 250  # 254 counts, hence 2,032 bytes: some 8 of each value


@pytest.fixture(scope="module")
def wiretapped(tmp_path_factory):
    """Parties and two relays: that of north, which masks what it sends, and of west, which is the
    control and does not; after a run."""
    folder = tmp_path_factory.mktemp("wiretapped")
    port = ports()
    make(folder, server=f"localhost:{port}", config={"bins": BINS})
    with Relay(port) as north, Relay(port) as west, Parties(folder) as parties:
        parties.server("--insecure")
        parties.relayed("north", north.port, insecure=True)
        parties.relayed("west", west.port, insecure=True, masked=False)
        parties.site("south", "--insecure")
        for name in ROWS:
            parties.wait(name, "is ready")
        parties.run("out", "--insecure")
        parties.wait("run", "round 1 of 1")  # with one site unmasked, what comes out is noise
        yield parties, {"north": north, "west": west}


def counted(parties, name, monkeypatch) -> tuple[np.ndarray, np.ndarray]:
    """The counts of a site, as they are and with its noise, which is known in a rehearsal."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(parties.folder / "home"))
    study = read_study(parties.folder / "study")
    place = Own(parties.folder / name).place(study, name, parties.folder / f"{name}.csv")
    job, index = study.plan.job, place.index
    client = job.client(place.rows(), index, len(ROWS), {})
    state = job.method.start(job.domain, config=job.config, rng=np.random.default_rng())
    bare, noisy = (
        job.method.client_step(state, client, config=job.config, noise=noise, rng=None)
        for noise in (None, job.noise("client", index, 0))
    )
    return bare.summed["counts"], noisy.summed["counts"]


def forms_of(counts: np.ndarray) -> list[bytes]:
    """An array as it might lie on a wire: whole numbers and floats, in both byte orders, and as
    text. Four numbers have 8 bytes at least, which some 100 kB hold by chance once in 10^14."""
    kinds = ("i2", "i4", "i8", "f4", "f8")
    found = [counts.astype(order + kind).tobytes() for kind in kinds for order in "<>"]
    texts = (json.dumps(counts.tolist(), separators=each) for each in ((",", ":"), (", ", ": ")))
    return found + [text.strip("[]").encode() for text in texts]


def read_by(heard: bytes, counts: np.ndarray) -> bool:
    """Whether the counts can be found: all of them, or those of the last two columns, whose
    categories make the marginals that an eavesdropper would want."""
    return any(form in heard for part in (counts, counts[-4:]) for form in forms_of(part))


def uniformity(values: np.ndarray) -> float:
    """p-value of the bytes of an array being uniform, by chi-square."""
    return chisquare(np.bincount(np.frombuffer(values.tobytes(), np.uint8), minlength=256)).pvalue


def sent(parties, name) -> np.ndarray:
    """What the site says of itself that it has sent."""
    with np.load(parties.folder / f"{name}.npz") as arrays:
        return arrays["counts"]


def test_who_listens_reads_messages_and_no_counts(wiretapped, monkeypatch):
    parties, relays = wiretapped
    up, down = (relays["north"].all_of(direction) for direction in ("up", "down"))
    assert b"query.client_step" in down and b"groups" in up  # it is legible
    masked = sent(parties, "north")
    assert masked.tobytes() in up  # and this is what the server gets
    for counts in counted(parties, "north", monkeypatch):
        assert len(counts) == len(masked) and not read_by(up + down, counts)


def test_masked_arrays_on_the_wire_are_uniform(wiretapped):
    parties, relays = wiretapped
    masked = sent(parties, "north")
    place = relays["north"].all_of("up").index(masked.tobytes())
    heard = np.frombuffer(relays["north"].all_of("up"), "<u8", len(masked), place)
    assert uniformity(heard) > FALSE_ALARM
    # and so are each number's highest four bits alone, in which counts have nothing but 0 and 15
    high = np.bincount((heard >> 60).astype(int), minlength=16)
    assert chisquare(high).pvalue > FALSE_ALARM


def test_a_site_without_masks_is_caught(wiretapped, monkeypatch):
    """The same searches find what is there."""
    parties, relays = wiretapped
    up = relays["west"].all_of("up")
    _, noisy = counted(parties, "west", monkeypatch)
    assert read_by(up, noisy) and noisy.tobytes() in up
    assert uniformity(sent(parties, "west")) < FALSE_ALARM


def test_the_test_of_uniformity_has_the_false_alarm_rate_that_it_states():
    """At a rate that can be counted: of 1,000 uniform arrays, 1 in 20 fails at 0.05."""
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 2**64, (1_000, BINS + 4), np.uint64)
    found = np.mean([uniformity(values) < 0.05 for values in drawn])
    assert abs(found - 0.05) < 5 * np.sqrt(0.05 * 0.95 / 1_000)
