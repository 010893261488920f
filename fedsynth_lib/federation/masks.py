"""What the runtime asks of the masks of secure sums: a client's part and the server's.

`Simulated` has both, from the run's seed. Masks that clients agree on in secret, which also do
without some of the clients: `release/deploy/masks.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.contract import Arrays, Update
from fedsynth_lib.core.ledger import Refused

Check = Callable[[int, Arrays], None]  # of a client's answer; raises BadAnswer


class Ask(Protocol):
    """How the server asks clients in a phase of the masks: a question for each of them.

    A client without an answer, or with one that `check` does not let pass, is asked no more.
    """

    def __call__(
        self, phase: str, questions: Mapping[int, Arrays], check: Check
    ) -> dict[int, Arrays]:
        """Ask clients in a phase; return the answers that `check` let pass, by client."""
        ...


class Masks(Protocol):
    """A client's part in the masks of secure sums.

    secrets: what the client keeps over the rounds of a run; it never travels.
    """

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
        """Return integer arrays as uint64 arrays of which the server learns the sums alone.

        Raises Refused if the server would learn more.
        """
        ...

    def reply(
        self, phase: str, question: Arrays, *, client: int, run: int, secrets: Arrays
    ) -> Arrays:
        """Return the answer to a server that agrees on masks or opens a sum.

        Raises Refused if the server does not keep to the protocol.
        """
        ...


class Opening(Protocol):
    """The server's part in the masks of secure sums.

    absent: how many clients of a round it can do without.
    smallest: fewest clients of a sum.
    finite: whether an entry that is not a number, or is infinite, is refused. A simulation takes
        it, to show what comes of it.
    """

    absent: int
    smallest: int
    finite: bool

    def agree(self, ask: Ask, run: int) -> None:
        """Agree on masks before the first round.

        Raises BadAnswer if a client is missing.
        """
        ...

    def opened(
        self, updates: list[Update], *, clients: Sequence[int], round: int, ask: Ask
    ) -> list[Update]:
        """Return updates whose summed arrays add up to the sums over the clients that answered.

        Raises BadAnswer if too few clients help to open them.
        """
        ...


@dataclass(frozen=True)
class Simulated:
    """Both parts, of masks that derive from a seed: all clients of a round must answer."""

    seed: int
    absent: int = 0
    smallest: int = 1
    finite: bool = False

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
        """Mask the arrays as `core/secure_sum.py` does."""
        return secure_sum.mask(
            arrays, client=client, clients=clients, round=round, seed=self.seed, groups=groups
        )

    def reply(
        self, phase: str, question: Arrays, *, client: int, run: int, secrets: Arrays
    ) -> Arrays:
        """Raise Refused: a simulation has no keys."""
        raise Refused(f"client {client}: the masks of this run are simulated; there are no keys.")

    def agree(self, ask: Ask, run: int) -> None:
        """Do nothing, since the seed is known."""

    def opened(
        self, updates: list[Update], *, clients: Sequence[int], round: int, ask: Ask
    ) -> list[Update]:
        """Return the updates as they are: masks cancel by themselves."""
        return updates
