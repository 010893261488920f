"""The notebooks as one run: runner, kernels, report, and the commands around them."""

import sys

# jsonschema, which nbformat imports, would build a grammar of international web addresses: three
# seconds of each process, for a check that no notebook asks for. It goes on without.
sys.modules.setdefault("rfc3987_syntax", None)
