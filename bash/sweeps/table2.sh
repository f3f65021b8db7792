#!/usr/bin/env bash
# Table 2: ImageNet-10, linear probe of ResNet-18; 18 runs on two GPUs each, then the table.
#   bash bash/sweeps/table2.sh [key=value ...]       Hydra overrides for every run; data: radial-vicreg data imagenet10
# Finished runs are skipped and unfinished ones resumed, so that it can be started again at any time, and in several
# shells at once. Exit status 1: runs have failed; 3: others are not finished. Commands and cost: docs/tables.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
. bash/sweeps/lib.sh

fill_table tables/table2 table2 data.format=image_folder "$@"
