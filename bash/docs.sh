#!/usr/bin/env bash
# Builds the documentation into docs/_build/html, checks its links and that it loads nothing from other sites; any
# warning ends it.
#   bash bash/docs.sh
# Installs the package and the requirements of the pages into $VENV (default .venv). The notebooks of docs/notebooks are
# executed each time: a few minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
. bash/lib.sh

prepare_venv docs,synthetic
# The notebooks call radial-vicreg. One thread is faster than two for networks as small as theirs.
PATH="$(cd "$VENV/bin" && pwd):$PATH"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
rm -rf docs/_build
sphinx-build --builder html --fail-on-warning --keep-going --quiet docs docs/_build/html
python bash/links.py docs/_build/html
echo "open docs/_build/html/index.html"
