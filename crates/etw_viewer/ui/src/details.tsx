// One event: its fields, header, bytes and stack.

import { useEffect, useState } from "preact/hooks";
import { type EventDetails, json } from "./api";
import { copy } from "./menu";
import { state, update } from "./state";

export function Details() {
  const row = state.value.table === "events" ? state.value.event : null;
  const [found, setFound] = useState<EventDetails | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    if (row === null) return;
    const stop = new AbortController();
    json<EventDetails>(`/api/event/${row}`, undefined, stop.signal).then(
      (details) => {
        setFound(details);
        setError("");
      },
      (problem: Error) => {
        if (!stop.signal.aborted) setError(problem.message);
      },
    );
    return () => stop.abort();
  }, [row]);
  if (row === null) return null;
  return (
    <aside class="panel details" aria-label="Details of the event">
      <header>
        <h2>Event {row.toLocaleString("en-US")}</h2>
        <button title="Copy as JSON" onClick={() => found && void copy(JSON.stringify(found.event, null, 2), "the event as JSON")}>
          Copy
        </button>
        <button aria-label="Close" onClick={() => update({ event: null })}>
          ×
        </button>
      </header>
      <div class="scroll">
        {error && <div class="message">{error}</div>}
        {found && !error && <Found details={found} />}
      </div>
    </aside>
  );
}

function Found({ details }: { details: EventDetails }) {
  const sections = Object.entries(details.event).filter(([, value]) => typeof value === "object" && value !== null && !Array.isArray(value));
  const rest = Object.entries(details.event).filter(([, value]) => typeof value !== "object" || value === null || Array.isArray(value));
  const titles: Record<string, string> = { EventData: "Fields", UserData: "Fields", System: "Header" };
  return (
    <>
      {sections.map(([name, value]) => (
        <section key={name}>
          <h3>{titles[name] ?? name}</h3>
          <Fields value={value as Record<string, unknown>} />
        </section>
      ))}
      {rest.length > 0 && <Fields value={Object.fromEntries(rest)} />}
      {details.stack.length > 0 && (
        <section>
          <h3>Stack</h3>
          <ol class="frames">
            {details.stack.map((frame, at) => (
              <li key={at} title={frame.address}>
                {frame.function ?? frame.address}
              </li>
            ))}
          </ol>
        </section>
      )}
      <section>
        <h3>
          Bytes <span class="quiet">{details.size}, of which the payload from {details.payload}</span>
        </h3>
        <Hex hex={details.hex} payload={details.payload} />
      </section>
    </>
  );
}

function Fields({ value }: { value: Record<string, unknown> }) {
  const text = (one: unknown): string => {
    if (typeof one === "string") return one;
    if (one === null || typeof one !== "object" || Array.isArray(one)) return JSON.stringify(one);
    return Object.entries(one)
      .map(([name, inner]) => `${name} ${text(inner)}`)
      .join(", ");
  };
  return (
    <table class="fields">
      <tbody>
        {Object.entries(value).map(([name, one]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td title={text(one).slice(0, 2000)}>{text(one).slice(0, 4000)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Hex({ hex, payload }: { hex: string; payload: number }) {
  const lines: string[] = [];
  const count = hex.length / 2;
  const bytes = Array.from({ length: Math.min(count, 4096) }, (_, at) => Number.parseInt(hex.slice(at * 2, at * 2 + 2), 16));
  for (let at = 0; at < bytes.length; at += 16) {
    const part = bytes.slice(at, at + 16);
    const numbers = part.map((byte, place) => `${at + place === payload ? "|" : " "}${byte.toString(16).padStart(2, "0")}`).join("");
    const letters = part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(4, "0")} ${numbers.padEnd(48)}  ${letters}`);
  }
  if (count > bytes.length) lines.push(`… ${count - bytes.length} more`);
  return <pre class="hex">{lines.join("\n")}</pre>;
}
