// The lines of the timeline: headings of groups, lanes, and what shows more of them.

import { signal } from "@preact/signals";
import type { LaneGroup } from "./api";

export const LANE = 22;
/** Height of a lane that shows two traces. */
export const PAIR = 34;
export const HEAD = 22;
export const FEW = 6;
/** Groups of which all lanes are shown. */
export const whole = signal<ReadonlySet<string>>(new Set());

export interface Line {
  y: number;
  height: number;
  group: LaneGroup;
  /** Number of the lane; -1 for the heading of the group, -2 for the line that shows more lanes. */
  lane: number;
}

/** The lines of the timeline from top to bottom. */
export function layout(groups: LaneGroup[], closed: string[], all: ReadonlySet<string>, tall: number): { lines: Line[]; height: number } {
  const lines: Line[] = [];
  let y = 0;
  const add = (height: number, group: LaneGroup, lane: number) => {
    lines.push({ y, height, group, lane });
    y += height;
  };
  for (const group of groups) {
    add(HEAD, group, -1);
    if (closed.includes(group.name)) continue;
    const shown = all.has(group.name) ? group.lanes.length : Math.min(group.lanes.length, FEW);
    for (let lane = 0; lane < shown; lane += 1) add(tall, group, lane);
    if (group.lanes.length > FEW) add(18, group, -2);
  }
  return { lines, height: y };
}
