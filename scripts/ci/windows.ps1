# Checks the Windows backend with Windows' own ETW: its tests, the examples of `openetw`, and the commands of docs/windows.md.
# It needs an administrator.
$ErrorActionPreference = 'Stop'
$PSNativeCommandUseErrorActionPreference = $false
if ($env:CI) { $env:CARGO_INCREMENTAL = '0' }

Set-Location (Join-Path $PSScriptRoot '../..')
$target = if ($env:CARGO_TARGET_DIR) { $env:CARGO_TARGET_DIR } else { 'target' }

function Confirm-Status([string] $what) {
    if ($LASTEXITCODE -ne 0) { throw "$what failed with status $LASTEXITCODE" }
}

cargo test --package openetw --test windows '--' '--show-output' | Tee-Object -Variable tests
Confirm-Status 'the tests of the Windows backend'
# They skip without rights, which are given here.
if ($tests -match '^skipped: ') { throw 'tests were skipped' }

cargo build --package openetw --examples
Confirm-Status 'the build of the examples'
cargo build --package etw_cli --bin etw
Confirm-Status 'the build of etw.exe'

$examples = (Resolve-Path (Join-Path $target 'debug/examples')).Path
$work = (New-Item -ItemType Directory -Force (Join-Path $target 'ci/windows-examples')).FullName

# Runs an example, shows what it prints, and returns it as one text.
function Invoke-Example([string] $name, [string[]] $arguments) {
    Write-Host "> $name $arguments"
    $printed = & (Join-Path $examples "$name.exe") @arguments
    Confirm-Status $name
    $printed | Select-Object -First 20 | Write-Host
    $printed -join "`n"
}

# Starts an example that listens to a session, with its output in a file.
function Start-Example([string] $name, [string[]] $arguments) {
    $options = @{
        FilePath = Join-Path $examples "$name.exe"
        RedirectStandardOutput = Join-Path $work "$name.txt"
        NoNewWindow = $true
        PassThru = $true
    }
    Write-Host "> $name $arguments"
    $process = Start-Process @options -ArgumentList $arguments
    # Without its handle, the status of a process is lost.
    $null = $process.Handle
    $process
}

# Waits for such an example, and returns the lines that it printed.
function Wait-Example([System.Diagnostics.Process] $process, [string] $name) {
    if (-not $process.WaitForExit(60000)) { $process.Kill(); throw "$name does not end" }
    $printed = @(Get-Content (Join-Path $work "$name.txt"))
    if ($process.ExitCode -ne 0) { throw "$name failed with status $($process.ExitCode):`n$($printed -join "`n")" }
    $printed
}

$file = Join-Path $work 'written.etl'
$printed = Invoke-Example 'write_events' @($file)
if ($printed -ne '300 events read, 0 lost') { throw "write_events: $printed" }
$printed = Invoke-Example 'read_file' @($file)
if ($printed -notmatch ' MyCompany\.Requests ') { throw 'read_file shows no event of MyCompany.Requests' }

# They listen for ten seconds, in one of which the other one writes a hundred events of each of two kinds.
$steps = Start-Example 'seven_steps' @('10')
$live = Start-Example 'real_time' @('MyCompany.Demo', '10')
Start-Sleep -Seconds 3
Invoke-Example 'demo_provider' @('1')
$printed = @(Wait-Example $steps 'seven_steps') -join "`n"
if ($printed -ne "listening`n100 files, 0 events lost") { throw "seven_steps: $printed" }
$lines = @(Wait-Example $live 'real_time')
if ($lines[-1] -ne '0 events lost') { throw "real_time: $($lines[-1])" }
$events = @($lines | Where-Object { $_.StartsWith('{') } | ForEach-Object { ConvertFrom-Json $_ } |
    Where-Object { $_.System.Provider.Name -eq 'MyCompany.Demo' })
if ($events.Length -ne 200) { throw "real_time shows $($events.Length) events of MyCompany.Demo, not 200" }

& (Join-Path $PSScriptRoot 'windows-commands.ps1') (Join-Path $target 'debug')
