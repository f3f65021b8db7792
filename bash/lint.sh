#!/usr/bin/env bash
# Checks style, types, layers, shell scripts, spelling and prose: the hooks of .pre-commit-config.yaml, on every file.
#   bash bash/lint.sh [HOOK]         e.g. mypy
set -euo pipefail
cd "$(dirname "$0")/.."
. bash/lib.sh

prepare_venv dev,wandb,lightly,synthetic
# shellcheck source=/dev/null
. "$VENV/bin/activate"
pre-commit run --all-files --show-diff-on-failure "$@"
