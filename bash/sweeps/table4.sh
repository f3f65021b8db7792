#!/usr/bin/env bash
# Table 4: CelebA, encoder and projector probes of ResNet-18; 24 runs, then the table.
#   bash bash/sweeps/table4.sh [key=value ...]       Hydra overrides for every run; data: radial-vicreg data celeba
# Finished runs are skipped and broken ones continued, so that it can be started again at any time. Exit status 1 when
# runs have failed. Commands and cost: docs/tables.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
. bash/sweeps/lib.sh

fill_table tables/table4 table4 "$@"
