#!/usr/bin/env bash
# Installs radial-vicreg with its development tools into .venv and runs the tests.
#   bash bash/test.sh [--slow] [pytest arguments ...]
# Tests that need solo-learn run when bash/install_solo_learn.sh finds it, and are skipped in one visible line otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."
. bash/lib.sh

prepare_venv dev,wandb,lightly,synthetic
bash bash/install_solo_learn.sh "$VENV"
# One thread a process: two processes with two threads each are slower on two cores.
OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 "$VENV/bin/python" -m pytest -n 2 --dist loadfile "$@"
