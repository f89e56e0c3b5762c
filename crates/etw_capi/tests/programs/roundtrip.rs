//! A program that records its own events and prints them.

use crate::support::{SANITIZED_C, SANITIZED_C_AS_CPP, Workshop, has, source};

const EXPECTED: &str = "\
again: 183
OpenEtwRoundTrip
enabled level=4 any=10 context=mine
enabled: 1 0 0
lost: 0, callbacks: yes
stopped: 4201
pointers: 8, lost: 0
OpenETW.Test.RoundTrip/Plain level=4 keyword=10 opcode=0 source=3:
OpenETW.Test.RoundTrip/Numbers level=2 keyword=30 opcode=1 source=3: number=-5 small=200 hex=0x1F tagged=-1 half=1.5 bool=true boolean=false pid=77 guid={3970f9cf-2c0c-4f11-b1cc-e3a1e9958833} null=0x0
OpenETW.Test.RoundTrip/Texts level=3 keyword=10 opcode=0 source=3: narrow=eight wide=w\\u00e4de sixteen=six none= counted:301=count countedWide:300=cou utf8=\\u00e4 bytes=0x0100000002
wide=w\\u00e4de
OpenETW.Test.RoundTrip/Arrays level=3 keyword=10 opcode=0 source=3: fixed=[1,2,3] variable.Count=2 variable=[7,8] place={ x=0.25 inner={ y.Count=1 y=[7] } } last=9
place.x=0.25 in 8 bytes
OpenETW.Test.RoundTrip/Packed level=3 keyword=10 opcode=0 source=3: pairs.Count=2 pairs=[{ a=1 b=0x2 },{ a=3 b=0x4 }] n=-5
events: all, closed again: 6
";

fn check(compiler: &[&str]) {
    if !has(compiler[0]) {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.compile(compiler, &source("roundtrip.c"));
    let found = workshop.run(&program, &[&workshop.path("own.etl")]);
    assert_eq!(found, EXPECTED, "{compiler:?}");
}

#[test]
fn c11_with_gcc() {
    check(&["gcc", "-std=c11"]);
}

#[test]
fn c17_with_clang_and_short_wchar() {
    check(&["clang", "-std=c17", "-fshort-wchar"]);
}

#[test]
fn cpp11_with_gcc_and_short_wchar() {
    check(&["g++", "-std=c++11", "-fshort-wchar", "-x", "c++"]);
}

#[test]
fn cpp23_with_gcc() {
    check(&["g++", "-std=c++23", "-x", "c++"]);
}

#[test]
fn cpp20_with_clang() {
    check(&["clang++", "-std=c++20", "-x", "c++"]);
}

/// Address and undefined-behaviour sanitizers, for what the headers do.
#[test]
fn with_sanitizers() {
    check(SANITIZED_C);
    check(SANITIZED_C_AS_CPP);
}
