"""The ledger at the data owner: it only grows, adds up, blocks what overdraws, and outlives the
process."""

import json
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import promises
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from promises import thirds
from test_methods import broken

from fedsynth_lib.core import ledger
from fedsynth_lib.core.contract import BadInput, BadRows, Charge, Domain, Privacy, Update
from fedsynth_lib.core.ledger import ClientLedger, Ledger, Refused, Total
from fedsynth_lib.federation import flower, settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.marginals import independent
from fedsynth_lib.release.register import Register, rows_digest


def said(epsilon, delta=0.0, method="aim"):
    return {"method": method, "epsilon": epsilon, "delta": delta, "entries": []}


# --- the owner's ledger --------------------------------------------------------------------------


def test_releases_add_up_and_survive_a_restart(tmp_path):
    path = tmp_path / "deep" / "ward.jsonl"
    book = Ledger(path, most_epsilon=3.0, most_delta=1e-5)
    assert book.total() == Total(0, 0, 0)
    book.add(said(1.0, 1e-6), rows=500)
    book.add(said(1.5), rows=20)
    again = Ledger(path, most_epsilon=3.0)
    assert again.total() == Total(2, 2.5, 1e-6)
    first = again.releases()[0]
    assert (first["population"], first["method"], first["rows"]) == ("ward", "aim", 500)
    assert first["statement"] == ledger.digest(said(1.0, 1e-6)) and first["when"].startswith("20")
    with pytest.raises(
        Refused,
        match=r"'ward': 2 releases have spent epsilon 2\.5, and 1 more "
        r"would exceed 3; ask",
    ):
        again.admit(1.0, 0.0)
    again.admit(0.5, 0.0)
    with pytest.raises(Refused, match="spent delta 1e-06, and 1e-05 more would exceed 1e-05"):
        book.admit(0.1, 1e-5)
    with pytest.raises(Refused, match="a run that released something without noise is no release"):
        book.add(said(None), rows=1)
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.slow
def test_processes_do_not_overdraw_together(tmp_path):
    """Four at once, and the policy has room for two."""
    code = (
        "import sys; from fedsynth_lib.core.ledger import Ledger, Refused\ntry: "
        "Ledger(sys.argv[1], most_epsilon=2.0).add(dict(method='m', epsilon=1.0, delta=0.0, entries=[]), rows=1)\nexcept Refused: sys.exit(3)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "ward.jsonl")]
    codes = sorted(process.wait() for process in [subprocess.Popen(command) for _ in range(4)])
    assert codes == [0, 0, 3, 3] and Ledger(tmp_path / "ward.jsonl").total().epsilon == 2.0


def test_what_was_begun_counts_until_it_is_settled(tmp_path):
    book = Ledger(tmp_path / "ward.jsonl", most_epsilon=3.0)
    first = book.reserve("aim", 2.0, 1e-6)
    assert Ledger(book.journal.path).total() == Total(1, 2.0, 1e-6)
    with pytest.raises(Refused, match="1 releases have spent epsilon 2, and 2 more"):
        book.reserve("aim", 2.0, 0.0)
    book.add(said(1.9, 1e-6), rows=500, number=first)
    assert book.total() == Total(1, 1.9, 1e-6) and book.releases()[0]["rows"] == 500
    second = book.reserve("aim", 1.0, 0.0)
    book.settle(second, 0.02, 0.0, what="no rows, but their number")
    assert book.total() == Total(2, pytest.approx(1.92), 1e-6)
    book.settle(book.reserve("aim", 1.0, 0.0), 0.0, 0.0, what="nothing")
    assert book.total().releases == 2
    third = book.reserve("aim", 1.0, 0.0)
    with pytest.raises(Refused, match="without noise is no release"):
        book.add(said(None), rows=1, number=third)
    assert book.total().epsilon == pytest.approx(2.92)  # noise may have been drawn


# --- the register of rows ------------------------------------------------------------------------

ROWS = pd.DataFrame({"age": ["20", "30.50", None, "20"], "sex": ["f", "m", "f", "f"]})
KEY = b"k" * 32


def test_rows_are_known_as_a_multiset():
    known = rows_digest(ROWS, KEY)
    same = [
        ROWS.iloc[[3, 0, 2, 1]],
        ROWS[["sex", "age"]],
        ROWS.rename(columns={"age": "years"}),
        ROWS.assign(age=[20.0, 30.5, np.nan, 20.0]),
        ROWS.assign(age=[" 20", "30.5 ", "", "2e1"]),
        ROWS.astype("category"),
    ]
    assert [rows_digest(rows, KEY) for rows in same] == [known] * len(same)
    other = [
        ROWS.iloc[:3],  # one of two equal rows less
        ROWS.iloc[[0, 1, 2, 3, 3]],
        ROWS.assign(age=["20", "30.50", "1", "20"]),
        ROWS.assign(sex=["m", "f", "f", "f"]),  # the same cells in each column, in other rows
        ROWS.assign(more="1"),
        ROWS[["age"]],
    ]
    digests = {rows_digest(rows, KEY) for rows in other} | {known, rows_digest(ROWS, b"l" * 32)}
    assert len(digests) == len(other) + 2


def test_dates_and_numbers_are_alike_in_all_kinds_of_file():
    text = pd.DataFrame({"day": ["2024-01-31", "2024-02-01"], "size": ["1.10", "7"]})
    typed = pd.DataFrame({"day": pd.to_datetime(text["day"]), "size": [1.1, 7.0]})
    exact = typed.assign(day=typed["day"].dt.date, size=[Decimal("1.10"), Decimal(7)])
    assert len({rows_digest(rows, KEY) for rows in (text, typed, exact)}) == 1


def begin(register, rows, book, **options):
    asked = {"name": "ward", "method": "aim", "epsilon": 1.0, "delta": 0.0, "again": False}
    return register.begin(rows, book, **asked | options)


def test_a_release_of_the_same_rows_is_refused_until_asked_for_by_name(tmp_path):
    register, book = Register(tmp_path / "r"), Ledger(tmp_path / "ward.jsonl")
    rows, other = register.digest(ROWS), register.digest(ROWS.iloc[:2])
    assert rows == Register(tmp_path / "r").digest(ROWS)  # the key stays
    first = begin(register, rows, book)
    with pytest.raises(Refused, match=r"a release of these rows was begun at 20.* has not ended"):
        begin(Register(tmp_path / "r"), rows, book)
    first.end(said(0.9), rows=3)
    with pytest.raises(Refused, match=r"released once before.* adds up to epsilon 1.9, say so"):
        begin(register, rows, Ledger(tmp_path / "other.jsonl"))
    assert not (tmp_path / "other.jsonl").exists()
    second = begin(register, rows, Ledger(tmp_path / "other.jsonl"), again=True)
    second.end(said(1.0), rows=3)
    assert second.total() == Total(2, 1.9, 0.0)
    with pytest.raises(Refused, match="released twice before"):
        begin(register, rows, book)
    begin(register, other, book).give_up(0.02, 0.0, "no rows, but their number")
    assert register.total(other) == Total(0, 0.02, 0.0)
    begin(register, other, book)


def test_a_population_that_would_be_overdrawn_leaves_the_rows_free(tmp_path):
    register = Register(tmp_path / "r")
    with pytest.raises(Refused, match=r"would exceed 0\.5"):
        begin(register, "x", Ledger(tmp_path / "ward.jsonl", most_epsilon=0.5))
    begin(register, "x", Ledger(tmp_path / "ward.jsonl", most_epsilon=1.0))


@pytest.mark.slow
def test_of_many_at_once_one_begins(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from fedsynth_lib.core.ledger import Ledger, Refused\n"
        "from fedsynth_lib.release.register import Register\n"
        "home = Path(sys.argv[1])\n"
        "try: Register(home / 'r').begin('x', Ledger(home / 'w.jsonl'), name='w', method='m', "
        "epsilon=1.0, delta=0.0, again=False)\nexcept Refused: sys.exit(3)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    codes = sorted(process.wait() for process in [subprocess.Popen(command) for _ in range(3)])
    assert codes == [0, 3, 3] and Register(tmp_path / "r").total("x") == Total(1, 1.0, 0.0)
    assert Ledger(tmp_path / "w.jsonl").total().releases == 1


def test_a_register_without_its_key_is_refused(tmp_path):
    register = Register(tmp_path / "r")
    begin(register, register.digest(ROWS), Ledger(tmp_path / "ward.jsonl"))
    (tmp_path / "r" / "key").unlink()
    with pytest.raises(BadInput, match=r"the key of the register is gone.* restore the file"):
        Register(tmp_path / "r").digest(ROWS)


def test_the_command_tells_releases_and_totals(home, capsys, monkeypatch):
    ledger.open_ledger("ward").add(said(1.0, 1e-6), rows=500)
    ledger.open_ledger("ward").add(said(2.0), rows=500)
    ledger.open_ledger("bank").add(said(0.5), rows=9)
    assert ledger.path_of("ward").parent == home / "data" / "ledger"
    for arguments, lines in (
        (
            [],
            ["bank: 1 releases, epsilon 0.5, delta 0", "ward: 2 releases, epsilon 3, delta 1e-06"],
        ),
        (
            ["ward"],
            [
                "epsilon 1  delta 1e-06  500 rows",
                "epsilon 2",
                "ward: 2 releases, epsilon 3, delta 1e-06",
            ],
        ),
        (["nobody"], ["nobody: 0 releases, epsilon 0, delta 0"]),
    ):
        printed = ledger.overview(*arguments).splitlines()
        assert len(printed) == len(lines)
        assert all(line in found for line, found in zip(lines, printed, strict=True))
    with pytest.raises(BadInput, match=r"population is '\.\./x': give a name of letters"):
        ledger.path_of("../x")


# --- a client and its server ---------------------------------------------------------------------

CONFIG = independent.Config(rounds=3)
BUDGET = Privacy(1.0, noise_seed=None)


@pytest.fixture
def client(table):
    """The rows of three clients, their job, and what asks client 0 as a server would."""
    encoder = independent.encoder(table.schema, CONFIG)
    sizes = tuple(map(len, thirds(table)))
    noise = settings.noise_for(independent, encoder.domain, sizes, CONFIG, BUDGET)
    job = flower.Job(independent, CONFIG, encoder.domain, noise, 0, 3, BUDGET, sizes, mask_seed=1)
    rows = [encoder.transform(table.frame.iloc[part]) for part in thirds(table)]
    return job, lambda index: rows[index]


def server_of(job, load_rows, book=None, run=flower.LOCAL_RUN):
    """Asks client 0 for a round of a run, with these clients; a new one is what the server meets
    after a restart."""
    grid = flower.LocalGrid(flower.client_app(job, load_rows, book), 3)
    state = flower.pack(
        job.method.start(job.domain, config=job.config, rng=np.random.default_rng(0))
    )

    def ask(number, clients=(0, 1, 2)):
        content = {"state": state, "job": ConfigRecord({"round": number, "clients": list(clients)})}
        message = Message(RecordDict(content), message_type=flower.STEP, dst_node_id=1)
        message.metadata.__dict__["_run_id"] = run
        (reply,) = grid.send_and_receive([message])
        return json.loads(reply.content["about"]["spent"])

    return ask


def answers(ask, numbers, **options):
    given = []
    for number in numbers:
        try:
            given.append(ask(number, **options))
        except Refused:
            given.append(None)
    return [answer is not None for answer in given]


def test_the_same_round_is_answered_once(client):
    """400 answers would be 400 draws of noise about the same counts: their mean is the count."""
    assert sum(answers(server_of(*client), [0] * 400)) == 1


def test_nothing_beyond_the_plan_is_answered(client):
    ask = server_of(*client)
    assert answers(ask, range(10)) == [True] * 3 + [False] * 7
    assert answers(ask, [2, 1, 0, -1]) == [False] * 4
    # the mask of a sum of one is none
    assert answers(server_of(*client), [0], clients=[0]) == [False]
    assert answers(server_of(*client), [0], clients=[0, 1, 2, 3]) == [False]
    assert answers(server_of(*client), [0], clients=[1, 2]) == [False]


def test_a_client_remembers_over_a_restart(client, tmp_path):
    path = tmp_path / "client0.jsonl"
    before = server_of(*client, ClientLedger(path))
    assert answers(before, [0, 1]) == [True, True]
    # without a ledger a new process knows nothing
    assert answers(server_of(*client), [0]) == [True]
    after = server_of(*client, ClientLedger(path))
    assert answers(after, [0, 1, 2, 2]) == [False, False, True, False]
    book = ClientLedger(path)
    # one run, three rounds
    assert book.total().epsilon == pytest.approx(1.0) and book.total().releases == 1
    assert [line["round"] for line in book.journal.lines() if "round" in line] == [0, 1, 2]


def asked(book, job, *numbers, index=0, run=7):
    """Whether the ledger lets a client answer these rounds."""
    given = []
    for number in numbers:
        try:
            book.begin(job, index, run=run, number=number)
        except Refused:
            given.append(False)
        else:
            given.append(True)
    return given


def test_the_first_answer_is_the_first_round_and_no_round_is_left_out(client, tmp_path):
    job, load_rows = client
    for first in (1, 2):
        book = ClientLedger(tmp_path / f"{first}.jsonl")
        assert answers(server_of(job, load_rows, book), [first]) == [False]
        assert book.total().releases == 0
    book = ClientLedger(tmp_path / "c.jsonl")
    assert asked(book, job, 0, 2, 1, 1, 3, 2) == [True, False, True, False, False, True]


def test_the_first_round_is_the_first_one_that_the_client_is_drawn_for(client, tmp_path):
    job, _ = client

    def schedule(domain, config):
        return [(number, 0.5) for number in range(8)]

    sampled = replace(job, method=broken(independent, schedule=schedule))
    drawn = [sampled.participants(number, 0.5) for number in range(8)]
    index = next(index for index in range(3) if index not in drawn[0])
    mine = [number for number, clients in enumerate(drawn) if index in clients]
    others = [number for number in range(8) if number not in mine]
    book = ClientLedger(tmp_path / "c.jsonl")
    assert not any(asked(book, sampled, *others, *mine[1:], index=index))
    assert all(asked(book, sampled, *mine, index=index)) and len(mine) > 1


def test_a_run_is_known_by_its_study_and_its_job_too(client, tmp_path):
    """The server gives run ids out, so the same id for another study or job is another run."""
    job, _ = client
    path = tmp_path / "ward.jsonl"
    other_job = replace(job, method=replace(job.method, name="evaluation"))
    for study in "ab":
        book = ClientLedger(path, study=study)
        book.agree(1)
        assert asked(book, job, 0, 1) == [True, True]
        assert asked(book, other_job, 1) == [False]
        assert asked(book, other_job, 0) == [True]
        assert book.runs("independent") == book.runs("evaluation") == [7]
    assert Ledger(path).total().releases == 4
    assert Ledger(path).total().epsilon == pytest.approx(4.0)


def test_consent_is_for_one_run_or_for_as_many_as_were_named(client, tmp_path):
    job, load_rows = client
    path = tmp_path / "ward.jsonl"

    def numbers(run):
        """What rounds of a run are answered by a site that is started again."""
        return answers(server_of(job, load_rows, ClientLedger(path, study="a"), run), range(3))

    assert numbers(5) == [False] * 3  # nobody has agreed
    ClientLedger(path, study="b").agree(9)
    assert numbers(5) == [False] * 3  # to another study
    ClientLedger(path, study="a").agree(1)
    assert numbers(5) == [True] * 3
    assert numbers(6) == [False] * 3
    with pytest.raises(Refused, match=r"agreed to 1 runs .* made as 5; .* with --runs 2\."):
        server_of(job, load_rows, ClientLedger(path, study="a"), 6)(0)
    ClientLedger(path, study="a").agree(1)  # the same answer again, as of a service that restarts
    assert numbers(6) == [False] * 3
    ClientLedger(path, study="a").agree(2)
    assert numbers(6) == [True] * 3 and numbers(7) == [False] * 3
    assert Ledger(path).total().epsilon == pytest.approx(2.0)


def test_a_run_in_the_middle_goes_on_after_a_restart(client, tmp_path):
    book = ClientLedger(tmp_path / "ward.jsonl", study="a", most_epsilon=1.0)
    book.agree(1)
    assert asked(book, client[0], 0) == [True]
    again = ClientLedger(tmp_path / "ward.jsonl", study="a", most_epsilon=1.0)
    assert asked(again, client[0], 1, 2) == [True, True]


# --- what an answer states, against the plan ------------------------------------------------------


def planned(charges):
    """A method of the plan with these charges, in a job with a budget that they hardly touch."""
    method = broken(independent, plan=lambda *_: charges)
    return flower.Job(method, CONFIG, Domain(("a",), (2,)), 1.0, 0, 1, Privacy(50.0, 1e-6), (100,))


COUNTS = Charge("counts", "laplace", 2.0, times=3)
SUMS = Charge("sums", "skellam", 40.0, times=2)


@pytest.mark.parametrize(
    ("answers_", "beyond"),
    [
        ([[replace(COUNTS, times=3)], [SUMS]], ""),
        ([[replace(COUNTS, times=1)]] * 3, ""),
        ([[replace(COUNTS, noise=2.0 * (1 + 1e-9))]], ""),  # rounding
        ([[Charge("number of rows", "public")]] * 5, ""),
        ([[replace(COUNTS, times=4)]], "counts"),
        ([[replace(COUNTS, times=1)]] * 4, "counts"),
        ([[replace(COUNTS, noise=1.0, times=1)]], "counts"),
        ([[replace(COUNTS, sensitivity=0.5, times=1)]], "counts"),
        ([[replace(SUMS, rate=0.5, times=1)]], "sums"),
        ([[replace(COUNTS, mechanism="gaussian", times=1)]], "counts"),
        ([[replace(COUNTS, what="other counts", times=1)]], "other counts"),
        ([[SUMS], [COUNTS], [replace(SUMS, times=1)]], "sums"),
    ],
)
def test_an_answer_beyond_the_plan_is_refused_however_little_it_costs(tmp_path, answers_, beyond):
    job, book = planned([COUNTS, SUMS]), ClientLedger(tmp_path / "c.jsonl")
    *before, last = answers_
    for charges in before:
        book.spend(job, 0, charges, run=1)
    if not beyond:
        book.spend(job, 0, last, run=1)
        return
    said = f"the answer would release {beyond} more often or with less noise than planned"
    with pytest.raises(Refused, match=said):
        ClientLedger(tmp_path / "c.jsonl").spend(job, 0, last, run=1)
    book.spend(job, 0, last if len(before) else [], run=2)  # another run has its own


def test_a_plan_that_names_rounds_is_kept_in_each(tmp_path):
    plan = [replace(COUNTS, times=1, round=number) for number in range(3)]
    job, book = planned(plan), ClientLedger(tmp_path / "c.jsonl")
    book.spend(job, 0, plan[:1], run=1)
    with pytest.raises(Refused, match="counts more often"):
        book.spend(job, 0, plan[:1], run=1)
    book.spend(job, 0, plan[1:], run=1)


def test_what_a_secure_sum_releases_is_stated_and_checked_as_well(client, tmp_path):
    """By the client, from what it adds: half the noise that the plan has is refused."""
    job, load_rows = client
    (charge, *_) = job.method.plan(job.noise_multiplier, job.domain, job.sizes[0], CONFIG)
    for noise, sent in ((charge.noise, [True] * 3), (charge.noise / 1.01, [False] * 3)):

        def step(state, client, config, noise, rng, stated=noise):
            update = independent.client_step(state, client, config, noise, rng)
            return replace(update, summed_spent=[replace(charge, noise=stated)])

        stating = replace(job, method=broken(independent, client_step=step))
        book = ClientLedger(tmp_path / f"{noise}.jsonl")
        assert answers(server_of(stating, load_rows, book), range(3)) == sent


PRIVATE = [key for key, method in METHODS.items() if promises.adds_noise(method)]


@pytest.mark.slow
@pytest.mark.parametrize("key", [*PRIVATE, "fedpgm+gathered"])
def test_what_every_method_states_is_in_its_plan(key, table, tmp_path):
    """So that the check refuses no honest client; whose releases have no noise is refused."""
    method = METHODS[key.removesuffix("+gathered")]
    config = promises.everyone(method)
    if key.endswith("+gathered"):
        config = replace(config, participation=0.6, rounds_per_sum=2)
    if hasattr(config, "private_structure"):
        config = replace(config, private_structure=True)
    encoder, sizes = method.encoder(table.schema, config), tuple(map(len, thirds(table)))
    asked = promises.budget(method)
    noise = settings.noise_for(method, encoder.domain, sizes, config, asked)
    job = flower.Job(method, config, encoder.domain, noise, 0, 3, asked, sizes)
    rows = [encoder.transform(table.frame.iloc[part]) for part in thirds(table)]
    plan = method.plan(1.0, encoder.domain, sizes[0], config)
    books = [ClientLedger(tmp_path / f"{index}.jsonl") for index in range(3)]
    apps = [flower.client_app(job, lambda index: rows[index], book) for book in books]

    def app(message, context):
        return apps[context.node_config["partition-id"]](message, context)

    outcome = flower.Outcome()
    if any(charge.mechanism == "unprotected" for charge in plan):
        with pytest.raises(Refused, match="without noise"):
            flower.run_in_process(flower.server_app(job, outcome), app, 3)
        return
    flower.run_in_process(flower.server_app(job, outcome), app, 3)
    assert outcome.charges and all(book.total().releases == 1 for book in books)


def test_a_client_refuses_a_run_that_would_overdraw(client, tmp_path):
    path = tmp_path / "client0.jsonl"
    Ledger(path).add(said(1.5), rows=1)  # an earlier release about the same people
    assert (
        answers(server_of(*client, ClientLedger(path, most_epsilon=2.0)), range(3)) == [False] * 3
    )
    assert Ledger(path).total() == Total(1, 1.5, 0)
    assert answers(server_of(*client, ClientLedger(path, most_epsilon=2.5)), range(3)) == [True] * 3
    assert Ledger(path).total().epsilon == pytest.approx(2.5)


def test_a_client_does_not_send_more_than_its_budget(client, tmp_path):
    """Methods that release more than their plan says: without noise, and with less noise than
    planned."""
    job, load_rows = client

    def without_noise(state, client, config, noise, rng):
        update = independent.client_step(state, client, config, noise, rng)
        update.spent.append(Charge("counts", "unprotected"))
        return update

    def with_less(state, client, config, noise, rng):
        update = independent.client_step(state, client, config, noise, rng)
        update.spent.append(Charge("counts", "laplace", 0.5))
        return update

    for name, step, words in (
        ("a", without_noise, "release counts without noise"),
        ("b", with_less, "cost more than 1"),
    ):
        bad = flower.Job(**vars(job) | {"method": broken(independent, client_step=step)})
        with pytest.raises(Refused, match=f"the answer would {words}; it is not sent"):
            server_of(bad, load_rows, ClientLedger(tmp_path / f"{name}.jsonl"))(0)


def test_a_client_with_a_ledger_wants_noise_and_declared_rows(client, tmp_path):
    job, load_rows = client
    for change, words in (
        ({"noise_multiplier": None}, "without noise"),
        ({"sizes": None}, "declared numbers of rows"),
    ):
        with pytest.raises(Refused, match=words):
            server_of(
                flower.Job(**vars(job) | change), load_rows, ClientLedger(tmp_path / "c.jsonl")
            )(0)


# --- what crosses the wire of an error -----------------------------------------------------------


def wire(app, job):
    """What Flower would send of client 0's error: the text of the exception that leaves the app."""
    context = flower.LocalGrid(app, 3)._contexts[1]
    state = flower.pack(
        job.method.start(job.domain, config=job.config, rng=np.random.default_rng(0))
    )
    content = {"state": state, "job": ConfigRecord({"round": 0, "clients": [0, 1, 2]})}
    with pytest.raises(Refused) as error:
        app(Message(RecordDict(content), message_type=flower.STEP, dst_node_id=1), context)
    return error.value


def test_an_error_at_a_client_leaves_without_a_value(client, table):
    job, _ = client
    encoder = independent.encoder(table.schema, CONFIG)

    def odd(index):
        return encoder.transform(table.frame.iloc[:5].assign(age=123456))

    error = wire(flower.client_app(job, odd), job)
    told = "BadRows: column 'age' holds a value outside its declared range 18 to 90; correct the rows, or widen"
    # the cause stays with the owner
    assert str(error).startswith(told) and "5 values" in str(error.__cause__)

    def broken_rows(index):
        raise KeyError("Mrs Smith, 123456")

    error = wire(flower.client_app(job, broken_rows), job)
    assert str(error) == flower.UNANSWERED and "Mrs Smith" in str(error.__cause__)
    for kind, said in ((BadInput, flower.UNANSWERED), (BadRows, "BadRows")):

        def says(index, kind=kind):
            raise kind("row 7 holds 123456")

        assert str(wire(flower.client_app(job, says), job)) == said


@pytest.mark.parametrize("fault", [BadRows("x", "column 'age'"), ValueError(5), MemoryError()])
def test_an_error_of_a_step_leaves_as_one_sentence_whatever_it_is(client, fault):
    """What the server has sent may have caused it, and which row it met may make the difference."""
    job, load_rows = client

    def failing(state, client, config, noise, rng):
        raise fault

    def not_whole(state, client, config, noise, rng):
        return Update(summed={"counts": np.zeros(len(client.rows))})

    for step in (failing, not_whole):
        odd = flower.Job(**vars(job) | {"method": broken(independent, client_step=step)})
        assert str(wire(flower.client_app(odd, load_rows), odd)) == flower.UNANSWERED


def test_in_process_the_developer_sees_the_cause(client, table):
    job, _ = client

    def broken_rows(index):
        raise KeyError("a mistake of the developer")

    with pytest.raises(KeyError, match="a mistake of the developer"):
        server_of(job, broken_rows)(0)
