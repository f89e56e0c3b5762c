# Unpacks the zip file for Windows that is in a directory, and uses its programs: windows-archive.ps1 DIRECTORY
# It needs an administrator.
param([Parameter(Mandatory)] [string] $Directory)
$ErrorActionPreference = 'Stop'

$archives = @(Get-ChildItem $Directory -Filter '*.zip')
if ($archives.Length -ne 1) { throw "$($archives.Length) zip files in $Directory, not one" }
# A directory with a space, as users have.
$unpacked = Join-Path $archives[0].DirectoryName 'Open ETW'
Expand-Archive $archives[0].FullName -DestinationPath $unpacked -Force
& (Join-Path $PSScriptRoot 'windows-commands.ps1') (Join-Path $unpacked $archives[0].BaseName)
