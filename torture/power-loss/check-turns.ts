import Database from "better-sqlite3";
import { GraphRunner, TurnSaver, type Turn } from "langgraph-checkpoint-turns";
import { type Expected, halfDoneOf, lostOf } from "./expected";
import { standing } from "./facts";
import { DEEDS, type JobsState, jobsGraph, journaled, runnerOptions, type World, wrongLog } from "./graph";

/** Problems of an image. All empty: none. */
export interface Findings {
  /** Damaged in itself, no matter what was acknowledged. */
  corrupt: string[];
  /** Acknowledged, and missing. */
  lost: string[];
  /** Intact and complete, but a run that continues from there reaches another state than it should. */
  astray: string[];
}

/** Threads that a graph runs on. Not in a copy: what it did belongs to its source. */
export const RUN_ON = ["a", "b", "d", "r"];
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** Opens an image as a user would, and checks that it is intact and has all that was acknowledged. */
export async function checkTurns(path: string, expected: Expected): Promise<Findings> {
  const findings: Findings = { corrupt: [], lost: [], astray: [] };
  let saver: TurnSaver | undefined;
  try {
    saver = TurnSaver.fromPath(path, { logger: quiet });
    findings.corrupt.push(...integrityProblems(path), ...(await verifyProblems(saver)));
    for (const [id, thread] of expected.threads) {
      const found = await standing(saver, id);
      const lost = lostOf(thread, found);
      // A file that lost something shows an earlier moment, for which the operations in progress aren't known.
      const halfDone = lost.length === 0 ? halfDoneOf(thread, found) : [];
      findings.lost.push(...[...lost, ...halfDone].map((what) => `thread ${id}: ${what}`));
      findings.corrupt.push(...actionsWithoutThought(await saver.turns.list(id)));
    }
  } catch (error) {
    findings.corrupt.push(String(error));
  } finally {
    saver?.close();
  }
  return findings;
}

function integrityProblems(path: string): string[] {
  const db = new Database(path);
  try {
    const told = [...(db.pragma("integrity_check") as object[]), ...(db.pragma("foreign_key_check") as object[])];
    const problems = told.map((row) => JSON.stringify(row)).filter((text) => text !== '{"integrity_check":"ok"}');
    return problems.map((text) => `integrity_check: ${text}`);
  } finally {
    db.close();
  }
}

async function verifyProblems(saver: TurnSaver): Promise<string[]> {
  const { ok, problems } = await saver.verify();
  return ok ? [] : problems.map((problem) => `verify: ${JSON.stringify(problem)}`);
}

function actionsWithoutThought(turns: readonly Turn[]): string[] {
  const attempt = ({ nodeTaskId, attempt: number }: Turn): string => `${nodeTaskId} ${number}`;
  const thoughts = new Set(turns.filter(({ turnType }) => turnType === "Thought").map(attempt));
  return turns
    .filter((turn) => turn.turnType === "Action" && !thoughts.has(attempt(turn)))
    .map((turn) => `Action ${turn.id} has no Thought`);
}

/**
 * Continues every thread of an image, and then runs a new job on it; changes the image. Each must reach the state of an undisturbed
 * run, with each side effect of each of its jobs done once, and those of rewound jobs undone.
 */
export async function goOn(path: string, expected: Expected): Promise<string[]> {
  const astray: string[] = [];
  const world = new RememberedWorld(expected);
  const saver = TurnSaver.fromPath(path, { logger: quiet });
  try {
    const graph = jobsGraph(saver, journaled(world));
    const runner = new GraphRunner(graph, runnerOptions(world));
    for (const threadId of RUN_ON) {
      await runner.finishRewind({ threadId });
      const { resumable } = await runner.status(threadId);
      if (resumable) await runner.resume({ threadId });
      await runner.invoke({ jobs: [`${threadId}last`] }, { threadId, taskId: `${threadId}last` });
      const { values } = await graph.getState({ configurable: { thread_id: threadId } });
      astray.push(...wrongWith(threadId, values as JobsState, world).map((what) => `thread ${threadId}: ${what}`));
    }
    astray.push(...(await verifyProblems(saver)));
  } catch (error) {
    astray.push(String(error));
  } finally {
    saver.close();
  }
  return astray;
}

function wrongWith(threadId: string, state: JobsState, world: RememberedWorld): string[] {
  const log = wrongLog(state);
  const wrong = log === undefined ? [] : [log];
  // Its rewind was taken back with `despiteUndone`.
  if (threadId === "d") return wrong;
  const jobs = new Set([...state.jobs, ...world.jobsOf(threadId)]);
  for (const job of jobs) {
    const should = state.jobs.includes(job) ? 1 : 0;
    for (const deed of DEEDS) {
      const times = world.times(deed, job);
      if (times !== should) wrong.push(`${deed} of ${job} is done ${times} times and should be ${should} times`);
    }
  }
  return wrong;
}

/** What was done to the world before the cut, and is done after it. */
class RememberedWorld implements World {
  readonly #deeds: { what: "deed" | "undo"; deed: string; job: string; key: string }[];

  constructor({ deeds }: Expected) {
    this.#deeds = deeds.map((each) => ({ ...each }));
  }

  did(deed: string, job: string, key: string): void {
    this.#deeds.push({ what: "deed", deed, job, key });
  }

  undid(deed: string, job: string, key: string): void {
    this.#deeds.push({ what: "undo", deed, job, key });
  }

  isDone(key: string): boolean {
    return this.#deeds.some((each) => each.what === "deed" && each.key === key);
  }

  isUndone(key: string): boolean {
    return this.#deeds.some((each) => each.what === "undo" && each.key === key);
  }

  jobsOf(threadId: string): string[] {
    return this.#deeds.map(({ job }) => job).filter((job) => job.startsWith(threadId));
  }

  times(deed: string, job: string): number {
    const of = this.#deeds.filter((each) => each.deed === deed && each.job === job);
    return of.filter(({ what }) => what === "deed").length - of.filter(({ what }) => what === "undo").length;
  }
}
