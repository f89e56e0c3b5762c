# What TWAPI's other commands are built on: options, records, arrays of records, times, and the import of commands.

namespace eval ::twapi {
    # Seconds from 1601, where the times of events start, to 1970.
    variable _epoch 11644473600
}

# Leaves an error of wrong use in the caller of the command that calls this.
proc ::twapi::_wrong {message} {
    return -level 2 -code error -errorcode {TWAPI BAD_ARGS} $message
}

# Reads options. SPEC has a name and a kind for each: `text`, `int`, `bool`, `flag` (no value), or a list of what is
# allowed after the word `of`. The result has two elements: the options that are there, and the other arguments.
proc ::twapi::_options {arguments spec} {
    set found {}
    set rest {}
    while {[llength $arguments]} {
        set arguments [lassign $arguments option]
        if {$option eq "--"} {
            lappend rest {*}$arguments
            break
        }
        if {![regexp {^-[a-z]} $option]} {
            lappend rest $option
            continue
        }
        if {![dict exists $spec $option]} {
            set known [join [lmap {name kind} $spec {set name}] ", "]
            _wrong "bad option \"$option\": must be [expr {$known eq "" ? "absent" : $known}]"
        }
        set kind [dict get $spec $option]
        if {$kind eq "flag"} {
            dict set found $option 1
            continue
        }
        if {![llength $arguments]} {
            _wrong "no value for option \"$option\""
        }
        set arguments [lassign $arguments value]
        switch [lindex $kind 0] {
            int {
                if {![string is wideinteger -strict $value]} {
                    _wrong "$option: expected integer but got \"$value\""
                }
                set value [expr {wide($value)}]
            }
            bool {
                if {![string is boolean -strict $value]} {
                    _wrong "$option: expected boolean value but got \"$value\""
                }
                set value [expr {bool($value)}]
            }
            of {
                if {$value ni [lindex $kind 1]} {
                    _wrong "$option: bad value \"$value\": must be [join [lindex $kind 1] {, }]"
                }
            }
        }
        dict set found $option $value
    }
    return [list $found $rest]
}

# Creates the command of a record: its fields, a record as a dictionary, a field of a record, or a changed record.
proc ::twapi::record {name fields} {
    uplevel 1 [list proc $name args [format {
        return [::twapi::_record %s $args]
    } [list $fields]]]
}

proc ::twapi::_record {fields arguments} {
    set place [list apply {{fields field} {
        set at [lsearch -exact $fields $field]
        if {$at < 0} {
            return -level 2 -code error "no field \"$field\": must be [join $fields {, }]"
        }
        return $at
    }} $fields]
    switch [llength $arguments] {
        0 { return $fields }
        1 { return [::twapi::_twine $fields [lindex $arguments 0]] }
        2 {
            lassign $arguments field record
            return [lindex $record [{*}$place $field]]
        }
        3 {
            lassign $arguments verb record wanted
            if {$verb eq "select"} {
                return [lmap field $wanted {lindex $record [{*}$place $field]}]
            }
        }
    }
    if {[lindex $arguments 0] eq "set" && [llength $arguments] % 2 == 0} {
        set record [lindex $arguments 1]
        foreach {field value} [lrange $arguments 2 end] {
            lset record [{*}$place $field] $value
        }
        return $record
    }
    _wrong {wrong # args: should be "?record?", "field record", "select record fields" or "set record field value ..."}
}

# Returns a dictionary of names and values.
proc ::twapi::_twine {names values} {
    set dict {}
    foreach name $names value $values {
        lappend dict $name $value
    }
    return $dict
}

# Arrays of records: a list of the fields' names and a list of records, which are lists of values.
namespace eval ::twapi::recordarray {
    namespace export cell column concat fields get getdict getlist index iterate range rename size
    namespace ensemble create
}

# Returns the index of a field.
proc ::twapi::recordarray::Place {array field} {
    set at [lsearch -exact [lindex $array 0] $field]
    if {$at < 0} {
        return -code error "no field \"$field\": must be [join [lindex $array 0] {, }]"
    }
    return $at
}

# Returns the records for which each condition of a filter holds: {FIELD OPERATOR VALUE ?-nocase?}, where the operator is one
# of `expr`, or ~ and !~ for patterns.
proc ::twapi::recordarray::Filter {array filter} {
    set conditions [lmap condition $filter {
        if {[llength $condition] ni {3 4} || [lindex $condition 3] ni {"" -nocase}} {
            return -code error "bad condition \"$condition\": should be field operator value ?-nocase?"
        }
        lassign $condition field operator value nocase
        if {$operator ni {== != < > <= >= eq ne in ni ~ !~}} {
            return -code error "bad operator \"$operator\": must be ==, !=, <, >, <=, >=, eq, ne, in, ni, ~, !~"
        }
        if {$nocase ne ""} {set value [string tolower $value]}
        list [Place $array $field] $operator $value [expr {$nocase ne ""}]
    }]
    if {![llength $conditions]} {
        return [lindex $array 1]
    }
    return [lmap record [lindex $array 1] {
        set holds 1
        foreach condition $conditions {
            lassign $condition at operator value nocase
            set found [lindex $record $at]
            if {$nocase} {set found [string tolower $found]}
            switch -- $operator {
                ~ { set holds [string match $value $found] }
                !~ { set holds [expr {![string match $value $found]}] }
                default { set holds [::tcl::mathop::$operator $found $value] }
            }
            if {!$holds} break
        }
        if {!$holds} continue
        set record
    }]
}

# Returns the records that options select, as {FIELDS RECORDS FORMAT KEY}.
proc ::twapi::recordarray::Select {array arguments} {
    if {[llength $array] != 2} {
        return -code error "not a record array"
    }
    lassign [::twapi::_options $arguments {
        -filter text -format {of {list dict flat}} -key text -slice text
    }] options rest
    if {[llength $rest]} {
        return -code error "unexpected argument \"[lindex $rest 0]\""
    }
    set fields [lindex $array 0]
    set records [Filter $array [expr {[dict exists $options -filter] ? [dict get $options -filter] : {}}]]
    set key {}
    if {[dict exists $options -key]} {
        set at [Place $array [dict get $options -key]]
        set key [lmap record $records {lindex $record $at}]
    }
    if {[dict exists $options -slice]} {
        set fields [dict get $options -slice]
        set places [lmap field $fields {Place $array $field}]
        set records [lmap record $records {lmap at $places {lindex $record $at}}]
    }
    set format [expr {[dict exists $options -format] ? [dict get $options -format] : "list"}]
    return [list $fields $records $format $key]
}

# Returns records in a format.
proc ::twapi::recordarray::Formatted {fields records format} {
    switch $format {
        dict { return [lmap record $records {::twapi::_twine $fields $record}] }
        flat { return [::concat {*}$records] }
        default { return $records }
    }
}

proc ::twapi::recordarray::size {array} {
    return [llength [lindex $array 1]]
}

proc ::twapi::recordarray::fields {array} {
    return [lindex $array 0]
}

proc ::twapi::recordarray::range {array first last} {
    return [list [lindex $array 0] [lrange [lindex $array 1] $first $last]]
}

proc ::twapi::recordarray::index {array row args} {
    lassign $array fields records
    lassign [Select [list $fields [lrange $records $row $row]] $args] fields records format
    if {![llength $records]} return
    return [lindex [Formatted $fields $records $format] 0]
}

proc ::twapi::recordarray::cell {array row field} {
    return [lindex $array 1 $row [Place $array $field]]
}

proc ::twapi::recordarray::column {array field args} {
    lassign [Select $array [list {*}$args -slice [list $field]]] fields records
    return [Formatted $fields $records flat]
}

proc ::twapi::recordarray::get {array args} {
    return [lrange [Select $array $args] 0 1]
}

proc ::twapi::recordarray::getlist {array args} {
    lassign [Select $array $args] fields records format
    return [Formatted $fields $records $format]
}

proc ::twapi::recordarray::getdict {array args} {
    if {![dict exists [lindex [::twapi::_options $args {-filter text -format text -key text -slice text}] 0] -key]} {
        lappend args -key [lindex $array 0 0]
    }
    lassign [Select $array $args] fields records format keys
    set dict {}
    foreach key $keys record [Formatted $fields $records $format] {
        dict set dict $key $record
    }
    return $dict
}

proc ::twapi::recordarray::iterate {variable array args} {
    if {![llength $args]} {
        return -code error {wrong # args: should be "recordarray iterate variable array ?options? script"}
    }
    upvar 1 $variable fields
    foreach record [getlist $array {*}[lrange $args 0 end-1] -format dict] {
        ::array set fields $record
        set code [catch {uplevel 1 [lindex $args end]} result options]
        switch $code {
            0 - 4 {}
            3 return
            default { return -options [dict merge $options {-level 1}] -code $code $result }
        }
    }
}

proc ::twapi::recordarray::rename {array names} {
    return [list [lmap field [lindex $array 0] {
        expr {[dict exists $names $field] ? [dict get $names $field] : $field}
    }] [lindex $array 1]]
}

proc ::twapi::recordarray::concat {args} {
    set fields [lindex $args 0 0]
    set records {}
    foreach array $args {
        if {[lindex $array 0] ne $fields} {
            return -code error "record arrays have different fields: $fields, [lindex $array 0]"
        }
        lappend records {*}[lindex $array 1]
    }
    return [expr {[llength $args] ? [list $fields $records] : {}}]
}

# Returns the time now, in 100 ns since 1601.
proc ::twapi::get_system_time {} {
    variable _epoch
    return [expr {[clock microseconds] * 10 + $_epoch * 10000000}]
}

proc ::twapi::large_system_time_to_secs_since_1970 {time {fraction 0}} {
    variable _epoch
    if {![string is wideinteger -strict $time] || ![string is boolean -strict $fraction]} {
        _wrong "expected a time and whether to include its fraction but got \"$time\" and \"$fraction\""
    }
    set seconds [expr {$time / 10000000 - $_epoch}]
    if {$fraction} {
        append seconds . [format %07d [expr {$time % 10000000}]]
    }
    return $seconds
}

proc ::twapi::secs_since_1970_to_large_system_time {seconds} {
    variable _epoch
    if {![string is wideinteger -strict $seconds]} {
        _wrong "expected seconds but got \"$seconds\""
    }
    return [expr {($seconds + $_epoch) * 10000000}]
}

# Exports the public commands, those whose names do not start with an underscore.
proc ::twapi::export_public_commands {} {
    namespace eval ::twapi {namespace export {[a-z]*}}
}

# Imports the public commands into the caller's namespace.
proc ::twapi::import_commands {} {
    export_public_commands
    uplevel 1 {namespace import -force ::twapi::*}
}

# Returns a message with the values of its inserts: %1 to %99, %n for a line break, %t for a tab, %% for %.
proc ::twapi::_insert {message values} {
    set text {}
    while {[regexp -indices {%(?:([1-9][0-9]?)(![^!]*!)?|(.))} $message all number format mark]} {
        lassign $all first last
        append text [string range $message 0 $first-1]
        if {[lindex $number 0] >= 0} {
            set at [string range $message {*}$number]
            append text [expr {$at <= [llength $values] ? [lindex $values $at-1] : "%$at"}]
        } else {
            set mark [string range $message {*}$mark]
            append text [expr {[dict exists {n \n r \r t \t 0 {}} $mark] ? [dict get [list n \n r \r t \t 0 {}] $mark] : $mark}]
        }
        set message [string range $message $last+1 end]
    }
    return $text$message
}
