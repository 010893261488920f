"""How numbers are written in a file: "$1,234.50", "12 345 €", "45%", "1,5", "(12)", "1,23,456"."""

import re
from dataclasses import dataclass

import pandas as pd

from fedsynth_lib.core.contract import BadInput

SPACES = " \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}"
SIGNS = "-+\N{MINUS SIGN}"
MINUS = ("-", "\N{MINUS SIGN}")
QUOTES = "'\N{RIGHT SINGLE QUOTATION MARK}"
THOUSANDS = rf"[,.{QUOTES}{SPACES}]"  # marks between groups of digits
THREES = rf"(?!0)\d{{1,3}}(?P<threes>{THOUSANDS})\d{{3}}(?:(?P=threes)\d{{3}})*"
PAIRS = rf"\d{{1,2}}(?P<pairs>{THOUSANDS})\d\d(?:(?P=pairs)\d\d)*(?P=pairs)\d{{3}}"  # 1,23,456
NUMBER = re.compile(
    rf"(?P<prefix>\D*?)(?P<sign>[{SIGNS}]?)"
    rf"(?:{PAIRS}|{THREES}|\d+)(?:(?P<mark>[.,])(?P<decimals>\d+))?(?P<suffix>\D*)"
)
LAKH = re.compile(r"\B(?=(?:\d\d)*\d{3}(?!\d))")  # where marks stand in 12,34,567
IN_BRACKETS = re.compile(r"\((.*)\)")  # a negative number, as accountants write it


@dataclass(frozen=True)
class Written:
    """The marks around and within a number.

    prefix, suffix: what stands before and after, such as a currency or '%'.
    thousands: the mark between groups of three digits; mark: the decimal mark.
    decimals: how many digits follow the decimal mark.
    minus: the sign of a negative number; '()' where it stands in brackets instead.
    lakh: whether groups have two digits but for the last, which has three, as in India.
    """

    prefix: str = ""
    thousands: str = ""
    mark: str = "."
    decimals: int = 0
    suffix: str = ""
    minus: str = "-"
    lakh: bool = False

    @classmethod
    def like(cls, example: str) -> "Written":
        """Return the way in which an example is written.

        A single comma or point with three digits behind it is read as a thousands mark where it may
        be one: 1,234 has no decimals, 1,5, 0,234 and 1.234,500 have. A sign or brackets say how
        negative numbers are written.

        Raises BadInput where the example holds no number, or two.
        """
        inside = IN_BRACKETS.fullmatch(example)
        found = NUMBER.fullmatch(inside[1] if inside else example)
        thousands = found and (found["threes"] or found["pairs"] or "")
        if not found or (thousands and thousands == found["mark"]):
            raise BadInput(
                f"{example!r} shows no number that is written one way; give one such as '1,234.50'."
            )
        # the sign may be before the prefix, as in -$5
        minus = [sign for sign in (found["sign"], found["prefix"].lstrip()[:1]) if sign in MINUS]
        return cls(
            prefix=found["prefix"].lstrip(SIGNS),
            thousands=thousands,
            mark=found["mark"] or ".",
            decimals=len(found["decimals"] or ""),
            suffix=found["suffix"],
            minus="()" if inside else (*minus, "-")[0],
            lakh=bool(found["pairs"]),
        )

    def numbers(self, texts: pd.Series) -> pd.Series:
        """Return the numbers in texts, float64; NaN where one is not written so.

        Signs stand before the number or before the prefix, or brackets around all of it; a missing
        prefix, suffix or thousands mark is no mistake.
        """
        bare = texts.astype(str).str.strip()
        inside = bare.str.fullmatch(IN_BRACKETS) & (self.minus == "()")
        bare = bare.mask(inside, bare.str[1:-1].str.strip())
        prefix, suffix = (re.escape(part.strip()) for part in (self.prefix, self.suffix))
        parts = bare.str.extract(
            rf"^([{SIGNS}]*)\s*(?:{prefix})?\s*([{SIGNS}]*)(.*?)\s*(?:{suffix})?$"
        )
        digits = parts[2]
        if self.thousands:
            alike = next((m for m in (SPACES, QUOTES) if self.thousands in m), self.thousands)
            follow = 2 if self.lakh else 3
            between = rf"(?<=\d)[{re.escape(alike)}](?=\d{{{follow}}})"
            digits = digits.str.replace(between, "", regex=True)
        digits = digits.str.replace(self.mark, ".", regex=False) if self.mark != "." else digits
        fits = digits.str.fullmatch(r"\d*\.?\d+(?:[eE][-+]?\d+)?|\d+\.").eq(True)
        numbers = pd.to_numeric(digits.where(fits), errors="coerce").astype(float)
        negative = inside ^ parts[0].str.startswith(MINUS) ^ parts[1].str.startswith(MINUS)
        return numbers.where(~negative.astype(bool), -numbers)

    def texts(self, numbers: pd.Series, short_whole: bool = False) -> pd.Series:
        """Return numbers as they are written, object; gaps stay gaps.

        short_whole: whole ones are written without decimals.
        """
        zeros = f"{self.mark}{'0' * self.decimals}" if short_whole else ""

        def text(number: float) -> str:
            whole, point, rest = format(abs(number), f".{self.decimals}f").partition(".")
            groups = LAKH.sub(",", whole) if self.lakh else format(int(whole), ",")
            grouped = groups.replace(",", self.thousands)
            digits = f"{grouped}{point and self.mark}{rest}".removesuffix(zeros)
            body = f"{self.prefix}{digits}{self.suffix}"
            negative = number < 0 and float(f"{whole}.{rest or 0}") != 0
            if not negative:
                return body
            return f"({body})" if self.minus == "()" else f"{self.minus}{body}"

        return pd.Series(
            [
                None if gap else text(number)
                for number, gap in zip(numbers, numbers.isna(), strict=True)
            ],
            numbers.index,
            dtype=object,
        )
