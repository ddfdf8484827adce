import Database from "better-sqlite3";
import { CheckpointPersister, TurnSaver } from "langgraph-checkpoint-turns";
import { Deeds, errands, OUTCOME, runTask } from "./errands";
import { checkpointFault, same, save, turnOf, writesFault } from "./histories";
import type { Order, Told } from "./run-child";
import { type Line, Scribe } from "./scribe";
import { optionsOf } from "./workloads";

/** What is wrong after a run of a child: one sentence per broken promise. */
export async function faultsAfter(order: Order, told: Told): Promise<string[]> {
  const wrong = told.lines.flatMap((line) => (line.kind === "wrong" ? [line.what] : []));
  const asWanted = order.tries === 0 && told.died?.startsWith("SIGKILL") === true;
  if (told.died !== undefined && !asWanted) wrong.push(`the process died: ${told.died}`);
  if (told.died === undefined && !told.lines.some(({ kind }) => kind === "end"))
    wrong.push("the process exited before its work was done");
  const acked = told.lines.filter((line): line is Extract<Line, { kind: "ack" }> => line.kind === "ack");
  try {
    wrong.push(...(await (order.workload === "turns" ? turnFaults(order, acked) : saverFaults(order, acked))));
  } catch (error) {
    wrong.push(`a fresh process: ${String(error)}`);
  }
  wrong.push(...integrityFaults(order.file));
  return wrong;
}

type Acked = Extract<Line, { kind: "ack" }>[];

async function saverFaults(order: Order, acked: Acked): Promise<string[]> {
  const wrong: string[] = [];
  const saver = TurnSaver.fromPath(order.file, optionsOf(order.workload));
  try {
    const indexes = (what: string) => acked.filter((line) => line.what === what).map(({ value }) => value as number);
    for (const index of indexes("checkpoint"))
      note(wrong, `acknowledged checkpoint ${index}`, await checkpointFault(saver, index));
    for (const index of indexes("writes")) note(wrong, `acknowledged writes ${index}`, await writesFault(saver, index));
    // What wasn't acknowledged may be there; then it must be complete.
    if (order.workload === "saves" || order.workload === "sealed") {
      for (let index = 0; index < order.rounds; index += 1) {
        const found = await checkpointFault(saver, index);
        if (found !== "absent") note(wrong, `checkpoint ${index}`, found);
      }
      // What was refused is done now: a checkpoint builds on the one before it.
      for (let index = 0; index <= order.rounds; index += 1) {
        if ((await checkpointFault(saver, index)) === "absent") await save(saver, index);
        note(wrong, `checkpoint ${index}, afterwards`, await checkpointFault(saver, index));
      }
    }
    if (order.workload === "graph") wrong.push(...(await graphFaults(saver, order)));
    if (order.workload === "upkeep") wrong.push(...(await upkeepFaults(saver, order, acked)));
    const report = await saver.verify();
    if (!report.ok) wrong.push(`verify: ${JSON.stringify(report.problems.slice(0, 3))}`);
  } finally {
    saver.close();
  }
  return wrong;
}

/** The work is finished in this process, and everything was done once. */
async function graphFaults(saver: TurnSaver, { deeds: path }: Order): Promise<string[]> {
  const wrong: string[] = [];
  const deeds = new Deeds(path);
  const scribe = new Collector(3, wrong);
  if (!(await runTask(scribe, errands(saver, deeds), deeds, ["g", "T1"])))
    wrong.push(`the run did not end: ${scribe.refusals.join()}`);
  const state = (await saver.getTuple({ configurable: { thread_id: "g" } }))?.checkpoint.channel_values["log"];
  if (!same(state, OUTCOME)) wrong.push(`the run came to ${JSON.stringify(state)}`);
  for (const name of ["charge", "mail"])
    if (deeds.keysOf(name).length !== 1) wrong.push(`${name} ${deeds.keysOf(name).length} times`);
  // Its receiver honours the key.
  if (new Set(deeds.keysOf("sms")).size !== 1) wrong.push("sms under more than one key");
  const journal = await saver.effects.list("g");
  if (!same(journal.map(({ name, status }) => `${name} ${status}`).sort(), ["charge done", "mail done", "sms done"])) {
    wrong.push(`the journal holds ${JSON.stringify(journal)}`);
  }
  return wrong;
}

/** Each step has happened completely or not at all, and every acknowledged one has happened. */
async function upkeepFaults(saver: TurnSaver, { deeds: path }: Order, acked: Acked): Promise<string[]> {
  const wrong: string[] = [];
  const has = (what: string) => acked.some((line) => line.what === what);
  const threads: string[] = [];
  for (const { threadId } of await saver.listThreads()) threads.push(threadId);
  if (has("copied") && !threads.includes("copy")) wrong.push("the copy is gone");
  if (has("deleted") === threads.includes("t1") && has("deleted")) wrong.push("a deleted thread is there");
  const tasks = (await saver.turns.tasks("g")).map(({ taskId }) => taskId).join();
  const allowed = has("taken back") ? ["T1,T2,T3"] : has("rewound") ? ["T1", "T1,T2,T3"] : ["T1", "T1,T2,T3"];
  if (!allowed.includes(tasks)) wrong.push(`thread g has the tasks ${tasks}`);
  const log = (await saver.getTuple({ configurable: { thread_id: "g" } }))?.checkpoint.channel_values["log"];
  if (
    !same(
      log,
      tasks.split(",").flatMap(() => OUTCOME),
    )
  )
    wrong.push(`thread g holds ${JSON.stringify(log)}`);
  const deeds = new Deeds(path);
  for (const name of ["charge", "mail", "sms"]) {
    const keys = deeds.keysOf(`undo-${name}`);
    if (new Set(keys).size !== keys.length) wrong.push(`an undo of ${name} ran twice`);
    if (has("rewound") && keys.length !== 2) wrong.push(`${keys.length} undos of ${name}`);
  }
  return wrong;
}

async function turnFaults({ file, rounds }: Order, acked: Acked): Promise<string[]> {
  const wrong: string[] = [];
  const db = new Database(file);
  const persister = new CheckpointPersister(db);
  const deleted = acked.some(({ what }) => what === "deleted");
  const of = (index: number): unknown => persister.load(`turn-${index}`);
  for (const { value } of acked.filter(({ what }) => what === "turn")) {
    const index = value as number;
    const went = deleted && Math.floor(index / 4) === 1;
    if (!same(of(index), went ? null : turnOf(index)) && (went || of(index) !== null || !mayBeGone(index)))
      wrong.push(`turn ${index}`);
  }
  persister.save(turnOf(rounds));
  if (!same(of(rounds), turnOf(rounds))) wrong.push("a turn saved afterwards");
  db.close();
  return wrong;

  /** The deletion of T1 may have been refused although it happened: its commit is unknown. */
  function mayBeGone(index: number): boolean {
    return Math.floor(index / 4) === 1 && [4, 5, 6, 7].every((each) => of(each) === null);
  }
}

function integrityFaults(file: string): string[] {
  const db = new Database(file);
  try {
    const found = db.pragma("integrity_check", { simple: true });
    return found === "ok" ? [] : [`integrity_check: ${String(found)}`];
  } finally {
    db.close();
  }
}

function note(wrong: string[], what: string, fault: string | undefined): void {
  if (fault !== undefined) wrong.push(`${what}: ${fault}`);
}

/** Nothing of this process's work is printed. */
class Collector extends Scribe {
  readonly refusals: string[] = [];
  readonly #wrong: string[];

  constructor(tries: number, wrong: string[]) {
    super(tries);
    this.#wrong = wrong;
  }

  override say(line: Line): void {
    if (line.kind === "wrong") this.#wrong.push(line.what);
    if (line.kind === "refused") this.refusals.push(line.code);
  }
}
