# Builds the package for the Tcl that runs this script, below build/ or another directory:
#
#   tclsh build.tcl ?-into DIRECTORY? ?-library LIBRARY?
#   tclsh9.0 build.tcl                                      adds the library for Tcl 9
#
# It needs a C compiler ($CC, or cc) and Tcl's headers (tcl-dev). Without -library it builds libopenetw with cargo.
# Tcl finds the package if the directory is in TCLLIBPATH, or is one of those that Tcl searches: run
#
#   sudo tclsh build.tcl -into /usr/local/lib/tcltk
apply {{} {
    set here [file dirname [file normalize [info script]]]
    set root [file dirname [file dirname $here]]
    set option [dict create -into [file join $here build] -library ""]
    foreach {name value} $::argv {
        if {![dict exists $option $name] || $value eq ""} {
            puts stderr "usage: build.tcl ?-into DIRECTORY? ?-library LIBRARY?"
            exit 2
        }
        dict set option $name [file normalize $value]
    }

    # Runs a program, with its output here.
    set run {{args} {
        puts stderr "$ [join $args]"
        if {[catch {exec {*}$args >@stdout 2>@stderr}]} {
            puts stderr "error: [lindex $args 0] failed"
            exit 1
        }
    }}

    # tclConfig.sh says where Tcl's headers and its stubs are.
    set version [info tclversion]
    set directories {}
    foreach directory [list [::tcl::pkgconfig get libdir,runtime] [file dirname [info library]] /usr/lib /usr/local/lib] {
        lappend directories [file join $directory tcl$version] $directory
    }
    set config ""
    foreach directory $directories {
        set file [file join $directory tclConfig.sh]
        if {[file exists $file] && [exec sh -c {. "$1"; echo $TCL_VERSION} sh $file] eq $version} {
            set config $file
            break
        }
    }
    if {$config eq ""} {
        puts stderr "error: no tclConfig.sh of Tcl $version in [join $directories {, }]: install tcl-dev (tcl$version-dev)"
        exit 1
    }
    set flags [exec sh -c {. "$1"; echo "$TCL_INCLUDE_SPEC"; echo "$TCL_STUB_LIB_SPEC"} sh $config]
    lassign [split $flags \n] include stubs

    set library [dict get $option -library]
    if {$library eq ""} {
        apply $run cargo build --release --manifest-path [file join $root Cargo.toml] --package etw_capi
        set target [expr {[info exists ::env(CARGO_TARGET_DIR)] ? $::env(CARGO_TARGET_DIR) : [file join $root target]}]
        set library [file join $target release libetw_capi.so]
    }

    # The package needs nothing outside of its directory.
    set package [file join [dict get $option -into] twapi]
    set native [file join $package tcl[lindex [split $version .] 0]]
    file mkdir $native
    foreach name {base.tcl etw.tcl pkgIndex.tcl twapi_etw.mof} {
        file copy -force [file join $here library $name] $package
    }
    set copy [file join $package libopenetw.so.0]
    file delete $copy
    if {[file type $library] eq "link"} {
        file link -symbolic $copy [file dirname [file normalize [file join $library x]]]
    } else {
        file copy $library $copy
    }
    set compiler [expr {[info exists ::env(CC)] && $::env(CC) ne "" ? $::env(CC) : "cc"}]
    apply $run {*}$compiler -shared -fPIC -pthread -O2 -std=gnu11 -Wall -Wextra -fvisibility=hidden -DUSE_TCL_STUBS=1 \
        -I[file join $root crates etw_capi include] {*}$include {*}[lsort [glob [file join $here src *.c]]] \
        -o [file join $native libtwapi_etw.so] $copy {*}$stubs {-Wl,-rpath,$ORIGIN/..} -Wl,-z,defs -lc
    puts "built the packages twapi and twapi_etw for Tcl $version in $package"
}}
