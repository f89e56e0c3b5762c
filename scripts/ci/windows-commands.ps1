# Runs the commands of docs/windows.md with Windows' own ETW: windows-commands.ps1 DIRECTORY-OF-ETW.EXE
# It needs an administrator. A step that fails does not stop those after it; the failures are listed at the end.
param([Parameter(Mandatory)] [string] $Programs)
$ErrorActionPreference = 'Stop'
$PSNativeCommandUseErrorActionPreference = $false

$programs = (Resolve-Path $Programs).Path
$etw = Join-Path $programs 'etw.exe'
$target = if ($env:CARGO_TARGET_DIR) { $env:CARGO_TARGET_DIR } else { Join-Path $PSScriptRoot '../../target' }
$work = (New-Item -ItemType Directory -Force (Join-Path $target 'ci/windows')).FullName
Get-ChildItem $work | Remove-Item -Recurse
Set-Location $work

# A provider that is enabled by its GUID, for tools that take no names.
$guid = '5a0e3a5c-0c0d-4a3e-9b8a-1b2c3d4e5f60'
$failures = [System.Collections.Generic.List[string]]::new()

# Runs `etw` with the words of a line and further arguments, and returns what it prints.
function Invoke-Etw([string] $line, [string[]] $more = @()) {
    $arguments = @($line -split ' ') + $more
    Write-Host "> etw $arguments"
    $printed = & $etw @arguments
    if ($LASTEXITCODE -ne 0) { throw "etw $arguments failed with status $LASTEXITCODE" }
    $printed
}

# The same, with the start of its output shown.
function Show-Etw([string] $line, [string[]] $more = @()) {
    Invoke-Etw $line $more | Select-Object -First 25 | Write-Host
}

# The same for JSON, an object a line.
function Read-Etw([string] $line, [string[]] $more = @()) {
    Invoke-Etw $line $more | ForEach-Object { ConvertFrom-Json $_ }
}

function Write-Event { Show-Etw 'write MyCompany.MyApp Deployed version=1.2.0 number=7' }

# Fails unless a file has as many events that `etw write` wrote.
function Confirm-Event([string] $file, [int] $wanted = 1) {
    $found = @(Read-Etw "dump --format json $file" | Where-Object { $_.EventData.number -eq 7 }).Length
    if ($found -ne $wanted) { throw "$file has $found events that were written, not $wanted" }
}

# Stops a session, which must not have lost an event.
function Stop-Session([string] $name) {
    $stopped = Read-Etw "session stop $name --format json"
    if ($stopped.EventsLost -ne 0) { throw "$name lost $($stopped.EventsLost) events" }
}

# Runs a step; whatever happens in it, its sessions are stopped.
function Step([string] $what, [scriptblock] $commands, [string[]] $sessions = @()) {
    Write-Host "`n== $what"
    try { & $commands } catch {
        Write-Host "FAILED: $_"
        $failures.Add("${what}: $_")
    }
    foreach ($session in $sessions) { & $etw session stop $session *> $null }
}

Step 'the program' { Show-Etw '--version' }

Step 'a session with a file' -sessions 'MySession' {
    Show-Etw 'session start MySession -o trace.etl -p MyCompany.MyApp'
    $twice = (& $etw session start MySession -o other.etl 2>&1) -join "`n"
    if ($LASTEXITCODE -eq 0 -or $twice -notmatch 'Windows error 183') { throw "a second start of it: $twice" }
    $names = @(Read-Etw 'session list --format json').Name
    if ($names -notcontains 'MySession') { throw "the session is not listed: $names" }
    Write-Event
    Show-Etw 'session query MySession'
    Show-Etw 'provider list --registered MyCompany'
    Show-Etw 'session update MySession --flush-timer 5'
    Show-Etw 'session disable MySession MyCompany.MyApp'
    Show-Etw 'write MyCompany.MyApp Disabled number=7 --quiet'
    Show-Etw 'session enable MySession MyCompany.MyApp'
    Write-Event
    Show-Etw 'session capture-state MySession MyCompany.MyApp'
    Show-Etw 'session flush MySession'
    Stop-Session 'MySession'
    & $etw session query MySession *> $null
    if ($LASTEXITCODE -eq 0) { throw 'a stopped session is found' }
    Show-Etw 'dump trace.etl'
    Show-Etw 'info trace.etl'
    Show-Etw 'stats trace.etl'
    Confirm-Event 'trace.etl' 2
}

Step 'a session in real time' -sessions 'Live' {
    Show-Etw 'session start Live --real-time -p MyCompany.MyApp'
    $options = @{ FilePath = $etw; RedirectStandardOutput = "$work\live.json"; NoNewWindow = $true; PassThru = $true }
    $dump = Start-Process @options -ArgumentList 'dump', '-s', 'Live', '--format', 'json'
    # Without its handle, the status of a process is lost.
    $null = $dump.Handle
    Start-Sleep -Seconds 3
    Write-Event
    Show-Etw 'session flush Live'
    Stop-Session 'Live'
    if (-not $dump.WaitForExit(60000)) { $dump.Kill(); throw 'etw dump -s does not end with the session' }
    if ($dump.ExitCode -ne 0) { throw "etw dump -s failed with status $($dump.ExitCode)" }
    $events = @(Get-Content live.json | ForEach-Object { ConvertFrom-Json $_ } | Where-Object { $_.EventData.number -eq 7 })
    if ($events.Length -ne 1) { throw "etw dump -s shows $($events.Length) events, not one" }
}

Step 'the newest events in memory' -sessions 'Flight' {
    Show-Etw 'session start Flight --ring 16 -p MyCompany.MyApp'
    Write-Event
    Show-Etw 'session dump Flight flight.etl'
    Stop-Session 'Flight'
    Confirm-Event 'flight.etl'
}

Step 'a recording of a program' {
    Show-Etw 'record -p MyCompany.MyApp -o record.etl --' @($etw, 'write', 'MyCompany.MyApp', 'Deployed', 'number=7')
    Confirm-Event 'record.etl'
}

Step 'providers' {
    Show-Etw 'provider show Microsoft-Windows-Kernel-Process --event 1'
    Show-Etw 'provider list --registered'
}

Step 'sessions left behind' { Show-Etw 'session list --orphans' }

Step 'logman, xperf and tracelog' -sessions 'OfLogman', 'OfXperf', 'OfTracelog' {
    Show-Etw 'logman start OfLogman -p' @("{$guid}", '0x1', '4', '-o', "$work\logman.etl", '-ets')
    Show-Etw 'xperf -start OfXperf -on' @("{$guid}:0x1:4", '-f', "$work\xperf.etl")
    Show-Etw 'tracelog -start OfTracelog -f' @("$work\tracelog.etl", '-guid', "#$guid", '-level', '4')
    foreach ($list in 'logman query -ets', 'xperf -loggers', 'tracelog -l') {
        $listed = @(Invoke-Etw $list) -join "`n"
        foreach ($session in 'OfLogman', 'OfXperf', 'OfTracelog') {
            if (-not $listed.Contains($session)) { throw "``$list`` does not list ${session}:`n$listed" }
        }
    }
    Show-Etw 'write' @("{$guid}", 'Tick', 'number=7', '--keyword', '1')
    Show-Etw 'logman stop OfLogman -ets'
    Show-Etw 'xperf -stop OfXperf'
    Show-Etw 'tracelog -stop OfTracelog'
    foreach ($file in 'logman.etl', 'xperf.etl', 'tracelog.etl') { Confirm-Event $file }
}

Step 'an autologger' {
    $key = 'HKLM:\SYSTEM\CurrentControlSet\Control\WMI\Autologger\OpenETW-Check'
    Show-Etw 'tracelog -addautologger OpenETW-Check -guid' @("#$guid", '-level', '4', '-f', "$work\autologger.etl")
    $is_there = Test-Path $key
    Show-Etw 'tracelog -remove OpenETW-Check'
    if (-not $is_there) { throw 'the registry has no autologger of this name' }
    if (Test-Path $key) { throw 'the autologger is still in the registry' }
}

Step 'system events' {
    Show-Etw 'record -k PROC_THREAD+LOADER+CSWITCH -o system.etl --' @($etw, '--version')
    Show-Etw 'info system.etl'
    Show-Etw 'report system.etl --table processes,cpu'
    $starts = @(Read-Etw 'dump system.etl --format json' @('--where', 'ImageFileName == "etw.exe" and opcode == 1'))
    if ($starts.Length -eq 0) { throw 'the start of the program is not in the trace' }
}

Step 'samples with stacks' {
    Show-Etw 'record -k PROC_THREAD+LOADER+PROFILE --stackwalk Profile --sample-interval 1ms --for 2s -o samples.etl'
    Show-Etw 'report samples.etl'
}

Step 'a filter on payloads' {
    # Windows filters events that a manifest on the machine describes, given by id.
    $spec = 'Microsoft-Windows-Kernel-Process:4:1:0x10 where ProcessID > 0'
    Show-Etw 'record -o filtered.etl -p' @($spec, '--', $etw, '--version')
    $starts = @(Read-Etw 'dump filtered.etl --format json --provider Microsoft-Windows-Kernel-Process --event 1')
    if ($starts.Length -eq 0) { throw 'no start of a process is in the trace' }
}

Step 'the live view as text' { Show-Etw 'watch -k PROC_THREAD+CSWITCH --view processes --batch 2' }

Step 'wpr' {
    try {
        Show-Etw 'wpr -start CPU'
        Show-Etw 'wpr -status'
        Start-Sleep -Seconds 1
        Show-Etw "wpr -stop $work\wpr.etl"
    } finally { & $etw wpr -cancel *> $null }
    Show-Etw 'report wpr.etl'
}

# What only the archive has.
if (Test-Path (Join-Path $programs 'etw-view.exe')) {
    Step 'the viewer' { Show-Etw 'view --help' }
}
if (Test-Path (Join-Path $programs 'logman.cmd')) {
    Step 'tools under their own names' {
        $printed = & (Join-Path $programs 'logman.cmd') query -ets
        if ($LASTEXITCODE -ne 0) { throw "logman.cmd failed with status $LASTEXITCODE" }
        $printed | Select-Object -First 25 | Write-Host
        & (Join-Path $programs 'logman.cmd') stop OpenETW-Nothing -ets *> $null
        if ($LASTEXITCODE -eq 0) { throw 'logman.cmd hides a failure' }
    }
}

if ($failures.Count -ne 0) { throw "$($failures.Count) steps failed:`n$($failures -join "`n")" }
Write-Host "`nall steps passed"
