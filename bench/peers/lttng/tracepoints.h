/* The LTTng-UST events of the bench: three integers; an integer and a string. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER openetw_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./tracepoints.h"

#if !defined(OPENETW_BENCH_TRACEPOINTS) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define OPENETW_BENCH_TRACEPOINTS

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(openetw_bench, integers,
    LTTNG_UST_TP_ARGS(uint32_t, a, uint64_t, b, uint32_t, c),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, a, a)
        lttng_ust_field_integer(uint64_t, b, b)
        lttng_ust_field_integer(uint32_t, c, c)))

LTTNG_UST_TRACEPOINT_EVENT(openetw_bench, text,
    LTTNG_UST_TP_ARGS(uint32_t, a, const char *, text),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, a, a)
        lttng_ust_field_string(text, text)))

#endif

#include <lttng/tracepoint-event.h>
