"""Settings that no training can have are refused where they are made, by the name of the setting."""

from dataclasses import replace

import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.methods import METHODS

NONE = float("nan")
WRONG = {  # method -> settings that cannot be, and what is said beside their name
    "fedvae": [
        *(({name: 0}, name) for name in ("batch", "embedding", "local_epochs")),
        *(({name: value}, name) for name, value in (("hidden", ()), ("clip", 0.0))),
        ({"histogram_share": 1.0}, "histogram_share"),
    ],
    "findiff": [
        ({"batch": 0}, "batch is 0"),
        ({"hidden": ()}, "width of one layer"),
        ({"steps": 12, "sampling_steps": 20}, "20 of 12 steps"),
        ({"first_beta": 0.5}, "rising numbers"),
        ({"clip": 0.0}, "norm above 0"),
        ({"strategy": "fedsgd"}, "choose one of fedavg"),
        ({"histogram_share": 1.0}, "between 0 and 1"),
    ],
    "dpvaebgm": [
        *(({name: 0}, name) for name in ("training_rounds", "local_epochs", "networks", "batch")),
        *(({name: 0}, name) for name in ("hidden", "latent", "most_rows", "shared_rows")),
        *(({name: 0}, name) for name in ("components", "starts", "mixture_steps", "patience")),
        *(({"dropout": share}, "dropout") for share in (1.0, -0.1)),
        *(({"technique": "central"}, "technique"), ({"senders": "smallest"}, "senders")),
        *(({"clip": bound}, "clip") for bound in (0.0, NONE)),
        *(({"mixture_share": share}, "mixture_share") for share in (0.0, 0.99)),
        *(({"moments_share": 1.0}, "moments_share"), ({"radius": 0.0}, "radius")),
        *(({"learning_rate": 0.0}, "learning_rate"), ({"steepest": 1000.0}, "steepest")),
        *(({"steepest": bound, "clip": None}, "steepest") for bound in (0.0, NONE)),
    ],
    "fedbn": [({"interval": 200}, "interval"), ({"selection": 100}, "selection")],
}
CASES = [(key, *case) for key, cases in WRONG.items() for case in cases]


@pytest.mark.parametrize(("key", "changes", "said"), CASES)
def test_settings_that_cannot_work_are_refused_by_name(key, changes, said):
    with pytest.raises(BadInput, match=said):
        replace(METHODS[key].Config(), **changes)
