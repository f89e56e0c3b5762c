// The SQL that gives what the table shows.

import { useEffect, useState } from "preact/hooks";
import { json } from "./api";
import { copy } from "./menu";
import { catalog, request, status } from "./state";

/** The part of a shell's command for a path. */
function quoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

export function Sql() {
  const [shown, setShown] = useState("");
  const [error, setError] = useState("");
  const view = request.value;
  const key = JSON.stringify(view);
  useEffect(() => {
    const stop = new AbortController();
    json<{ sql: string }>("/api/sql", view, stop.signal).then(
      ({ sql }) => {
        setShown(sql);
        setError("");
      },
      (problem: Error) => {
        if (!stop.signal.aborted) setError(problem.message);
      },
    );
    return () => stop.abort();
  }, [key]);
  const used = [...new Set([...shown.matchAll(/(?:from|join) "((?:[^"]|"")+)"/g)].map((found) => found[1] ?? ""))];
  const files = status.value?.files.map((file) => quoted(file.name)).join(" ") ?? "";
  const setup = [
    `-- etw export ${files} -o tables.parquet --table all`,
    ...used.map((name) => `create view "${name}" as select * from 'tables.parquet/${name.replaceAll("'", "''")}.parquet';`),
  ].join("\n");
  return (
    <div class="sql" tabIndex={0} aria-label="SQL for this table">
      {error ? (
        <div class="message" role="alert">
          {error}
        </div>
      ) : (
        <>
          <p>
            What the table shows, as SQL: <button onClick={() => void copy(shown, "the SQL")}>Copy</button>
          </p>
          <pre>{shown}</pre>
          <p>
            The page has no SQL engine. With DuckDB, these make its tables first:{" "}
            <button onClick={() => void copy(`${setup}\n`, "the statements")}>Copy</button>
          </p>
          <pre>{setup}</pre>
          <p class="quiet">
            {catalog.value?.tables.length} tables; <code>etw tables</code> lists their columns. <code>etw-sql</code>, the program
            that is to answer SQL here, is not a part of this release.
          </p>
        </>
      )}
    </div>
  );
}
