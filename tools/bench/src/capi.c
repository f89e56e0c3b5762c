/* Prints nanoseconds of the thread's time for TraceLoggingWrite without and with a session, and the lost events. */
#include <TraceLoggingProvider.h>
#include <evntrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

TRACELOGGING_DEFINE_PROVIDER(g_provider, "OpenETW.Bench.Write", );

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double measure(UINT64 events) {
  double start = now();
  for (UINT64 value = 0; value < events; value++) {
    __asm__ volatile("" : "+r"(value));
    TraceLoggingWrite(g_provider, "Integers", TraceLoggingLevel(4), TraceLoggingUInt32((UINT32)value, "a"),
                      TraceLoggingUInt64(value, "b"), TraceLoggingUInt32(3, "c"));
  }
  return (now() - start) / (double)events;
}

int main(int argc, char **argv) {
  struct {
    EVENT_TRACE_PROPERTIES properties;
    char name[64];
  } session;
  UINT64 events = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
  TraceLoggingRegister(g_provider);
  measure(events);
  double disabled = measure(events);
  memset(&session, 0, sizeof session);
  session.properties.Wnode.BufferSize = sizeof session;
  session.properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  session.properties.LogFileMode = EVENT_TRACE_BUFFERING_MODE;
  session.properties.BufferSize = 64;
  session.properties.MinimumBuffers = 1024;
  session.properties.MaximumBuffers = 1024;
  session.properties.LoggerNameOffset = (ULONG)((char *)session.name - (char *)&session);
  TRACEHANDLE handle = 0;
  GUID id = TraceLoggingProviderId(g_provider);
  if (StartTraceA(&handle, "OpenETW bench", &session.properties) != ERROR_SUCCESS ||
      EnableTraceEx2(handle, &id, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 0, NULL) != ERROR_SUCCESS) {
    return 1;
  }
  while (!TraceLoggingProviderEnabled(g_provider, 4, 0)) {
    Sleep(1);
  }
  measure(events);
  Sleep(150);
  double enabled = measure(events);
  Sleep(150);
  if (StopTraceA(handle, NULL, &session.properties) != ERROR_SUCCESS) {
    return 1;
  }
  printf("%f %f %u\n", disabled, enabled, session.properties.EventsLost);
  return 0;
}
