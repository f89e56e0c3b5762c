"""Shared by the scripts of all peers: arguments, the clock, the report."""

import argparse
import json
import time


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("file", help="trace file to read")
    parser.add_argument("--decode", action="store_true", help="also time the decoding of payloads")
    parser.add_argument("--times", action="store_true", help="also find the first and last raw time stamp")
    parser.add_argument("--events", metavar="GUID", help="also list a provider's events")
    parser.add_argument("--values", action="store_true", help="also list decoded events with their fields")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop each pass after this time")
    return parser.parse_args()


def event(ticks, process_id, thread_id, event_id, payload):
    """An event in the form of --events."""
    return [ticks, process_id, thread_id, event_id, bytes(payload).hex()]


class Pass:
    """One timed pass over a file's events, with counts and a time limit."""

    def __init__(self, limit_seconds):
        self.events = 0
        self.failures = {}
        self.limit_seconds = limit_seconds
        self.start = time.perf_counter()
        self.seconds = 0.0
        self.complete = True

    def count(self):
        """Counts an event; returns False if the pass should stop."""
        self.events += 1
        if self.events % 256 == 0 and time.perf_counter() - self.start > self.limit_seconds:
            self.complete = False
        return self.complete

    def fail(self, error):
        name = type(error).__name__
        self.failures[name] = self.failures.get(name, 0) + 1

    def done(self):
        self.seconds = time.perf_counter() - self.start
        return {
            "events": self.events,
            "seconds": self.seconds,
            "complete": self.complete,
            "failures": self.failures,
        }


def report(**values):
    print(json.dumps(values))
