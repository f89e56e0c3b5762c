//! Errors of starting a capture.

/// Why the kernel cannot be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The process lacks a right.
    #[error(
        "tracing the kernel needs {missing}, which this process lacks: \
         run it as root, or grant it once with `setcap cap_bpf,cap_perfmon+ep PROGRAM`"
    )]
    NotPermitted {
        /// The capabilities that are missing.
        missing: String,
    },
    /// The kernel does not describe its types, so programs cannot be adapted to it.
    #[error(
        "this kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF), which tracing it needs: {0}"
    )]
    NoTypes(String),
    /// The kernel refused the rings and tables that all programs share.
    #[error("the kernel refused the rings and tables for tracing it: {0}")]
    Refused(String),
}
