//! Control groups and containers of processes, with real groups and files of runtimes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Etw;
use crate::jit::which;
use crate::kernel::record_with;

/// A control group of version 2, with a group of a container in it; both are removed at the end of the test.
struct ContainerGroup {
    outer: PathBuf,
    inner: PathBuf,
    /// The path of the inner one in the hierarchy.
    path: String,
}

impl ContainerGroup {
    /// Creates the groups; `None` if the test may not.
    fn new(outer: &str, inner: &str) -> Option<ContainerGroup> {
        let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let Some(mount) = mounts.into_iter().find(|mount| mount.join("cgroup.procs").exists()) else {
            etw_testkit::skip!("there are no control groups of version 2");
            return None;
        };
        let outer_path = mount.join(outer);
        let inner_path = outer_path.join(inner);
        if let Err(error) = std::fs::create_dir_all(&inner_path) {
            etw_testkit::skip!("{}: {error}", inner_path.display());
            return None;
        }
        Some(ContainerGroup { outer: outer_path, inner: inner_path, path: format!("/{outer}/{inner}") })
    }
}

impl Drop for ContainerGroup {
    fn drop(&mut self) {
        for group in [&self.inner, &self.outer] {
            let _ = std::fs::remove_dir(group);
        }
    }
}

/// Returns an id as runtimes make them, which no other test has.
fn container_id(first: char) -> String {
    format!("{first}{:063x}", std::process::id())
}

/// Records a script where `/var/lib` and `/run/containerd` have only these files, as on a machine with these runtimes.
fn record_among(etw: &Etw, files: &[(String, &str)], script: &str) -> Option<()> {
    if which("unshare").is_none() {
        etw_testkit::skip!("there is no unshare");
        return None;
    }
    let tree = etw.path("machine");
    let write = |path: &str, text: &str| {
        let path = Path::new(&tree).join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    files.iter().for_each(|(path, text)| write(path, text));
    write("var/lib/empty", "");
    write("run/containerd/empty", "");
    write("script", script);
    let mount = format!(
        "mkdir -p /run/containerd && mount --bind {tree}/var/lib /var/lib \
         && mount --bind {tree}/run/containerd /run/containerd && exec \"$0\" \"$@\""
    );
    let recorded = etw.command(&["record", "-k", "PROC_THREAD+PROFILE+CSWITCH", "-o", "k.etl", "--", "sh"]);
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "sh", "-c", &mount]).arg(recorded.get_program()).args(recorded.get_args());
    inside.arg(format!("{tree}/script")).current_dir(etw.path("")).stdin(Stdio::null());
    let output = inside.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("which this process lacks") || text.contains("/sys/kernel/btf/vmlinux") {
        etw_testkit::skip!("{text}");
        return None;
    }
    assert!(output.status.success(), "{text}");
    Some(())
}

/// Returns the rows of a table with these columns.
fn rows(etw: &Etw, arguments: &[&str]) -> Vec<Value> {
    let all = [&["report", "k.etl", "--format", "json"], arguments].concat();
    let report: Value = serde_json::from_str(&etw.ok(&all)).unwrap();
    report["rows"].as_array().unwrap_or_else(|| panic!("{report}")).clone()
}

/// Makes the shell a process of the group, and works for some time.
const JOIN_AND_WORK: &str =
    "sh -c 'echo $$ >GROUP/cgroup.procs; exec timeout 0.4 sh -c \"while :; do :; done\"'";

#[test]
fn processes_have_the_containers_that_their_runtimes_name() {
    let own = std::process::id();
    let (docker, pod) = (container_id('d'), container_id('c'));
    let pod_id = format!("0f5c5a0e-6c5f-4ac6-8fa3-{own:012x}");
    let of_docker = ContainerGroup::new(&format!("openetw-{own}.slice"), &format!("docker-{docker}.scope"));
    let slice = format!("kubepods-besteffort-pod{}.slice", pod_id.replace('-', "_"));
    let of_pod = ContainerGroup::new(&slice, &format!("cri-containerd-{pod}.scope"));
    let (Some(of_docker), Some(of_pod)) = (of_docker, of_pod) else { return };
    let join = |group: &ContainerGroup| JOIN_AND_WORK.replace("GROUP", group.inner.to_str().unwrap());
    let files = [
        (
            format!("var/lib/docker/containers/{docker}/config.v2.json"),
            r#"{"Name": "/web", "Config": {"Image": "nginx:1.27"}}"#,
        ),
        (
            format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{pod}/config.json"),
            r#"{"annotations": {"io.kubernetes.cri.container-name": "cart",
                "io.kubernetes.cri.image-name": "cart:2", "io.kubernetes.cri.sandbox-name": "cart-5f",
                "io.kubernetes.cri.sandbox-namespace": "shop"}}"#,
        ),
    ];
    let etw = Etw::new();
    let script = format!("{}; {}; true", join(&of_docker), join(&of_pod));
    if record_among(&etw, &files, &script).is_none() {
        return;
    }
    let columns = "cgroup,container,container_id,container_runtime,container_image,pod";
    let all = rows(&etw, &["--table", "processes", "--columns", columns, "--where", "name == \"timeout\""]);
    let expected = |group: &ContainerGroup, of: [Option<&str>; 5]| {
        let [name, id, runtime, image, pod] = of;
        serde_json::json!({"cgroup": group.path, "container": name, "container_id": id,
            "container_runtime": runtime, "container_image": image, "pod": pod})
    };
    let found = |group: &ContainerGroup| {
        all.iter().filter(|row| row["cgroup"] == *group.path).cloned().collect::<Vec<Value>>()
    };
    let web = expected(&of_docker, [Some("web"), Some(&docker), Some("docker"), Some("nginx:1.27"), None]);
    assert_eq!(found(&of_docker), [web], "{all:?}");
    let cart = expected(
        &of_pod,
        [Some("cart"), Some(&pod), Some("containerd"), Some("cart:2"), Some("shop/cart-5f")],
    );
    assert_eq!(found(&of_pod), [cart], "{all:?}");
    // The time that each one worked is that of its container, by whatever names it is selected.
    let cpu = |arguments: &[&str]| {
        let all = [&["report", "k.etl", "--format", "json", "--table", "cpu"], arguments].concat();
        let report: Value = serde_json::from_str(&etw.ok(&all)).unwrap();
        let rows = report["tables"]["cpu"]["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| row["cpu_ns"].as_f64().unwrap() / 1e9).sum::<f64>()
    };
    for selected in [
        &["--container", "web"][..],
        &["--container", &docker[..12]],
        &["--container", "cart"],
        &["--container", "shop/cart-5f"],
        &["--cgroup", &of_pod.path],
        &["--cgroup", &slice],
    ] {
        let seconds = cpu(selected);
        // Other tests may keep the processors busy.
        assert!((0.02..0.6).contains(&seconds), "{selected:?}: {seconds} s");
    }
    let both = cpu(&["--container", "web", "--container", "cart"]);
    let one_by_one = cpu(&["--container", "web"]) + cpu(&["--container", "cart"]);
    assert!((both - one_by_one).abs() < 1e-6, "{both} {one_by_one}");
    assert_eq!(cpu(&["--container", "nobody"]), 0.0);
    let report = etw.ok(&["report", "k.etl", "--format", "json", "--table", "containers"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let mut containers: Vec<_> = report["tables"]["containers"]["rows"].as_array().unwrap().iter().collect();
    containers.sort_by_key(|row| row["container"].to_string());
    let of_containers =
        containers.iter().filter(|row| [&docker, &pod].iter().any(|id| row["container_id"] == **id));
    let seconds = of_containers.clone().map(|row| row["cpu_ns"].as_f64().unwrap() / 1e9).sum::<f64>();
    assert!((both - seconds).abs() < 1e-6, "{both} {report}");
    let named = of_containers.map(|row| [&row["container"], &row["pod"], &row["image"], &row["runtime"]]);
    let expected = [["cart", "shop/cart-5f", "cart:2", "containerd"], ["web", "", "nginx:1.27", "docker"]];
    assert_eq!(
        named.map(|row| row.map(|text| text.as_str().unwrap_or_default())).collect::<Vec<_>>(),
        expected
    );
}

/// Starts a program in a control group at once, as systemd does (`CLONE_INTO_CGROUP`).
const START_INSIDE: &str = r#"
import ctypes, os, struct, sys
group = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
arguments = struct.pack("11Q", 0x200000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, group)
child = ctypes.CDLL(None).syscall(435, arguments, len(arguments))
if child == 0:
    os.execv("/bin/true", ["started-inside"])
assert child > 0 and os.waitpid(child, 0)[1] == 0
"#;

#[test]
fn processes_that_start_in_a_group_have_it() {
    if which("python3").is_none() {
        etw_testkit::skip!("there is no python3");
        return;
    }
    let own = std::process::id();
    let Some(group) = ContainerGroup::new(&format!("openetw-start-{own}"), "lxc.payload.mail") else {
        return;
    };
    let etw = Etw::new();
    std::fs::write(etw.path("start.py"), START_INSIDE).unwrap();
    let program = ["python3", "start.py", group.inner.to_str().unwrap()];
    let Some(output) = record_with(&etw, &["-k", "PROC_THREAD"], &program) else { return };
    assert!(output.status.success(), "{output:?}");
    let columns = ["--columns", "command_line,cgroup,container,container_runtime"];
    let selected = ["--table", "processes", "--where", "container == \"mail\" and name == \"true\""];
    let expected = serde_json::json!({"command_line": "started-inside", "cgroup": group.path, "container": "mail",
        "container_runtime": "lxc"});
    assert_eq!(rows(&etw, &[&selected[..], &columns].concat()), [expected]);
}
