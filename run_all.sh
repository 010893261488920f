#!/usr/bin/env bash
# Make every table and figure:   ./run_all.sh            (options: ./run_all.sh --help)
# Run the tests:                 ./run_all.sh --tests    (what follows goes to pytest)
# Any other command:             ./run_all.sh COMMAND    (synth, verify, audit, doctor ...; ./run_all.sh commands)
#
# Needs nothing but Python 3.11 to 3.13. An active environment that has what requirements.lock says is used as it
# is; otherwise one is made, and .venv leads to it. The marker inside is written last, so a set-up that was killed
# is made again.
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

# Whether an environment was finished, for exactly these lock files.
is_complete() { supported "$venv/bin/python" && grep -qxF "$(stamp "$@")" "$marker" 2>/dev/null; }

install() { # PYTHON LOCK...: with pip, whose words are shown; last torch, whose build is the machine's, with what it needs
    local python="$1" options=(--disable-pip-version-check)
    shift
    [[ -t 1 ]] || options+=(--quiet) # a log file needs no progress bars
    "$python" -m pip install "${options[@]}" --require-hashes --no-deps "${@/#/--requirement=}" &&
        "$python" -m pip install "${options[@]}" --requirement=requirements-all.in
}

# $venv is a link to an environment beside it that is named after its lock file. The new one is built beside the old
# one and takes its place when it is complete. What this script has not made is neither changed nor deleted.
make_venv() {
    mkdir -p "${venv%/*}" 2>/dev/null && [[ -w ${venv%/*} ]] ||
        fail "${venv%/*} cannot be written to: set FEDSYNTH_HOME to a folder of yours, where environment and results then go."
    if [[ -e $venv || -L $venv ]] && [[ $(readlink "$venv") != "${venv##*/}"-* ]]; then
        fail "$venv is an environment that run_all.sh has not made, so it is left alone: rename it, or activate it with the packages of requirements.lock in it."
    fi
    local new old="" old_python="$venv/bin/python"
    new="$venv-$(stamp "${wanted[@]}" | cksum | cut -d" " -f1)"
    if ! is_complete "${wanted[@]}"; then
        echo "run_all.sh: setting up $venv with $("$1" -V); this takes a few minutes, once."
        rm -rf "$new"
        "$1" -m venv "$new" || fail "$1 cannot make a virtual environment: install its venv module (on Debian and Ubuntu: apt install python3-venv)."
        if ! install "$new/bin/python" requirements.lock; then
            rm -rf "$new"
            supported "$old_python" && "$old_python" -P fedsynth_lib/bundle/environment.py --any-version "${locks[@]}" ||
                fail "the packages could not be installed (see above): check the network and start again."
            echo "run_all.sh: going on with the older environment in $venv, whose versions differ as said above; start again with a network to renew it." >&2
            return
        fi
        # JupyterLab and scripts of this environment find fedsynth_lib as well, and `fedsynth` is a command in it.
        echo "$root" >"$("$new/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/fedsynth.pth"
        printf '%s\n' '#!/usr/bin/env bash' 'exec "$(dirname "$0")/python" -P -m fedsynth_lib "$@"' >"$new/bin/fedsynth"
        chmod +x "$new/bin/fedsynth"
        stamp "${wanted[@]}" >"$new/complete"
        old="$(cd -P "$venv" 2>/dev/null && pwd)" || true
        "$new/bin/python" -c 'import os, sys; os.symlink(sys.argv[1], sys.argv[3]); os.replace(sys.argv[3], sys.argv[2])' \
            "${new##*/}" "$venv" "$venv.new"
        if [[ $old == "$venv"-* && $old != "$new" ]]; then rm -rf "$old"; fi
    fi
    if [[ $tests ]] && ! is_complete requirements-tests.lock; then
        install "$venv/bin/python" requirements.lock requirements-tests.lock ||
            fail "the packages of the tests could not be installed (see above): check the network and start again."
        stamp requirements-tests.lock >>"$marker"
    fi
}

# The peers that it compares with come with the packages of the tests.
if [[ ${1:-} == bench && " ${*:2} " == *" --speed "* ]]; then set -- --tests -m bench -s tests/test_bench_*.py; fi
tests=""
rest=()
for argument in "$@"; do
    if [[ $argument == --tests ]]; then tests=yes; else rest+=("$argument"); fi
done
wanted=(requirements.lock requirements-all.in) # the second for torch, which no lock has
locks=("${wanted[@]}")
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
    if ! { is_complete "${wanted[@]}" && { [[ ! $tests ]] || is_complete requirements-tests.lock; }; }; then
        # A mistyped option shows now, not after minutes.
        [[ $tests ]] || is_command "$@" || (cd "$here" && "$base" -P -m fedsynth_lib.bundle.runner "$@" --check) || exit $?
        make_venv "$base"
    fi
fi

if [[ $tests ]]; then
    # All of them, or all slow ones: a process for each core. Chosen ones: in this one, where a person can stop and look.
    [[ -n "${rest[*]-}" && "${rest[*]}" != "-m slow" ]] || rest+=(-n auto --dist worksteal)
    exec "$python" -m pytest "${rest[@]}"
fi
cd "$here" # paths in options are meant from where the user stands
if is_command "$@"; then
    [[ $1 == commands ]] && set -- --help
    FEDSYNTH_TYPED="$0" exec "$python" -P -m fedsynth_lib "$@"
fi
runner "$python" "$@"
