//! Names of code in files that only their process sees, as in containers.

use std::process::Command;

use serde_json::Value;

use crate::Etw;
use crate::jit::which;
use crate::kernel::record_with;
use crate::kernel_images::compile;

/// Works for 0.6 s, says so by a file, and waits for its end.
const PROGRAM: &str = r#"
    #include <fcntl.h>
    #include <time.h>
    #include <unistd.h>
    volatile long sink;
    __attribute__((noinline)) void works_alone(void) { for (long i = 0; i < 1000000; i++) sink += i; }
    int main(int argc, char **argv) {
        struct timespec time;
        do {
            works_alone();
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
        } while (time.tv_sec * 1000000000L + time.tv_nsec < 600000000);
        close(creat(argv[1], 0600));
        pause();
    }"#;

#[test]
fn functions_of_private_and_deleted_files_are_named() {
    if which("unshare").is_none() {
        etw_testkit::skip!("there is no unshare");
        return;
    }
    for (name, inside) in [
        ("private", "mount -t tmpfs none /mnt && cp $PROGRAM /mnt/alone && exec /mnt/alone $SAID"),
        (
            "deleted",
            "cp $PROGRAM $PROGRAM.gone && { (sleep 0.2; rm $PROGRAM.gone) & exec $PROGRAM.gone $SAID; }",
        ),
    ] {
        let etw = Etw::new();
        let Some(program) = compile(&etw, "program", PROGRAM, &["-O1"]) else { return };
        let said = etw.path("said");
        // The program runs on when the recording ends.
        let outside = format!(
            "PROGRAM={program} SAID={said} unshare --mount --fork --kill-child sh -c '{inside}' >/dev/null 2>&1 & echo $!; \
             tries=0; until [ -e {said} ] || [ $tries -gt 300 ]; do tries=$((tries + 1)); sleep 0.05; done"
        );
        let args = ["-k", "PROC_THREAD+LOADER+PROFILE"];
        let Some(output) = record_with(&etw, &args, &["sh", "-c", &outside]) else { return };
        let container = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        assert!(Command::new("kill").args(["-9", &container]).status().unwrap().success(), "{container}");
        assert!(std::fs::exists(&said).unwrap(), "{name}");
        let report = etw.ok(&["report", "k.etl", "--table", "functions", "--format", "json"]);
        let report: Value = serde_json::from_str(&report).unwrap();
        let rows = report["tables"]["functions"]["rows"].as_array().unwrap();
        let of_function = rows.iter().filter(|row| row["function"] == "works_alone");
        let samples: u64 = of_function.map(|row| row["exclusive_samples"].as_u64().unwrap()).sum();
        assert!(samples > 200, "{name}: {samples} samples in {rows:?}");
    }
}
