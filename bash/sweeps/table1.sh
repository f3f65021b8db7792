#!/usr/bin/env bash
# Table 1: CIFAR-100, linear probe of ResNet-18 and ViT-Tiny; 24 runs, then the table.
#   bash bash/sweeps/table1.sh [key=value ...]       Hydra overrides for every run; data: downloaded by the first run
# Finished runs are skipped and unfinished ones resumed, so that it can be started again at any time, and in several
# shells at once. Exit status 1: runs have failed; 3: others are not finished. Commands and cost: docs/tables.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
. bash/sweeps/lib.sh

fill_table tables/table1 table1 "$@"
