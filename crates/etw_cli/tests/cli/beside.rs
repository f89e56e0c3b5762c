//! `etw view` and `etw sql`, which run programs beside `etw`.

use std::path::Path;
use std::process::Command;

#[test]
fn programs_are_found_beside_etw_or_said_to_be_missing() {
    let check = |command: &str, program: &str, build: &str| {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let etw = folder.path().join(format!("etw{}", std::env::consts::EXE_SUFFIX));
        std::fs::hard_link(env!("CARGO_BIN_EXE_etw"), &etw).unwrap();
        let run = |program: &Path| {
            Command::new(program).args([command, "--port", "1", "none.etl"]).output().unwrap()
        };
        let output = run(&etw);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(&format!("{program} is missing; build it with: cargo {build}")), "{text}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let beside = folder.path().join(program);
            std::fs::write(&beside, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
            std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o755)).unwrap();
            let output = run(&etw);
            assert_eq!(output.status.code(), Some(7));
            assert_eq!(String::from_utf8_lossy(&output.stdout), "--port 1 none.etl\n");
        }
    };
    check("view", "etw-view", "build --release --package etw_viewer");
    check("sql", "etw-sql", "build --release --package etw_sql");
}
