#!/usr/bin/env bash
# Table 3: CIFAR-100, MLP probe of ResNet-18; 12 runs, which are table 1's, then the table.
#   bash bash/sweeps/table3.sh [key=value ...]       Hydra overrides for every run; data: downloaded by the first run
# Finished runs are skipped and broken ones continued, so that it can be started again at any time. Exit status 1 when
# runs have failed. Commands and cost: docs/tables.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
. bash/sweeps/lib.sh

fill_table tables/table3 table3 "$@"
