import { internalsOf } from "../internals";
import { type CheckpointTuple, emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import type { Effect } from "../effects/types";
import { describe, TurnsError } from "../errors";
import type { Gate, Validation, validationFailed } from "../guards/gates";
import type { Undos } from "../rewind/undos";
import type { TurnSaver } from "../saver";
import type { LastRun } from "../store/store";
import type { Assessment, AssessParts } from "./assess";
import {
  allOf,
  didEffects,
  effectList,
  effectsInWords,
  type EffectsOfRun,
  effectsOfRun,
  isUnreadable,
  readTuple,
  settleFirst,
  UNREADABLE,
} from "./last-run";
import type { GraphRunnerOptions } from "./options";

export interface Start {
  input: unknown;
  /** The checkpoint to continue from, if it isn't the newest one. */
  checkpointId: string | undefined;
  /** Whether it continues from the newest checkpoint, even if the call names it: LangGraph would take the name for time travel. */
  isAtNewest?: boolean;
  /** The task that the run belongs to if the caller names none. Default: LangGraph's and the saver's own rules. */
  taskId?: string | undefined;
}

/**
 * Starts a run again as a new branch of the thread's history. Nothing is deleted, and you can still read the old branch by its
 * checkpoint ids.
 *
 * @param run from the checkpoint that brought its input LangGraph runs on, ignoring what was done since
 * @param input another input to use instead; it goes to the state before the run, or to an empty one if that can't be read
 * @returns undefined if there's neither
 */
export async function restarted(
  { saver, graph }: Pick<AssessParts, "saver" | "graph">,
  threadId: string,
  run: Pick<LastRun, "inputId" | "beforeId"> | undefined,
  input: unknown,
): Promise<Start | undefined> {
  const inputId = run?.inputId;
  const begun = await readable(saver, threadId, inputId);
  const isGiven = input !== undefined && input !== null;
  if (!isGiven && begun === undefined) return undefined;
  const before = run?.beforeId ?? (begun?.parentConfig?.configurable?.["checkpoint_id"] as string | undefined);
  const from = isGiven ? await readable(saver, threadId, before) : begun;
  // LangGraph also reads the newest checkpoint, no matter which one it continues from.
  if (from === undefined || (await readTuple(saver, threadId)) === UNREADABLE) await putHead({ saver, graph }, threadId, from);
  return { input: isGiven ? input : null, checkpointId: isGiven ? from && before : inputId };
}

/** Makes a copy of a checkpoint, or an empty one, the thread's newest. */
async function putHead(
  { saver, graph }: Pick<AssessParts, "saver" | "graph">,
  threadId: string,
  from: CheckpointTuple | undefined,
): Promise<void> {
  const { id, ts } = emptyCheckpoint();
  const parent = from === undefined ? {} : { checkpoint_id: from.checkpoint.id };
  await saver.put(
    { configurable: { thread_id: threadId, checkpoint_ns: "", ...parent }, callbacks: graph.config?.callbacks },
    from === undefined ? { ...emptyCheckpoint(), id, ts } : { ...from.checkpoint, id, ts },
    { ...from?.metadata, source: "fork", step: from?.metadata?.step ?? -2, parents: {} },
    {},
  );
}

async function readable(
  saver: TurnSaver,
  threadId: string,
  checkpointId: string | undefined,
): Promise<CheckpointTuple | undefined> {
  if (checkpointId === undefined) return undefined;
  const found = await readTuple(saver, threadId, checkpointId);
  return found === UNREADABLE ? undefined : found;
}

/** The options that choose. */
export interface Policies {
  drift: GraphRunnerOptions["drift"] | undefined;
  onCorrupted: GraphRunnerOptions["onCorrupted"] | undefined;
}

/** Refused by the policy, or because a restart isn't possible. */
type Decision = { effects: EffectsOfRun } & (
  { policy: "restart" | "continue"; refusal: undefined } | { policy: "restart" | "refuse"; refusal: TurnsError }
);

/**
 * What a resume does with a run that can't simply continue. Without a chosen policy, it depends on whether effects would be
 * repeated (S8.4).
 *
 * @param instead the input that a restart would take instead of the run's own
 */
export async function decided(
  saver: TurnSaver,
  threadId: string,
  { obstacle, run }: Pick<Assessment, "run"> & { obstacle: TurnsError },
  { drift, onCorrupted }: Policies,
  instead?: unknown,
): Promise<Decision> {
  const effects = await effectsOfRun(saver, threadId, run);
  const isDrift = obstacle.code === "GRAPH_CHANGED";
  if (!isDrift && !isUnreadable(obstacle)) return { policy: "refuse", effects, refusal: obstacle };
  const chosen = isDrift ? drift : onCorrupted;
  const policy = typeof chosen === "string" ? chosen : didEffects(effects) ? "refuse" : "restart";
  if (policy === "refuse") {
    const isAfterEffects = !isDrift && didEffects(effects);
    return { policy, effects, refusal: isAfterEffects ? unreadableAfterEffects(threadId, obstacle, effects) : obstacle };
  }
  if (policy === "continue") return { policy, effects, refusal: undefined };
  if (effects.open.length > 0) return { policy, effects, refusal: restartInDoubt(threadId, effects.open, obstacle) };
  const hasInput = (instead ?? undefined) !== undefined || (await readable(saver, threadId, run?.inputId)) !== undefined;
  return hasInput ? { policy, effects, refusal: undefined } : { policy, effects, refusal: obstacle };
}

/** What stands in the way of a run that simply continues, for the end of a sentence. */
export function obstacleInWords({ obstacle, drift }: Pick<Assessment, "obstacle" | "drift">): string {
  return obstacle?.code === "GRAPH_CHANGED" ? drift.join("; ") : `the thread can't be read (${obstacle?.code ?? ""})`;
}

/** Refuses an unreadable checkpoint when its run did effects: a restart would repeat them (S8.4). */
function unreadableAfterEffects(threadId: string, obstacle: TurnsError, did: EffectsOfRun): TurnsError {
  const restart = `new GraphRunner(graph, { onCorrupted: "restart" }).resume({ threadId: ${JSON.stringify(threadId)} })`;
  return new TurnsError(obstacle.code, {
    problem: `${obstacle.message} The run doesn't start again by itself.${effectsInWords(did)}`,
    remedy:
      did.open.length === 0
        ? `Restore a backup, or choose to repeat them: ${restart}.`
        : `Restore a backup, or ${settleFirst(did)} Then ${restart} starts again${did.done.length === 0 ? "" : ", and repeats those that are done"}.`,
    data: { ...obstacle.data, effects: allOf(did) },
    cause: obstacle,
  });
}

/** On a new branch an effect gets another key, so not even a probe could tell that it is the same side effect. */
function restartInDoubt(threadId: string, open: readonly Effect[], obstacle: TurnsError): TurnsError {
  const [first] = open as readonly [Effect, ...Effect[]];
  const effects = open.map(({ id: effectId, name, label, key, nodeName, status }) => {
    return { effectId, name, label, key, nodeName, status };
  });
  return new TurnsError("EFFECT_IN_DOUBT", {
    problem: `The run of thread ${describe(threadId)} can't start again (${obstacle.code}) while it isn't known whether these effects happened: ${effects
      .map(({ name, label, key, nodeName }) => `${describe(name)} (${label}, key ${key}) of node ${describe(nodeName)}`)
      .join(", ")}.`,
    remedy: `Nothing was started. Find out whether each happened, and settle it with saver.effects.resolve(${JSON.stringify(first.id)}, { outcome: "done", result }) or { outcome: "not-done" }${obstacle.code === "GRAPH_CHANGED" ? '; or pass drift: "continue" to build on what was done' : ""}.`,
    data: { threadId, effectId: first.id, effects, reason: obstacle.code },
    cause: obstacle,
  });
}

export function repeatsInWords(done: EffectsOfRun["done"]): string {
  return done.length === 0 ? "" : ` Effects that were done, and happen again when their nodes run: ${effectList(done)}.`;
}

/** What a gate's VALIDATION_FAILED says about itself. */
type FailedGate = Parameters<typeof validationFailed>[0] & Pick<Gate, "maxRollbacks"> & Pick<Validation, "confidence">;

/** @returns undefined unless the error is from a gate that asks for a rollback */
export function rollbackAsked(error: unknown): FailedGate | undefined {
  if (!TurnsError.is(error, "VALIDATION_FAILED") || error.data["onFailure"] !== "rollback") return undefined;
  return error.data as unknown as FailedGate;
}

/**
 * Rewinds to the checkpoint that the node started from and undoes its effects (S3.4). Rollbacks are counted in the database by
 * node task, whose id stays the same. So a run that crashes in between doesn't roll back forever.
 *
 * @returns whether it rolled back; false if the node has used up its rollbacks, or its start is unknown
 * @throws {TurnsError} what the rewind is refused with, such as EFFECT_UNCOMPENSATED; the run then stands where the node failed
 */
export async function rollBack(saver: TurnSaver, undos: Undos | undefined, gate: FailedGate): Promise<boolean> {
  const reason = `gate:${gate.nodeTaskId}`;
  const { threadId, nodeName: node, confidence, maxRollbacks } = gate;
  const warn = (data: object, message: string): void =>
    internalsOf(saver).logger.warn({ threadId, node, ...data }, `node ${JSON.stringify(node)} ${message}`);
  const before = await internalsOf(saver).countRewinds(threadId, reason);
  if (before >= maxRollbacks) {
    warn({ confidence, rollbacks: before }, "was rolled back as often as it may be");
    return false;
  }
  const from = await startOf(saver, gate);
  if (from === undefined) {
    warn({}, "failed its validation, and nobody knows where it started");
    return false;
  }
  const rollback = before + 1;
  warn({ confidence, rollback, maxRollbacks }, "failed its validation: the run goes back to the checkpoint before it");
  await internalsOf(saver).rewindToCheckpoint({ threadId, ...from, reason }, undos);
  return true;
}

/**
 * The checkpoint that the node started from, as its turn says. Without turns, a node of the outermost graph started from the
 * newest.
 */
async function startOf(
  saver: TurnSaver,
  { threadId, nodeNs, turnId }: FailedGate,
): Promise<{ checkpointNs: string; checkpointId: string } | undefined> {
  const run = await internalsOf(saver).lastRun(threadId);
  if (run?.damage !== undefined) throw run.damage;
  const turns = turnId === undefined ? [] : await saver.turns.list(threadId, { after: Math.max(0, (run?.sinceSeq ?? 0) - 1) });
  const { checkpointNs, checkpointId } = turns.find(({ id }) => id === turnId) ?? {};
  if (checkpointNs !== undefined && checkpointId !== undefined) return { checkpointNs, checkpointId };
  const head = turnId === undefined && !nodeNs.includes("|") ? run?.branch[0] : undefined;
  return head === undefined ? undefined : { checkpointNs: "", checkpointId: head };
}
