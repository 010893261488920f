"""What lies in figures/ for the report: results by name, and what was said about each claim."""

from pathlib import Path

import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.outcomes import OUTCOMES
from fedsynth_lib.printed.published import WORKS
from fedsynth_lib.runs.rows import FULLEST_FIRST, PROFILES, figures_folder

KINDS = {".png": "PNG", ".pdf": "PDF", ".csv": "CSV", ".md": "Markdown", ".tex": "LaTeX"}
SAID = ["id", "verdict", "share", "evidence"]
# name of a result -> folder, best first -> suffix -> file
Found = dict[str, dict[str, dict[str, Path]]]


def read_csv(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except ValueError as error:
        raise BadInput(
            f"{path} cannot be read as a table ({error}): run its notebook again."
        ) from error


def folders() -> dict[str, Path]:
    """Where figures and tables lie, by the profile and the data that they were made of, the best
    first: real tables before stand-ins."""
    return {
        profile if data == "real" else f"{profile}-{data}": figures_folder(profile, data)
        for data in ("real", "standin")
        for profile in reversed(PROFILES)
    }


def find_results() -> Found:
    """Every figure and table in the folders of the profiles, by its name without suffix."""
    found: Found = {}
    for folder, place in folders().items():
        for path in sorted(place.glob("[!.]*")):
            if path.suffix in (".png", ".csv"):
                files = {
                    kind: each
                    for kind in KINDS
                    if (each := path.with_name(path.stem + kind)).is_file()
                }
                found.setdefault(path.stem, {})[folder] = files
    return found


def find_claims() -> pd.DataFrame:
    """id, outcome, evidence, folder of every table that judges claims; the first of an id is the
    one that counts.

    A table judges claims if it has the columns `id` and `verdict`, whatever its name is.
    """
    frames = [pd.DataFrame(columns=["id", "outcome", "evidence", "folder"])]
    for folder, place in folders().items():
        for path in sorted(place.glob("[!.]*.csv")):
            # the verdict gathers what the others say
            table = None if path.name.startswith("90_") else read_csv(path)
            if table is None or not (
                path.stem.endswith("_claims") or {"id", "verdict"} <= set(table)
            ):
                continue
            if set(SAID) - set(table) or set(table["verdict"]) - set(OUTCOMES):
                raise BadInput(
                    f"{path} lacks {', '.join(SAID)}, or has an unknown verdict: make it anew."
                )
            frames.append(table.assign(folder=folder, outcome=table["verdict"]))
    judged = pd.concat(frames, ignore_index=True)[list(frames[0])]
    rank = 2 * ~judged["folder"].isin(FULLEST_FIRST) + (judged["outcome"] == OUTCOMES[-1])
    return judged.iloc[rank.argsort(kind="stable")].reset_index(drop=True)


def find_verdict(found: Found) -> dict[str, dict[str, str]]:
    """Claim id -> its line in the tables of notebook 90, which judges on committed rows; empty
    where it was not run."""
    lines = {}
    for work in WORKS:
        for files in list(found.get(f"90_claims_{work}", {}).values())[:1]:
            table = read_csv(files[".csv"])
            if {"id", "outcome", "share", "profile", "fails"} <= set(table):
                lines |= {f"{work}/{line['id']}": line for line in table.to_dict("records")}
    return lines
