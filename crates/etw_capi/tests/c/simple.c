/* A provider of the manifest of Microsoft's sample SimpleProvider, written as such programs are. */
#include <windows.h>
#include <stdio.h>
#include <stdlib.h>
#include "SimpleProviderEvents.h"

void wmain(void) {
  DWORD status = EventRegisterMicrosoft_Windows_SDKSample_SimpleProvider();
  if (ERROR_SUCCESS != status) {
    wprintf(L"EventRegister failed with %lu\n", status);
    exit(1);
  }
  wprintf(L"enabled: %d\n", EventEnabledSampleEvt_INT32());
  EventWriteSampleEvt_INT32(3);
  EventWriteSampleEvt_Float(5.75f);
  EventWriteSampleEvt_Bool(TRUE);
  EventWriteSampleEvt_UnicodeString(L"a text");
  EventWriteSampleEvt_Guid(&MICROSOFT_WINDOWS_SDKSAMPLE_SIMPLEPROVIDER);
  EventUnregisterMicrosoft_Windows_SDKSample_SimpleProvider();
}
