# Runs the tests: TCLLIBPATH=build tclsh tests/all.tcl ?NAME...?
#
# A session runs in this process, so they need no daemon. OPENETW_RUNTIME_DIR and OPENETW_SCHEMAS are set to directories
# of their own, unless they are set.
package require tcltest 2
namespace import ::tcltest::*

set here [file dirname [file normalize [info script]]]
set work [makeDirectory twapi-tests-[pid]]
foreach name {OPENETW_RUNTIME_DIR OPENETW_SCHEMAS} {
    if {![info exists env($name)]} {
        set env($name) [file join $work $name]
        file mkdir $env($name)
    }
}
cd $work
configure -verbose {body error} -match [expr {[llength $argv] ? $argv : "*"}]

foreach file {base.test provider.test session.test consumer.test wrong.test} {
    source [file join $here $file]
}

cd $here
file delete -force $work
# Tests that end early must not pass.
set failed $::tcltest::numTests(Failed)
puts "$::tcltest::numTests(Passed) passed, $failed failed"
exit [expr {$failed > 0 || $::tcltest::numTests(Total) == 0}]
