// The first picture of a trace whose tables are not complete: how much each processor logged over time, from the headers
// of buffers.

import { useEffect, useRef, useState } from "preact/hooks";
import { json } from "./api";
import { bytes } from "./format";

interface Preview {
  /** Length of the trace in units of 100 ns. */
  length: number;
  lanes: { label: string; bytes: number[] }[];
  losses: [number, number][];
  is_complete: boolean;
}

const LANE = 26;
const LABEL = 60;
const RULER = 18;

function draw(canvas: HTMLCanvasElement, { length, lanes, losses }: Preview): void {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = lanes.length * LANE + RULER;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  if (!context) return;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const style = getComputedStyle(document.documentElement);
  const ink = (name: string) => style.getPropertyValue(name).trim();
  const room = width - LABEL;
  const x = (time: number) => LABEL + (time / length) * room;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.fillStyle = ink("--quiet");
  for (let part = 0; part <= 4; part += 1) {
    const text = `${((length * part) / 4 / 1e7).toPrecision(4)} s`;
    const wide = context.measureText(text).width;
    context.fillText(text, Math.min(x((length * part) / 4) + 2, width - wide - 2), RULER / 2);
  }
  const most = Math.max(1, ...lanes.flatMap((lane) => lane.bytes));
  lanes.forEach((lane, at) => {
    const base = RULER + (at + 1) * LANE - 3;
    context.fillStyle = ink("--quiet");
    context.fillText(lane.label, 6, base - LANE / 2 + 3);
    context.fillStyle = "#0072b2";
    lane.bytes.forEach((count, bucket) => {
      if (count <= 0) return;
      const tall = Math.max(1, (count / most) * (LANE - 6));
      context.fillRect(LABEL + (bucket / lane.bytes.length) * room, base - tall, Math.max(1, room / lane.bytes.length), tall);
    });
  });
  context.fillStyle = ink("--loss-thin");
  for (const [from, to] of losses) context.fillRect(x(from), 0, Math.max(1.5, x(to) - x(from)), height);
}

export function FirstPicture() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [now, setNow] = useState<Preview | null>(null);
  useEffect(() => {
    let isOver = false;
    const follow = async () => {
      while (!isOver) {
        const found = await json<Preview>("/api/preview");
        if (found.lanes.length > 0) setNow(found);
        if (found.is_complete) return;
        await new Promise((done) => setTimeout(done, 100));
      }
    };
    // The page says when the server has ended.
    follow().catch(() => undefined);
    return () => {
      isOver = true;
    };
  }, []);
  useEffect(() => {
    if (!now || !canvas.current) return;
    draw(canvas.current, now);
    (window as unknown as { etwPicture?: number }).etwPicture ??= performance.now();
  }, [now]);
  if (!now) return null;
  const all = now.lanes.reduce((sum, lane) => sum + lane.bytes.reduce((a, b) => a + b, 0), 0);
  return (
    <>
      <p class="quiet" title="From the headers of the trace's buffers; red where events were lost">
        Bytes of events by processor over time{now.is_complete ? "" : ", so far"}: {bytes(all)}
      </p>
      <canvas class="preview" ref={canvas} role="img" aria-label={`Bytes of events of ${now.lanes.length} processors over ${(now.length / 1e7).toFixed(1)} seconds`} />
    </>
  );
}
