#!/usr/bin/env bash
# Installs radial-vicreg into .venv and pretrains on scikit-learn's handwritten digits (no download, no GPU needed).
#   bash bash/quickstart.sh [key=value ...]         Hydra overrides for `radial-vicreg pretrain`
# At the end: W1 of the radii to chi before and after, a linear probe before and after, in runs/ a checkpoint,
# results.json and the figure radii.png, and the three commands that come next. The training takes under a minute on two
# CPU cores.
set -euo pipefail
cd "$(dirname "$0")/.."
. bash/lib.sh

prepare_venv ""
"$VENV/bin/radial-vicreg" data digits --out datasets/digits
before="$(mktemp)"
trap 'rm -f "$before"' EXIT
"$VENV/bin/radial-vicreg" pretrain --config-name quickstart "$@"

runs=runs
for setting in "$@"; do
    case "$setting" in runs_dir=*) runs="${setting#runs_dir=}" ;; esac
done
figure="$(find "$runs" -name radii.png -newer "$before" 2>/dev/null | head -n 1 || true)"
[ -n "$figure" ] || exit 0 # --cfg trains nothing
cat <<NEXT

next steps: activate the environment, open the figure, train VICReg without the radial term
  cd "$PWD" && source "$VENV/bin/activate"
  python -m webbrowser "file://$(cd "$(dirname "$figure")" && pwd)/radii.png"
  radial-vicreg pretrain --config-name quickstart method=vicreg
NEXT
