"""Shamir's shares of a secret (Shamir 1979): so many of them make it, and fewer say nothing.

A secret of 32 bytes is the value at 0 of a random polynomial over the whole numbers modulo a prime;
a share is its value at another place. `threshold` values fix a polynomial of degree threshold - 1;
with one value less, each secret goes with exactly one polynomial, so all are as likely as before.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence

PRIME = 2**256 + 297  # the smallest one above 2^256, so that it holds all secrets of 32 bytes
BYTES = 33  # of a share


def split(
    secret: int,
    places: Sequence[int],
    threshold: int,
    *,
    prime: int = PRIME,
    draw: Callable[[int], int] = secrets.randbelow,
) -> list[int]:
    """Split a secret into a share for each place.

    places: different, from 1 to prime - 1. draw: of range(below).
    """
    coefficients = [secret, *(draw(prime) for _ in range(threshold - 1))]
    return [_value(coefficients, place, prime) for place in places]


def joined(shares: Mapping[int, int], *, prime: int = PRIME) -> int:
    """Join place -> share, `threshold` of them at least, to the secret.

    It computes Lagrange's formula at 0.
    """
    total = 0
    for place, share in shares.items():
        above = below = 1
        for other in shares:
            if other != place:
                above, below = above * other % prime, below * (other - place) % prime
        total += share * above * pow(below, -1, prime)
    return total % prime


def _value(coefficients: Sequence[int], place: int, prime: int) -> int:
    """Of a polynomial, lowest coefficient first (Horner's rule)."""
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * place + coefficient) % prime
    return value
