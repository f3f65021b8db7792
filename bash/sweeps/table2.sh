#!/usr/bin/env bash
# Table 2: ImageNet-10, linear probe of ResNet-18; 18 runs on two GPUs each, then the table.
#   bash bash/sweeps/table2.sh [key=value ...]       Hydra overrides for every run; data: radial-vicreg data imagenet10
# Finished runs are skipped and broken ones continued, so that it can be started again at any time. Exit status 1 when
# runs have failed. Commands and cost: docs/tables.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
. bash/sweeps/lib.sh

fill_table tables/table2 table2 data.format=image_folder "$@"
