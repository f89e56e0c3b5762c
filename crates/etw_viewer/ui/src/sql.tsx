// SQL: the statement that gives what the table shows, which may be changed and run.

import { useEffect, useRef, useState } from "preact/hooks";
import { arrow, type Batch, json } from "./api";
import { Chart, type ChartColumn } from "./chart";
import { exact, show } from "./format";
import { copy, say } from "./menu";
import { catalog, request, state, update } from "./state";
import { Virtual } from "./virtual";

/** What an answer says of itself. */
interface Info {
  names: string[];
  kinds: ChartColumn["kind"][];
  /** Whether only the first rows are there. */
  is_cut: boolean;
  messages: string;
}

interface Answer {
  columns: ChartColumn[];
  rows: number;
  isCut: boolean;
  messages: string;
  seconds: number;
}

function answer({ info, rows, columns }: Batch<Info>, seconds: number): Answer {
  const found = info.names.map((name, at) => ({ name, kind: info.kinds[at] ?? "text", values: columns.get(String(at)) ?? [] }));
  return { columns: found, rows, isCut: info.is_cut, messages: info.messages, seconds };
}

/** A value as text. */
function text(column: ChartColumn, row: number): string {
  const value = column.values[row];
  if (value !== null && typeof value === "object") return JSON.stringify(value, (_, part) => (typeof part === "bigint" ? String(part) : part));
  return column.kind === "number" ? show(value, "number") : String(value ?? "");
}

function csv({ columns, rows }: Answer): string {
  const quoted = (value: string) => (/[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const line = (cells: string[]) => cells.map(quoted).join(",");
  const plain = (column: ChartColumn, row: number) => (column.kind === "number" ? String(column.values[row] ?? "") : text(column, row));
  const lines = Array.from({ length: rows }, (_, row) => line(columns.map((column) => plain(column, row))));
  return `${[line(columns.map((column) => column.name)), ...lines].join("\n")}\n`;
}

export function Sql() {
  const [ofTable, setOfTable] = useState("");
  const [found, setFound] = useState<Answer | null>(null);
  const [error, setError] = useState("");
  const [isChart, setIsChart] = useState(false);
  const [cursor, setCursor] = useState(0);
  const [runs, setRuns] = useState<AbortController | null>(null);
  const editor = useRef<HTMLTextAreaElement>(null);
  const view = request.value;
  const statement = state.value.sql || ofTable;
  useEffect(() => {
    const stop = new AbortController();
    json<{ sql: string }>("/api/sql", view, stop.signal).then(
      ({ sql }) => setOfTable(sql),
      (problem: Error) => {
        if (!stop.signal.aborted) setOfTable(`-- ${problem.message}\n`);
      },
    );
    return () => stop.abort();
  }, [JSON.stringify(view)]);
  useEffect(() => () => runs?.abort(), [runs]);
  const run = async () => {
    const stop = new AbortController();
    setRuns(stop);
    setError("");
    const start = performance.now();
    try {
      const batch = await arrow<Info>("/api/query", { sql: statement }, stop.signal);
      setFound(answer(batch, (performance.now() - start) / 1000));
      setCursor(0);
    } catch (problem) {
      if (!stop.signal.aborted) setError((problem as Error).message);
    }
    setRuns((now) => (now === stop ? null : now));
  };
  const insert = (name: string) => {
    const area = editor.current;
    if (!area) return;
    const words = /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
    area.setRangeText(words, area.selectionStart, area.selectionEnd, "end");
    update({ sql: area.value });
    area.focus();
  };
  return (
    <div class="sql">
      <section class="statement" aria-label="Statement">
        <div class="tools">
          <button class="run" disabled={runs !== null} title="Run the statement (Ctrl+Enter)" onClick={() => void run()}>
            Run
          </button>
          <button disabled={runs === null} title="End the statement that runs" onClick={() => runs?.abort()}>
            Cancel
          </button>
          <button disabled={!state.value.sql || state.value.sql === ofTable} title="The statement that gives what the table shows" onClick={() => update({ sql: "" })}>
            Of the table
          </button>
          <button onClick={() => void copy(statement, "the SQL")}>Copy</button>
        </div>
        <textarea
          ref={editor}
          aria-label="SQL"
          spellcheck={false}
          value={statement}
          onInput={(event) => update({ sql: event.currentTarget.value })}
          onKeyDown={(event) => {
            event.stopPropagation();
            if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
            event.preventDefault();
            if (runs === null) void run();
          }}
        />
        <div class="tools">
          <span class="quiet" aria-live="polite">
            {runs ? "running …" : found ? `${found.isCut ? "the first " : ""}${found.rows.toLocaleString("en-US")} rows, ${found.seconds.toFixed(2)} s` : ""}
          </span>
          <span class="space" />
          <span class="tabs" role="group" aria-label="Answer">
            <button aria-pressed={!isChart} onClick={() => setIsChart(false)}>
              Rows
            </button>
            <button aria-pressed={isChart} onClick={() => setIsChart(true)}>
              Chart
            </button>
          </span>
          <button disabled={!found} title="Copy the rows as CSV" onClick={() => found && void copy(csv(found), "the rows").then(() => say("Copied the rows as CSV."))}>
            Copy rows
          </button>
        </div>
        {error && (
          <pre class="problem" role="alert">
            {error}
          </pre>
        )}
        {found?.messages && <pre class="quiet">{found.messages}</pre>}
        {found && (isChart ? <Chart columns={found.columns} rows={found.rows} /> : <Rows found={found} cursor={cursor} setCursor={setCursor} />)}
      </section>
      <aside class="schema" aria-label="Tables">
        <h2>Tables</h2>
        {catalog.value?.tables.map((table) => (
          <details key={table.name} open={table.name === state.value.table}>
            <summary title={table.summary}>
              <button title={`Insert ${table.name}`} onClick={() => insert(table.name)}>
                {table.name}
              </button>{" "}
              <span class="quiet">{table.rows.toLocaleString("en-US")}</span>
            </summary>
            <ul>
              {table.all
                .filter((column) => !column.name.includes("."))
                .map((column) => (
                  <li key={column.name} title={column.summary}>
                    <button onClick={() => insert(column.name)}>{column.name}</button> <span class="quiet">{column.summary}</span>
                  </li>
                ))}
            </ul>
          </details>
        ))}
      </aside>
    </div>
  );
}

function Rows({ found, cursor, setCursor }: { found: Answer; cursor: number; setCursor: (row: number) => void }) {
  const last = found.rows - 1;
  return (
    <Virtual
      label={`Answer: ${found.rows} rows`}
      columns={found.columns.map((column) => ({ title: column.name, summary: column.name, className: column.kind === "number" ? "right" : "" }))}
      count={found.rows}
      version={found}
      cursor={cursor}
      load={async (from, to) => Array.from({ length: to - from }, (_, at) => found.columns.map((column) => text(column, from + at)))}
      about={(row, at) => {
        const column = found.columns[at];
        return { title: column ? (column.kind === "number" ? exact(column.values[row], "number") : text(column, row)) : "" };
      }}
      onCell={(cell) => setCursor(cell.row)}
      onMenu={(cell) => {
        const column = found.columns[cell.column];
        if (column) void copy(text(column, cell.row), "the cell").then(() => say("Copied the cell."));
      }}
      onHeading={() => undefined}
      onKey={(event) => {
        const step: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -found.rows, End: found.rows };
        if (!(event.key in step)) return;
        setCursor(Math.max(0, Math.min(last, cursor + (step[event.key] ?? 0))));
        event.preventDefault();
        event.stopPropagation();
      }}
    />
  );
}
