// A chart of an answer: bars of names, or lines over numbers and times.

import { show } from "./format";
import type { Column } from "./api";

/** Bars at most. */
const BARS = 40;
/** Lines at most, each with a colour of its own. */
const LINES = 4;
const WIDTH = 900;
const HEIGHT = 300;
const LEFT = 70;

export interface ChartColumn {
  name: string;
  kind: "number" | "time" | "text";
  values: Column;
}

function number(column: ChartColumn, row: number): number | null {
  const value = column.values[row];
  if (value === null || value === undefined) return null;
  if (column.kind === "number") return Number(value);
  // Seven digits follow the second; a Date keeps three.
  return Date.parse(String(value)) + Number(`0.${/\.\d{3}(\d*)/.exec(String(value))?.[1] || 0}`);
}

/** The columns that are drawn: what the others are drawn over, and numbers. */
export function drawn(columns: ChartColumn[]): { over: ChartColumn; numbers: ChartColumn[] } | null {
  const over = columns.find((column) => column.kind === "time") ?? columns.find((column) => column.kind === "text") ?? columns[0];
  const numbers = columns.filter((column) => column !== over && column.kind === "number").slice(0, LINES);
  return over && numbers.length > 0 ? { over, numbers } : null;
}

export function Chart({ columns, rows }: { columns: ChartColumn[]; rows: number }) {
  const found = drawn(columns);
  if (!found) return <div class="message">A chart needs two columns, of which one has numbers.</div>;
  return found.over.kind === "text" ? <Bars {...found} rows={rows} /> : <Lines {...found} rows={rows} />;
}

interface Props {
  over: ChartColumn;
  numbers: ChartColumn[];
  rows: number;
}

function Bars({ over, numbers, rows }: Props) {
  const column = numbers[0] as ChartColumn;
  const count = Math.min(rows, BARS);
  const values = Array.from({ length: count }, (_, row) => number(column, row) ?? 0);
  const most = Math.max(...values.map(Math.abs), Number.MIN_VALUE);
  return (
    <div class="chart" role="img" aria-label={`${column.name} by ${over.name}`}>
      <p class="quiet">
        {column.name} by {over.name}
        {rows > count ? `, the first ${count} of ${rows.toLocaleString("en-US")} rows` : ""}
      </p>
      <svg width={WIDTH} height={count * 20} viewBox={`0 0 ${WIDTH} ${count * 20}`}>
        {values.map((value, row) => {
          const name = String(over.values[row] ?? "");
          return (
            <g key={row} transform={`translate(0 ${row * 20})`}>
              <title>{`${name}: ${show(value, "number")}`}</title>
              <text x={295} y={14} text-anchor="end">
                {name.length > 44 ? `…${name.slice(-43)}` : name}
              </text>
              <rect x={300} y={2} width={(Math.abs(value) / most) * 480} height={16} class={value < 0 ? "below" : ""} />
              <text x={306 + (Math.abs(value) / most) * 480} y={14}>
                {show(value, "number")}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function Lines({ over, numbers, rows }: Props) {
  const all = Array.from({ length: rows }, (_, row) => row).filter((row) => number(over, row) !== null);
  const x = new Map(all.map((row) => [row, number(over, row) as number]));
  all.sort((one, other) => (x.get(one) as number) - (x.get(other) as number));
  const values = all.flatMap((row) => numbers.map((column) => number(column, row)).filter((value) => value !== null));
  if (all.length === 0 || values.length === 0) return <div class="message">There are no numbers to draw.</div>;
  const ends = all.flatMap((row) => x.get(row) as number);
  const [from, to] = [ends[0] as number, ends[ends.length - 1] as number];
  const low = values.reduce((least, value) => Math.min(least, value), 0);
  const high = values.reduce((most, value) => Math.max(most, value), low + Number.MIN_VALUE);
  const across = (value: number) => LEFT + ((value - from) / (to - from || 1)) * (WIDTH - LEFT - 10);
  const up = (value: number) => HEIGHT - 24 - ((value - low) / (high - low)) * (HEIGHT - 40);
  const label = (row: number | undefined) => (row === undefined ? "" : over.kind === "time" ? String(over.values[row]).slice(11, 23) : show(x.get(row), "number"));
  return (
    <div class="chart" role="img" aria-label={`${numbers.map((column) => column.name).join(", ")} over ${over.name}`}>
      <p>
        {numbers.map((column, at) => (
          <span key={at} class={`line${at}`}>
            ― {column.name}{" "}
          </span>
        ))}
        <span class="quiet">over {over.name}</span>
      </p>
      <svg width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`}>
        {[low, (low + high) / 2, high].map((value) => (
          <g key={value}>
            <line x1={LEFT} x2={WIDTH - 10} y1={up(value)} y2={up(value)} class="rule" />
            <text x={LEFT - 6} y={up(value) + 4} text-anchor="end">
              {show(value, "number")}
            </text>
          </g>
        ))}
        <text x={LEFT} y={HEIGHT - 6}>
          {label(all[0])}
        </text>
        <text x={WIDTH - 10} y={HEIGHT - 6} text-anchor="end">
          {label(all[all.length - 1])}
        </text>
        {numbers.map((column, at) => (
          <polyline
            key={at}
            class={`line${at}`}
            points={all
              .map((row) => [row, number(column, row)] as const)
              .filter((point): point is readonly [number, number] => point[1] !== null)
              .map(([row, value]) => `${across(x.get(row) as number).toFixed(1)},${up(value).toFixed(1)}`)
              .join(" ")}
          />
        ))}
      </svg>
    </div>
  );
}
