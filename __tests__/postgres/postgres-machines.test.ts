import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { CHILD_ENV, childProgram } from "../support/child-program";
import { LONG, runs } from "../support/lane";
import { schemaAt } from "../support/open-saver";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

/**
 * A machine that stops for longer than its lease, on a server that others use too: its thread is taken over, and what it saves when it
 * wakes up is refused. The clocks of all machines are hours apart.
 */
const NODES = 30;
const HOST = spawnSync("unshare", ["--uts", "true"]).status === 0;
let client: Client;
beforeAll(async () => {
  client = new Client(process.env["TURNS_PG_DIRECT_URL"]);
  await client.connect();
});
afterAll(() => client.end());

interface Told {
  result?: { log: string[] };
  code?: string;
}

interface Machine {
  child: ChildProcess;
  told: Promise<Told>;
}

/** A process with a host name of its own, where the system grants it. */
function machine(name: string, ...given: string[]): Machine {
  const within = HOST ? ["unshare", "--uts", "sh", "-c", `hostname ${name}; exec "$@"`, "sh"] : [];
  const [command = "", ...rest] = [...within, process.execPath, ...childProgram(join(__dirname, "machine-child.ts")), ...given];
  const child = spawn(command, rest, { env: CHILD_ENV, stdio: ["ignore", "pipe", "pipe"] });
  const told = new Promise<Told>((resolve, reject) => {
    let [out, err] = ["", ""];
    child.stdout.on("data", (text) => (out += String(text)));
    child.stderr.on("data", (text) => (err += String(text)));
    child.on("close", () => (out === "" ? reject(new Error(err)) : resolve(JSON.parse(out) as Told)));
  });
  told.catch(() => undefined);
  return { child, told };
}

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));
const linesOf = (path: string): string[] => (existsSync(path) ? readFileSync(path, "utf8").split("\n").filter(Boolean) : []);

/** One machine stops somewhere in the run, another takes over; the clock of each is off by so many hours. */
async function takenOver(
  round: string,
  hours: readonly [number, number],
  expires: (schema: string) => Promise<void>,
): Promise<void> {
  const schema = schemaAt(`machines ${round}`);
  const ledger = tempFile();
  const owner = machine("one", schema, "run", String(hours[0]), String(NODES), ledger);
  const enough = 4 + Math.floor(Math.random() * (NODES - 12));
  while (linesOf(ledger).length < enough) {
    const early = owner.told.then((told) => told.result ?? Promise.reject(new Error(JSON.stringify(told))));
    await Promise.race([pause(5), early]);
  }
  await pause(Math.random() * 25);
  owner.child.kill("SIGSTOP");
  if (linesOf(ledger).length >= NODES) {
    // On a busy machine it may be through before it's stopped: then the same again.
    owner.child.kill("SIGKILL");
    return takenOver(`${round}, again`, hours, expires);
  }
  if (!HOST) await client.query(`UPDATE "${schema}".langgraph_runs SET host = 'elsewhere'`);
  const asked = (): Machine => machine("two", schema, "resume", String(hours[1]), String(NODES), ledger);
  // Its clock says that the owner's signs of life are hours old, or in the future; the server's says that they aren't.
  expect(await asked().told).toMatchObject({ code: "THREAD_RUNNING" });
  await expires(schema);
  let told: Told;
  do told = await asked().told;
  while (told.code === "THREAD_RUNNING");
  const names = Array.from({ length: NODES }, (_, at) => `n${at}`);
  expect(told).toEqual({ result: { log: ["in", ...names] } });
  process.kill(owner.child.pid!, "SIGCONT");
  expect(await owner.told).toMatchObject({ code: expect.stringMatching(/^LEASE_LOST$|^THREAD_RUNNING$/) as unknown });
  // Only the node that it was stopped in may have run twice.
  const lines = linesOf(ledger);
  const twice = names.filter((name) => lines.filter((line) => line === name).length !== 1);
  expect(twice.length).toBeLessThanOrEqual(1);
  expect(lines.filter((line) => line === "first")).toHaveLength(1);
  const saver = PostgresTurnSaver.fromConnString(process.env["TURNS_PG_URL"]!, { schema, logger: quiet });
  expect(await saver.verify()).toMatchObject({ ok: true });
  expect((await saver.turns.list("t", { limit: 1_000 })).filter(({ turnType }) => turnType === "Action")).toHaveLength(NODES);
  await saver.close();
}

test("S9.4 PostgreSQL: a machine that stops for longer than its lease is fenced, no matter what the clocks say", async () => {
  await takenOver("0", [5, -7], async (schema) => {
    await client.query(`UPDATE "${schema}".langgraph_runs SET beat_at = beat_at - 31000`);
  });
}, 300_000);

if (LONG) {
  test("S9.4 PostgreSQL: the same in real time, and again and again", async () => {
    const hours = [
      [0, 0],
      [5, -7],
      [-30, 30],
    ] as const;
    for (let lap = 0; lap < runs(0, 2); lap += 1) {
      await Promise.all(hours.map((each, at) => takenOver(String(1 + lap * hours.length + at), each, async () => undefined)));
    }
  }, 1_800_000);
}
