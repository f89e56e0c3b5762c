# The packages have TWAPI's versions: 5.0 is TWAPI's for Tcl 8.6 and 9, and 4.7 what scripts for Tcl 8 ask for.
apply {{directory} {
    set load {{directory package version} {
        if {![namespace exists ::twapi::native]} {
            set tcl tcl[lindex [split [package provide Tcl] .] 0]
            set library [file join $directory $tcl libtwapi_etw[info sharedlibextension]]
            if {![file exists $library]} {
                return -code error "$package is not built for Tcl [package provide Tcl]: no $library"
            }
            namespace eval ::twapi::native {}
            try {
                load $library Twapi_etw
                uplevel #0 [list source [file join $directory base.tcl]]
                uplevel #0 [list source [file join $directory etw.tcl]]
            } on error {message options} {
                namespace delete ::twapi::native
                return -options $options $message
            }
        }
        package provide $package $version
    }}
    foreach package {twapi twapi_etw} {
        foreach version {4.7 5.0} {
            package ifneeded $package $version [list apply $load $directory $package $version]
        }
    }
}} $dir
