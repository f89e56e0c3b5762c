/* A provider of the manifest of Microsoft's sample AdvancedProvider, with data of all kinds. */
#include <windows.h>
#include <stdio.h>
#include <evntprov.h>
#include "AdvancedProviderEvents.h"

int __cdecl wmain(int argc, PWSTR argv[]) {
  INT8 numbers[15];
  WCHAR texts[15 * 2];
  CHAR narrow[15 * 2];
  BYTE bytes[15 * 15];
  WCHAR fixed[15 * 15];
  SID user = {SID_REVISION, 1, SECURITY_NT_AUTHORITY, {18}};
  SYSTEMTIME parts;
  FILETIME time;
  (void)argc, (void)argv;
  for (int index = 0; index < 15; index++) {
    numbers[index] = (INT8)index;
    texts[2 * index] = (WCHAR)(L'a' + index);
    texts[2 * index + 1] = 0;
    narrow[2 * index] = (CHAR)('a' + index);
    narrow[2 * index + 1] = 0;
  }
  for (int index = 0; index < 15 * 15; index++) {
    bytes[index] = (BYTE)index;
    fixed[index] = (WCHAR)(L'a' + index % 15);
  }
  GetSystemTime(&parts);
  SystemTimeToFileTime(&parts, &time);
  DWORD status = EventRegisterMicrosoft_Windows_SDKSample_AdvancedProvider();
  if (status != ERROR_SUCCESS) {
    wprintf(L"EventRegister failed with %lu\n", status);
    return 1;
  }
  EventWriteSampleEvt_INT8((CHAR)-8);
  EventWriteSampleEvt_UINT32_IPV4(0x0100007F);
  EventWriteSampleEvt_GUID(&MICROSOFT_WINDOWS_SDKSAMPLE_ADVANCEDPROVIDER);
  EventWriteSampleEvt_POINTER((PVOID)0x12345678);
  EventWriteSampleEvt_FILETIME(&time);
  EventWriteSampleEvt_SYSTEMTIME(&parts);
  EventWriteSampleEvt_SID((PSID)&user);
  EventWriteSampleEvt_AnsiString("an ansi text");
  EventWriteSampleEvt_FixedLength_UnicodeString(fixed);
  EventWriteSampleEvt_ParamLength_Binary(4, bytes);
  EventWriteSampleEvt_FixedCount_Int8((CHAR *)numbers);
  EventWriteSampleEvt_FixedCount_UnicodeString(sizeof texts / sizeof(WCHAR), (PCWSTR)texts);
  EventWriteSampleEvt_FixedCount_AnsiString(sizeof narrow, (PCSTR)narrow);
  EventWriteSampleEvt_FixedCount_FixedLength_UnicodeString((PCWSTR)fixed);
  EventWriteSampleEvt_FixedCount_FixedLength_Binary((BYTE *)bytes);
  EventWriteSampleEvt_ParamCount_Int8(3, (CHAR *)numbers);
  EventWriteSampleEvt_ValueMap_UInt8(VMapSymbolVMapValue_1);
  EventWriteSampleEvt_UserKeyword_UINT8(7);
  EventWriteSampleEvt_INT8_V2(2);
  EventUnregisterMicrosoft_Windows_SDKSample_AdvancedProvider();
  return 0;
}
