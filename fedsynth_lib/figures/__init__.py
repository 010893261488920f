"""Pictures: their look, saving them and tables, and the vocabulary in which they are drawn.

beside_print, sweep, bars, heatmap, distributions and points draw what most notebooks show; what
none of them serves is in `special`.
"""

from fedsynth_lib.figures.save import SavedFigure, SavedTable, Saver, save_figure, save_table
from fedsynth_lib.figures.style import (
    BLACK,
    BLUE,
    COLUMN_WIDTH,
    FULL_WIDTH,
    GREEN,
    GREY,
    ORANGE,
    PARTITIONS,
    SETTINGS,
    VERMILLION,
    Look,
    look,
    looks,
    mark,
    use_style,
)

__all__ = [
    "BLACK",
    "BLUE",
    "COLUMN_WIDTH",
    "FULL_WIDTH",
    "GREEN",
    "GREY",
    "ORANGE",
    "PARTITIONS",
    "SETTINGS",
    "VERMILLION",
    "Look",
    "SavedFigure",
    "SavedTable",
    "Saver",
    "look",
    "looks",
    "mark",
    "save_figure",
    "save_table",
    "use_style",
]
