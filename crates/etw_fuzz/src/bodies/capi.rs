//! The C interface.

/// Decodes a record that a hostile program or trace made, with the functions of TDH: a header, up to three extended
/// items (type and size before each), and a payload.
pub fn tdh(bytes: &[u8]) {
    etw_capi::decode_hostile_record(bytes);
}
