"""Which decimals of a text are typed: neither a fact, nor an address, a setting, or what a work
prints."""

import re

NUMBER = r"[-−+±]?\s?\d[\d,]*(?:\.\d+)*(?:\s?%)?"
RUN = rf"{NUMBER}(?:\s?(?:,|/|±|–|-|and|to|or|, and|against)\s?{NUMBER})*"
NOT_PROSE = [
    r"(?s)```.*?```",
    r"`[^`]*`",
    r"(?s)\$\$.*?\$\$",
    r"\$[^$]*\$",
    r"(?s)<!--=.*?<!--/-->",  # a fact
    r"(?s)<!--.*?-->",
    r"\]\([^)]*\)",  # where a link leads
    r"https?://\S+",
]
ADDRESS = r"\b(?:tables?|figures?|sections?|algorithms?|equations?|definition|theorem|lemma|chapter|version|Python)"
SETTING = (
    r"(?:\b(?:epsilons?|alpha|beta|delta|sigma|gamma|budgets?|skew|participation|rate|momentum|dropout|clipp\w+|quantiles?)\b"
    r"|[εαβδσγ]|\b[a-zA-Z] ?=)"
)
PRINT = r"\b(?:print(?:s|ed)?|publish(?:es|ed))\b"
ALLOWED = [
    rf"(?i){ADDRESS}\s+\(?(?:[A-Z]\.)?{RUN}",
    rf"(?i){SETTING}(?:\s?[=:(]|\s(?:of|is|at|from))*\s?{RUN}",
    rf"(?i){PRINT}(?:\s(?:has|have|is|are|was|says|values?|means?|as|at|with|in|of|the)){{0,2}}:?\s+{RUN}",
]


def typed_decimals(text: str) -> list[str]:
    """Decimals in the prose of a Markdown text that need a fact or a line in typed.toml, in their
    order."""
    for pattern in NOT_PROSE:
        text = re.sub(pattern, " ", text)
    text = re.sub(r"\s+", " ", text)
    for pattern in ALLOWED:
        text = re.sub(pattern, " ", text)
    return re.findall(r"(?<![\w.])\d+\.\d+(?!\.?\d)", text)
