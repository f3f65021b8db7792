# shellcheck shell=bash
# Shared by the scripts of this folder: the virtual environment of the checkout, and the program in it.
#   . bash/lib.sh; prepare_venv [EXTRAS]     e.g. prepare_venv dev,wandb: makes $VENV (default .venv) with $PYTHON (python3)
#   . bash/lib.sh; find_program              prints $RADIAL_VICREG, else radial-vicreg of PATH, else the one in $VENV

checkout="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

prepare_venv() {
    local extras="${1:+[$1]}"
    VENV="${VENV:-.venv}"
    if [ ! -x "$VENV/bin/python" ]; then
        "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
            { echo "Python 3.10 or newer is needed; set PYTHON=/path/to/python3" >&2; return 2; }
        "${PYTHON:-python3}" -m venv "$VENV"
    elif ! "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
        echo "$VENV has no pip, so another tool has made it (uv does). Remove it, or set VENV=DIR for another place" >&2
        return 2
    fi
    echo "installing radial-vicreg$extras into $VENV"
    "$VENV/bin/python" -m pip install --quiet --editable ".$extras"
}

find_program() {
    local own="${VENV:-$checkout/.venv}/bin/radial-vicreg"
    if [ -n "${RADIAL_VICREG:-}" ]; then
        echo "$RADIAL_VICREG"
    elif command -v radial-vicreg >/dev/null; then
        echo radial-vicreg
    elif [ -x "$own" ]; then
        echo "$own"
    else
        echo "radial-vicreg is neither on PATH nor in $own: run bash/quickstart.sh, or activate its environment" >&2
        return 2
    fi
}
