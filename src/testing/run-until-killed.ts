import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { z } from "zod";
import type { Failpoint } from "../failpoints";
import { checkedOptions, idSchema } from "../options";
import type { ReachedPoint, Snapshot, ToldError } from "./child-protocol";
import { type Ending, graphFile, inheritedFlags, launched } from "./launch";
import { type LedgerEntry, Ledger } from "./ledger";
import { type CheckedMatch, checkedMatch, type FailpointMatch } from "./failpoint-actions";

/** Options of {@link runUntilKilled} and {@link runInProcess}. */
export interface RunOptions {
  /**
   * The database. If a killed run has left it, this run continues there. Default: a file in a temporary folder, which `remove()`
   * deletes.
   */
  path?: string;
  /** The ledger's file. Default: the database's path with `.ledger`. */
  ledger?: string;
  /** Default `"thread"`. */
  threadId?: string;
  /** LangGraph's durability mode. Default `"async"`. */
  durability?: "async" | "sync" | "exit";
  /** Passed to the module as `world.args`, through JSON. */
  args?: unknown;
  /** How wrong the process's wall clock is, in milliseconds; negative for a clock that was set back. Default 0. */
  clockOffsetMs?: number;
  /** After this time the process is killed, and the call fails with CHILD_TIMED_OUT. Default 60,000. */
  timeoutMs?: number;
  /**
   * Flags for Node. Default: those of this process, including loaders, so a TypeScript module works if this process runs under
   * tsx. Otherwise give `["--import", "tsx"]`.
   */
  execArgv?: readonly string[];
  /** Added to this process's own environment. */
  env?: Readonly<Record<string, string | undefined>>;
}

/** What a run in another process did, and how it finished. */
export interface ChildRun {
  /**
   * `killed` at the failpoint; `finished`; `waiting` at an interrupt for which the module has no answer; `in-doubt`, with
   * EFFECT_IN_DOUBT; `failed`, with another error.
   */
  outcome: "killed" | "finished" | "waiting" | "in-doubt" | "failed";
  killed: boolean;
  /** What the graph returned. Undefined unless it finished or waits. */
  result: unknown;
  /** Result and state, after the module's `normalise`, if it has one. */
  final: unknown;
  error: ToldError | undefined;
  /** All failpoints that this process reached, in order. The last one of a killed run is where it was killed. */
  points: readonly ReachedPoint[];
  /** What the journals said before the run, and after it. Undefined if it was killed. */
  before: Snapshot | undefined;
  after: Snapshot | undefined;
  /** The ledger, including what earlier processes wrote. */
  ledgerEntries: readonly LedgerEntry[];
  stdout: string;
  stderr: string;
  /** The database, and the ledger's file. */
  path: string;
  ledger: string;
  /** Deletes the temporary folder. Does nothing if `path` was given. */
  remove(): void;
}

function isJson(value: unknown): boolean {
  try {
    return value === undefined || typeof JSON.stringify(value) === "string";
  } catch {
    return false;
  }
}

const path = z.string().min(1).optional();

export const runFields = {
  threadId: idSchema.default("thread"),
  args: z.custom<unknown>(isJson, "must be what JSON can say").optional(),
  timeoutMs: z.number().int().min(1).max(86_400_000).default(60_000),
  execArgv: z.array(z.string()).readonly().optional(),
  env: z.record(z.string(), z.string().optional()).default({}),
};

const A_YEAR = 31_536_000_000;
export const clockOffset = z.number().int().min(-A_YEAR).max(A_YEAR);

export const durabilitySchema = z.enum(["async", "sync", "exit"]);

const schema = z.strictObject({
  ...runFields,
  path,
  ledger: path,
  durability: durabilitySchema.default("async"),
  clockOffsetMs: clockOffset.default(0),
});

/**
 * Runs the graph of a module in another process, and kills it with SIGKILL the n-th time that it reaches a failpoint.
 *
 * @param graphModule path or file URL of a file with the exports of {@link GraphModule}
 * @param point a failpoint's name, or which occasion of it is meant
 * @returns how it finished; `killed` is false if it finished without reaching the point
 * @throws {TurnsError} INVALID_OPTION; GRAPH_MODULE_INVALID; CHILD_TIMED_OUT; CHILD_FAILED
 */
export async function runUntilKilled(
  graphModule: string | URL,
  point: Failpoint | FailpointMatch,
  options: RunOptions = {},
): Promise<ChildRun> {
  return runChild(graphModule, checkedMatch(point), options);
}

/**
 * Runs the graph of a module in another process until it finishes, from the database's current state.
 *
 * @throws as {@link runUntilKilled}
 */
export async function runInProcess(graphModule: string | URL, options: RunOptions = {}): Promise<ChildRun> {
  return runChild(graphModule, undefined, options);
}

async function runChild(graphModule: string | URL, kill: CheckedMatch | undefined, options: RunOptions): Promise<ChildRun> {
  const { env, timeoutMs, ...checked } = checkedOptions(schema, options);
  const file = graphFile(graphModule);
  const folder = checked.path === undefined ? mkdtempSync(join(tmpdir(), "turns-testing-")) : undefined;
  const remove = (): void => {
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  };
  const database = resolve(checked.path ?? join(folder ?? "", `${randomUUID()}.db`));
  const ledger = resolve(checked.ledger ?? `${database}.ledger`);
  const { threadId, durability, args, clockOffsetMs } = checked;
  try {
    const request = { path: database, ledger, threadId, durability, args, clockOffsetMs, kill };
    const launch = { timeoutMs, env, execArgv: checked.execArgv ?? inheritedFlags() };
    return told(await launched(file, request, launch), { path: database, ledger, remove });
  } catch (error) {
    remove();
    throw error;
  }
}

function told({ answer, ...seen }: Ending, files: Pick<ChildRun, "path" | "ledger" | "remove">): ChildRun {
  const ledgerEntries = new Ledger(files.ledger).entries();
  if (answer === undefined) {
    const nothing = { result: undefined, final: undefined, error: undefined, before: undefined, after: undefined };
    return { outcome: "killed", killed: true, ...nothing, ledgerEntries, ...seen, ...files };
  }
  const { kind: _, ...ended } = answer;
  return { killed: false, ...ended, ledgerEntries, ...seen, ...files };
}
