// The panel of symbols: what is missing, how many samples it would name, and a button that fetches it.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { json, type SymbolState } from "./api";
import { bytes } from "./format";
import { say } from "./menu";

export const naming = signal(false);

export function SymbolPanel() {
  const [found, setFound] = useState<SymbolState | null>(null);
  const [error, setError] = useState("");
  const [all, setAll] = useState(false);
  const isOpen = naming.value;
  useEffect(() => {
    if (!isOpen) return;
    let isOver = false;
    const follow = async () => {
      try {
        let now = await json<SymbolState>("/api/symbols");
        if (now.samples === null && !now.is_busy) now = await json<SymbolState>("/api/symbols/look", {});
        setError("");
        while (!isOver) {
          setFound(now);
          await new Promise((done) => setTimeout(done, now.is_busy ? 300 : 3000));
          now = await json<SymbolState>("/api/symbols");
        }
      } catch (problem) {
        setError((problem as Error).message);
      }
    };
    void follow();
    return () => {
      isOver = true;
    };
  }, [isOpen]);
  if (!isOpen) return null;
  const fetchAll = async () => {
    try {
      setFound(await json<SymbolState>("/api/symbols/fetch", {}));
      say("Fetching symbols.");
      setError("");
    } catch (problem) {
      setError((problem as Error).message);
    }
  };
  const percent = found && found.samples ? (found.would_name * 100) / found.samples : 0;
  const shown = found?.modules.filter((one) => all || one.is_missing) ?? [];
  return (
    <div class="panel editor symbolpanel" role="dialog" aria-label="Symbols" onKeyDown={(event) => event.key === "Escape" && (naming.value = false)}>
      <header>
        <h2>Symbols</h2>
        <button aria-label="Close" onClick={() => (naming.value = false)}>
          ×
        </button>
      </header>
      <div class="scroll">
        {(error || found?.error) && (
          <p class="message" role="alert">
            {error || found?.error}
          </p>
        )}
        <p aria-live="polite" class="state">
          {!found || (found.samples === null && found.is_busy)
            ? "Reading which images the samples lie in …"
            : found.missing === 0
              ? `The symbols of all ${found.modules.length} modules are here.`
              : `Symbols of ${found.missing} of ${found.modules.length} modules are missing; they would name ${found.would_name.toLocaleString("en-US")} of ${(found.samples ?? 0).toLocaleString("en-US")} samples (${percent.toFixed(1)} %).`}
          {found?.is_busy && found.samples !== null && ` ${found.phase}: ${found.done} modules, ${bytes(found.received_bytes)} received.`}
        </p>
        <p>
          <button disabled={!found || found.is_busy || found.servers.length === 0 || found.missing === 0} onClick={() => void fetchAll()}>
            Fetch missing symbols
          </button>{" "}
          <label>
            <input type="checkbox" checked={all} onChange={(event) => setAll(event.currentTarget.checked)} /> all modules
          </label>
        </p>
        <p class="quiet">
          {found?.servers.length
            ? `From the servers that were named when etw view was started: ${found.servers.join(", ")}.`
            : "No server was named. Start etw view with --symbols 'srv*DIRECTORY*URL', or set _NT_SYMBOL_PATH or DEBUGINFOD_URLS."}
        </p>
        <table>
          <thead>
            <tr>
              <th>Module</th>
              <th title="Samples whose instruction is in the module">Samples</th>
              <th title="Part of all samples">%</th>
              <th title="Stacks with the module anywhere">Stacks</th>
              <th>Symbols</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((one) => (
              <tr key={`${one.path} ${one.is_managed}`}>
                <td title={one.path}>{one.name}</td>
                <td class="right">{one.samples.toLocaleString("en-US")}</td>
                <td class="right">{one.percent.toFixed(1)}</td>
                <td class="right">{one.stacks.toLocaleString("en-US")}</td>
                <td class="meaning">{one.problem ?? one.found ?? (one.named_from ? `in the trace, from ${one.named_from}` : "in the trace")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}
