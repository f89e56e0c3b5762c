//! The package installed into an empty Debian root, and used there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use shell::{succeeds, target_dir};

/// The release of Debian that the root has.
const SUITE: &str = "bookworm";
/// Beside what every Debian has: what shows the manual pages, sets capabilities, and checks the unit.
const PACKAGES: &str = "man-db,libcap2-bin,systemd";

/// What is tried in the root, as shell commands.
const STEPS: &[(&str, &str)] = &[
    ("the package is installed", "dpkg --install /openetw.deb"),
    ("the programs run", "etw --version && logman -? > /dev/null && etw view --help > /dev/null"),
    (
        "a recording of a program is read",
        "etw record -p Example.Shop -o /tmp/shop.etl -- etw write Example.Shop Order id:u32=7 &&
         etw dump /tmp/shop.etl | grep -q Order",
    ),
    ("the manual is there", "man --where etw-record logman && man etw-record | grep -q SYNOPSIS"),
    (
        "completions are there",
        "bash -n /usr/share/bash-completion/completions/etw &&
         test -s /usr/share/zsh/vendor-completions/_etw && test -s /usr/share/fish/vendor_completions.d/etw.fish",
    ),
    ("the units are valid", "systemd-analyze verify etwd.service && XDG_RUNTIME_DIR=/run systemd-analyze --user verify etwd.service"),
    ("the group is there", "getent group openetw"),
    ("the directory of autologgers is there", "test -d /etc/openetw/autologgers"),
    ("the C library is required", "dpkg-query --show --showformat '${Depends}' openetw | grep -q libc6"),
    ("capabilities are inheritable only", "getcap /usr/bin/etw | grep -q =ei"),
];

/// What is tried where the kernel lets this process trace it.
const KERNEL_STEPS: &[(&str, &str)] = &[
    (
        "the machine is recorded and reported",
        "cd /tmp && etw record -k Base --for 2s -o t.etl && etw report t.etl | head -n 20 && test -s t.etl",
    ),
    (
        "a user with the capabilities records the machine",
        "cd /tmp && useradd --groups openetw alice && mkdir -m 777 a && cd a &&
         setpriv --reuid alice --regid alice --init-groups --inh-caps +bpf,+perfmon,+syslog \
         etw record -k Base --for 1s -o a.etl && test -s a.etl",
    ),
];

/// The daemon, which systemd would start.
const DAEMON_STEP: (&str, &str) = (
    "the daemon runs",
    "mkdir -p /run/openetw && { etw daemon --system & } && daemon=$! && sleep 1 &&
     etw session list; status=$?; kill $daemon; wait $daemon && exit $status",
);

const REMOVAL: (&str, &str) = (
    "the package is removed",
    "dpkg --purge openetw && ! test -e /usr/bin/etw && ! test -e /usr/bin/logman && ! test -e /etc/openetw",
);

/// Returns what is missing for the trial, with how to install it.
pub(super) fn missing() -> Option<&'static str> {
    if !succeeds(Command::new("sh").args(["-c", "test $(id -u) = 0"])) {
        return Some("installing a package into a separate root directory needs root privileges");
    }
    if !succeeds(Command::new("mmdebstrap").arg("--version")) {
        return Some("mmdebstrap is missing: apt-get install mmdebstrap");
    }
    None
}

/// Installs the package into a new root, uses it, and removes it.
pub(super) fn run(package: &Path) -> Result<()> {
    if let Some(missing) = missing() {
        bail!("{missing}");
    }
    let root = Root::unpack(package)?;
    let kernel = Path::new("/sys/kernel/btf/vmlinux").exists();
    if !kernel {
        eprintln!("skipped: this kernel has no /sys/kernel/btf/vmlinux, so it cannot be recorded");
    }
    let kernel_steps = if kernel { KERNEL_STEPS } else { &[] };
    for (what, script) in STEPS.iter().chain(kernel_steps).chain([&DAEMON_STEP, &REMOVAL]) {
        eprintln!("-- {what}");
        root.sh(script).with_context(|| format!("the package failed this step: {what}"))?;
    }
    Ok(())
}

/// A root directory; commands run in it in separate mount and process namespaces.
struct Root(PathBuf);

impl Root {
    /// Unpacks a minimal Debian, which is downloaded once, and puts the package into it.
    fn unpack(package: &Path) -> Result<Root> {
        let archive = target_dir().join(format!("{SUITE}-root.tar"));
        if !archive.exists() {
            let partial = archive.with_extension("partial.tar");
            let mut make = Command::new("mmdebstrap");
            make.args(["--quiet", "--variant=minbase", "--include", PACKAGES, SUITE]);
            shell::run(make.arg(&partial))?;
            fs::rename(&partial, &archive)?;
        }
        let root = target_dir().join("dist/root");
        fs::create_dir_all(&root)?;
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--exclude=./dev/*", "--file"]).arg(&archive).arg("--directory").arg(&root);
        shell::run(&mut tar)?;
        fs::copy(package, root.join("openetw.deb"))?;
        Ok(Root(root))
    }

    fn sh(&self, script: &str) -> Result<()> {
        // The mounts and all processes end with the namespaces.
        let mounts = "mount --bind \"$0\" \"$0\" && mount -t proc proc \"$0/proc\" &&
            mount --rbind /sys \"$0/sys\" && mount --rbind /dev \"$0/dev\" && mount -t tmpfs tmpfs \"$0/run\" &&
            exec chroot \"$0\" sh -ec \"$1\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", mounts]);
        command.arg(&self.0).arg(script);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8");
        command.env("DEBIAN_FRONTEND", "noninteractive").env("MANPAGER", "cat");
        shell::run(&mut command)
    }
}
