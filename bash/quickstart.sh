#!/usr/bin/env bash
# Installs radial-vicreg into .venv and runs `radial-vicreg try`: it trains VICReg, Radial-VICReg, and Radial-VICReg with a
# term for the mean, on scikit-learn's handwritten digits (no images are downloaded, no GPU is needed), and compares them.
#   bash bash/quickstart.sh [key=value ...]         Hydra overrides for all three
# At the end: three sentences and one figure, comparison.png; for each run in runs/ a checkpoint, results.json and the
# figure radii.png; and the commands that come next. The training takes two minutes on two CPU cores.
set -euo pipefail
cd "$(dirname "$0")/.."
. bash/lib.sh

prepare_venv ""
before="$(mktemp)"
trap 'rm -f "$before"' EXIT
"$VENV/bin/radial-vicreg" try "$@"

runs=runs
for setting in "$@"; do
    case "$setting" in runs_dir=*) runs="${setting#runs_dir=}" ;; esac
done
figure="$(find "$runs" -name comparison.png -newer "$before" | head -n 1)"
cat <<NEXT

next steps: activate the environment, open the figure, train one method for longer
  cd "$PWD" && source "$VENV/bin/activate"
  python -m webbrowser "file://$(cd "$(dirname "$figure")" && pwd)/comparison.png"
  radial-vicreg pretrain --config-name quickstart radialvicreg/method=radialvicreg_mean max_epochs=20
your own images: radial-vicreg try FOLDER
NEXT
