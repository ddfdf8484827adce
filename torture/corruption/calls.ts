import { isDeepStrictEqual } from "node:util";
import { GraphRunner, TurnsError, TurnSaver, type TurnSaverOptions } from "../../src/index";
import { CheckpointFile } from "langgraph-checkpoint-turns/checkpoint-file";
import { isLacking } from "./lacking";
import { answer, at, type Folder, graphOn, quiet } from "./world";

/** The outcome of a call: a value, or its error. */
export type Outcome = { value: unknown } | { refused: string } | { broken: string };
export type Outcomes = Map<string, Outcome>;

/** A status reports what is wrong instead of throwing it. */
const REFUSALS = [
  "CHECKPOINT_CORRUPTED",
  "UNDECODABLE_VALUE",
  "STORE_FAILED",
  "STATE_INVARIANT_VIOLATED",
  "UNKNOWN_KEY",
  "NOT_ENCRYPTED",
];
class Refusal extends Error {
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

async function collect(items: AsyncIterable<unknown>): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** Everything that a user can read, each by a call of its own. */
export async function readAll(path: string, threads: readonly string[], options: TurnSaverOptions): Promise<Outcomes> {
  return withSaver(path, options, async (saver, told) => {
    const graph = graphOn(saver, []);
    const runner = new GraphRunner(graph);
    await told("listThreads", () => saver.listThreads());
    await told("list", () => collect(saver.list({} as never)));
    await told("deleted", () => saver.getTuple(at("gone")));
    for (const id of threads) {
      const each = (name: string, work: () => unknown): Promise<void> => told(`${name} of ${id}`, work);
      await each("getTuple", () => saver.getTuple(at(id)));
      await each("list", () => collect(saver.list(at(id))));
      await each("getState", () => graph.getState(at(id), { subgraphs: true }));
      await each("getStateHistory", () => collect(graph.getStateHistory(at(id))));
      await each("listTasks", () => saver.turns.tasks(id));
      await each("listTurns", () => saver.turns.list(id));
      await each("tokenUsage", () => saver.turns.tokenUsage(id));
      await each("listNames", () => saver.names.list(id));
      await each("listRewinds", () => saver.rewinds.list(id));
      await each("effects.list", () => saver.effects.list(id));
      await each("CHECKPOINT.md", () => CheckpointFile.fromThread(saver, id));
      await each("inFlight", () => saver.turns.inFlight(id));
      await each("status", async () => {
        const { ...status } = await runner.status(id);
        if (status.reason !== undefined && REFUSALS.includes(status.reason.code)) throw new Refusal(status.reason.code);
        return status;
      });
    }
  });
}

/** The result of a resume, and its side effects. */
export async function resumeAll(path: string, threads: readonly string[], options: TurnSaverOptions): Promise<Outcomes> {
  const ledger: string[] = ["mended"];
  return withSaver(path, options, async (saver, told) => {
    const graph = graphOn(saver, ledger);
    for (const id of threads) {
      await told(`resume of ${id}`, async () => {
        const before = ledger.length;
        const { __interrupt__: _, ...values } = await graph.invoke(answer, at(id));
        return { values, deeds: ledger.slice(before) };
      });
    }
  });
}

export async function rewindAll(path: string, threads: readonly string[], options: TurnSaverOptions): Promise<Outcomes> {
  return withSaver(path, options, async (saver, told) => {
    for (const id of threads) {
      await told(`rewind of ${id}`, async () => {
        const { rewindId: _, ...report } = (await saver.rewind({ threadId: id, toTask: "first" })) as { rewindId?: string };
        return { report, then: (await saver.getTuple(at(id)))?.checkpoint };
      });
    }
  });
}

/** Whether `verify` finds something, or the file does not open. */
export async function isFound(path: string, options: TurnSaverOptions): Promise<{ found: boolean; why: string }> {
  try {
    const saver = TurnSaver.fromPath(path, { logger: quiet, ...options });
    try {
      const report = await saver.verify();
      return { found: !report.ok, why: report.problems.map(({ table, kind }) => `${table} ${kind}`).join(", ") };
    } finally {
      saver.close();
    }
  } catch (error) {
    if (!TurnsError.is(error)) throw error;
    return { found: true, why: error.code };
  }
}

/** Calls of one saver, each with its outcome. */
export async function withSaver(
  path: string,
  options: TurnSaverOptions,
  work: (saver: TurnSaver, told: (name: string, call: () => unknown) => Promise<void>) => Promise<void>,
): Promise<Outcomes> {
  const outcomes: Outcomes = new Map();
  const told = async (name: string, call: () => unknown): Promise<void> => {
    try {
      outcomes.set(name, { value: await call() });
    } catch (error) {
      outcomes.set(
        name,
        error instanceof Refusal || TurnsError.is(error)
          ? { refused: error.code }
          : { broken: String((error as Error)?.stack ?? error) },
      );
    }
  };
  let saver: TurnSaver | undefined;
  await told("open", () => {
    saver = TurnSaver.fromPath(path, { logger: quiet, synchronous: "normal", ...options });
  });
  if (saver === undefined) return outcomes;
  try {
    await work(saver, told);
  } finally {
    saver.close();
  }
  return outcomes;
}

/**
 * Calls whose outcome is neither that of the undamaged file nor a named refusal.
 *
 * @param isTold whether `verify` reports the damage. Then rows may be missing from an answer, but none may differ from what was saved.
 */
export function altered(wanted: Outcomes, found: Outcomes, isTold = false): string[] {
  return [...found].flatMap(([name, outcome]) => {
    if ("refused" in outcome || isDeepStrictEqual(outcome, wanted.get(name))) return [];
    if (isTold && "value" in outcome && isLacking(name, outcome.value, wanted)) return [];
    // A run that failed before fails now.
    if ("broken" in outcome && "broken" in (wanted.get(name) ?? {})) return [];
    return ["broken" in outcome ? `${name}: ${outcome.broken.split("\n").slice(0, 3).join(" ")}` : `${name}: another value`];
  });
}

/** All of it, each kind on a copy of its own. */
export async function everything(
  folder: Folder,
  path: string,
  threads: readonly string[],
  options: TurnSaverOptions,
  kinds: readonly ("read" | "resume" | "rewind")[] = ["read", "resume", "rewind"],
): Promise<Outcomes> {
  const outcomes: Outcomes = new Map();
  const calls = { read: readAll, resume: resumeAll, rewind: rewindAll };
  for (const kind of kinds) {
    const copy = folder.copy(path);
    for (const [name, outcome] of await calls[kind](copy, threads, options)) outcomes.set(name, outcome);
    folder.forget(copy);
  }
  return outcomes;
}
