"""Each work's protocol as data.

`<work>.toml` says which experiments make which table or figure; `<work>.py` has the few steps that
only this work has.

    rows = works.load("maddock2024").grid("fig1", profile="quick").run()
"""

from fedsynth_lib.works.declared import WORKS, Work, all_grids, computed_by, load

__all__ = ["WORKS", "Work", "all_grids", "computed_by", "load"]
