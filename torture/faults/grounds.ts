import { cpSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { Deeds, errands, TASKS } from "./errands";
import { save, saveWrites } from "./histories";
import { type Order, type Told, withoutFault } from "./run-child";
import { optionsOf } from "./workloads";

/** What a workload finds when it begins. */
export type Ground = "nothing" | "history" | "dead" | "dead later";

const FILE = "agent.db";
const DEEDS = "deeds";
/** How many checkpoints the threads of a history have together. */
const HISTORY = 12;

/** Builds each ground once, and makes copies of it. */
export class Grounds {
  /** The output of each workload if nothing fails, by name. */
  readonly untroubled = new Map<string, Told>();
  readonly #child: string;
  readonly #folder: string;
  readonly #built = new Set<Ground>();
  #count = 0;

  constructor(child: string, folder: string) {
    this.#child = child;
    this.#folder = folder;
  }

  /** A fresh copy: what a workload needs to begin, and a function that removes it. */
  async laid(ground: Ground, into = join(this.#folder, `run-${(this.#count += 1)}`)): Promise<Place> {
    mkdirSync(into, { recursive: true });
    if (ground !== "nothing") cpSync(await this.#template(ground), into, { recursive: true });
    const remove = (): void => rmSync(into, { recursive: true, force: true });
    return { file: join(into, FILE), deeds: join(into, DEEDS), log: join(into, "strace.log"), remove };
  }

  async #template(ground: Ground): Promise<string> {
    const folder = join(this.#folder, ground.replace(" ", "-"));
    if (this.#built.has(ground)) return folder;
    mkdirSync(folder, { recursive: true });
    if (ground === "history") await buildHistory(folder);
    else await this.#buildDead(folder, ground === "dead" ? "dying" : "dying later");
    this.#built.add(ground);
    return folder;
  }

  async #buildDead(folder: string, workload: string): Promise<void> {
    const order: Order = { workload, file: join(folder, FILE), deeds: join(folder, DEEDS), tries: 1, rounds: 1 };
    const told: Told = await withoutFault(this.#child, order);
    const left = readdirSync(folder);
    if (told.died?.startsWith("SIGKILL") !== true || !left.includes(`${FILE}-wal`))
      throw new Error(`it should be dead: ${told.died}`);
  }
}

export interface Place {
  file: string;
  deeds: string;
  /** Where strace writes. */
  log: string;
  remove: () => void;
}

async function buildHistory(folder: string): Promise<void> {
  const saver = TurnSaver.fromPath(join(folder, FILE), optionsOf("history"));
  for (let index = 0; index < HISTORY; index += 1) {
    await save(saver, index);
    await saveWrites(saver, index);
  }
  const runner = errands(saver, new Deeds(join(folder, DEEDS)));
  for (const taskId of TASKS) await runner.invoke({ log: ["in"] }, { threadId: "g", taskId });
  saver.close();
}
