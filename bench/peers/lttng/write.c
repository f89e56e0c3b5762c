/*
 * Writes events with LTTng-UST as fast as possible and prints the nanoseconds per event.
 *
 * write KIND THREADS EVENTS ROUNDS
 *
 * KIND is `integers` or `text`. Each thread writes EVENTS events in each of ROUNDS rounds; a line is the mean over the
 * threads of one round. The first round is not printed. The session decides whether the events are recorded.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tracepoints.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int writes_text;
static uint64_t events;

/* The thread's own time, so that other threads of a busy machine do not count. */
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *write_events(void *nanos)
{
    double start = now();
    if (writes_text) {
        for (uint64_t i = 0; i < events; i++)
            lttng_ust_tracepoint(openetw_bench, text, (uint32_t)i, "a string of thirty-two bytes....");
    } else {
        for (uint64_t i = 0; i < events; i++)
            lttng_ust_tracepoint(openetw_bench, integers, (uint32_t)i, i, 3);
    }
    *(double *)nanos = (now() - start) / events;
    return NULL;
}

int main(int count, char **arguments)
{
    if (count != 5) {
        fprintf(stderr, "write integers|text THREADS EVENTS ROUNDS\n");
        return 2;
    }
    writes_text = strcmp(arguments[1], "text") == 0;
    int threads = atoi(arguments[2]);
    events = strtoull(arguments[3], NULL, 10);
    int rounds = atoi(arguments[4]);
    if (threads < 1 || threads > 64 || events == 0)
        return 2;
    for (int round = 0; round <= rounds; round++) {
        pthread_t ids[64];
        double nanos[64], sum = 0;
        for (int i = 0; i < threads; i++)
            pthread_create(&ids[i], NULL, write_events, &nanos[i]);
        for (int i = 0; i < threads; i++) {
            pthread_join(ids[i], NULL);
            sum += nanos[i];
        }
        if (round > 0) {
            printf("%.2f\n", sum / threads);
            fflush(stdout);
        }
    }
    return 0;
}
