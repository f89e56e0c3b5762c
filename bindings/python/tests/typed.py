"""What type checkers are to understand; `test_types.py` runs them on this file."""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
from uuid import UUID

import openetw


def read(path: str) -> int:
    trace: openetw.Trace = openetw.open(path, process_names=True).where("pid == 4").between(0.5, "2s").limit(10)
    size = 0
    for event in trace:
        time: dt.datetime | None = event.time
        guid: UUID = event.provider_id
        name: str = event.get("Name", "") or event.name
        size += event.time_ns + len(f"{time}{guid}{name}{event['Field']}")
    table: openetw.Table = trace.table("disk", ["time", "size"], where="size > 0")
    kinds: dict[str, int] = trace.kinds()
    return size + len(table) + sum(kinds.values())


if sys.platform == "linux":

    async def watch() -> None:
        with openetw.Session("S", providers=["P:Warning"], kernel=["CSWITCH"]) as session:
            async for event in session.events(timeout=1.0):
                print(event.kind)
            status: openetw.SessionStatus | None = session.stop()
            print(status and status.events_lost)

    def write() -> bool:
        with openetw.Provider("P") as provider, openetw.activity() as id:
            return provider.write("E", level=4, activity=id, x=1, s="a")

    asyncio.run(watch())
