import { readFileSync, renameSync, writeFileSync, writeSync, openSync } from "node:fs";
import { join } from "node:path";
// Imported by name, so that a graph's module and this program use the same copy of it: in CommonJS each entry carries its own.
import { TurnSaver } from "langgraph-checkpoint-turns";
import { encode } from "../codec";
import { setFailpointHandler } from "../failpoints";
import {
  ANSWER_FILE,
  type ChildAnswer,
  type ChildRequest,
  POINTS_FILE,
  type ReachedPoint,
  REQUEST_FILE,
  toldError,
} from "./child-protocol";
import { once, withNode } from "./failpoint-actions";
import type { GraphWorld } from "./graph-module";
import { Ledger } from "./ledger";
import { loadedModule, play } from "./play";
import { setClockOffset } from "./clocks";

/**
 * The program that {@link runUntilKilled} starts: `child <folder>`. It reads its request there, notes the failpoints it reaches,
 * and writes its answer.
 */
const [folder = ""] = process.argv.slice(2);
const request = JSON.parse(readFileSync(join(folder, REQUEST_FILE), "utf8")) as ChildRequest;

function listen(): void {
  const points = openSync(join(folder, POINTS_FILE), "a");
  const die =
    request.kill === undefined
      ? undefined
      : once(request.kill, () => {
          process.kill(process.pid, "SIGKILL");
        });
  const names = new Map<string, string>();
  setFailpointHandler((point, given) => {
    const details = withNode(given, names);
    const reached: ReachedPoint = { point, ...details };
    // Written to the operating system at once, so it survives when the process is killed.
    writeSync(points, `${JSON.stringify(reached)}\n`);
    die?.(point, details);
  });
}

async function answerOf(): Promise<ChildAnswer> {
  setClockOffset(request.clockOffsetMs);
  const loaded = await loadedModule(request.module);
  if (!("module" in loaded)) return loaded;
  let saver: TurnSaver | undefined;
  const world: GraphWorld = {
    path: request.path,
    get saver() {
      return (saver ??= TurnSaver.fromPath(request.path));
    },
    ledger: new Ledger(request.ledger),
    threadId: request.threadId,
    args: request.args,
  };
  listen();
  try {
    return await play(loaded.module, world, request.durability);
  } finally {
    setFailpointHandler(undefined);
    saver?.close();
  }
}

async function main(): Promise<void> {
  const answer = await answerOf();
  const file = join(folder, ANSWER_FILE);
  writeFileSync(`${file}.new`, encode(answer, { classInstances: "plain" }));
  renameSync(`${file}.new`, file);
}

main().then(
  // The graph's own timers and connections must not keep the process alive.
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`${toldError(error).stack ?? String(error)}\n`);
    process.exit(1);
  },
);
