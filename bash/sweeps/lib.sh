# shellcheck shell=bash
# Shared by the scripts of this folder: trains the cells of a table, then prints the table of the finished runs.
#   $RADIAL_VICREG  program (default: radial-vicreg of PATH, else that of .venv)
#   $RUNS           folder of the runs (default: runs)
#   $REPORT         folder of the report (default: report)
. bash/lib.sh

fill_table() { # SWEEP TABLE [key=value ...]
    local runs="${RUNS:-runs}" report="${REPORT:-report}"
    local sweep="$1" table="$2" status=0 program
    shift 2
    program="$(find_program)"
    "$program" sweep "$sweep" --run "runs_dir=$runs" "$@" || status=$?
    case "$status" in
    0 | 1 | 3) ;; # 1: runs have failed; 3: others are not finished; the table shows what there is
    *) return "$status" ;;
    esac
    "$program" report "$runs" --out "$report"
    echo
    cat "$report/$table.md"
    return "$status"
}
