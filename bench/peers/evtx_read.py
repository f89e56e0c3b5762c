"""Reads an event log with python-evtx, checks its checksums, and prints its records as JSON."""

import argparse
import json
import xml.etree.ElementTree as ET

from Evtx.Evtx import Evtx

NAMESPACE = "{http://schemas.microsoft.com/win/2004/08/events/event}"


def fields(event):
    """Names and texts of the payload's elements, in order; struct members are prefixed with their struct."""
    data = event.find(NAMESPACE + "EventData")
    if data is None:
        data = event.find(NAMESPACE + "UserData")
    if data is None:
        return []
    named = (element for element in data.iter() if element.tag == NAMESPACE + "Data")
    return [[element.get("Name"), element.text or ""] for element in named]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="event log to read")
    file = parser.parse_args().file
    with Evtx(file) as log:
        header = log.get_file_header()
        chunks = list(header.chunks())
        valid = header.verify() and all(chunk.verify() for chunk in chunks)
        records = []
        for record in log.records():
            event = ET.fromstring(record.xml())
            system = event.find(NAMESPACE + "System")
            records.append({
                "number": record.record_num(),
                "provider": system.find(NAMESPACE + "Provider").get("Guid"),
                "id": int(system.find(NAMESPACE + "EventID").text),
                "fields": fields(event),
            })
    print(json.dumps({"valid": valid, "chunks": len(chunks), "records": records}))


main()
