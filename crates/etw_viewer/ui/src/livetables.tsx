// What the events of a live session tell of the machine: processes as a tree, threads, images, files, connections, disks.

import { useEffect, useRef, useState } from "preact/hooks";
import { json, type LiveTable, type LiveTables } from "./api";
import { copy, type MenuItem, openMenu } from "./menu";
import { type Rule, state, update } from "./state";
import { Virtual } from "./virtual";

export const VIEWS: [string, string, string][] = [
  ["", "Events", "Events as they come."],
  ["processes", "Processes", "Processes, each below the one that started it, with what they did in the last second."],
  ["threads", "Threads", "Threads with their processor time."],
  ["images", "Images", "Programs and libraries of processes."],
  ["files", "Files", "Files that were read, written or used otherwise."],
  ["network", "Network", "Pairs of endpoints with what was sent and received."],
  ["machine", "Disks, CPUs", "Disks and processors."],
];

/** The tables of a view. */
export function Tables({ view, isPaused, filter }: { view: string; isPaused: boolean; filter: (rule: Rule) => void }) {
  const [found, setFound] = useState<LiveTables | null>(null);
  const [error, setError] = useState("");
  const [sort, setSort] = useState<{ column: number; descending: boolean } | null>(null);
  const [text, setText] = useState("");
  useEffect(() => {
    setFound(null);
    setSort(null);
  }, [view]);
  useEffect(() => {
    let isOver = false;
    const stop = new AbortController();
    const poll = async () => {
      while (!isOver) {
        try {
          const question = { view, text, sort: sort?.column ?? null, descending: sort?.descending ?? false };
          const tables = await json<LiveTables>("/api/live/tables", question, stop.signal);
          if (!isOver) setFound(tables);
          setError("");
        } catch (problem) {
          if (!isOver) setError((problem as Error).message);
        }
        if (isPaused) return;
        await new Promise((done) => setTimeout(done, 1000));
      }
    };
    void poll();
    return () => {
      isOver = true;
      stop.abort();
    };
  }, [view, text, sort, isPaused]);
  const rows = found?.tables.reduce((sum, table) => sum + table.count, 0) ?? 0;
  return (
    <div class="livetables">
      <div class="tools">
        <input type="search" placeholder="rows with this text" aria-label="Text of rows" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        {view === "processes" && (
          <button aria-pressed={sort === null} title="Each process below the one that started it" onClick={() => setSort(null)}>
            Tree
          </button>
        )}
        <span class="quiet">
          {rows.toLocaleString("en-US")} rows
          {found && found.tables.some((table) => table.forgotten > 0) && `, ${found.tables.reduce((sum, table) => sum + table.forgotten, 0).toLocaleString("en-US")} older ones dropped`}
          {found?.note && `; ${found.note}`}
        </span>
      </div>
      {error && (
        <div class="message" role="alert">
          {error}
        </div>
      )}
      {found?.tables.map((table, at) => (
        <One key={`${view} ${at}`} table={table} hasTree={view === "processes" && sort === null} setSort={setSort} filter={filter} />
      ))}
    </div>
  );
}

function One({
  table,
  hasTree,
  setSort,
  filter,
}: {
  table: LiveTable;
  hasTree: boolean;
  setSort: (sort: { column: number; descending: boolean }) => void;
  filter: (rule: Rule) => void;
}) {
  const [cursor, setCursor] = useState(0);
  const latest = useRef(table);
  latest.current = table;
  // Without rows nothing says which columns are numbers.
  const isNumber = (column: number) => table.is_number[column] ?? false;
  /** The column that shows the tree: the names. */
  const tree = hasTree ? table.columns.findIndex((column) => column.name === "Process") : -1;
  const menu = (row: number, column: number, x: number, y: number) => {
    const cells = latest.current.rows[row]?.cells ?? [];
    const of = (name: string) => cells[latest.current.columns.findIndex((column) => column.name === name)] ?? "";
    const items: MenuItem[] = [];
    const add = (name: string, value: string) => {
      if (!value) return;
      for (const action of ["include", "exclude"] as const) {
        items.push({
          label: `Events: ${action} ${name} ${value.slice(0, 60)}`,
          run: () => {
            filter({ column: name, relation: "is", value, action });
            update({ live: "" });
          },
        });
      }
    };
    add("pid", of("PID"));
    add("tid", of("TID"));
    add("path", of("Path"));
    items.push({ label: "Copy the cell", run: () => void copy(cells[column] ?? "", "the cell") });
    items.push({ label: "Copy the line", run: () => void copy(cells.join("\t"), "the line") });
    openMenu(x, y, items);
  };
  const move = (to: number) => setCursor(Math.max(0, Math.min(table.rows.length - 1, to)));
  return (
    <Virtual
      label={`Rows: ${table.count}`}
      columns={table.columns.map(({ name, summary }, column) => ({
        title: `${name === "" ? "Protocol" : name}${table.sorted?.[0] === column ? (table.sorted[1] ? " ▾" : " ▴") : ""}`,
        summary: `${summary}\nClick to sort.`,
        className: isNumber(column) ? "right" : name === "Path" ? "left wide" : "left key",
      }))}
      count={table.rows.length}
      version={table}
      cursor={cursor}
      load={async (from, to) => latest.current.rows.slice(from, to).map((row) => row.cells)}
      about={(row, column) => {
        const shown = latest.current.rows[row];
        const title = `${shown?.cells[column] ?? ""}\n${latest.current.columns[column]?.summary ?? ""}`;
        return column === tree ? { title, toggle: "none", depth: shown?.depth ?? 0 } : { title };
      }}
      onCell={(cell) => setCursor(cell.row)}
      onMenu={(cell, x, y) => menu(cell.row, cell.column, x, y)}
      onHeading={(column) => setSort({ column, descending: table.sorted?.[0] === column ? !table.sorted[1] : isNumber(column) })}
      onKey={(event) => {
        const step: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -table.rows.length, End: table.rows.length };
        if (event.key in step) move(cursor + (step[event.key] ?? 0));
        else if (event.key === "ContextMenu" || (event.shiftKey && event.key === "F10")) menu(cursor, 0, 300, 300);
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
    />
  );
}

/** The view that is shown; one that there is not is that of the events. */
export function viewOf(): string {
  return VIEWS.some(([name]) => name === state.value.live) ? state.value.live : "";
}
