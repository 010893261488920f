"""Speed against the peers that a user would pick, as ratios measured in one run: pytest -m bench.

They need the real Adult table (FEDSYNTH_MIRROR or data/raw), and take some minutes because the
peers do.
"""

import warnings

import numpy as np
import pytest
from timing import report, seconds

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.contract import Client, Update, stream
from fedsynth_lib.federation import flower, settings
from fedsynth_lib.methods.bayes import bayesian_network as bn
from fedsynth_lib.tables.load import load_table, split
from fedsynth_lib.tables.partition import split_clients

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def adult():
    return split(load_table("adult", work="martinez2024"), seed=0)[0]


def test_training_against_datasynthesizer(adult, tmp_path, capsys):
    """The same table of 26,049 rows: theirs describes it centrally, ours trains over 5 clients and
    samples."""
    from DataSynthesizer.DataDescriber import DataDescriber

    csv = tmp_path / "adult.csv"
    adult.frame.to_csv(csv, index=False)

    def theirs():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            describer = DataDescriber(category_threshold=50)
            describer.describe_dataset_in_correlated_attribute_mode(str(csv), k=2, epsilon=0)

    parts = split_clients(adult, "label_skew", 5, seed=0)
    ours = seconds(lambda: settings.federated(bn, adult, parts, seed=1), 3)
    peer = seconds(theirs)
    what = "FedBN, 5 clients, train and sample; the peer centrally, train"
    report(capsys, what, ours, peer, "DataSynthesizer")
    assert ours <= 3.0 and peer / ours >= 10


def test_sampling_against_pgmpy(adult, capsys):
    run = settings.central(bn, adult, seed=1)
    network = bn.to_pgmpy(run.state, bn.Config(), adult.schema.names)
    ours = seconds(lambda: bn.sample(run.state, 26_049, bn.Config(), stream(1)), 3)
    peer = seconds(lambda: network.simulate(26_049, seed=1, show_progress=False), 3)
    report(capsys, "sampling 26,049 rows", ours, peer, "pgmpy")
    assert peer / ours >= 3


def test_in_process_federation_costs_little(adult, capsys):
    """The grid, messages and bytes on top of the clients' and the server's own work, over a whole
    training."""
    config, encoder = bn.Config(), bn.encoder(adult.schema, bn.Config())
    parts = split_clients(adult, "iid", 5, seed=0)
    rows = [encoder.transform(adult.frame.iloc[part]) for part in parts]

    def by_hand():
        state = bn.start(encoder.domain, config, stream(0, "start"))
        memories = [{} for _ in rows]
        for number in range(config.rounds):
            updates = []
            for k, (own, memory) in enumerate(zip(rows, memories, strict=True)):
                client = Client(own, k, 5, memory)
                update = bn.client_step(state, client, config, None, stream(0, "client", k, number))
                masked = secure_sum.mask(
                    update.summed, client=k, clients=range(5), round=number, seed=0
                )
                updates.append(Update(update.arrays, masked, update.num_rows, update.spent))
            state, _ = bn.server_step(state, updates, config, None, stream(0, "server", number))

    def by_grid():
        job = flower.Job(bn, config, encoder.domain, None, 0, 5)
        client = flower.client_app(job, lambda index: rows[index])
        flower.run_in_process(flower.server_app(job, flower.Outcome()), client, 5)

    by_hand(), by_grid()
    # interleaved: drift hits both
    pairs = [(seconds(by_hand), seconds(by_grid)) for _ in range(9)]
    plain, grid = np.median(pairs, axis=0)
    with capsys.disabled():
        print(
            f"\nseven rounds of FedBN, 5 clients: plain loop {plain:.3f} s, in-process grid "
            f"{grid:.3f} s"
        )
    assert grid <= 1.05 * plain + 0.005
