// The script of reports with flame graphs. Each graph has its data in the script element that `data-of` names: names, and
// for each call, in preorder, its depth, the number of its name and its weight; of comparisons the weights before and after.

import { type Calls, Flame, percent } from "./flame";

interface Data {
  unit: "time" | "bytes" | "count";
  totals: number[];
  /** Seconds in which the weights came. */
  seconds: number[];
  names: string[];
  name: number[];
  depth: number[];
  weights: number[][];
}

/** A weight as the tables of the report show it. */
function text(value: number, unit: Data["unit"]): string {
  const scaled = (steps: [number, string][], least: number) => {
    const [size, name] = steps.findLast(([size], at) => at === 0 || value >= size) ?? [1, ""];
    return (value / size).toFixed(size === least ? 0 : 2) + name;
  };
  if (unit === "time") return scaled([[10, " µs"], [1e4, " ms"], [1e7, " s"]], 0);
  if (unit === "bytes") return scaled([[1, " bytes"], [1024, " KiB"], [2 ** 20, " MiB"], [2 ** 30, " GiB"]], 1);
  return Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(2);
}

function callsOf(data: Data): Calls {
  const names = ["all", ...data.name.map((name) => data.names[name] ?? "")];
  const weights = data.weights.map((weights, side) => [data.totals[side] ?? 0, ...weights]);
  const weight = (call: number, side: number) => weights[side]?.[call] ?? 0;
  const rate = (call: number, side: number) => weight(call, side) / (data.seconds[side] || 1);
  const share = (call: number, side: number) => percent(weight(call, side), data.totals[side] ?? 0);
  const label = (call: number): string => {
    if (weights.length < 2) return `${names[call]}: ${text(weight(call, 0), data.unit)}, ${share(call, 0)}`;
    const [before, after] = [rate(call, 0), rate(call, 1)];
    const change = after - before;
    const sign = change > 0 ? "+" : change < 0 ? "−" : "";
    const relative = before > 0 ? ` (${sign}${percent(Math.abs(change), before)})` : change > 0 ? " (new)" : "";
    return (
      `${names[call]}: before ${text(before, data.unit)}/s, ${share(call, 0)}; after ${text(after, data.unit)}/s, ` +
      `${share(call, 1)}; change ${sign}${text(Math.abs(change), data.unit)}/s${relative}`
    );
  };
  return { names, depths: [0, ...data.depth.map((depth) => depth + 1)], weights, scales: data.seconds, label };
}

for (const host of document.querySelectorAll<HTMLElement>(".flame-graph")) {
  const data = document.getElementById(host.dataset["of"] ?? "")?.textContent;
  if (data) new Flame(host, callsOf(JSON.parse(data)), { title: host.dataset["title"] ?? "" });
}
