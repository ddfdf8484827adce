import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { BaseTurnSaver } from "../../base-saver";
import type { EffectResolution } from "../../effects/effects";
import { internalsOf } from "../../internals";
import { checkpointNamed, threadNamed } from "../../inspection/place";
import { effectsInDoubt } from "../../inspection/standing";
import { previewRewind } from "../../inspection/status";
import { effectLine } from "../../inspection/turns";
import type { RewindCounts } from "../../store/store";
import { type CommandSpec, command, duration, whole } from "../command";
import { DONE, NEEDS_DECISION, UsageError } from "../exit";
import { type Look, pairs, table } from "../look";
import type { Answer } from "../output";
import { bytes, oneLine, plural } from "../text";
import { EFFECT_COLUMNS } from "./effects";

/** What commands that change something have in common. Without `--yes` the database is opened read-only. */
export interface ChangeOptions {
  yes?: boolean;
  dryRun?: boolean;
}

const CHANGE = [
  ["--yes", "do it; without it the plan is shown and nothing is changed"],
  ["--dry-run", "only the plan, exit with 0"],
] as const;

interface Plan {
  /** What would be done. */
  plan: object;
  planText: (look: Look) => string;
  /** Does it. */
  act: () => Promise<{ report: object; text: (look: Look) => string }>;
}

/** Shows the plan, or carries it out. */
async function planned({ yes = false, dryRun = false }: ChangeOptions, { plan, planText, act }: Plan): Promise<Answer> {
  if (yes && !dryRun) {
    const { report, text } = await act();
    return { data: { done: true, plan, report }, text };
  }
  const hint = dryRun ? "Nothing was changed." : "Nothing was changed. Add --yes to do it.";
  const text = (look: Look): string => `${planText(look)}\n\n${look.paint("dim", hint)}`;
  return { data: { done: false, plan, report: null }, text, exit: dryRun ? DONE : NEEDS_DECISION };
}

const OUTCOMES = ["done", "not-done", "history", "undo-done", "undo-not-done"] as const;

export const RESOLVE = command<ChangeOptions & { result?: string }>({
  name: "effect resolve",
  args: "<effect> <outcome>",
  summary: `settle an effect in doubt: ${OUTCOMES.join(", ")}`,
  examples: [
    "turns effect resolve 0196f2c1-… not-done --yes",
    "turns effect resolve 0196f2c1-… done --result '{\"id\":7}' --yes",
    "turns effect resolve 0196f2c1-… done --result - --yes < result.json",
  ],
  options: [...CHANGE, ["--result <json>", "with done: what its function would have returned; - reads stdin"]],
  run: async (saver, [given = "", wanted = ""], options) => {
    const outcome = OUTCOMES.find((one) => one === wanted);
    if (outcome === undefined) throw new UsageError(`There is no outcome "${wanted}".`, `Give one of: ${OUTCOMES.join(", ")}.`);
    if (options.result !== undefined && outcome !== "done")
      throw new UsageError("--result belongs to the outcome done.", "Leave it out.");
    const effect = effectLine(await saver.effects.get(await effectNamed(saver, given)));
    const resolution = resolutionOf(outcome, options.result);
    return planned(options, {
      plan: { effect, resolution },
      planText: (look) =>
        `${table([effect], EFFECT_COLUMNS, look)}\n\nIt would be settled as ${outcome}. That can't be taken back.`,
      act: async () => {
        const settled = effectLine(await saver.effects.resolve(effect.id, resolution));
        return {
          report: settled,
          text: (look) => `${table([settled], EFFECT_COLUMNS, look)}\n\nSettled. Next: turns status ${settled.threadId}`,
        };
      },
    });
  },
});

/** The id of an effect in doubt that begins so; any other text as it is. @throws {UsageError} */
async function effectNamed(saver: BaseTurnSaver, text: string): Promise<string> {
  const found = (await effectsInDoubt(saver)).map(({ id }) => id).filter((id) => id.startsWith(text));
  if (found.length < 2) return found[0] ?? text;
  throw new UsageError(`"${text}" is the beginning of ${found.length} effects in doubt.`, "Give more characters.");
}

/** @throws {UsageError} */
function resolutionOf(outcome: (typeof OUTCOMES)[number], result: string | undefined): EffectResolution {
  if (outcome === "undo-done") return { undo: "done" };
  if (outcome === "undo-not-done") return { undo: "not-done" };
  if (outcome !== "done" || result === undefined) return { outcome };
  const text = result === "-" ? readFileSync(0, "utf8") : result;
  try {
    return { outcome, result: JSON.parse(text) as unknown };
  } catch (error) {
    throw new UsageError(`--result isn't JSON: ${(error as Error).message}.`, "Quote a text twice: --result '\"paid\"'.");
  }
}

interface RewindOptions extends ChangeOptions {
  to?: string;
  graph?: string;
  allowUncompensated?: boolean;
  archive?: boolean;
}

export const REWIND = command<RewindOptions>({
  name: "rewind",
  args: "<thread>",
  summary: "rewind a thread to the end of a task, undoing its effects",
  examples: [
    "turns rewind order-17 --to task-1",
    "turns rewind order-17 --to task-1 --graph ./agent.js --yes",
    "turns rewind order-17 --to task-1 --allow-uncompensated --yes",
  ],
  options: [
    ["--to <task>", "the task to rewind to; it stays as it was when it finished"],
    ["--graph <module>", "a module that defines the effects with their undos: ./agent.js"],
    ["--allow-uncompensated", "leave effects without an undo as they are"],
    ["--no-archive", "keep nothing of what is removed: it can't be taken back"],
    ...CHANGE,
  ],
  run: async (saver, [thread = ""], { to, graph, allowUncompensated = false, archive = true, ...options }) => {
    const threadId = await threadNamed(saver, thread);
    if (to === undefined) {
      const tasks = (await saver.turns.tasks(threadId)).map(({ taskId }) => taskId);
      throw new UsageError("Which task? --to is missing.", `The tasks of thread ${threadId}: ${tasks.join(", ") || "none"}.`);
    }
    if (graph !== undefined) await import(pathToFileURL(resolve(graph)).href);
    const plan = await previewRewind(saver, threadId, to);
    if (plan.refused !== null && options.yes !== true) throw new UsageError("The rewind is refused.", plan.refused);
    const planText = (look: Look): string => {
      const undos = plan.effects.map(
        ({ name, label, nodeName, verdict }) =>
          `  ${oneLine(`${name} ${label} of ${nodeName}`)}  ${look.paint("dim", VERDICTS[verdict] ?? verdict)}`,
      );
      const effects = undos.length === 0 ? ["Effects: none."] : ["Effects, in the order in which they are undone:", ...undos];
      return [
        `Thread ${oneLine(threadId)} goes back to the end of task ${oneLine(to)}.`,
        removedText(plan.removed, plan.tasks),
        ...effects,
      ].join("\n");
    };
    return planned(options, {
      plan,
      planText,
      act: async () => {
        const report = await saver.rewind({ threadId, toTask: to, allowUncompensated, archive });
        const { rewindId, removed, tasks, archived } = report;
        const back =
          rewindId === undefined
            ? []
            : archived
              ? [`Take it back: turns take-back ${rewindId} --yes`]
              : ["It can't be taken back: --no-archive."];
        return { report, text: () => [removedText(removed, tasks), ...back].join("\n") };
      },
    });
  },
});

const VERDICTS: Readonly<Record<string, string>> = {
  undo: "its undo is called",
  unregistered: "its undo isn't known here: give --graph",
  "done-already": "undone before",
  "none-needed": "needs no undo",
  failed: "didn't happen",
  inherited: "belongs to the thread that this one was copied from",
  missing: "has no undo",
  "in-doubt": "nobody knows whether it happened",
  "undo-in-doubt": "nobody knows whether its undo happened",
  running: "is running now",
};

function removedText(removed: RewindCounts | null, tasks: readonly string[]): string {
  if (removed === null) return "Removed: not known.";
  const { checkpoints, turns, effects } = removed;
  return `Removed: ${plural(tasks.length, "task")}, ${plural(checkpoints, "checkpoint")}, ${plural(turns, "turn")}, ${plural(effects, "effect")}.`;
}

export const TAKE_BACK = command<ChangeOptions & { despiteUndone?: boolean }>({
  name: "take-back",
  args: "<rewind>",
  summary: "take a rewind back, if nothing was saved on its thread since",
  examples: [
    "turns take-back 0196f2c1-…",
    "turns take-back 0196f2c1-… --yes",
    "turns take-back 0196f2c1-… --despite-undone --yes",
  ],
  options: [...CHANGE, ["--despite-undone", "also if it undid effects: they stay undone"]],
  run: async (saver, [rewindId = ""], { despiteUndone = false, ...options }) =>
    planned(options, {
      plan: { rewindId },
      planText: () => `Rewind ${oneLine(rewindId)} would be taken back.`,
      act: async () => {
        const restored = await saver.rewinds.takeBack(rewindId, { despiteUndone });
        return {
          report: { rewindId, restored },
          text: () => `Restored: ${plural(restored.checkpoints, "checkpoint")} and ${plural(restored.turns, "turn")}.`,
        };
      },
    }),
});

export const NAME = command<ChangeOptions & { at?: string; remove?: boolean }>({
  name: "name",
  args: "<thread> <name>",
  summary: "name a checkpoint, so that it is never pruned",
  examples: [
    "turns name order-17 before-refund --yes",
    "turns name order-17 approved --at task-1 --yes",
    "turns name order-17 approved --remove --yes",
  ],
  options: [
    ...CHANGE,
    ["--at <place>", "a turn's number or id, a task, or a checkpoint's id (default: the newest)"],
    ["--remove", "remove the name"],
  ],
  run: async (saver, [thread = "", name = ""], { at, remove = false, ...options }) => {
    const threadId = await threadNamed(saver, thread);
    if (remove) {
      return planned(options, {
        plan: { threadId, name, remove },
        planText: () => `The name ${oneLine(name)} would be removed. Its checkpoint stays.`,
        act: async () => {
          const found = await saver.names.delete(threadId, name);
          return { report: { threadId, name, found }, text: () => (found ? "Removed." : "There was no such name.") };
        },
      });
    }
    const { checkpointId } = await checkpointNamed(saver, threadId, at);
    return planned(options, {
      plan: { threadId, name, checkpointId },
      planText: () => `Checkpoint ${checkpointId} would be named ${oneLine(name)}.`,
      act: async () => {
        await saver.names.set({ threadId, checkpointId }, name);
        return {
          report: { threadId, name, checkpointId },
          text: () => `Named. Take it back: turns name ${threadId} ${name} --remove --yes`,
        };
      },
    });
  },
});

export const DELETE = command<ChangeOptions & { final?: boolean }>({
  name: "delete",
  args: "<thread>",
  summary: "delete a thread",
  examples: ["turns delete order-17", "turns delete order-17 --yes", "turns delete order-17 --final --yes"],
  options: [...CHANGE, ["--final", "refuse new input with this id, too"]],
  run: async (saver, [thread = ""], { final = false, ...options }) => {
    const threadId = await threadNamed(saver, thread);
    const found = await internalsOf(saver).store.getThread(threadId);
    const { checkpoints = 0, turns = 0, tasks = 0 } = found ?? {};
    if (options.yes === true && threadId !== thread)
      throw new UsageError(`"${thread}" is the beginning of thread ${threadId}.`, "To delete it, give its whole id.");
    return planned(options, {
      plan: { threadId, final, checkpoints, turns, tasks },
      planText: () =>
        `Thread ${oneLine(threadId)} would be deleted: ${plural(tasks, "task")}, ${plural(checkpoints, "checkpoint")}, ${plural(turns, "turn")}. That can't be taken back.`,
      act: async () => {
        await saver.deleteThread(threadId, { final });
        return { report: { threadId, final }, text: () => `Thread ${oneLine(threadId)} is deleted.` };
      },
    });
  },
});

export const COPY = command<ChangeOptions>({
  name: "copy",
  args: "<thread> <new>",
  summary: "copy a thread to a new id",
  examples: [
    "turns copy order-17 order-17-try --yes",
    "turns copy order-17 order-17-try",
    "turns copy order-17 order-17-try --yes --json",
  ],
  options: CHANGE,
  run: async (saver, [thread = "", target = ""], options) => {
    const threadId = await threadNamed(saver, thread);
    return planned(options, {
      plan: { threadId, target },
      planText: () => `Thread ${oneLine(threadId)} would be copied to ${oneLine(target)}.`,
      act: async () => {
        await saver.copyThread(threadId, target);
        return { report: { threadId, target }, text: () => `Copied. Take it back: turns delete ${target} --yes` };
      },
    });
  },
});

interface PruneOptions extends ChangeOptions {
  keepTasks?: number;
  keepLast?: number;
  maxAge?: number;
  idle?: number;
}

export const PRUNE = command<PruneOptions>({
  name: "prune",
  args: "[thread]",
  summary: "remove old checkpoints of a thread, or of all",
  examples: ["turns prune --keep-tasks 5", "turns prune --idle 90d --yes", "turns prune order-17 --keep-last 20 --yes"],
  options: [
    ["--keep-tasks <n>", "keep the newest n tasks whole", whole],
    ["--keep-last <n>", "keep the newest n checkpoints", whole],
    ["--max-age <duration>", "remove what was saved longer ago: 30d", duration],
    ["--idle <duration>", "delete threads without a save for so long: 90d", duration],
    ...CHANGE,
  ],
  run: async (saver, [thread], { keepTasks, keepLast, maxAge: maxAgeMs, idle: idleMs, ...options }) => {
    const threadId = thread === undefined ? undefined : await threadNamed(saver, thread);
    const wanted = { threadId, keepTasks, keepLast, maxAgeMs, idleMs };
    const request = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined));
    if (Object.keys(request).every((name) => name === "threadId"))
      throw new UsageError("Nothing says what to keep.", "Give --keep-tasks, --keep-last, --max-age or --idle.");
    const plan = failuresAsText(await saver.prune({ ...request, dryRun: true }));
    return planned(options, {
      plan,
      planText: () => `${prunedText(plan)} would be removed. That can't be taken back.`,
      act: async () => {
        const stop = new AbortController();
        const interrupt = (): void => stop.abort();
        process.once("SIGINT", interrupt);
        try {
          const report = failuresAsText(await saver.prune({ ...request, signal: stop.signal }));
          const rest = report.done ? "" : " It was interrupted: the same command continues.";
          return {
            report,
            text: () => `Removed ${prunedText(report)}; ${bytes(Math.max(0, report.bytesFreed))} less on disk.${rest}`,
          };
        } finally {
          process.removeListener("SIGINT", interrupt);
        }
      },
    });
  },
});

function failuresAsText<R extends Awaited<ReturnType<BaseTurnSaver["prune"]>>>(report: R) {
  return { ...report, failed: report.failed.map(({ threadId, error }) => ({ threadId, error: String(error) })) };
}

function prunedText({
  checkpoints,
  turns,
  threads,
  deletedThreads,
}: {
  checkpoints: number;
  turns: number;
  threads: number;
  deletedThreads: readonly string[];
}): string {
  return `${plural(checkpoints, "checkpoint")} and ${plural(turns, "turn")} of ${plural(threads, "thread")} (${plural(deletedThreads.length, "thread")} deleted whole)`;
}

export const BACKUP = command<{ overwrite?: boolean }>({
  name: "backup",
  args: "<out>",
  summary: "copy a file as it is now, verified, while others continue to save",
  examples: [
    "turns backup backup.db",
    "turns agent.db backup /mnt/backups/agent.db",
    "turns backup backup.db --overwrite --json",
  ],
  options: [["--overwrite", "replace an existing file"]],
  run: async (saver, [out = ""], { overwrite = false }) => {
    const { path, bytes: size, pages, verified } = await saver.backup(out, { overwrite });
    const data = { path, bytes: size, pages, verified: verified?.ok ?? null };
    return {
      data,
      text: (look) =>
        pairs(
          [
            ["backup", oneLine(path)],
            ["size", bytes(size)],
            ["verified", verified?.ok === true ? "yes" : "no"],
          ],
          look,
        ),
    };
  },
});

export const VACUUM = command<ChangeOptions & { full?: boolean }>({
  name: "vacuum",
  summary: "give free space back to the disk",
  examples: ["turns vacuum --yes", "turns vacuum --full --yes", "turns vacuum"],
  options: [...CHANGE, ["--full", "rewrite the whole file; it needs as much free disk space"]],
  run: async (saver, _, { full = false, ...options }) => {
    const { bytes: size, freePages, pageBytes } = await internalsOf(saver).store.space();
    const plan = { bytes: size, freeBytes: freePages * pageBytes, full };
    return planned(options, {
      plan,
      planText: () => `${bytes(plan.freeBytes)} of ${bytes(size)} are free.`,
      act: async () => {
        const { vacuum } = await import("../../maintenance");
        const report = await vacuum(saver, { full });
        return { report, text: () => `${bytes(report.bytesBefore)} before, ${bytes(report.bytesAfter)} now.` };
      },
    });
  },
});

/** What changes something: it's opened for writing only with `--yes`. */
export const CHANGES: readonly CommandSpec[] = [...[RESOLVE, REWIND, TAKE_BACK, NAME, DELETE, COPY, PRUNE, VACUUM]];
