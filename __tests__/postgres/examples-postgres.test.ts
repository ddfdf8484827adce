import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { schemaAt } from "../support/open-saver";

/** The example for several machines, as a user runs it on a server. */
test("S9.4 examples: workers on PostgreSQL, one of three is killed, and the others take its threads over", async () => {
  const root = resolve(__dirname, "..", "..");
  const folder = mkdtempSync(join(tmpdir(), "turns-example-"));
  const env = {
    ...process.env,
    TMPDIR: folder,
    TURNS_PG_SCHEMA: schemaAt("workers"),
    NODE_OPTIONS: process.env["TURNS_TEST_NODE_OPTIONS"] ?? "",
    TSX_TSCONFIG_PATH: join(root, "tsconfig.json"),
  };
  try {
    const child = spawn(process.execPath, ["--import", "tsx", "examples/workers/workers.ts"], { cwd: root, env });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (output += text));
    const code = await new Promise((done) => child.once("close", done));
    expect({ code, output }).toMatchObject({ code: 0 });
    expect(output).toContain("orders that ann had begun are packed by bob or eve: true");
    expect(output).toContain("orders that were charged under two keys: 0");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}, 300_000);
