#!/usr/bin/env bash
# Installs radial-vicreg into .venv and pretrains on scikit-learn's handwritten digits (no download, no GPU needed).
#   bash bash/quickstart.sh [key=value ...]         Hydra overrides for `radial-vicreg pretrain`
# At the end: W1 of the radii to chi before and after, a linear probe before and after, and in runs/ a checkpoint,
# results.json and the figure radii.png. The training takes under four minutes on two CPU cores.
set -euo pipefail
cd "$(dirname "$0")/.."
. bash/lib.sh

prepare_venv
"$VENV/bin/radial-vicreg" data digits --out datasets/digits
"$VENV/bin/radial-vicreg" pretrain --config-name quickstart "$@"
