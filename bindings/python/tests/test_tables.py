import pytest

import openetw

pa = pytest.importorskip("pyarrow")


def test_kind_as_arrow(network):
    trace = openetw.open(network)
    kind = max(trace.kinds().items(), key=lambda item: item[1])
    table = trace.table(kind[0])
    assert len(table) == table.num_rows == kind[1] and table.name == kind[0]
    arrow = table.to_arrow()
    assert arrow.num_rows == kind[1] and arrow.column_names == table.column_names
    wanted = [event for event in trace if event.kind == kind[0]]
    assert arrow["PID"].to_pylist() == [event["PID"] for event in wanted]
    assert arrow["time"].cast(pa.int64()).to_pylist() == [event.time_ns for event in wanted]
    # The same memory is read several times.
    assert pa.table(table).equals(arrow) and pa.RecordBatchReader.from_stream(table).read_all().equals(arrow)
    assert pa.schema(table) == arrow.schema


def test_kind_by_id_case_and_filter(network):
    trace = openetw.open(network)
    name, count = max(trace.kinds().items(), key=lambda item: item[1])
    first = next(event for event in trace if event.kind == name)
    assert len(trace.table(name.upper())) == count
    assert len(trace.table(f"{first.provider}/{first.id}")) == count
    some = trace.to_arrow(name, ["time", "PID"], where=f"PID == {first['PID']}")
    assert some.column_names == ["time", "PID"] and set(some["PID"].to_pylist()) == {first["PID"]}
    assert some.num_rows == trace.where(f"PID == {first['PID']}").table(name).num_rows
    nothing = trace.table(name, where="PID == 0xFFFFFFFE")
    assert len(nothing) == 0 and "PID" in nothing.column_names
    with pytest.raises(openetw.ArgumentError):
        trace.table(name, ["Nothing"])


def test_all_kinds_in_one_pass(net):
    trace = openetw.open(net)
    tables = trace.tables()
    assert {name: len(table) for name, table in tables.items()} == trace.kinds()
    for table in tables.values():
        pa.table(table).validate(full=True)


def test_tables_with_rows(net):
    trace = openetw.open(net)
    events = trace.to_arrow("events")
    assert events.num_rows > 100_000
    kinds = set(events["kind"].unique().to_pylist())
    assert any(kind.startswith("Microsoft-Windows-DotNETRuntime") for kind in kinds)
    raw = trace.to_arrow("events", raw=True)
    assert pa.types.is_uint32(raw.schema.field("kind").type) and raw.num_rows == events.num_rows
    sampled = trace.to_arrow("cpu_sampled", ["time", "thread.process.name", "function", "stack", "weight"])
    assert sampled.num_rows > 0
    sampled.validate(full=True)
    process = sampled["thread.process.name"].to_pylist()[0]
    some = trace.to_arrow("cpu_sampled", ["process"], where=f'thread.process.name == "{process}"')
    assert 0 < some.num_rows <= sampled.num_rows
    assert trace.between(0, 1).table("events").num_rows < events.num_rows


def test_pivot(net):
    trace = openetw.open(net)
    rows = trace.pivot("cpu_sampled", ["process"], ["sum(weight)", "unique(function)"]).to_arrow()
    assert rows.column_names == ["process", "rows", "sum(weight)", "unique(function)"]
    sums = [value.value for value in rows["sum(weight)"]]
    assert sums == sorted(sums, reverse=True)
    assert sum(rows["rows"].to_pylist()) == trace.table("cpu_sampled").num_rows
    assert trace.pivot("cpu_sampled", ["process"], top=2).num_rows == 2
    by_name = trace.pivot("cpu_sampled", ["process"], sort="process").to_arrow()["process"].to_pylist()
    assert len(by_name) == rows.num_rows
    assert trace.pivot("events", [], ["count(time)"]).num_rows <= 1
    # Values of some rows are those of all rows that meet the condition.
    large = "sum(size) where size >= 4096"
    of_some = trace.pivot("disk", ["operation"], [large, "rows where size >= 4096"]).to_arrow().to_pylist()
    of_large = trace.pivot("disk", ["operation"], ["sum(size)"], where="size >= 4096").to_arrow().to_pylist()
    sums = {row["operation"]: (row["sum(size)"], row["rows"]) for row in of_large}
    assert sums and {
        row["operation"]: (row[large], row["rows where size >= 4096"]) for row in of_some if row[large]
    } == sums


def test_pandas_and_polars(net):
    trace = openetw.open(net)
    pandas = pytest.importorskip("pandas")
    frame = trace.to_pandas("cpu_sampled", ["time", "process", "weight"])
    assert isinstance(frame, pandas.DataFrame) and len(frame) == trace.table("cpu_sampled").num_rows
    polars = pytest.importorskip("polars")
    other = trace.to_polars("cpu_sampled", ["time", "process", "weight"])
    assert isinstance(other, polars.DataFrame) and other.height == len(frame)
    assert trace.to_polars("PerfInfo/SampleProfile").height == 79528


def test_index_is_made_and_used(net, tmp_path):
    first = openetw.open(net, index=tmp_path).to_arrow("processes")
    assert list(tmp_path.iterdir())
    again = openetw.open(net, index=tmp_path).to_arrow("processes")
    assert again.equals(first) and openetw.open(net, index=False).to_arrow("processes").equals(first)
