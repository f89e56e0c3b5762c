// The golden bar: columns left of it group, those right of it count; and the editor that chooses them.

import { signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { ColumnInfo } from "./api";
import { state, table, update } from "./state";

export const editing = signal(false);

const WORDS: [string, string][] = [
  ["sum", "Sum"],
  ["mean", "Avg"],
  ["min", "Min"],
  ["max", "Max"],
  ["p50", "Median"],
  ["p95", "95 %"],
  ["p99", "99 %"],
  ["unique", "Unique"],
];

function info(name: string): ColumnInfo | undefined {
  return table.value?.all.find((column) => column.name === name);
}

/** The parts of `percent(sum(weight))`. */
function parts(value: string): { kind: string; column: string; percent: boolean } {
  const inner = /^percent\((.*)\)$/.exec(value)?.[1];
  const text = inner ?? value;
  const found = /^(\w+)\((.*)\)$/.exec(text);
  return { kind: found?.[1] ?? text, column: found?.[2] ?? "", percent: inner !== undefined };
}

function title(value: string): string {
  const { kind, column, percent } = parts(value);
  if (kind === "rows") return percent ? "% Rows" : "Count";
  const name = info(column)?.title ?? column;
  const word = WORDS.find(([word]) => word === kind)?.[1] ?? kind;
  return percent ? `% ${name}` : `${name} (${word})`;
}

type Side = "keys" | "values" | "columns";

/** Moves a column within a list, or to the place of another one. */
function move(list: string[], name: string, before: number): string[] {
  const from = list.indexOf(name);
  const rest = list.filter((other) => other !== name);
  const to = from >= 0 && from < before ? before - 1 : before;
  return [...rest.slice(0, to), name, ...rest.slice(to)];
}

function place(side: Side, name: string, before: number): void {
  const now = state.value;
  const other: Partial<typeof now> = { open: [] };
  if (side === "keys") {
    const column = name.includes("(") || name === "rows" ? parts(name).column : name;
    if (!column) return;
    update({ ...other, keys: move(now.keys, column, before), flat: false });
  } else if (side === "values") {
    const column = info(name);
    const value = name.includes("(") || name === "rows" ? name : `${column?.is_number ? "sum" : "unique"}(${name})`;
    update({ ...other, values: move(now.values, value, before), keys: now.keys.filter((key) => key !== name), flat: false });
  } else {
    update({ columns: move(now.columns, name, before) });
  }
}

function remove(side: Side, name: string): void {
  const now = state.value;
  update({ [side]: now[side].filter((other) => other !== name), ...(side === "keys" ? { open: [] } : {}) });
}

function Chip(props: { side: Side; name: string; at: number }) {
  const { side, name, at } = props;
  const text = side === "values" ? title(name) : (info(name)?.title ?? name);
  const about = side === "values" ? info(parts(name).column)?.summary : info(name)?.summary;
  const count = state.value[side].length;
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Delete" || event.key === "Backspace") remove(side, name);
    else if (event.key === "ArrowLeft" && at > 0) place(side, name, at - 1);
    else if (event.key === "ArrowRight" && at + 1 < count) place(side, name, at + 2);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <span
      class={`chip ${side}`}
      draggable
      tabIndex={0}
      role="listitem"
      title={`${text}. ${about ?? ""}\nDrag it, or press ← and → to move it; Delete removes it.`}
      onKeyDown={keys}
      onDragStart={(event) => event.dataTransfer?.setData("text/plain", name)}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        event.stopPropagation();
        const dropped = event.dataTransfer?.getData("text/plain");
        if (dropped) place(side, dropped, at);
      }}
    >
      {text}
      <button class="close" aria-label={`Remove ${text}`} onClick={() => remove(side, name)}>
        ×
      </button>
    </span>
  );
}

function Zone(props: { side: Side; label: string; title: string }) {
  const { side } = props;
  return (
    <div
      class={`zone ${side}`}
      role="list"
      aria-label={props.label}
      title={state.value[side].length === 0 ? props.title : undefined}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        const dropped = event.dataTransfer?.getData("text/plain");
        if (dropped) place(side, dropped, state.value[side].length);
      }}
    >
      {state.value[side].map((name, at) => (
        <Chip key={name} side={side} name={name} at={at} />
      ))}
      <Add side={side} />
    </div>
  );
}

/** The list of columns that can be added. */
function Add(props: { side: Side }) {
  const { side } = props;
  const choice = useRef<HTMLSelectElement>(null);
  const used = new Set<string>(state.value[side]);
  const columns = table.value?.all ?? [];
  const options: [string, string][] = [];
  if (side === "values") {
    for (const [name, text] of [["rows", "Count"], ["percent(rows)", "% Rows"]] as const) options.push([name, text]);
    for (const column of columns) {
      if (column.is_number && column.kind !== "id") {
        for (const [word] of WORDS) options.push([`${word}(${column.name})`, title(`${word}(${column.name})`)]);
        options.push([`percent(sum(${column.name}))`, `% ${column.title}`]);
      } else if (column.kind === "time") {
        for (const word of ["min", "max"]) options.push([`${word}(${column.name})`, title(`${word}(${column.name})`)]);
      } else if (!column.name.includes(".")) {
        options.push([`unique(${column.name})`, title(`unique(${column.name})`)]);
      }
    }
  } else {
    for (const column of columns) options.push([column.name, column.title]);
  }
  return (
    <select
      class="add"
      ref={choice}
      aria-label={`Add a column: ${side === "keys" ? "group by" : side === "values" ? "count" : "show"}`}
      title="Add a column"
      value=""
      onChange={(event) => {
        const name = event.currentTarget.value;
        if (name) place(side, name, state.value[side].length);
        event.currentTarget.value = "";
      }}
    >
      <option value="">+</option>
      {options
        .filter(([name]) => !used.has(name))
        .map(([name, text]) => (
          <option key={name} value={name}>
            {text}
          </option>
        ))}
    </select>
  );
}

export function GoldenBar() {
  if (state.value.flat || state.value.keys.length + state.value.values.length === 0) {
    return (
      <div class="goldbar">
        <Zone side="columns" label="Columns" title="Columns of single rows" />
      </div>
    );
  }
  return (
    <div class="goldbar">
      <Zone side="keys" label="Columns that group rows" title="Drop a column here to group by it" />
      <div class="gold" title="The golden bar: columns left of it group rows, columns right of it count." />
      <Zone side="values" label="Columns that count" title="Drop a column here to count it" />
    </div>
  );
}

/** All columns with what they mean. */
export function Editor() {
  const info = table.value;
  if (!editing.value || !info) return null;
  const { keys, values, columns, flat } = state.value;
  return (
    <div class="panel editor" role="dialog" aria-label="Column editor">
      <header>
        <h2>Columns of {info.title}</h2>
        <button aria-label="Close" onClick={() => (editing.value = false)}>
          ×
        </button>
      </header>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>Column</th>
              <th title="Left of the golden bar">Group</th>
              <th title="Right of the golden bar">Count</th>
              <th title="In single rows">Show</th>
              <th>Meaning</th>
            </tr>
          </thead>
          <tbody>
            {info.all.map((column) => {
              const value = values.find((value) => parts(value).column === column.name);
              const box = (label: string, on: boolean, change: () => void) => (
                <td>
                  <input type="checkbox" aria-label={`${label} ${column.title}`} checked={on} onChange={change} />
                </td>
              );
              return (
                <tr key={column.name}>
                  <td title={column.name}>{column.title}</td>
                  {box("Group by", keys.includes(column.name), () =>
                    keys.includes(column.name) ? remove("keys", column.name) : place("keys", column.name, keys.length),
                  )}
                  {box("Count", value !== undefined, () =>
                    value !== undefined ? remove("values", value) : place("values", column.name, values.length),
                  )}
                  {box("Show", columns.includes(column.name), () =>
                    columns.includes(column.name)
                      ? remove("columns", column.name)
                      : place("columns", column.name, columns.length),
                  )}
                  <td class="meaning">{column.summary}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <footer>
        <button
          onClick={() => update({ keys: info.keys, values: info.values, columns: info.columns, open: [], sort: null, flat: flat && info.keys.length === 0 })}
        >
          Reset to default
        </button>
      </footer>
    </div>
  );
}
