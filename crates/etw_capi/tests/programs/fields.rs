//! Fields of TraceLogging whose types the compiler chooses, and activities of functions.

use crate::support::{SANITIZED_CPP, Workshop, available, source};

const EXPECTED: &str = "\
Chosen level=4 keyword=8 opcode=0 of-function=0
  int8=-1
  uint64=1099511627776
  float=0.5
  bool=true
  narrow=narrow
  wide=wide
  sixteen=sixteen
  char16=c
  guid={3970f9cf-2c0c-4f11-b1cc-e3a1e9958865}
  text=from std::string
  sid=S-1-5-18
Counted level=3 keyword=0 opcode=0 of-function=0
  ansi=ansi
  unicode=uni
  time=1970-01-01T00:00:00.0000000Z
  binary=0x010203
  units=xy
  error=0x80070005 (E_ACCESSDENIED)
  custom=0x010203
  tagged=0x0102
  tail=9
work level=4 keyword=0 opcode=1 of-function=1
  number=5
Inside level=4 keyword=0 opcode=0 of-function=1
ActivityStoppedAutomatically level=4 keyword=0 opcode=2 of-function=1
Start level=5 keyword=0 opcode=1 of-function=0
Started level=4 keyword=0 opcode=0 of-function=0
Start level=5 keyword=0 opcode=2 of-function=0
ByHand level=4 keyword=0 opcode=0 of-function=0
  number=7
";

#[test]
fn types_are_chosen_by_the_compiler() {
    let workshop = Workshop::new();
    for compiler in
        available(&[&["g++", "-std=c++11"], &["clang++", "-std=c++20", "-fshort-wchar"], SANITIZED_CPP])
    {
        let program = workshop.compile(compiler, &source("fields.cpp"));
        let found = workshop.run(&program, &[&workshop.path("fields.etl")]);
        assert_eq!(found, EXPECTED, "{compiler:?}");
    }
}
