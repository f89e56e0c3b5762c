# Records a script's messages and a variable, and prints the events: tclsh hello.tcl
package require twapi

set file [file join [expr {[info exists env(TMPDIR)] ? $env(TMPDIR) : "/tmp"}] hello-[pid].etl]
set provider [etw_twapi_provider_register]
set trace [etw_start_trace Hello-[pid] -logfile $file]
etw_enable_provider $trace [etw_twapi_provider_guid] -1 verbose

trace add variable count write [list twapi::etw_variable_tracker $provider]
etw_log_message $provider "Hello from Tcl"
for {set count 0} {$count < 3} {incr count} {
    after 10
}
etw_stop_trace $trace
etw_unregister_provider $provider

etw_install_twapi_mof
recordarray iterate event [etw_dump $file] -filter [list [list -eventguid eq [etw_twapi_eventclass_guid]]] {
    set properties $event(-properties)
    switch $event(-opcodename) {
        Message { puts "Message [lindex [dict get $properties Message] 0]" }
        VariableTrace { puts "VariableTrace [lindex [dict get $properties Name] 0] = [lindex [dict get $properties Value] 0]" }
    }
}
file delete $file
