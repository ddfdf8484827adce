import { existsSync, writeFileSync } from "node:fs";
import { TurnsError } from "langgraph-checkpoint-turns";
import { at, input, KEY, secretGraph } from "../support/enc-graph";
import { openSaver } from "../support/open-saver";
import { quiet } from "../support/s1-tools";

/**
 * `enc-child.ts die <db>` runs the graph and dies in the node `ask`. `enc-child.ts create <db> <name> <go>` announces itself by a file,
 * waits for the file `go`, opens the database, saves a thread and prints what became of it.
 */
const [what, path = "", name = "", go = ""] = process.argv.slice(2);

if (what === "die") {
  await secretGraph(openSaver(path, { logger: quiet, encryption: { key: KEY } })).invoke(input("die"), at("t"));
} else {
  writeFileSync(`${path}.${name}`, "");
  while (!existsSync(go)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
  const outcome = await run().then(
    (log) => log.join(),
    (error: unknown) => (TurnsError.is(error) ? error.code : String(error)),
  );
  process.stdout.write(`${outcome}\n`);
}

async function run(): Promise<string[]> {
  const saver = openSaver(path, { logger: quiet, encryption: { key: KEY } });
  const { log } = await secretGraph(saver).invoke(input("go"), at(name));
  saver.close();
  return log.slice(-1);
}
