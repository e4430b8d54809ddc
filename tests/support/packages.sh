# Sourced by the scripts that build foredraft: install_packages installs the Debian or Ubuntu packages that
# are missing, and nothing else.

foredraft_packages=(
  binutils ca-certificates catch2 ccache cmake g++ libcli11-dev libcpp-httplib-dev libeigen3-dev libpcre2-dev libxsimd-dev
  ninja-build nlohmann-json3-dev pkg-config python3 python3-pip python3-venv
)

as_root() {
  if (( $(id -u) == 0 )); then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "not root and no sudo; ask an administrator for: $*" >&2
    return 1
  fi
}

install_packages() {  # further packages as arguments
  local package missing=()
  if ! command -v apt-get dpkg-query >/dev/null; then
    echo "no apt-get here; these packages, or what they are called on this system, must be installed:" >&2
    echo "  ${foredraft_packages[*]} $*" >&2
    return 0
  fi
  for package in "${foredraft_packages[@]}" "$@"; do
    # A package of several architectures answers several times.
    if [[ " $(dpkg-query -W -f '${db:Status-Status} ' "$package" 2>/dev/null)" != *" installed "* ]]; then
      missing+=("$package")
    fi
  done
  if (( ${#missing[@]} == 0 )); then
    return 0
  fi
  echo "installing ${missing[*]}" >&2
  as_root apt-get update -qq >&2
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# A virtual environment, because Debian's own Python accepts no packages from PyPI.
make_venv() {  # folder, requirements...
  local folder=$1
  shift
  if [[ ! -x $folder/bin/python ]]; then
    python3 -m venv "$folder"
  fi
  if (( $# > 0 )); then
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
  fi
}

# What is configured from now on compiles behind ccache, where that is installed. Paths count from this checkout, so
# another one finds what was compiled here. Headers are compared as they lie there, comments too (CCACHE_DEPEND): a
# precompiled header knows by their bytes what it holds, and reads a file twice that changed in a comment alone.
cache_compilations() {
  [[ -z ${CMAKE_CXX_COMPILER_LAUNCHER:-} ]] || return 0  # of the user, or of an earlier call
  command -v ccache >/dev/null || return 0
  local launcher="env;CCACHE_BASEDIR=$PWD;CCACHE_NOHASHDIR=1;CCACHE_DEPEND=1"
  launcher+=";CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime;ccache"
  export CMAKE_CXX_COMPILER_LAUNCHER=$launcher CMAKE_CUDA_COMPILER_LAUNCHER=$launcher
}

# Configure a preset of CMakePresets.json.
configure_preset() {  # preset, further arguments of cmake...
  cache_compilations
  cmake --preset "$@"
}
