#!/usr/bin/env bash
# Makes solo-learn's main branch importable in the current (or given) virtual environment.
#   bash bash/install_solo_learn.sh [VENV]          VENV: default $VIRTUAL_ENV, then .venv
# Takes the first of: an importable solo-learn >= 1.0.5, $SOLO_LEARN_DIR, ../solo-learn, ~/solo-learn, a clone of
# its Git repository (into VENV/src). It links the checkout with a .pth file, since solo-learn's setup.py does
# not run with a current setuptools. Exit status 0 also if solo-learn is not available: everything else works.
set -euo pipefail
cd "$(dirname "$0")/.."

venv="${1:-${VIRTUAL_ENV:-.venv}}"
python="$venv/bin/python"
repository="https://github.com/vturrisi/solo-learn.git"

[ -x "$python" ] || { echo "install_solo_learn: no Python in $venv; run bash/quickstart.sh or pass a venv" >&2; exit 2; }

is_main_branch() { [ -f "$1/solo/args/pretrain.py" ] && [ -f "$1/main_pretrain.py" ]; }
is_importable() {
    "$python" - <<'PY' >/dev/null 2>&1
import sys
from radial_vicreg.solo.detect import import_solo_learn
sys.exit(not import_solo_learn().usable)
PY
}

if is_importable; then
    echo "solo-learn: already importable"
    exit 0
fi

checkout=""
for candidate in "${SOLO_LEARN_DIR:-}" ../solo-learn "$HOME/solo-learn"; do
    if [ -n "$candidate" ] && is_main_branch "$candidate"; then
        checkout="$(cd "$candidate" && pwd)"
        break
    fi
done
if [ -z "$checkout" ]; then
    mkdir -p "$venv/src"
    if is_main_branch "$venv/src/solo-learn" ||
        GIT_TERMINAL_PROMPT=0 timeout 120 git clone --quiet --depth 1 "$repository" "$venv/src/solo-learn" 2>/dev/null; then
        checkout="$(cd "$venv/src/solo-learn" && pwd)"
    else
        echo "solo-learn: found no checkout and cannot reach $repository; everything else works (host=standalone)"
        exit 0
    fi
fi

"$python" -m pip install --quiet "einops>=0.6" "tqdm>=4.60" "hydra-core>=1.3,<1.4"  # the extra `solo` of setup.cfg
site="$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')"
printf '%s\n' "$checkout" > "$site/solo_learn_checkout.pth"
if is_importable; then
    echo "solo-learn: linked $checkout"
else
    rm -f "$site/solo_learn_checkout.pth"
    echo "solo-learn: $checkout does not import; see: $python -c 'import sys; sys.path.append(\"$checkout\"); import solo.methods'" >&2
    exit 1
fi
