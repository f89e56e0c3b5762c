# TWAPI's commands for Event Tracing for Windows.

namespace eval ::twapi {
    variable _etw_provider_name TwapiETWProvider
    variable _etw_provider_guid "{B358E9D9-4D82-4A82-A129-BAC098C54746}"
    variable _etw_eventclass_name TwapiETWEventClass
    variable _etw_eventclass_guid "{D5B52E95-8447-40C1-B316-539894449B36}"
    # The file with the classes of the provider's events.
    variable _etw_mof [file join [file dirname [file normalize [info script]]] twapi_etw.mof]
    # Names of the traces that this interpreter has started, by handle.
    variable _etw_started
    array set _etw_started {}
    # Formatters that are open, and the last number of one.
    variable _etw_formatters
    array set _etw_formatters {}
    variable _etw_last_formatter 0

    record etw_event {
        -eventid -version -channel -level -opcode -task -keywordmask -timecreated -tid -pid -providerguid -usertime
        -kerneltime -providername -eventguid -channelname -levelname -opcodename -taskname -keywords -properties -message
        -sid
    }
}

# ---- Providers ----

proc ::twapi::etw_twapi_provider_name {} {
    variable _etw_provider_name
    return $_etw_provider_name
}

proc ::twapi::etw_twapi_provider_guid {} {
    variable _etw_provider_guid
    return $_etw_provider_guid
}

proc ::twapi::etw_twapi_eventclass_name {} {
    variable _etw_eventclass_name
    return $_etw_eventclass_name
}

proc ::twapi::etw_twapi_eventclass_guid {} {
    variable _etw_eventclass_guid
    return $_etw_eventclass_guid
}

proc ::twapi::etw_twapi_provider_register {} {
    variable _etw_provider_guid
    variable _etw_eventclass_guid
    return [native::register $_etw_provider_guid $_etw_eventclass_guid]
}

proc ::twapi::etw_unregister_provider {provider} {
    native::unregister $provider
}

# Returns whether a provider is in a trace; without a provider, whether any of this process is.
proc ::twapi::etw_trace_enabled {args} {
    return [lindex [native::provider_state {*}$args] 0]
}

proc ::twapi::etw_provider_enable_level {args} {
    return [lindex [native::provider_state {*}$args] 1]
}

proc ::twapi::etw_provider_enable_flags {args} {
    return [lindex [native::provider_state {*}$args] 2]
}

proc ::twapi::etw_log_message {provider message {level informational}} {
    _etw_write $provider 1 [_etw_level $level] [list $message]
}

# Callback of `trace add variable`.
proc ::twapi::etw_variable_tracker {provider name1 name2 operation} {
    set value ""
    if {$operation in {read write}} {
        if {$name2 ne ""} {
            upvar 1 ${name1}($name2) variable
        } else {
            upvar 1 $name1 variable
        }
        if {[info exists variable] && ![array exists variable]} {
            set value [_etw_shortened $variable 4096]
        }
    }
    set context [expr {[info level] > 1 ? [info level -1] : ""}]
    _etw_write $provider 2 0 [list $operation $name1 $name2 $value [_etw_shortened $context]]
}

# Callback of `trace add execution`.
proc ::twapi::etw_execution_tracker {provider command args} {
    set operation [lindex $args end]
    set code ""
    set result ""
    switch -- $operation {
        enter - enterstep {}
        leave - leavestep { lassign $args code result }
        default { _wrong "bad operation \"$operation\": must be enter, leave, enterstep, leavestep" }
    }
    set context [expr {[info level] > 1 ? [info level -1] : ""}]
    _etw_write $provider 3 0 \
        [list $operation [_etw_shortened $command] $code [_etw_shortened $result] [_etw_shortened $context]]
}

# Callback of `trace add command`.
proc ::twapi::etw_command_tracker {provider oldname newname operation} {
    set context [expr {[info level] > 1 ? [info level -1] : ""}]
    _etw_write $provider 4 0 [list $operation $oldname $newname [_etw_shortened $context]]
}

# Writes an event of the class in twapi_etw.mof: texts that end with a zero. A trace counts the events that it loses.
proc ::twapi::_etw_write {provider type level texts} {
    set payload ""
    foreach text $texts {
        # A zero in a text would end it.
        append payload [string map {\0 \u2400} $text] \0
    }
    native::trace_event $provider $type $level [_etw_utf16 $payload]
    return
}

if {[package vsatisfies [package provide Tcl] 9-]} {
    proc ::twapi::_etw_utf16 {text} {
        return [encoding convertto -profile replace utf-16le $text]
    }
} else {
    proc ::twapi::_etw_utf16 {text} {
        # This is UTF-16 of the machine, and the library is for little-endian ones.
        return [encoding convertto unicode $text]
    }
}

proc ::twapi::_etw_shortened {text {length 80}} {
    if {[string length $text] <= $length} {
        return $text
    }
    return "[string range $text 0 [expr {$length - 4}]]..."
}

proc ::twapi::_etw_level {level} {
    set names {
        verbose 5 informational 4 information 4 info 4 warning 3 error 2 fatal 1 critical 1
    }
    set lower [string tolower $level]
    if {[dict exists $names $lower]} {
        return [dict get $names $lower]
    }
    if {![string is wideinteger -strict $level] || $level < 0 || $level > 255} {
        _wrong "bad level \"$level\": must be 0 to 255, fatal, error, warning, informational or verbose"
    }
    return [expr {wide($level)}]
}

# ---- Controllers ----

proc ::twapi::etw_get_providers {args} {
    lassign [_options $args {-detail flag -types text}] options rest
    if {[llength $rest]} {
        _wrong {wrong # args: should be "etw_get_providers ?-detail? ?-types list?"}
    }
    set types [expr {[dict exists $options -types] ? [dict get $options -types] : {mof xml}}]
    set found {}
    foreach provider [native::providers] {
        lassign $provider guid is_mof name
        set type [expr {$is_mof ? "mof" : "xml"}]
        if {$type ni $types} continue
        lappend found [expr {[dict exists $options -detail] ? [list guid $guid type $type name $name] : $name}]
    }
    return $found
}

# Returns the GUID of a provider, or nothing.
proc ::twapi::etw_get_provider_guid {name} {
    if {[string equal -nocase $name [etw_twapi_provider_name]]} {
        return [etw_twapi_provider_guid]
    }
    foreach provider [native::providers] {
        if {[string equal -nocase $name [lindex $provider 2]]} {
            return [lindex $provider 0]
        }
    }
}

# Returns the GUID of a provider that is given by its name or its GUID.
proc ::twapi::_etw_provider {provider} {
    if {[regexp {^\{?[[:xdigit:]]{8}(-[[:xdigit:]]{4}){3}-[[:xdigit:]]{12}\}?$} $provider]} {
        return $provider
    }
    set guid [etw_get_provider_guid $provider]
    if {$guid eq ""} {
        _wrong "no provider \"$provider\"; give its GUID if it has no manifest here"
    }
    return $guid
}

proc ::twapi::etw_start_trace {name args} {
    variable _etw_started
    lassign [_options $args {
        -buffersize int
        -clockresolution {of {qpc system cpucycle}}
        -enableflags int
        -filemode {of {append circular rotate sequential}}
        -flushtimer int
        -logfile text
        -maxbuffers int
        -maxfilesize int
        -minbuffers int
        -paged bool
        -preallocate bool
        -private bool
        -privateinproc bool
        -realtime bool
        -secure bool
        -sequence {of {none global local}}
        -traceguid text
    }] given rest
    if {[llength $rest]} {
        _wrong {wrong # args: should be "etw_start_trace name ?-option value ...?"}
    }
    set defaults {
        -buffersize 0 -clockresolution system -enableflags 0 -filemode circular -flushtimer 0 -logfile "" -maxbuffers 0
        -maxfilesize 0 -minbuffers 0 -paged 0 -preallocate 0 -private 0 -privateinproc 0 -realtime 0 -secure 0
        -sequence none -traceguid ""
    }
    array set option [dict merge $defaults $given]
    set is_private [expr {$option(-private) || $option(-privateinproc)}]
    if {$option(-logfile) eq "" && !$option(-realtime)} {
        _wrong "a trace that is not -realtime needs a -logfile"
    }
    if {$option(-realtime) && $is_private} {
        _wrong "-realtime cannot be used with -private and -privateinproc"
    }
    if {$option(-filemode) eq "append" && ($option(-realtime) || $is_private)} {
        _wrong "-filemode append cannot be used with -realtime, -private and -privateinproc"
    }
    if {$option(-filemode) eq "append" && $option(-clockresolution) ne "system"} {
        _wrong "-filemode append needs -clockresolution system"
    }
    set mode 0
    if {$option(-logfile) ne ""} {
        # A file that wraps or is followed by others needs a size: 1 MB, as with TWAPI.
        if {$option(-maxfilesize) == 0 && $option(-filemode) in {circular rotate}} {
            set option(-maxfilesize) 1
        }
        if {$option(-preallocate) && $option(-maxfilesize) == 0} {
            _wrong "-preallocate needs -maxfilesize"
        }
        set mode [dict get {append 0x4 circular 0x2 rotate 0x8 sequential 0} $option(-filemode)]
        if {$option(-filemode) eq "sequential" && $option(-maxfilesize) != 0} {
            set mode 0x1
        }
    }
    set mode [expr {
        $mode | [dict get {none 0 global 0x4000 local 0x8000} $option(-sequence)]
        | ($option(-realtime) ? 0x100 : 0) | ($option(-private) ? 0x800 : 0) | ($option(-privateinproc) ? 0x20800 : 0)
        | ($option(-secure) ? 0x80 : 0) | ($option(-paged) ? 0x1000000 : 0) | ($option(-preallocate) ? 0x20 : 0)
    }]
    set handle [native::start_trace $name $option(-logfile) $option(-traceguid) [list \
        $option(-buffersize) $option(-minbuffers) $option(-maxbuffers) $option(-maxfilesize) $mode \
        $option(-flushtimer) $option(-enableflags) \
        [dict get {qpc 1 system 2 cpucycle 3} $option(-clockresolution)]]]
    set _etw_started($handle) $name
    return $handle
}

proc ::twapi::etw_start_kernel_trace {classes args} {
    set flags {
        alpc 0x100000 contextswitch 0x10 dbgprint 0x40000 diskfileio 0x200 diskio 0x100 diskioinit 0x400 dispatcher 0x800
        dpc 0x20 driver 0x800000 fileio 0x2000000 fileioinit 0x4000000 hardfault 0x2000 imageload 0x4 interrupt 0x40
        pagefault 0x1000 process 0x1 processcounter 0x8 profile 0x1000000 registry 0x20000 splitio 0x200000 sysconfig 0
        systemcall 0x80 tcpip 0x10000 thread 0x2 vamap 0x8000 virtualalloc 0x4000
    }
    set all 0
    foreach class $classes {
        if {![dict exists $flags $class]} {
            _wrong "bad class of events \"$class\": must be [join [dict keys $flags] {, }]"
        }
        set all [expr {$all | [dict get $flags $class]}]
    }
    # Names of files are those of requests to disks, and these have a start and an end.
    if {"diskfileio" in $classes} {set all [expr {$all | 0x100}]}
    if {$all & 0x100} {set all [expr {$all | 0x400}]}
    if {"sysconfig" ni $classes} {set all [expr {$all | 0x10000000}]}
    return [etw_start_trace "NT Kernel Logger" -enableflags $all {*}$args -paged 0]
}

# -1 as flags enables all 64 keywords.
proc ::twapi::etw_enable_provider {trace provider flags level} {
    if {![string is entier -strict $flags]} {
        _wrong "expected integer but got \"$flags\""
    }
    # The same 64 bits as a signed number, which is what Tcl 9 accepts.
    set flags [expr {(($flags & 0xFFFFFFFFFFFFFFFF) ^ 0x8000000000000000) - 0x8000000000000000}]
    native::enable_trace $trace [_etw_provider $provider] 1 [_etw_level $level] $flags
}

proc ::twapi::etw_disable_provider {trace provider} {
    native::enable_trace $trace [_etw_provider $provider] 0 0 0
}

# Asks for something on a trace, which is given by its handle or its name.
proc ::twapi::_etw_control {code trace {file ""} {numbers {}}} {
    variable _etw_started
    if {[info exists _etw_started($trace)]} {
        return [native::control_trace $code $trace "" $file "" $numbers]
    }
    if {$trace eq ""} {
        _wrong "the name of a trace is empty"
    }
    return [native::control_trace $code 0 $trace $file "" $numbers]
}

proc ::twapi::etw_query_trace {trace} {
    set properties [_etw_control 0 $trace]
    set names {1 qpc 2 system 3 cpucycle}
    set clock [dict get $properties clock_resolution]
    if {[dict exists $names $clock]} {
        dict set properties clock_resolution [dict get $names $clock]
    }
    return $properties
}

proc ::twapi::etw_stop_trace {trace} {
    variable _etw_started
    set properties [_etw_control 1 $trace]
    unset -nocomplain _etw_started($trace)
    return $properties
}

proc ::twapi::etw_flush_trace {trace args} {
    if {[llength [lindex [_options $args {-traceguid text}] 1]]} {
        _wrong {wrong # args: should be "etw_flush_trace trace ?options?"}
    }
    return [_etw_control 3 $trace]
}

proc ::twapi::etw_update_trace {trace args} {
    lassign [_options $args {
        -enableflags int -flushtimer int -logfile text -maxbuffers int -realtime bool -traceguid text
    }] given rest
    if {[llength $rest]} {
        _wrong {wrong # args: should be "etw_update_trace trace ?-option value ...?"}
    }
    array set option {-enableflags 0 -flushtimer 0 -logfile "" -maxbuffers 0 -realtime 0}
    array set option $given
    return [_etw_control 2 $trace $option(-logfile) [list \
        0 0 $option(-maxbuffers) 0 [expr {$option(-realtime) ? 0x100 : 0}] $option(-flushtimer) $option(-enableflags)]]
}

proc ::twapi::etw_get_traces {args} {
    lassign [_options $args {-detail flag}] options rest
    if {[llength $rest]} {
        _wrong {wrong # args: should be "etw_get_traces ?-detail?"}
    }
    set traces [native::query_all_traces]
    if {[dict exists $options -detail]} {
        return $traces
    }
    return [lmap trace $traces {dict get $trace trace_name}]
}

# ---- Consumers ----

proc ::twapi::etw_install_twapi_mof {} {
    variable _etw_mof
    native::store_add $_etw_mof
}

proc ::twapi::etw_uninstall_twapi_mof {} {
    variable _etw_eventclass_guid
    native::store_remove $_etw_eventclass_guid
}

proc ::twapi::etw_open_file {path} {
    return [native::open_trace [file nativename [file normalize $path]] 0]
}

proc ::twapi::etw_open_session {name} {
    return [native::open_trace $name 1]
}

proc ::twapi::etw_close_session {trace} {
    native::close_trace $trace
}

proc ::twapi::etw_process_events {args} {
    lassign [_options $args {-callback text -end text -start text}] given traces
    if {![llength $traces]} {
        _wrong {wrong # args: should be "etw_process_events ?-callback prefix? ?-start time? ?-end time? trace ?trace ...?"}
    }
    array set option {-callback "" -start "" -end ""}
    array set option $given
    return [native::process_trace $traces $option(-callback) $option(-start) $option(-end)]
}

proc ::twapi::etw_open_formatter {} {
    variable _etw_formatters
    variable _etw_last_formatter
    set formatter etwformatter[incr _etw_last_formatter]
    set _etw_formatters($formatter) 1
    return $formatter
}

proc ::twapi::etw_close_formatter {formatter} {
    variable _etw_formatters
    _etw_check_formatter $formatter
    unset _etw_formatters($formatter)
    return
}

proc ::twapi::_etw_check_formatter {formatter} {
    variable _etw_formatters
    if {![info exists _etw_formatters($formatter)]} {
        _wrong "no formatter \"$formatter\""
    }
}

# Returns the events of buffers as an array of records. Events are decoded where they are read, since a trace may carry
# their schemas; nothing is left to do here.
proc ::twapi::etw_format_events {formatter args} {
    _etw_check_formatter $formatter
    if {[llength $args] % 2} {
        _wrong {wrong # args: should be "etw_format_events formatter ?buffer events ...?"}
    }
    set records {}
    foreach {buffer events} $args {
        lappend records {*}$events
    }
    return [list [etw_event] $records]
}

proc ::twapi::etw_format_event_message {message properties} {
    return [_insert $message [lmap {name values} $properties {join $values ", "}]]
}

# Opens files and sessions; what is no file is a session.
proc ::twapi::_etw_open {sources} {
    set traces {}
    foreach source $sources {
        if {[catch {
            lappend traces [expr {[file exists $source] ? [etw_open_file $source] : [etw_open_session $source]}]
        } message options]} {
            foreach trace $traces {etw_close_session $trace}
            return -options $options $message
        }
    }
    return $traces
}

# Returns all events of files and sessions as an array of records.
proc ::twapi::etw_dump {args} {
    if {![llength $args]} {
        return [list [etw_event] {}]
    }
    set formatter [etw_open_formatter]
    set traces {}
    try {
        set traces [_etw_open $args]
        return [etw_format_events $formatter {*}[etw_process_events {*}$traces]]
    } finally {
        foreach trace $traces {etw_close_session $trace}
        etw_close_formatter $formatter
    }
}

# Returns all events of files and sessions as a list of records.
proc ::twapi::etw_dump_to_list {args} {
    return [recordarray getlist [etw_dump {*}$args]]
}

proc ::twapi::etw_dump_to_file {args} {
    lassign [_options $args {
        -fields text -filter text -format {of {csv list}} -limit int -output text -separator text
    }] given sources
    array set option {
        -fields {-timecreated -levelname -providername -pid -taskname -opcodename -message}
        -filter {} -format csv -limit -1 -output stdout -separator ,
    }
    array set option $given
    foreach field $option(-fields) {
        if {$field ni [etw_event]} {
            _wrong "no field \"$field\": must be [join [etw_event] {, }]"
        }
    }
    if {$option(-output) ni [chan names] && [file exists $option(-output)]} {
        _wrong "$option(-output) exists already"
    }
    set traces [_etw_open $sources]
    try {
        if {$option(-output) in [chan names]} {
            set channel $option(-output)
        } else {
            set channel [open $option(-output) w]
            chan configure $channel -encoding utf-8
        }
        if {$option(-format) eq "csv"} {
            puts $channel [_etw_csv $option(-fields) $option(-separator)]
        }
        if {[llength $traces]} {
            set formatter [etw_open_formatter]
            variable _etw_dumped
            set _etw_dumped($channel) 0
            etw_process_events -callback [list ::twapi::_etw_dump_buffer $channel $formatter [array get option]] {*}$traces
        }
    } finally {
        foreach trace $traces {etw_close_session $trace}
        if {[info exists formatter]} {
            etw_close_formatter $formatter
            unset -nocomplain _etw_dumped($channel)
        }
        if {[info exists channel]} {
            if {$channel eq $option(-output)} {flush $channel} else {close $channel}
        }
    }
    return
}

proc ::twapi::_etw_dump_buffer {channel formatter options buffer events} {
    variable _etw_dumped
    array set option $options
    set array [etw_format_events $formatter $buffer $events]
    foreach event [recordarray getlist $array -format dict -filter $option(-filter)] {
        if {$option(-limit) >= 0 && $_etw_dumped($channel) >= $option(-limit)} {
            return -code break
        }
        incr _etw_dumped($channel)
        set values [lmap field $option(-fields) {
            set value [dict get $event $field]
            switch -- $field {
                -message { set value [etw_format_event_message $value [dict get $event -properties]] }
                -properties {
                    if {[lindex $value 0] eq "mofdata"} {
                        # The first bytes tell what it may be.
                        binary scan [string range [lindex $value 1] 0 31] H* hex
                        set value [list mofdata [string trimright [regsub -all .. $hex {& }]]]
                    }
                }
            }
            set value
        }]
        puts $channel [expr {$option(-format) eq "csv" ? [_etw_csv $values $option(-separator)] : $values}]
    }
}

# Returns a line of CSV.
proc ::twapi::_etw_csv {values separator} {
    return [join [lmap value $values {
        if {[string first $separator $value] >= 0 || [regexp {["\n\r]} $value]} {
            set value "\"[string map {\" \"\"} $value]\""
        }
        set value
    }] $separator]
}

twapi::export_public_commands

# The commands are known without their namespace too, but for names that are taken.
apply {{} {
    foreach command [info commands ::twapi::etw_*] {
        set name [namespace tail $command]
        if {![llength [info commands ::$name]]} {
            namespace eval :: [list namespace import $command]
        }
    }
    if {![llength [info commands ::recordarray]]} {
        namespace eval :: {namespace import ::twapi::recordarray}
    }
}}
