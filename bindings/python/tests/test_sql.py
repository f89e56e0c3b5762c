"""SQL over traces, which needs the program ``etw-sql`` (``OPENETW_SQL`` names it)."""

import os
import pathlib
import shutil

import pytest

import openetw


@pytest.fixture
def program():
    found = os.environ.get("OPENETW_SQL") or shutil.which("etw-sql")
    if not found or not os.path.exists(found):
        pytest.skip("no program etw-sql (OPENETW_SQL names it)")
    return found


def test_answers_are_those_of_tables(net, program):
    statement = "select process, count(*) as n from processes group by process order by n desc, process"
    answer = openetw.sql(statement, net, program=program).to_pandas()
    table = openetw.open(net).table("processes").to_pandas()
    expected = table.groupby("process", observed=True).size()
    assert dict(zip(answer["process"], answer["n"])) == expected.to_dict()


def test_an_empty_answer_has_its_columns(net, program):
    answer = openetw.sql("select time, process_id from events where false", net, program=program)
    assert answer.column_names == ["time", "process_id"]
    assert len(answer) == 0


def test_errors_show_the_place(net, program):
    with pytest.raises(openetw.SqlError, match="nothing") as caught:
        openetw.sql("select nothing from events", net, program=program)
    assert caught.value.code == 87


def test_a_missing_program_is_an_error(net):
    with pytest.raises(openetw.SqlError, match="cannot run"):
        openetw.sql("select 1", net, program=pathlib.Path("/nowhere/etw-sql"))
