"""Federated, differentially private synthetic tables: one thin library under the notebooks."""

import os

__version__ = "0.1.0"

# Both libraries report usage by default; a bundle that handles people's tables must not.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
