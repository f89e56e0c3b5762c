// The source lines of a function, with what each weighs.

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { json } from "./api";
import { show } from "./format";
import { request } from "./state";

/** The function whose lines are shown. */
export const sourceOf = signal("");

interface Found {
  file: string;
  line: number;
  problem: string | null;
  lines: { number: number; text: string; rows: number; weight: number }[];
}

export function Source() {
  const name = sourceOf.value;
  const [found, setFound] = useState<Found | null>(null);
  const [error, setError] = useState("");
  const close = useRef<HTMLButtonElement>(null);
  const { table, from, to, filters } = request.value;
  useEffect(() => {
    setFound(null);
    setError("");
    if (!name) return;
    close.current?.focus();
    const stop = new AbortController();
    json<Found>("/api/source", { table, from, to, filters, function: name }, stop.signal).then(setFound, (problem: Error) => {
      if (!stop.signal.aborted) setError(problem.message);
    });
    return () => stop.abort();
  }, [name]);
  useEffect(() => {
    document.querySelector(".source tr.hot")?.scrollIntoView({ block: "center" });
  }, [found]);
  if (!name) return null;
  const hasWeights = found?.lines.some((line) => line.rows > 0);
  return (
    <div class="panel source" role="dialog" aria-label={`Source of ${name}`} onKeyDown={(event) => event.key === "Escape" && (sourceOf.value = "")}>
      <header>
        <h2 title={name}>{found ? `${found.file}:${found.line}` : name}</h2>
        <button ref={close} aria-label="Close" onClick={() => (sourceOf.value = "")}>
          ×
        </button>
      </header>
      <div class="scroll">
        {(error || found?.problem) && (
          <p class="message" role="alert">
            {error || found?.problem}
          </p>
        )}
        <table>
          <tbody>
            {found?.lines.map((line) => (
              <tr key={line.number} class={line.number === found.line ? "hot" : ""}>
                {hasWeights && (
                  <td class="right" title="Samples of the line itself">
                    {line.rows > 0 && (line.weight > 0 ? show(line.weight, "duration") : line.rows.toLocaleString("en-US"))}
                  </td>
                )}
                <td class="right">{line.number}</td>
                <td>{line.text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}
