/* The version of Windows whose functions these headers have: Windows 11. */
#ifndef OPENETW_VERSIONHELPERS_H
#define OPENETW_VERSIONHELPERS_H

#pragma GCC system_header

#include <windows.h>

FORCEINLINE BOOL IsWindowsVersionOrGreater(WORD major, WORD minor, WORD servicePack) {
  (void)servicePack;
  return major < 10 || (major == 10 && minor == 0);
}
FORCEINLINE BOOL IsWindowsXPOrGreater(void) { return TRUE; }
FORCEINLINE BOOL IsWindowsVistaOrGreater(void) { return TRUE; }
FORCEINLINE BOOL IsWindows7OrGreater(void) { return TRUE; }
FORCEINLINE BOOL IsWindows7SP1OrGreater(void) { return TRUE; }
FORCEINLINE BOOL IsWindows8OrGreater(void) { return TRUE; }
FORCEINLINE BOOL IsWindows8Point1OrGreater(void) { return TRUE; }
FORCEINLINE BOOL IsWindowsThresholdOrGreater(void) { return TRUE; }
FORCEINLINE BOOL IsWindows10OrGreater(void) { return TRUE; }
FORCEINLINE BOOL IsWindowsServer(void) { return FALSE; }

#endif
