import { z } from "zod";
import type { EffectResolution } from "../effects/effects";
import { describe, TurnsError } from "../errors";
import { takeBackCommand } from "../inspection/rewinds";
import { rewindRefusal } from "../inspection/refusal";
import { standingOf } from "../inspection/standing";
import { previewRewind, rewinderWithoutGraph } from "../inspection/status";
import { errorText, firstLine, listed, plural, startedAs, turns } from "../inspection/words";
import { internalsOf } from "../internals";
import { questionIds } from "../runner/last-run";
import { isId } from "../system";
import { schemaOf } from "../options";
import type { Done } from "./api";
import { HttpError } from "./failures";
import { type Context, FORMAT } from "./routes";

/* What POST does. Only with `turns web --write`, and only with the id of the thread, typed. */

interface Change {
  /** `/api/threads/:id/rewind` */
  pattern: string;
  act: (context: Context, params: Readonly<Record<string, string>>, body: unknown) => Promise<Done>;
}

export const CHANGES: readonly Change[] = [
  { pattern: "/api/threads/:id/resume", act: resume },
  { pattern: "/api/threads/:id/answer", act: answer },
  { pattern: "/api/threads/:id/rewind", act: rewind },
  { pattern: "/api/rewinds/:id/take-back", act: takeBack },
  { pattern: "/api/effects/:id/resolve", act: resolve },
];

const confirm = z.string();
const resumeSchema = () => z.strictObject({ confirm });
const answerSchema = () => z.strictObject({ confirm, interruptId: z.string().nullable(), value: z.unknown() });
const rewindSchema = () => z.strictObject({ confirm, toTask: z.string(), allowUncompensated: z.boolean().default(false) });
const takeBackSchema = () => z.strictObject({ confirm, despiteUndone: z.boolean().default(false) });
const resolveSchema = () =>
  z.strictObject({
    confirm,
    outcome: z.enum(["done", "not-done", "history", "undo-done", "undo-not-done"]),
    result: z.unknown().optional(),
  });

/** @throws {HttpError} 400 */
function checked<T>(schema: () => z.ZodType<T>, body: unknown): T {
  const result = schemaOf(schema).safeParse(body);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const where = issue?.path.join(".") ?? "";
  throw new HttpError(
    400,
    "INVALID_OPTION",
    `The body isn't valid${where === "" ? "" : ` at "${where}"`}: ${issue?.message ?? ""}. Nothing was changed.`,
  );
}

/** @throws {HttpError} 400 */
function refuseUnconfirmed(given: string, threadId: string): void {
  if (given !== threadId) throw notConfirmed();
}

function notConfirmed(): HttpError {
  return new HttpError(400, "NOT_CONFIRMED", "What was typed isn't the id of the thread. Nothing was changed.");
}

async function resume(context: Context, { id = "" }: Readonly<Record<string, string>>, body: unknown): Promise<Done> {
  refuseUnconfirmed(checked(resumeSchema, body).confirm, id);
  return started(context, id, (runner) => runner.resume({ threadId: id } as never));
}

async function answer(context: Context, { id = "" }: Readonly<Record<string, string>>, body: unknown): Promise<Done> {
  const { confirm: typed, interruptId, value } = checked(answerSchema, body);
  refuseUnconfirmed(typed, id);
  const { Command } = await import("@langchain/langgraph");
  const { questions } = await standingOf(context.saver, id, { doubts: new Map() });
  // Without an id LangGraph answers all that is open.
  if (interruptId === null && (questions.length !== 1 || questions[0]?.id !== null))
    throw new HttpError(
      409,
      "UNKNOWN_INTERRUPT",
      `The thread has no open question without an id. Those that are open: ${listed(questions.map((one) => one.id ?? "one without an id")) || "none"}. Nothing was changed.`,
    );
  const command = new Command({ resume: interruptId === null ? value : { [interruptId]: value } });
  // LangGraph would take an object whose key is no question's id for the answer itself.
  if (interruptId !== null && questionIds({ resume: command.resume }) === undefined)
    throw new HttpError(409, "UNKNOWN_INTERRUPT", `No question can have the id ${describe(interruptId)}. Nothing was changed.`);
  return started(context, id, (runner) => runner.resume({ threadId: id, command } as never));
}

const LOOK_MS = 25;
/** A run without a new turn for so long is doing something else. */
const LONGEST_MS = 5_000;

type Runner = NonNullable<Context["graph"]>["runner"];

/**
 * Starts a run, and answers when one of its nodes has started, or when it's over before anybody saw that.
 *
 * @throws {HttpError} 409 without a graph; what the run throws before it has begun
 */
async function started(context: Context, threadId: string, run: (runner: Runner) => Promise<unknown>): Promise<Done> {
  const { graph, program } = context;
  if (graph === undefined)
    throw new HttpError(
      409,
      "NO_GRAPH",
      "turns web was started without a graph, so nothing can run. Start it again: turns web --write --graph ./agent.ts#graph.",
    );
  const { runner } = graph;
  // Its mark alone says nothing: it's there before the answer or the graph is looked at, and refused.
  const newest = await newestTurn(runner, threadId);
  let isOver = false;
  let failure: Error | undefined;
  const running = run(runner).then(
    () => void (isOver = true),
    (error: unknown) => {
      isOver = true;
      failure = error instanceof Error ? error : new Error(String(error));
    },
  );
  const since = Date.now();
  let hasBegun = false;
  while (!isOver && !hasBegun) {
    await Promise.race([running, new Promise((resolve) => setTimeout(resolve, LOOK_MS))]);
    hasBegun = (await newestTurn(runner, threadId)) !== newest || Date.now() - since > LONGEST_MS;
  }
  if (TurnsError.is(failure)) {
    const message = rewindRefusal(failure.code, threadId, [], program);
    throw message === undefined ? failure : new HttpError(409, failure.code, message);
  }
  if (!isOver) void running.then(() => failure !== undefined && reportEnd(context, graph.name, threadId, failure));
  // What a node threw is saved on the thread.
  const end = failure === undefined ? "It ran to its end." : firstLine(`It ran and failed: ${errorText(failure)}`);
  return { format: FORMAT, headline: isOver ? end : "Resumed.", command: null, running: !isOver };
}

/** Ctrl-C stops a run before its next node: nothing has failed then. */
function reportEnd({ report, program }: Context, module: string, threadId: string, failure: Error): void {
  const thread = `thread ${describe(threadId)}`;
  if (!TurnsError.is(failure, "STORE_DRAINING")) {
    report(`${thread}: the run failed`, failure);
    return;
  }
  const resume = startedAs(program, turns("resume", [threadId], ["--graph", module], "--yes"));
  const { node } = failure.data;
  const before = typeof node === "string" ? ` before node ${describe(node)}` : "";
  report(`${thread} stopped${before}, because this program ends. Everything that completed is kept. Continue: ${resume}`);
}

async function newestTurn({ saver }: Runner, threadId: string): Promise<string | undefined> {
  const { store } = internalsOf(saver);
  const [newest] = await store.inspect.turnsBefore({ threadId, beforeSeq: Number.MAX_SAFE_INTEGER, limit: 1 });
  return newest?.id;
}

async function rewind(context: Context, { id = "" }: Readonly<Record<string, string>>, body: unknown): Promise<Done> {
  const { confirm: typed, toTask, allowUncompensated } = checked(rewindSchema, body);
  refuseUnconfirmed(typed, id);
  const { saver, graph, program } = context;
  const request = { threadId: id, toTask, allowUncompensated };
  const rewinder = graph?.runner ?? rewinderWithoutGraph(saver);
  const { rewindId, tasks, archived, effects } = await rewinder.rewind(request).catch(async (error: unknown) => {
    if (!TurnsError.is(error)) throw error;
    const told = (await previewRewind(rewinder, request)).effects;
    const message = rewindRefusal(error.code, id, told, program);
    throw message === undefined ? error : new HttpError(409, error.code, message);
  });
  const undone = effects.undone.length + effects.undoneBefore.length;
  return {
    format: FORMAT,
    headline:
      rewindId === undefined
        ? `Nothing had to go: it is at the end of ${toTask}.`
        : `Rewound to ${toTask}: ${plural(tasks.length, "task")} removed${effects.undone.length > 0 ? `, ${plural(effects.undone.length, "effect")} undone` : ""}.`,
    command: rewindId === undefined || !archived ? null : takeBackCommand(rewindId, undone),
    running: false,
  };
}

async function takeBack({ saver, graph }: Context, { id = "" }: Readonly<Record<string, string>>, body: unknown): Promise<Done> {
  const { confirm: threadId, despiteUndone } = checked(takeBackSchema, body);
  const known = isId(threadId) ? await saver.rewinds.list(threadId) : [];
  if (!known.some((one) => one.id === id)) throw notConfirmed();
  const restored = await (graph === undefined
    ? saver.rewinds.takeBack(id, { despiteUndone })
    : graph.runner.takeBackRewind(id, { despiteUndone }));
  const headline = `Taken back: ${plural(restored.turns, "turn")} and ${plural(restored.checkpoints, "checkpoint")} restored.`;
  return { format: FORMAT, headline, command: null, running: false };
}

async function resolve({ saver }: Context, { id = "" }: Readonly<Record<string, string>>, body: unknown): Promise<Done> {
  const { confirm: typed, outcome, result } = checked(resolveSchema, body);
  const { threadId } = await saver.effects.get(id);
  refuseUnconfirmed(typed, threadId);
  if (result !== undefined && outcome !== "done")
    throw new HttpError(400, "INVALID_OPTION", "A result belongs to the outcome done. Nothing was changed.");
  const { name } = await saver.effects.resolve(id, resolutionOf(outcome, result));
  return { format: FORMAT, headline: `${name} is settled: ${OUTCOMES[outcome]}.`, command: null, running: false };
}

const OUTCOMES = {
  done: "it happened",
  "not-done": "it didn't happen, and may run again",
  history: "it belongs to the past",
  "undo-done": "it was undone",
  "undo-not-done": "it wasn't undone",
} as const;

function resolutionOf(outcome: keyof typeof OUTCOMES, result: unknown): EffectResolution {
  if (outcome === "undo-done") return { undo: "done" };
  if (outcome === "undo-not-done") return { undo: "not-done" };
  return outcome === "done" && result !== undefined ? { outcome, result } : { outcome };
}
