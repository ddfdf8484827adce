import { readFileSync } from "node:fs";
import type { BaseTurnSaver } from "../../base-saver";
import type { EffectDetails, EffectResolution } from "../../effects/effects";
import { type Refusal, rewindRefusal } from "../../inspection/refusal";
import { internalsOf } from "../../internals";
import { movingRefusal } from "../../inspection/moving";
import { checkpointNamed, threadNamed } from "../../inspection/place";
import { plain } from "../../inspection/plain";
import { titled } from "../../inspection/effects";
import { effectsInDoubt } from "../../inspection/standing";
import { previewRewind, type RewindPreview, type Rewinder, rewinderWithoutGraph, verdictWords } from "../../inspection/status";
import { inbox } from "../../inspection/threads";
import { effectLine } from "../../inspection/turns";
import type { PruneReport } from "../../retention/prune";
import { type FinishRequest, planToPoint, type RewindReport } from "../../rewind/plan";
import type { Rewind } from "../../rewind/rewinds";
import type { CheckpointName, RewindCounts } from "../../store/store";
import { type CommandSpec, command, duration, whole } from "../command";
import { fileOf } from "../database";
import { DONE, exitCodeOf, INTERRUPTED, messageOf, NEEDS_DECISION, UsageError } from "../exit";
import { loadGraph, loadModule } from "../graph-module";
import { interruptible } from "../interrupt";
import { type Look, pairs, table } from "../look";
import type { Answer } from "../output";
import { takeBackCommand, takeBackOf } from "../../inspection/rewinds";
import { turns } from "../../inspection/words";
import { isUrl, toCopy, withCommands } from "../place";
import { brief, bytes, count, oneLine, plural } from "../text";
import { EFFECT_COLUMNS } from "./effects";

/** What commands that change something have in common. Without `--yes` the database is opened read-only. */
export interface ChangeOptions {
  yes?: boolean;
  dryRun?: boolean;
}

export const CHANGE = [
  ["--yes", "do it; without it the plan is shown and nothing is changed"],
  ["--dry-run", "only the plan, exit with 0"],
] as const;

interface Plan {
  /** What would be done. */
  plan: object;
  planText: (look: Look) => string;
  /** Does it. */
  act: () => Promise<{ report: object; text: (look: Look) => string; exit?: number }>;
  /** Why it would be refused now. */
  refused?: Refusal | null | undefined;
  /** Whether there is nothing that it would do. */
  isIdle?: boolean;
  /** The last line, if `--yes` would do nothing either and somebody has to look at the plan. */
  hint?: string | undefined;
}

/** Shows the plan, or carries it out. */
export async function planned(
  { yes = false, dryRun = false }: ChangeOptions,
  { plan, planText, act, refused = null, isIdle = false, hint: given }: Plan,
): Promise<Answer> {
  if (yes && !dryRun) {
    const { report, text, exit = DONE } = await act();
    return { data: { done: true, plan, report, refused: null }, text, exit };
  }
  const hint = given ?? (isIdle ? "Nothing to do." : `Nothing was changed.${dryRun ? "" : " Add --yes to do it."}`);
  const text = (look: Look): string =>
    `${planText(look)}\n\n${refused === null ? look.paint("dim", hint) : look.paint("red", `Refused now: ${oneLine(withCommands(refused.message))}`)}`;
  return {
    data: { done: false, plan, report: null, refused },
    text,
    exit: (dryRun || isIdle) && refused === null ? DONE : NEEDS_DECISION,
  };
}

const OUTCOMES = ["done", "not-done", "history", "undo-done", "undo-not-done"] as const;

const RESOLVE = command<ChangeOptions & { result?: string }>({
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
    const details = await saver.effects.get(await effectNamed(saver, given));
    const [effect = { ...effectLine(details), title: details.name }] = await titled(saver, [effectLine(details)]);
    const resolution = resolutionOf(outcome, options.result);
    return planned(options, {
      refused:
        (await movingRefusal(saver, effect.threadId)) ?? settledAlready(details, outcome, await lacksResult(saver, details)),
      plan: { effect, resolution },
      planText: (look) =>
        [
          `${table([effect], EFFECT_COLUMNS, look)}\n`,
          `Ask the receiver first whether it has key ${oneLine(effect.key)}.`,
          ...(details.input === undefined ? [] : [`It was called with ${oneLine(brief(plain(details.input)))}.`]),
          `It would be settled as ${outcome}. That can't be taken back.`,
          ...(outcome === "done" && options.result === undefined
            ? ["A resume gets no result: add --result JSON with what its function would have returned."]
            : []),
        ].join("\n"),
      act: async () => {
        const settled = { ...effectLine(await saver.effects.resolve(effect.id, resolution)), title: effect.title };
        return {
          report: settled,
          text: (look) =>
            `${table([settled], EFFECT_COLUMNS, look)}\n\nSettled. Next: ${toCopy(turns("status", [settled.threadId]))}`,
        };
      },
    });
  },
});

/** Whether it is done, and what its function returned couldn't be saved: that can be given later. */
async function lacksResult(saver: BaseTurnSaver, { id, status, result }: EffectDetails): Promise<boolean> {
  if (status !== "done" || result !== undefined) return false;
  return (await internalsOf(saver).store.getEffect(id))?.outcome?.includes('"unsaved"') === true;
}

/** Why it can't be settled so. */
function settledAlready(
  { status, undoStatus }: EffectDetails,
  outcome: (typeof OUTCOMES)[number],
  isLacking: boolean,
): Refusal | null {
  const why = outcome.startsWith("undo-")
    ? (undoStatus === undefined || undoStatus === "done") && "its undo isn't"
    : outcome !== "history" && status !== "in-doubt" && (outcome === "not-done" || !isLacking) && `it is ${status}`;
  return why === false ? null : { code: "EFFECT_NOT_IN_DOUBT", message: `It isn't in doubt: ${why}.` };
}

/** The id of the effect that begins so: of those in doubt, else of all. Any other text as it is. @throws {UsageError} also for an empty text */
async function effectNamed(saver: BaseTurnSaver, text: string): Promise<string> {
  if (text === "") throw new UsageError("There is no effect with an empty id.", "turns effects lists those in doubt.");
  const doubts = (await effectsInDoubt(saver)).map(({ id }) => id).filter((id) => id.startsWith(text));
  const found = doubts.length > 0 ? doubts : await internalsOf(saver).store.inspect.effectIds(text);
  if (found.length < 2) return found[0] ?? text;
  throw new UsageError(
    `"${text}" is the beginning of several effects: ${found.slice(0, 5).join(", ")}.`,
    "Give more characters.",
  );
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
  abandon?: boolean;
}

const REWIND = command<RewindOptions>({
  name: "rewind",
  args: "<thread>",
  summary: "rewind a thread to the end of a task, undoing its effects; finish or abandon a rewind",
  examples: [
    "turns rewind order-17 --to task-1",
    "turns rewind order-17 --to task-1 --graph ./agent.js --yes",
    "turns rewind order-17 --to task-1 --allow-uncompensated --yes",
  ],
  options: [
    ["--to <task>", "the task to rewind to; it stays as it was when it finished. Leave it out to finish a rewind that was begun"],
    ["--graph <module>", "the module that defines the undos: ./agent.ts, or ./agent.ts#graph"],
    ["--allow-uncompensated", "leave effects without an undo as they are"],
    ["--no-archive", "keep nothing of what is removed: it can't be taken back"],
    ["--abandon", "give up a rewind that was begun and isn't finished; nothing is removed"],
    ...CHANGE,
  ],
  run: async (saver, [thread = ""], { to, graph, allowUncompensated = false, archive = true, abandon = false, ...options }) => {
    const threadId = await threadNamed(saver, thread);
    const unfinished = await saver.rewinds.unfinished(threadId);
    if (abandon) return abandoned(saver, threadId, unfinished, options);
    const toTask = to ?? unfinished?.toTask;
    if (toTask === undefined) {
      const tasks = (await saver.turns.tasks(threadId)).map(({ taskId }) => taskId);
      throw new UsageError("Which task? --to is missing.", `The tasks of thread ${threadId}: ${tasks.join(", ") || "none"}.`);
    }
    const rewinder = await rewinderOf(saver, graph);
    const continued = to === undefined || to === unfinished?.toTask ? unfinished : undefined;
    const plan = await (continued?.reason === undefined
      ? previewRewind(rewinder, { threadId, toTask, allowUncompensated })
      : previewByPlace(saver, continued));
    const effects = await titled(saver, plan.effects);
    const planText = (look: Look): string => {
      const undos = effects.map(
        ({ title, nodeName, verdict }) =>
          `  ${oneLine(`${title} of ${nodeName}`)}  ${look.paint("dim", verdictWords(verdict, graph !== undefined))}`,
      );
      const none =
        continued?.reason !== undefined
          ? "Effects behind its place are undone first."
          : `Effects: ${plan.removed === null ? "not known" : "none"}.`;
      const told = undos.length === 0 ? [none] : ["Effects, in the order in which they are undone:", ...undos];
      return [
        continued === undefined
          ? `Thread ${oneLine(threadId)} goes back to the end of task ${oneLine(toTask)}.`
          : `${begunText(continued)} It would be finished; --abandon gives it up.`,
        removedText(plan.removed, plan.tasks, "Removes"),
        ...told,
      ].join("\n");
    };
    return planned(options, {
      plan,
      planText,
      refused:
        (await movingRefusal(saver, threadId)) ??
        (plan.refusedCode === null
          ? null
          : {
              code: plan.refusedCode,
              message: rewindRefusal(plan.refusedCode, threadId, plan.effects) ?? plan.refused ?? "",
            }),
      act: async () => {
        const report = await stoppable(saver, () =>
          to === undefined
            ? finished(rewinder, { threadId, allowUncompensated })
            : rewinder.rewind({ threadId, toTask, allowUncompensated, archive }),
        );
        const { rewindId, removed, tasks, archived, effects } = report;
        const undone = effects.undone.length + effects.undoneBefore.length;
        const back =
          rewindId === undefined
            ? []
            : archived
              ? [
                  `${undone === 0 ? "" : "What was undone stays undone. "}Take it back: ${toCopy(takeBackCommand(rewindId, undone))}`,
                ]
              : ["It can't be taken back: nothing of it was kept."];
        const undid = [
          ...(effects.undone.length === 0 ? [] : [`Undone: ${plural(effects.undone.length, "effect")}.`]),
          ...(effects.undoneBefore.length === 0 ? [] : [`Undone before: ${plural(effects.undoneBefore.length, "effect")}.`]),
        ];
        return { report, text: () => [removedText(removed, tasks), ...undid, ...back].join("\n") };
      },
    });
  },
});

/** Ctrl-C ends a rewind behind the undo that is running: if that were cut off, it would be in doubt. */
async function stoppable(saver: BaseTurnSaver, rewind: () => Promise<RewindReport>): Promise<RewindReport> {
  return interruptible(async (signal) => {
    // Told when it's saved, before the next one begins.
    saver.events.on("effect", ({ what }) => {
      if (signal.aborted && what === "undone") process.exit(INTERRUPTED);
    });
    return rewind();
  }, "stopping behind the running undo");
}

/** A named export is a graph whose runner has undos of its own. A module alone defines effects with theirs. */
async function rewinderOf(saver: BaseTurnSaver, graph: string | undefined): Promise<Finisher> {
  if (graph?.includes("#") === true) return (await loadGraph(graph, saver)).runner;
  if (graph !== undefined) await loadModule(graph);
  return { ...rewinderWithoutGraph(saver), finishRewind: (request) => saver.rewinds.finish(request) };
}

interface Finisher extends Rewinder {
  finishRewind: (request: FinishRequest) => Promise<RewindReport | undefined>;
}

/** A rewind with a reason goes to a place within a task, which no `--to` can name. */
async function previewByPlace(saver: BaseTurnSaver, { threadId, toTask, targetSeq }: Rewind): Promise<RewindPreview> {
  const { store } = internalsOf(saver);
  const removed = await store.countBehind(threadId, targetSeq);
  const { tasks } = planToPoint(threadId, targetSeq, await store.listTasks(threadId));
  return { toTask, tasks, removed, effects: [], refused: null, refusedCode: null };
}

/** @throws {UsageError} if somebody else has finished it meanwhile */
async function finished(rewinder: Finisher, request: FinishRequest): Promise<RewindReport> {
  const report = await rewinder.finishRewind(request);
  if (report !== undefined) return report;
  throw new UsageError("The rewind isn't unfinished any more.", `${turns("rewinds", [request.threadId])} lists what was done.`);
}

async function abandoned(
  saver: BaseTurnSaver,
  threadId: string,
  unfinished: Rewind | undefined,
  options: ChangeOptions,
): Promise<Answer> {
  if (unfinished === undefined)
    throw new UsageError(`Thread ${threadId} has no unfinished rewind.`, `${turns("rewinds", [threadId])} lists its rewinds.`);
  const { id: rewindId, toTask, createdAt } = unfinished;
  const [run] = await saver.turns.liveRuns(threadId);
  const begun = (await effectsInDoubt(saver)).find((effect) => effect.threadId === threadId && effect.doubt === "undo");
  return planned(options, {
    refused:
      run !== undefined
        ? { code: "THREAD_RUNNING", message: `Process ${run.pid} on ${run.host} is doing it.` }
        : begun && {
            code: "EFFECT_IN_DOUBT",
            message: `Nobody knows whether an undo ran. ${turns("effect resolve", [begun.id, "undo-done"], "--yes")} (or undo-not-done) settles it.`,
          },
    plan: { threadId, rewindId, toTask, since: createdAt.toISOString() },
    planText: () => `${begunText(unfinished)} It would be given up. Nothing is removed, and what it undid stays undone.`,
    act: async () => {
      await saver.rewinds.abandon(rewindId);
      return { report: { threadId, rewindId }, text: () => `Given up. Next: ${toCopy(turns("status", [threadId]))}` };
    },
  });
}

function begunText({ threadId, toTask, createdAt }: Rewind): string {
  return `A rewind of thread ${oneLine(threadId)} to task ${oneLine(toTask)} was begun at ${createdAt.toISOString()} and isn't finished.`;
}

function removedText(removed: RewindCounts | null, tasks: readonly string[], verb = "Removed"): string {
  if (removed === null) return `${verb}: not known.`;
  const { checkpoints, turns, effects } = removed;
  return `${verb}: ${plural(tasks.length, "task")}, ${plural(checkpoints, "checkpoint")}, ${plural(turns, "turn")}, ${plural(effects, "effect")}.`;
}

const TAKE_BACK = command<ChangeOptions & { despiteUndone?: boolean }>({
  name: "take-back",
  args: "<rewind>",
  summary: "take a rewind back, if nothing was saved on its thread since",
  examples: [
    "turns take-back 0196f2c1-…",
    "turns take-back 0196f2c1-… --yes",
    "turns take-back 0196f2c1-… --despite-undone --yes",
  ],
  options: [...CHANGE, ["--despite-undone", "also if it undid effects: they stay undone"]],
  run: async (saver, [rewindId = ""], { despiteUndone = false, ...options }) => {
    const { threadId, toTask, undone, refused } = await takeBackOf(saver, rewindId);
    const stay = undone === 0 ? "" : ` The ${plural(undone, "effect")} that it undid stay${undone === 1 ? "s" : ""} undone.`;
    return planned(options, {
      plan: { rewindId, threadId, toTask, undone },
      planText: () => `The rewind of thread ${oneLine(threadId)} to task ${oneLine(toTask)} would be taken back.${stay}`,
      refused:
        undone > 0 && !despiteUndone && refused === null
          ? {
              code: "REWIND_CONFLICT",
              message: `It undid effects. To take it back without them: ${takeBackCommand(rewindId, undone)}`,
            }
          : refused,
      act: async () => {
        const restored = await saver.rewinds.takeBack(rewindId, { despiteUndone });
        return {
          report: { rewindId, restored },
          text: () =>
            `Restored: ${plural(restored.checkpoints, "checkpoint")} and ${plural(restored.turns, "turn")}.${stay}${stay === "" ? "" : ` ${toCopy(turns("effects", [threadId]))} lists them.`}`,
        };
      },
    });
  },
});

const NAME = command<ChangeOptions & { at?: string; remove?: boolean }>({
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
    const refused = await movingRefusal(saver, threadId);
    const named = (await internalsOf(saver).store.listNames(threadId)).find((one) => one.name === name);
    if (remove) {
      return planned(options, {
        refused,
        isIdle: named === undefined,
        plan: { threadId, name, remove, checkpointId: named?.checkpointId ?? null },
        planText: () =>
          named === undefined
            ? `No checkpoint is named ${oneLine(name)}.`
            : `The name ${oneLine(name)} of checkpoint ${named.checkpointId} would be removed. The checkpoint stays.`,
        act: async () => {
          const found = await saver.names.delete(threadId, name);
          const back = found && named !== undefined ? ` ${namedBack(threadId, named)}` : "";
          return { report: { threadId, name, found }, text: () => (found ? `Removed.${back}` : "There was no such name.") };
        },
      });
    }
    const { checkpointId } = await checkpointNamed(saver, threadId, at);
    // Since it's unique, it leaves the checkpoint that has it.
    const before = named?.checkpointId === checkpointId ? undefined : named;
    const movesFrom = before?.checkpointId ?? null;
    return planned(options, {
      refused,
      isIdle: named !== undefined && before === undefined,
      plan: { threadId, name, checkpointId, movesFrom },
      planText: () =>
        movesFrom === null
          ? `Checkpoint ${checkpointId} ${named === undefined ? "would be" : "is"} named ${oneLine(name)}.`
          : `The name ${oneLine(name)} would move from checkpoint ${movesFrom} to ${checkpointId}. Only a name keeps a checkpoint from being pruned.`,
      act: async () => {
        await saver.names.set({ threadId, checkpointId }, name);
        return {
          report: { threadId, name, checkpointId },
          text: () =>
            named === undefined
              ? `Named. Take it back: ${toCopy(turns("name", [threadId, name], "--remove", "--yes"))}`
              : before === undefined
                ? "It had that name already."
                : `Named. ${namedBack(threadId, before)}`,
        };
      },
    });
  },
});

/** How the checkpoint that had a name gets it again. */
function namedBack(threadId: string, { name, checkpointId, ns }: CheckpointName): string {
  return ns === ""
    ? `Take it back: ${toCopy(turns("name", [threadId, name], ["--at", checkpointId], "--yes"))}`
    : `Checkpoint ${checkpointId} of a nested graph had it: saver.names.set() gives it back.`;
}

const GIVE_WHOLE = "To delete it, give its whole id.";

const DELETE = command<ChangeOptions & { final?: boolean }>({
  name: "delete",
  args: "<thread>",
  summary: "delete a thread",
  examples: ["turns delete order-17", "turns delete order-17 --yes", "turns delete order-17 --final --yes"],
  options: [...CHANGE, ["--final", "refuse new input with this id, too"]],
  run: async (saver, [thread = ""], { final = false, ...options }) => {
    const threadId = await threadNamed(saver, thread);
    const found = await internalsOf(saver).store.getThread(threadId);
    const { checkpoints = 0, turns = 0, tasks = 0 } = found ?? {};
    const [run] = await saver.turns.liveRuns(threadId);
    const isShort = threadId !== thread;
    const whole = `"${thread}" is the beginning of thread ${threadId}.`;
    if (options.yes === true && isShort) throw new UsageError(whole, GIVE_WHOLE);
    return planned(options, {
      refused: isShort ? { code: "INVALID_CONFIG", message: `${whole} ${GIVE_WHOLE}` } : await movingRefusal(saver, threadId),
      plan: { threadId, final, checkpoints, turns, tasks, running: run === undefined ? null : { pid: run.pid, host: run.host } },
      planText: () =>
        `Thread ${oneLine(threadId)} would be deleted: ${plural(tasks, "task")}, ${plural(checkpoints, "checkpoint")}, ${plural(turns, "turn")}. That can't be taken back.${run === undefined ? "" : `\nProcess ${run.pid} on ${oneLine(run.host)} is running it: all its saves will be refused.`}`,
      act: async () => {
        await saver.deleteThread(threadId, { final });
        return { report: { threadId, final }, text: () => `Thread ${oneLine(threadId)} is deleted.` };
      },
    });
  },
});

const COPY = command<ChangeOptions>({
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
    const unfinished = await saver.rewinds.unfinished(threadId);
    const isTaken = (await internalsOf(saver).store.getThread(target)) !== undefined;
    return planned(options, {
      plan: { threadId, target },
      refused:
        unfinished !== undefined
          ? { code: "REWIND_UNFINISHED", message: `${begunText(unfinished)} ${turns("rewind", [threadId])} shows how to end it.` }
          : isTaken
            ? {
                code: "THREAD_EXISTS",
                message: `Thread "${target}" exists already. Copy to another id, or delete that thread first.`,
              }
            : null,
      planText: () => `Thread ${oneLine(threadId)} would be copied to ${oneLine(target)}.`,
      act: async () => {
        await saver.copyThread(threadId, target);
        return {
          report: { threadId, target },
          text: () => `Copied. Take it back: ${toCopy(turns("delete", [target], "--yes"))}`,
        };
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

const PRUNE = command<PruneOptions>({
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
    const refused = threadId === undefined ? null : await movingRefusal(saver, threadId);
    const counted = refused === null ? await saver.prune({ ...request, dryRun: true }) : NOTHING_PRUNED;
    const asking = new Set(counted.deletedThreads.length === 0 ? [] : (await inbox(saver)).map((question) => question.threadId));
    const waiting = counted.deletedThreads.filter((id) => asking.has(id)).length;
    const lost =
      waiting === 0
        ? ""
        : `\n${count(waiting)} of these threads wait${waiting === 1 ? "s" : ""} for an answer: questions are deleted, too.`;
    return planned(options, {
      plan: { ...failuresAsText(counted), waiting },
      refused,
      isIdle: removesNothing(counted),
      planText: () => `${prunedText(counted)} would be removed. That can't be taken back.${lost}${notPruned(counted)}`,
      act: async () => {
        const report = await interruptible((signal) => saver.prune({ ...request, signal }));
        const rest = report.done ? "" : " It was interrupted: the same command continues.";
        const [first = report.inDoubt.length > 0 ? NEEDS_DECISION : DONE] = report.failed
          .map(({ error }) => exitCodeOf(error))
          .sort();
        return {
          report: failuresAsText(report),
          text: () =>
            `Removed ${prunedText(report)}; ${bytes(Math.max(0, report.bytesFreed))} less on disk.${rest}${notPruned(report)}`,
          exit: report.done ? first : INTERRUPTED,
        };
      },
    });
  },
});

/** And leaves nothing that somebody has to look at. */
function removesNothing({ checkpoints, writes, turns, chunks, deletedThreads, inDoubt, failed }: PruneReport): boolean {
  return checkpoints + writes + turns + chunks + deletedThreads.length + inDoubt.length + failed.length === 0;
}

const NOTHING_PRUNED: PruneReport = {
  ...{ checkpoints: 0, writes: 0, turns: 0, chunks: 0, threads: 0, deletedThreads: [], inDoubt: [], failed: [] },
  ...{ bytesFreed: 0, dryRun: true, done: true },
};

/** Threads that stay as they are, and why. */
function notPruned({ inDoubt, failed }: PruneReport): string {
  return [
    ...inDoubt.map((threadId) => `\nNot deleted: ${oneLine(threadId)}: an effect is in doubt. Settle it, or delete the thread.`),
    ...failed.map(({ threadId, error }) => `\nNot pruned: ${oneLine(threadId)}: ${oneLine(messageOf(error))}`),
  ].join("");
}

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
  const whole = deletedThreads.length === 0 ? "" : ` (${plural(deletedThreads.length, "thread")} deleted whole)`;
  return `${plural(checkpoints, "checkpoint")} and ${plural(turns, "turn")} of ${plural(threads, "thread")}${whole}`;
}

export const BACKUP = command<{ overwrite?: boolean; verify?: boolean }>({
  name: "backup",
  args: "<out>",
  summary: "copy a file as it is now, verified, while others continue to save",
  examples: [
    "turns backup backup.db",
    "turns agent.db backup /mnt/backups/agent.db",
    "turns backup backup.db --overwrite --json",
  ],
  options: [
    ["--overwrite", "replace an existing file"],
    ["--no-verify", "don't verify the copy: for a damaged file, which is copied as it is"],
  ],
  run: async (saver, [out = ""], { overwrite = false, verify = true }) => {
    if (isUrl(out)) throw new UsageError("A backup goes to a file.", "To move threads to a server: turns move SRC DST.");
    const { path, bytes: size, pages, verified } = await saver.backup(fileOf(out), { overwrite, verify });
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

const VACUUM = command<ChangeOptions & { full?: boolean }>({
  name: "vacuum",
  summary: "give free space back: to the disk, or on PostgreSQL to new rows",
  examples: ["turns vacuum", "turns vacuum --yes", "turns vacuum --full --yes"],
  options: [...CHANGE, ["--full", "rewrite a whole SQLite file; it needs as much free disk space"]],
  run: async (saver, _, { full = false, ...options }) => {
    const { store } = internalsOf(saver);
    const settings = await store.inspect.settings();
    const isServer = settings["server_version"] !== undefined;
    if (isServer && full)
      throw new UsageError(
        "--full is for SQLite files.",
        "Leave it out. VACUUM FULL of PostgreSQL locks every table; run it by hand while nothing else runs.",
      );
    const { bytes: size, freePages, pageBytes, givesBack } = await store.space();
    const deadRows = isServer ? Number(settings["dead rows"]) : 0;
    const plan = { bytes: size, freeBytes: freePages * pageBytes, full, deadRows };
    const planText = (): string => {
      if (isServer) return `VACUUM (ANALYZE) would make the space of ${plural(deadRows, "dead row")} usable for new rows.`;
      const isStuck = !givesBack && !full && freePages > 0;
      return `${bytes(plan.freeBytes)} of ${bytes(size)} are free.${isStuck ? " This file can only give them back with --full." : ""}`;
    };
    return planned(options, {
      plan,
      planText,
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
