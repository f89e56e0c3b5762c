// Numbers as text.

export type Kind = "count" | "duration" | "bytes" | "time" | "percent" | "number" | "id" | "text";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en-US", { maximumFractionDigits: 3 });

/** A number with at least three significant digits. */
function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

/** Nanoseconds. */
export function duration(ns: number): string {
  const size = Math.abs(ns);
  if (size === 0) return "0";
  if (size < 1e3) return `${fine.format(ns)} ns`;
  if (size < 1e6) return `${digits(ns / 1e3)} µs`;
  if (size < 1e9) return `${digits(ns / 1e6)} ms`;
  return `${digits(ns / 1e9)} s`;
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let size = value;
  while (Math.abs(size) >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${whole.format(size)} B` : `${digits(size)} ${units[unit]}`;
}

/** A time in units of 100 ns since the start of the trace, in seconds. */
export function time(ticks: number): string {
  return (ticks / 1e7).toFixed(6);
}

/** A number of a kind as it is shown in a cell. */
export function show(value: unknown, kind: Kind): string {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  switch (kind) {
    case "duration":
      return duration(value);
    case "bytes":
      return bytes(value);
    case "time":
      return time(value);
    case "percent":
      return value.toFixed(2);
    case "id":
      return String(value);
    default:
      return Number.isInteger(value) ? whole.format(value) : fine.format(value);
  }
}

/** A number of a kind with all its digits, for the text that appears on hover. */
export function exact(value: unknown, kind: Kind): string {
  if (typeof value !== "number") return value === null || value === undefined ? "" : String(value);
  switch (kind) {
    case "duration":
      return `${fine.format(value)} ns`;
    case "bytes":
      return `${whole.format(value)} bytes`;
    case "time":
      return `${(value / 1e7).toFixed(7)} s after the start of the trace`;
    case "percent":
      return `${value} %`;
    default:
      return fine.format(value);
  }
}
