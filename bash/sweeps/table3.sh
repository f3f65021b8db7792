#!/usr/bin/env bash
# Table 3: CIFAR-100, MLP probe of ResNet-18; 12 runs, which are table 1's, then the table.
#   bash bash/sweeps/table3.sh [key=value ...]       Hydra overrides for every run; data: downloaded by the first run
# Finished runs are skipped and unfinished ones resumed, so that it can be started again at any time, and in several
# shells at once. Exit status 1: runs have failed; 3: others are not finished. Commands and cost: docs/tables.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
. bash/sweeps/lib.sh

fill_table tables/table3 table3 "$@"
