#!/usr/bin/env bash
# Make every table and figure:   ./run_all.sh            (options: ./run_all.sh --help)
# Run the tests:                 ./run_all.sh --tests    (what follows goes to pytest)
# Any other command:             ./run_all.sh COMMAND    (synth, verify, audit, doctor ...; ./run_all.sh commands)
#
# Needs nothing but Python 3.11 to 3.13. An active environment that has what requirements.lock says is used as it
# is; otherwise one is made in .venv. The marker inside is written last, so a set-up that was killed is made anew.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
[[ ${FEDSYNTH_HOME:-/} == /* ]] || export FEDSYNTH_HOME="$PWD/$FEDSYNTH_HOME"
venv="$root/.venv"
# The environment of a read-only checkout lies where its results go.
[[ -w $root || -z ${FEDSYNTH_HOME:-} ]] || venv="$FEDSYNTH_HOME/.venv"
marker="$venv/complete"

fail() {
    echo "run_all.sh: $1" >&2
    exit 1
}

supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

find_python() {
    local name
    for name in python3 python3.13 python3.12 python3.11; do
        if supported "$name"; then
            echo "$name"
            return
        fi
    done
    fail "no Python 3.11, 3.12 or 3.13 found (python3 is $(python3 -V 2>&1 || true)): install one of them, or put it first on PATH."
}

runner() { exec "$1" -P -m fedsynth_lib.bundle.runner "${@:2}"; }

# Words come before options only where they are a command of the library.
is_command() { [[ ${1:-} =~ ^[a-z]+$ ]]; }

# What a finished environment with these lock files writes into its marker.
stamp() { echo "$root $(cat "$@" | cksum)"; }

make_venv() {
    mkdir -p "${venv%/*}" 2>/dev/null && [[ -w ${venv%/*} ]] ||
        fail "${venv%/*} cannot be written to: set FEDSYNTH_HOME to a folder of yours, where environment and results then go."
    if ! { supported "$venv/bin/python" && grep -qxF "$(stamp requirements.lock)" "$marker" 2>/dev/null; }; then
        echo "run_all.sh: setting up $venv with $("$1" -V); this takes a few minutes, once."
        rm -rf "$venv"
        "$1" -m venv "$venv" || fail "$1 cannot make a virtual environment: install its venv module (on Debian and Ubuntu: apt install python3-venv)."
    fi
    rm -f "$marker"
    local requirements=(-r requirements.lock)
    if [[ $tests ]]; then requirements+=(-r requirements-tests.lock); fi
    [[ -t 1 ]] || requirements+=(--quiet) # a log file needs no progress bars
    "$venv/bin/python" -m pip install --disable-pip-version-check "${requirements[@]}" ||
        fail "the packages could not be installed (see above): check the network and start again."
    # JupyterLab and scripts of this environment find fedsynth_lib as well, and `fedsynth` is a command in it.
    echo "$root" >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/fedsynth.pth"
    printf '%s\n' '#!/usr/bin/env bash' 'exec "$(dirname "$0")/python" -P -m fedsynth_lib "$@"' >"$venv/bin/fedsynth"
    chmod +x "$venv/bin/fedsynth"
    stamp requirements.lock >"$marker.new"
    if [[ $tests ]]; then stamp "${locks[@]}" >>"$marker.new"; fi
    mv "$marker.new" "$marker"
}

tests=""
rest=()
for argument in "$@"; do
    if [[ $argument == --tests ]]; then tests=yes; else rest+=("$argument"); fi
done
locks=(requirements.lock)
if [[ $tests ]]; then locks+=(requirements-tests.lock); fi

export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONUTF8=1 # files and parameters are UTF-8, whatever the locale
export FLWR_TELEMETRY_ENABLED=0 RAY_USAGE_STATS_ENABLED=0 DO_NOT_TRACK=1

here="$PWD"
cd "$root"
base="$(find_python)"
is_command "$@" || case " $* " in
*" --help "* | *" -h "* | *" --list "*) [[ $tests ]] || runner "$base" "$@" ;; # needs no packages
esac

if "$base" -P fedsynth_lib/bundle/environment.py "${locks[@]}"; then
    python="$base"
else
    python="$venv/bin/python"
    export PYTHONPATH="$root" # another environment's packages must not shine through
    if ! { supported "$python" && grep -qxF "$(stamp "${locks[@]}")" "$marker" 2>/dev/null; }; then
        # A mistyped option shows now, not after minutes.
        [[ $tests ]] || is_command "$@" || (cd "$here" && "$base" -P -m fedsynth_lib.bundle.runner "$@" --check) || exit $?
        make_venv "$base"
    fi
fi

if [[ $tests ]]; then
    # All of them: one process for each core. Some of them: in this one, where a person can stop and look.
    ((${#rest[@]})) || rest=(-n auto --dist worksteal)
    exec "$python" -m pytest "${rest[@]}"
fi
cd "$here" # paths in options are meant from where the user stands
if is_command "$@"; then
    [[ $1 == commands ]] && set -- --help
    exec "$python" -P -m fedsynth_lib "$@"
fi
runner "$python" "$@"
