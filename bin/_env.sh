# Sourced by every command in bin/: find the project's virtual environment, or create it.
#
#     here=$(dirname -- "$(readlink -f -- "$0")")
#     . "$here/_env.sh"
#     project_env            # or `project_env test`: with the extra `test` of setup.cfg
#
# Afterwards $FATE_FLOW_CHECKOUT is the checkout, $FATE_FLOW_PYTHON its interpreter, and the commands of
# the environment are on PATH. Run modules with `"$FATE_FLOW_PYTHON" -P -m ...`: -P keeps the caller's
# current folder off sys.path. Everything is written inside the checkout, under .venv, .cache and __pycache__.
# On a failure, it prints what is missing to stderr and exits.
#
# $FATE_FLOW_BASE_PYTHON, if it is set, names the Python to make the environment from: a path, or a name on PATH. An
# environment that was made from another one is then made again. If it is not set, the environment stays what it is.
#
# .venv/fate_flow.stamp says what the environment was made from. While .venv/.making exists, a process is working
# on it; if that process has died, the environment is created again.

FATE_FLOW_CHECKOUT=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
FATE_FLOW_VENV=$FATE_FLOW_CHECKOUT/.venv
FATE_FLOW_PYTHON=$FATE_FLOW_VENV/bin/python
FATE_FLOW_CACHE=$FATE_FLOW_CHECKOUT/.cache
export FATE_FLOW_CHECKOUT FATE_FLOW_PYTHON

project_env() {
    local extra=${1:-}
    FATE_FLOW_CHOSEN=
    if [ -n "${FATE_FLOW_BASE_PYTHON:-}" ]; then
        FATE_FLOW_CHOSEN=$(_env_chosen) || exit 1
    fi
    if ! _env_is_current "$extra"; then
        _env_make "$extra" || exit 1
    fi
    # Each server, worker and command is a separate process: without byte code in __pycache__, each of them compiles
    # the package again, which doubles the processor time of its start.
    unset PYTHONHOME PYTHONDONTWRITEBYTECODE
    PATH=$FATE_FLOW_VENV/bin:$PATH
    export PATH
}

# Print the path of a Python 3.11 to 3.13 with all modules that a server needs, or the reason why there is none.
find_python() {
    local name found answer tried=''
    if [ -n "${FATE_FLOW_BASE_PYTHON:-}" ]; then
        _env_chosen
        return
    fi
    for name in python3.11 python3.12 python3.13 python3; do
        command -v -- "$name" >/dev/null 2>&1 || continue
        found=$(command -v -- "$name")
        if answer=$("$found" -I -B -c "$_ENV_CHECK" 2>/dev/null); then
            printf '%s\n' "$found"
            return 0
        fi
        tried="$tried $name (${answer:-does not run})"
    done
    _env_say "Python 3.11, 3.12 or 3.13 is missing; found:${tried:- no python3 at all}." \
        "On Debian or Ubuntu: apt-get install python3"
    return 1
}

# Print the path of the Python that $FATE_FLOW_BASE_PYTHON names, as that one knows it, or why it cannot be used.
_env_chosen() {
    local found answer=''
    if ! found=$(command -v -- "$FATE_FLOW_BASE_PYTHON") || [ ! -x "$found" ]; then
        answer='is not there, or cannot be executed'
    elif answer=$("$found" -I -B -c "$_ENV_CHECK" 2>/dev/null); then
        "$found" -I -B -c 'import os, sys; print(os.path.realpath(sys.executable))'
        return
    fi
    _env_say "FATE_FLOW_BASE_PYTHON: $FATE_FLOW_BASE_PYTHON ${answer:-does not run}; name a Python 3.11, 3.12 or 3.13," \
        "as a path or a name on PATH, or unset the variable"
    return 1
}

_ENV_CHECK='
import sys
problem = "" if (3, 11) <= sys.version_info < (3, 14) else "is %d.%d" % sys.version_info[:2]
for name in ("venv", "ssl", "sqlite3", "ctypes", "zlib"):
    try:
        __import__(name)
    except ImportError:
        problem = problem or "lacks the module " + name
print(problem)
sys.exit(bool(problem))
'

_env_say() {
    printf 'fate_flow: %s\n' "$*" >&2
}

# What the environment must be made from: the contents of these files, and their place, since a venv cannot be moved.
_env_wanted() {
    sha256sum -- "$FATE_FLOW_CHECKOUT"/{setup.cfg,setup.py,pyproject.toml,requirements/{build,server,test}.txt}
}

_env_is_current() {
    local extra=$1 made='' extras=''
    [ -x "$FATE_FLOW_PYTHON" ] && [ ! -e "$FATE_FLOW_VENV/.making" ] && _env_is_of_chosen || return 1
    { IFS= read -r extras && IFS= read -r -d '' made; } 2>/dev/null <"$FATE_FLOW_VENV/fate_flow.stamp"
    case $made in "python: "*) made=${made#*$'\n'} ;; esac      # a stamp of an earlier release has no such line
    [ "${made%$'\n'}" = "$(_env_wanted)" ] || return 1
    case " $extras " in *" ${extra:-extras:} "*) return 0 ;; esac
    return 1
}

# Whether the environment was made from the chosen Python, if one is chosen.
_env_is_of_chosen() {
    [ -z "$FATE_FLOW_CHOSEN" ] || grep -qxF -- "python: $FATE_FLOW_CHOSEN" "$FATE_FLOW_VENV/fate_flow.stamp" 2>/dev/null
}

# In a subshell: its exports and its lock end with it.
_env_make() (
    extra=$1
    umask 022
    cd -- "$FATE_FLOW_CHECKOUT" || exit 1
    mkdir -p -- "$FATE_FLOW_CACHE/tmp" || exit 1
    exec 9>"$FATE_FLOW_CACHE/setup.lock" || exit 1
    if ! flock -n 9; then
        _env_say 'waiting for another command that is setting up the environment'
        flock 9 || exit 1
        if _env_is_current "$extra"; then exit 0; fi
    fi
    _env_private
    log=$FATE_FLOW_CACHE/setup.log
    extras=$(_env_extras "$extra")
    begun=$SECONDS
    if [ -x "$FATE_FLOW_PYTHON" ] && [ ! -e "$FATE_FLOW_VENV/.making" ] && _env_belongs_here && _env_is_of_chosen; then
        _env_say "installing missing packages of setup.cfg into .venv ..."
        if _env_install "$extras" >"$log" 2>&1; then
            _env_stamp "$extras"
            exit 0
        fi
    fi
    python=$FATE_FLOW_CHOSEN
    [ -n "$python" ] || python=$(find_python) || exit 1
    _env_say "creating .venv with $python, once (takes about a minute; the log is .cache/setup.log) ..."
    if { _env_venv "$python" && _env_install "$extras"; } >"$log" 2>&1; then
        _env_stamp "$extras"
        _env_say ".venv is ready after $((SECONDS - begun)) s"
        exit 0
    fi
    _env_say "the environment could not be created. The end of $log:"
    tail -n 15 -- "$log" | sed 's/^/    /' >&2
    exit 1
)

# Prevent pip and venv from writing outside the checkout, or elsewhere than into the environment.
_env_private() {
    unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX PIP_ROOT PIP_REQUIRE_VIRTUALENV PIP_NO_BUILD_ISOLATION
    export PIP_USER=0 PIP_CACHE_DIR="$FATE_FLOW_CACHE/pip" XDG_CACHE_HOME="$FATE_FLOW_CACHE"
    export PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
    rm -rf -- "$FATE_FLOW_CACHE"/tmp/setup.*
    export TMPDIR="$FATE_FLOW_CACHE/tmp/setup.$BASHPID"
    mkdir -p -- "$TMPDIR"
    trap 'rm -rf -- "$TMPDIR"' EXIT
}

# Print the extras requested now and before, in the form of the stamp's first line: "extras: test".
_env_extras() {
    local extras='extras:'
    if [ -e "$FATE_FLOW_VENV/fate_flow.stamp" ]; then
        IFS= read -r extras <"$FATE_FLOW_VENV/fate_flow.stamp" || extras='extras:'
    fi
    case " $extras " in
        *" $1 "*) printf '%s\n' "$extras" ;;
        *) printf '%s\n' "$extras${1:+ $1}" ;;
    esac
}

# Fail for an environment that was copied or moved with its checkout: its commands have the old path.
_env_belongs_here() {
    local stamp=$FATE_FLOW_VENV/fate_flow.stamp
    if [ -e "$stamp" ]; then
        grep -qF -- "  $FATE_FLOW_CHECKOUT/setup.cfg" "$stamp"
    else
        grep -qF -- "$FATE_FLOW_VENV" "$FATE_FLOW_VENV/bin/activate"
    fi
}

_env_venv() {
    rm -rf -- "$FATE_FLOW_VENV"
    mkdir -- "$FATE_FLOW_VENV" || return 1
    : >"$FATE_FLOW_VENV/.making"
    if "$1" -I -B -c 'import ensurepip; ensurepip.version()' 2>/dev/null && "$1" -I -B -m venv "$FATE_FLOW_VENV"; then
        return 0
    fi
    # Debian's python3 without python3-venv: pip comes from the package index instead.
    "$1" -I -B -m venv --without-pip "$FATE_FLOW_VENV" || return 1
    local wheel
    wheel=$("$FATE_FLOW_PYTHON" -I -B "$FATE_FLOW_CHECKOUT/bin/_pip_bootstrap.py" "$TMPDIR") || return 1
    "$FATE_FLOW_PYTHON" -B "$wheel/pip" install --no-index --no-deps "$wheel"
}

_env_install() {
    local lock=server
    case " $1 " in *' test '*) lock=test ;; esac
    : >"$FATE_FLOW_VENV/.making"
    # Install the locked versions (docs/reference/dependencies.md); then the checkout itself, with the locked setuptools
    # and without its own list of requirements, which has no hashes.
    _env_pip --require-hashes -r requirements/build.txt &&
        _env_pip --require-hashes -r "requirements/$lock.txt" &&
        _env_pip --no-index --no-deps --no-build-isolation -e .
}

_env_pip() {
    "$FATE_FLOW_PYTHON" -I -B -m pip install --progress-bar off "$@"
}

_env_stamp() {
    local base
    base=$("$FATE_FLOW_PYTHON" -I -B -c 'import os, sys; print(os.path.realpath(sys._base_executable))') || return 1
    { printf '%s\npython: %s\n' "$1" "$base" && _env_wanted; } >"$FATE_FLOW_VENV/fate_flow.stamp"
    rm -f -- "$FATE_FLOW_VENV/.making"
}
