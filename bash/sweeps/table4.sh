#!/usr/bin/env bash
# Table 4: CelebA, encoder and projector probes of ResNet-18; 24 runs, then the table.
#   bash bash/sweeps/table4.sh [key=value ...]       Hydra overrides for every run; data: radial-vicreg data celeba
# Finished runs are skipped and unfinished ones resumed, so that it can be started again at any time, and in several
# shells at once. Exit status 1: runs have failed; 3: others are not finished. Commands and cost: docs/tables.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
. bash/sweeps/lib.sh

fill_table tables/table4 table4 "$@"
