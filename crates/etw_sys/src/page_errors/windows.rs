//! Windows: a mapped file cannot be shortened (`ERROR_USER_MAPPED_FILE`, `winerror.h`).

/// Does nothing on Windows, where mapped files cannot be shortened.
pub fn exit_on_page_error(_message: &'static str) {}
