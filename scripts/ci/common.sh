# What the scripts of CI share; they source it. It changes to the root of the workspace.
# shellcheck shell=sh

cd "$(dirname "$0")/../.."
# shellcheck disable=SC2034 # install.sh uses it
project=.
# shellcheck source=scripts/install.sh
. scripts/install.sh

# In a container, HOME can be that of another user, where rustup refuses to install.
if [ "$(id -u)" = 0 ]; then
    HOME=~root
    export HOME
fi

# A build from nothing gains no time from incremental compilation, and it doubles what a build takes on disk.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

# Runs checks of `cargo xtask ci`, one after the other.
checks() {
    for check in "$@"; do
        cargo xtask ci --only "$check"
    done
}

# What all tests of the workspace use.
need_test_tools() {
    need_c_tools
    need_tcl
    need_cargo_tool cargo-nextest nextest
    need_peers
    need_symbol_tools
    need_node
    # Some systems have Chromium as a package of another kind only. Tests that need a browser skip without one.
    (need_browser) || say "there is no browser; its tests skip"
}
