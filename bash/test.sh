#!/usr/bin/env bash
# Installs radial-vicreg with the requirements of its tests and runs them.
#   bash bash/test.sh [--python VERSION_OR_PATH] [--lowest] [--without-solo] [--slow] [pytest arguments ...]
# --python 3.13   uses python3.13, pyenv's Python 3.13 or that of a path.
# --lowest        installs the lowest versions that setup.cfg allows. They exist for Python 3.10 and 3.11; without --python it
#                 takes 3.10 where there is one.
# --without-solo  does not install solo-learn. Otherwise tests that need it run when bash/install_solo_learn.sh finds it, and are
#                 skipped in one visible line when it does not.
# --slow          also runs the tests that take more than a few seconds.
# Each choice has its own environment: .venv, .venv-3.13, .venv-lowest, .venv-without-solo, .venv-lowest-3.11, ...
# A new one gets the newest versions that setup.cfg allows; remove it to get them again. $VENV is another place for it.
set -euo pipefail
cd "$(dirname "$0")/.."
. bash/lib.sh

find_python() { # VERSION_OR_PATH: prints the first that runs and can make environments (pyenv's shims may do neither)
    local candidate
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1"{,.*}/bin/python "$1"; do
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

wanted="" lowest="" without_solo=""
while [ $# -gt 0 ]; do
    case "$1" in
        --python) wanted="${2:?--python needs a version or a path}" && shift ;;
        --lowest) lowest=-lowest ;;
        --without-solo) without_solo=-without-solo ;;
        *) break ;;
    esac
    shift
done

number=""
if [ -n "$wanted" ]; then
    PYTHON="$(find_python "$wanted")" ||
        { echo "test: no Python $wanted that runs and has venv; give --python the path of one" >&2; exit 2; }
    number="-$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
elif [ -n "$lowest" ] && [ -z "${PYTHON:-}" ]; then
    PYTHON="$(find_python 3.10)" || PYTHON=python3
fi
VENV="${VENV:-.venv$lowest$without_solo$number}"

extras=test,wandb,lightly,synthetic
if [ -n "$lowest" ]; then
    constraints="$(mktemp)"
    trap 'rm -f "$constraints"' EXIT
    "${PYTHON:-python3}" bash/lowest.py wandb lightly synthetic > "$constraints"
    PIP_CONSTRAINT="$constraints" prepare_venv "$extras"
else
    prepare_venv "$extras"
fi
if [ -z "$without_solo" ] && ! bash bash/install_solo_learn.sh "$VENV"; then
    [ -n "$lowest" ] || exit 1
    echo "solo-learn does not work with the lowest versions: continuing without it"
fi
# One thread a process: two processes with two threads each are slower on two cores.
OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 "$VENV/bin/python" -m pytest -n 2 --dist worksteal "$@"
