"""What a server takes for an answer.

An answer must be of the right client, round and run, well formed, and fit what the others sent.
Anything else is refused with a code:

    late        no answer within the time of a round
    failed      the client, or its node, reports an error
    twice       more than one answer in a round
    client      it is said to be from another client than the one that was asked
    signature   its site has not signed it, see `release/deploy/apps.py`
    replay      it belongs to another round or another run
    garbage     it cannot be read: a part is missing, its bytes do not make the array that it names
    size        an array of another shape, or another number of rows, than agreed on
    dtype       a masked array that is not of unsigned 64-bit numbers
    nan         an entry that is not a number, or is infinite
    names       an array that the others do not send, or none where they do
    groups      a sum over other clients than the others say
    keys-...    of the key agreement and the shares, see `release/deploy/masks.py`

Nobody can judge what a client adds to a sum: a client that lies about its rows spoils the result.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from flwr.app import ArrayRecord, RecordDict

from fedsynth_lib.core.contract import Arrays, Charge, Update

RAW = "raw"  # C-ordered bytes, in the byte order that the dtype names
NUMBERS = "biuf"  # kinds of dtypes that arrays may have


class BadAnswer(Exception):
    """An answer that is not taken.

    code: one of the codes above.
    """

    def __init__(self, code: str, why: str):
        super().__init__(f"{why} [{code}]")
        self.code, self.why = code, why


def size_of(dtype: str, shape: Sequence[int]) -> int:
    """Return how many bytes an array has that another party describes.

    Raises BadAnswer if that is not an array of numbers.
    """
    kind = np.dtype(dtype)
    if kind.kind not in NUMBERS or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise BadAnswer("garbage", "an array is not of numbers, or has no shape")
    return prod(shape) * kind.itemsize


def view(dtype: str, shape: Sequence[int], content: bytes) -> np.ndarray:
    """Return a read-only array over bytes that another party sent.

    The array takes no memory of its own.

    Raises BadAnswer unless the array has exactly these bytes, so that a few bytes cannot ask for
    much memory.
    """
    if size_of(dtype, shape) != len(content):
        raise BadAnswer("garbage", f"{len(content)} bytes do not make the array that is named")
    return np.frombuffer(content, dtype).reshape(shape)


def views(record: ArrayRecord) -> Arrays:
    """Return the arrays of a packed record, read-only, as `view` makes them."""
    return {name: view(a.dtype, a.shape, a.data) for name, a in record.items()}


def unpack(record: ArrayRecord) -> Arrays:
    """Return new, writable arrays from a packed record."""
    return {name: values.copy() for name, values in views(record).items()}


def in_one(arrays: Arrays) -> Arrays:
    """Return the arrays as the bytes of one array, behind a line that names them.

    Flower has a request for each array, and what all clients have sent is relayed to all of them;
    one array keeps the requests few.
    """
    parts = [(name, values.dtype.str, values.shape) for name, values in arrays.items()]
    content = [json.dumps(parts).encode() + b"\n", *(v.tobytes() for v in arrays.values())]
    return {"all": np.frombuffer(b"".join(content), np.uint8)}


def out_of_one(arrays: Arrays) -> Arrays:
    """Return the arrays that `in_one` put together, read-only.

    It raises some error for an array that is not from `in_one`.
    """
    parts, _, content = arrays["all"].tobytes().partition(b"\n")
    found, place = {}, 0
    for name, dtype, shape in json.loads(parts):
        end = place + size_of(dtype, shape)
        found[name], place = view(dtype, shape, content[place:end]), end
    return found


def arrays_of(content: RecordDict, kind: str, *, finite: bool = True) -> Arrays:
    """Return the arrays of a record that another party made.

    Raises BadAnswer if it makes no arrays of numbers.

    finite: whether an entry that is not a number, or is infinite, is refused as well.
    """
    try:
        found = unpack(content[kind])
    except Exception as error:  # whatever bytes can do to a reader
        raise BadAnswer("garbage", f"{kind} cannot be read ({type(error).__name__})") from None
    for name, values in found.items():
        if finite and values.dtype.kind == "f" and not np.isfinite(values).all():
            raise BadAnswer("nan", f"{kind} {name!r} has a number that is none, or infinite")
    return found


def check_sender(content: RecordDict, *, client: int, run: int, round: int) -> None:
    """Raise BadAnswer for an answer of another client, round or run than was asked."""
    try:
        about = content["about"]
        said = [int(about[name]) for name in ("client", "run", "round")]
    except Exception as error:
        raise BadAnswer(
            "garbage", f"it does not say whose it is ({type(error).__name__})"
        ) from None
    if said[0] != client:
        raise BadAnswer("client", f"it says that it is from client {said[0]}")
    if said[1:] != [run, round]:
        raise BadAnswer("replay", f"it belongs to round {said[2]} of run {said[1]}")


def update_of(
    content: RecordDict,
    *,
    client: int,
    clients: Sequence[int],
    size: int,
    smallest: int,
    finite: bool,
) -> Update:
    """Return what a client answers in a round.

    Raises BadAnswer if the answer is not well formed.

    size: the number of its rows, as declared; -1 if it is not known.
    smallest: fewest clients of a sum.
    finite: whether an entry that is not a number, or is infinite, is refused in `arrays`.
    """
    arrays = arrays_of(content, "arrays", finite=finite)
    summed = arrays_of(content, "summed")
    for name, values in summed.items():
        if values.dtype != np.uint64:
            raise BadAnswer("dtype", f"summed {name!r} is of {values.dtype}, not of uint64")
    about = content["about"]
    try:
        rows = int(about["num_rows"])
        spent, summed_spent = (
            [Charge(**charge) for charge in json.loads(about[name])]
            for name in ("spent", "summed_spent")
        )
        groups = {
            name: tuple(map(int, members)) for name, members in json.loads(about["groups"]).items()
        }
    except Exception as error:
        raise BadAnswer("garbage", f"'about' cannot be read ({type(error).__name__})") from None
    if size >= 0 and rows != size:
        raise BadAnswer("size", f"it speaks of {rows} rows, and {size} are declared")
    for name, members in groups.items():
        fits = {client} <= set(members) <= set(clients) and len(set(members)) >= smallest
        if not fits or name not in summed:
            raise BadAnswer("groups", f"the sum {name!r} cannot be over clients {list(members)}")
    return Update(arrays, summed, groups, rows, spent, summed_spent, client)


def misfits(updates: Mapping[int, Update], clients: Sequence[int]) -> dict[int, BadAnswer]:
    """Return clients whose summed arrays do not fit those of the others, and why.

    For each sum, the majority of the clients that it is about decides. Without a majority, all
    clients that sent the sum are refused.
    """
    found: dict[int, BadAnswer] = {}
    everyone, names = tuple(clients), {name for each in updates.values() for name in each.summed}
    for name in sorted(names):
        said = {
            client: (update.groups.get(name, everyone), update.summed[name].shape)
            for client, update in updates.items()
            if name in update.summed
        }
        ((group, shape), votes), *_ = Counter(said.values()).most_common(1)
        silent = [client for client in group if client in updates and client not in said]
        if votes <= len(said) - votes + len(silent):
            why = BadAnswer("names", f"most of the others do not know its sum {name!r}")
            found |= dict.fromkeys(said, why)
            continue
        found |= {client: BadAnswer("names", f"it sent no {name!r}") for client in silent}
        for client, (other_group, other_shape) in said.items():
            if other_group != group:
                why = f"its sum {name!r} is over clients {list(other_group)}, not {list(group)}"
                found[client] = BadAnswer("groups", why)
            elif other_shape != shape:
                why = f"summed {name!r} has shape {other_shape}, not {shape}"
                found[client] = BadAnswer("size", why)
    return found
