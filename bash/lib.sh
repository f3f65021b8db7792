# Shared by the scripts of this folder: a virtual environment with the package in it.
# Usage: . bash/lib.sh; prepare_venv [EXTRAS]     e.g. prepare_venv dev,wandb
# Uses $VENV (default .venv); $PYTHON (default python3) creates it.

prepare_venv() {
    local extras="${1:+[$1]}"
    VENV="${VENV:-.venv}"
    if [ ! -x "$VENV/bin/python" ]; then
        "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
            { echo "Python 3.10 or newer is needed; set PYTHON=/path/to/python3" >&2; return 2; }
        "${PYTHON:-python3}" -m venv "$VENV"
    fi
    echo "installing radial-vicreg$extras into $VENV"
    "$VENV/bin/python" -m pip install --quiet --editable ".$extras"
}
