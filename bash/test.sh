#!/usr/bin/env bash
# Installs radial-vicreg with its development tools into .venv and runs the tests.
#   bash bash/test.sh [--lowest [--python PYTHON]] [--slow] [pytest arguments ...]
# --lowest installs the lowest versions that setup.cfg allows into .venv-lowest, made by PYTHON (default: python3.10 where
# there is one; these versions exist for 3.10 and 3.11), and runs the tests with them.
# Tests that need solo-learn run when bash/install_solo_learn.sh finds it, and are skipped in one visible line otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."
. bash/lib.sh

if [ "${1:-}" = --lowest ]; then
    shift
    if [ "${1:-}" = --python ]; then
        PYTHON="${2:?--python needs a path or a name}"
        shift 2
    elif [ -z "${PYTHON:-}" ] && python3.10 --version >/dev/null 2>&1; then
        PYTHON=python3.10
    fi
    VENV="${VENV:-.venv-lowest}"
    constraints="$(mktemp)"
    trap 'rm -f "$constraints"' EXIT
    "${PYTHON:-python3}" bash/lowest.py wandb lightly synthetic > "$constraints"
    PIP_CONSTRAINT="$constraints" prepare_venv dev,wandb,lightly,synthetic
    bash bash/install_solo_learn.sh "$VENV" || echo "solo-learn does not work with the lowest versions: without it"
else
    prepare_venv dev,wandb,lightly,synthetic
    bash bash/install_solo_learn.sh "$VENV"
fi
# One thread a process: two processes with two threads each are slower on two cores.
OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 "$VENV/bin/python" -m pytest -n 2 --dist loadfile "$@"
