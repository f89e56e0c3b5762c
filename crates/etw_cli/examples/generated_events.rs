//! Test program to record: writes the events of `readings.man` with the code that `etw mc --rust` writes.

#[cfg(target_os = "linux")]
#[path = "generated/readings.rs"]
#[rustfmt::skip]
#[allow(dead_code, unreachable_pub, reason = "generated for any use")]
mod readings;

#[cfg(target_os = "linux")]
fn main() {
    use openetw::Guid;

    readings::EXAMPLE_READINGS.register();
    let sensor = Guid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
    // The third weight is one more than there are values.
    let taken = readings::reading_taken(
        2,
        "north",
        "Zürich",
        &[20, 21],
        &[0.5, 0.25, 9.0],
        &[1, 2, 3],
        &[0xA, 0xB, 0xC, 0xD],
        true,
        &sensor,
        132_000_000_000_000_000,
        0x1000,
        -1,
        7,
    );
    let lost = readings::sensor_lost();
    println!("{taken:?} {lost:?} {:#x}", readings::KEYWORD_RAW_DATA.0);
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("events are written on Linux");
}
