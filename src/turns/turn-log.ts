import type { ChainValues } from "@langchain/core/utils/types";
import { TurnsError } from "../errors";
import type { SaverEmitter } from "../events";
import type { ResolvedOptions } from "../options";
import type { UserSerde } from "../serde";
import type {
  Awaitable,
  Lease,
  LostTurn,
  NewThought,
  PackedText,
  SawDeletion,
  Store,
  TaskClaim,
  TokenCounts,
  TurnRow,
  TurnStatus,
  TurnType,
} from "../store/store";
import { namespaceAbove } from "../store/namespaces";
import { once, quietly, type Values } from "../values";
import { passGate } from "./gatekeeper";
import { startsFrom } from "./node-task";
import type { PendingFailures } from "./pending-failures";
import type { Attempt, Elsewhere, TurnSink } from "./recorder";
import type { ModelCaller } from "./recorder-models";
import type { RunRegistry } from "./run-registry";
import { toPublicTurn } from "./public-turn";
import type { Content, Redacted, Redaction } from "./redaction";
import type { SeenCheckpoints } from "./seen-checkpoints";

export interface TurnLogParts {
  store: Store;
  values: Values;
  serde: UserSerde | undefined;
  options: ResolvedOptions;
  events: SaverEmitter;
  runs: RunRegistry;
  failures: PendingFailures;
  redaction: Redaction;
  seen: SeenCheckpoints;
  /** What the run's config said about its task; the callbacks do not carry it. */
  namesOf: (threadId: string) => { taskId: string | undefined; graphId: string | undefined };
  runEnded: (threadId: string) => void;
}

/** Turns what the recorder sees into rows (S1.8), each in a transaction of its own, and keeps to the error policy (S1.9). */
export class TurnLog implements TurnSink {
  readonly #parts: TurnLogParts;
  #warnedOfExit = false;
  /** What runs used in place of this saver, as far as it was warned of. */
  readonly #warnedOf = new Set<string>();

  constructor(parts: TurnLogParts) {
    this.#parts = parts;
  }

  startsElsewhere(threadId: string, { checkpointer }: Elsewhere): void {
    const used = checkpointer === undefined ? "no checkpointer" : className(checkpointer);
    if (this.#warnedOf.has(used)) return;
    this.#warnedOf.add(used);
    this.#parts.options.logger.warn(
      { threadId, checkpointer: used },
      `an attached graph runs with ${used} instead of the TurnSaver that is attached to it: its checkpoints aren't in this file, so no ` +
        "turns are recorded here and it can't be rewound. Effects are still recorded here, so that none is repeated. Run the graph with the " +
        "saver that it was compiled with: graph.checkpointer = saver (LangGraph's dev server replaces it), or don't attach it.",
    );
  }

  async deletionOf(threadId: string): Promise<SawDeletion> {
    return this.#parts.store.deletionOf(threadId);
  }

  async graphStarts(
    threadId: string,
    runId: string,
    kind: { bringsInput: boolean; isInner: boolean },
  ): Promise<Lease | undefined> {
    this.#parts.failures.forget(threadId);
    return this.#parts.runs.graphStarted(threadId, runId, kind);
  }

  async graphEnds(threadId: string, runId: string): Promise<void> {
    this.#parts.failures.forget(threadId);
    this.#parts.runEnded(threadId);
    await this.#parts.runs.graphEnded(threadId, runId);
  }

  async nodeStarts(attempt: Attempt, input: ChainValues, hasOwnInput: boolean): Promise<void> {
    if (attempt.run.elsewhere !== undefined) return;
    const { store, options, values, redaction } = this.#parts;
    await this.#parts.runs.nodeStarted(attempt.threadId, namespaceAbove(attempt.nodeNs), attempt.run.runId, attempt.run.isLate);
    await this.#parts.seen.startOf(attempt, attempt.threadId, () => this.#parts.failures.settled(attempt.threadId));
    await this.#refuseAfterFailure(attempt);
    if (!redaction.recordsTurns) return this.#admit(attempt, store.checkLease(attempt.run.lease, "boundary"));
    const redacted = this.#redacted(attempt, "Thought", undefined);
    const save = (content: Content): ReturnType<Store["saveThought"]> => {
      const packed = once(() => values.text(attempt.threadId, content.value));
      if (hasOwnInput && content.as === "full") quietly(packed);
      return store.saveThought(
        {
          id: options.createId(),
          threadId: attempt.threadId,
          sawDeletion: attempt.run.sawDeletion,
          lease: attempt.run.lease,
          nodeName: attempt.name,
          nodeNs: attempt.nodeNs,
          nodeTaskId: attempt.nodeTaskId,
          runId: attempt.runId,
          step: attempt.step,
          input: {
            text: packed,
            keys: Object.keys(input).filter((key) => input[key] !== undefined),
            isOwn: hasOwnInput,
          },
          instead: content.as === "full" ? undefined : redaction.packed(redacted, content, packed),
          claim: this.#claim(attempt),
          createdAt: options.clock().toISOString(),
          ...graphOf(attempt),
          startedFrom: (checkpointId) => startsFrom(attempt, checkpointId),
          needsSaves: options.onCheckpointError !== "continue",
        },
        "boundary",
      );
    };
    try {
      const saved = this.#inTurn(
        redacted,
        redaction.contentOf(redacted, () => input, "input"),
        save,
      );
      const row = saved instanceof Promise ? await saved : saved;
      await this.#bookTo(attempt, row.threadId ?? attempt.threadId);
      this.#saved(row);
    } catch (error) {
      // If a save before it failed, the node doesn't run, so no turn of it is lost.
      await this.#admit(attempt);
      this.#failed(attempt, "Thought", error);
      if (options.onTurnError !== "continue" || TurnsError.is(error, "LEASE_LOST")) {
        await this.#leave(attempt);
        throw error;
      }
    }
    await this.#admit(attempt);
  }

  /**
   * Lets a node go on when the checkpoint that it starts from is saved: it was handed in before, and is committed with its Thought.
   *
   * @param committed what the node waits for, if that is not over yet
   * @throws as {@link #refuseAfterFailure}; LEASE_LOST
   */
  async #admit(attempt: Attempt, committed?: Awaitable<void>): Promise<void> {
    try {
      await committed;
      await this.#parts.failures.settled(attempt.threadId);
    } catch (error) {
      await this.#leave(attempt);
      throw error;
    }
    await this.#refuseAfterFailure(attempt);
  }

  /** @throws what a save of this run failed with: the node must not run on a checkpoint that does not exist */
  async #refuseAfterFailure(attempt: Attempt): Promise<void> {
    const failure = this.#parts.failures.take(attempt.threadId, namespaceAbove(attempt.nodeNs), attempt.run);
    if (failure === undefined) return;
    // LangChain reports no end of a run whose start was refused.
    await this.#leave(attempt);
    throw failure as Error;
  }

  #leave(attempt: Attempt, failed = false): Promise<void> {
    return this.#parts.runs.nodeEnded(attempt.threadId, namespaceAbove(attempt.nodeNs), failed);
  }

  /** A graph that a node calls on another thread inherits the metadata of the outer one; its checkpoint tells the thread. */
  async #bookTo(attempt: Attempt, threadId: string): Promise<void> {
    if (threadId === attempt.threadId) return;
    await this.#leave(attempt);
    attempt.threadId = threadId;
    const lease = this.#parts.runs.leaseOf(threadId) ?? attempt.run.lease;
    attempt.run = { ...attempt.run, sawDeletion: await this.deletionOf(threadId), lease };
    await this.#parts.runs.nodeStarted(threadId, namespaceAbove(attempt.nodeNs), attempt.run.runId);
  }

  async nodeEnds(attempt: Attempt, status: TurnStatus, outcome: unknown): Promise<void> {
    if (attempt.run.elsewhere !== undefined) {
      if (isResult(status)) await this.#passGate(attempt, undefined, outcome);
      return;
    }
    const { store, options, values, redaction } = this.#parts;
    const redacted = this.#redacted(attempt, "Action", status);
    const textOf = (content: Content): PackedText | undefined => {
      const pack = (): PackedText => values.text(attempt.threadId, content.value);
      return content.as === "full" ? pack() : redaction.packed(redacted, content, pack)();
    };
    const save = (content: Content): ReturnType<Store["saveAction"]> =>
      store.saveAction(
        {
          id: options.createId(),
          threadId: attempt.threadId,
          sawDeletion: attempt.run.sawDeletion,
          lease: attempt.run.lease,
          nodeName: attempt.name,
          nodeNs: attempt.nodeNs,
          nodeTaskId: attempt.nodeTaskId,
          runId: attempt.runId,
          step: attempt.step,
          claim: this.#claim(attempt),
          status,
          update: textOf(content),
          createdAt: options.clock().toISOString(),
          ...graphOf(attempt),
        },
        "boundary",
      );
    const saved = redaction.recordsTurns
      ? this.#savedAction(attempt, () =>
          this.#inTurn(
            redacted,
            redaction.contentOf(redacted, () => outcome, "output"),
            save,
          ),
        )
      : undefined;
    try {
      // Only a gate waits: the node's writes are handed in next, and are to be committed with the Action.
      if (isResult(status) && attempt.run.graph?.gateAt(attempt.nodeNs) !== undefined) {
        await this.#passGate(attempt, await saved, outcome);
      }
      await this.#leave(attempt, status === "error");
    } catch (error) {
      await this.#leave(attempt, true);
      throw error;
    }
  }

  /** Hands an Action in. @returns undefined if it could not be saved */
  async #savedAction(attempt: Attempt, save: () => ReturnType<Store["saveAction"]>): Promise<TurnRow | undefined> {
    try {
      const row = await save();
      this.#saved(row);
      return row;
    } catch (error) {
      this.#failed(attempt, "Action", error);
      return undefined;
    }
  }

  /** @throws {TurnsError} VALIDATION_FAILED */
  async #passGate(attempt: Attempt, action: TurnRow | undefined, output: unknown): Promise<void> {
    const gate = attempt.run.graph?.gateAt(attempt.nodeNs);
    if (gate === undefined) return;
    const { store, options, events, redaction } = this.#parts;
    await passGate(
      { store, log: options.logger, events, keepsReasons: redaction.keepsAll && options.encryption === undefined },
      gate,
      attempt,
      action,
      output,
    );
  }

  /** With a serde of the user's, what a turn holds goes through it as well, and the turn is saved behind what came before it. */
  #inTurn<T>(redacted: Redacted, content: Content, save: (own: Content) => T | Promise<T>): T | Promise<T> {
    const { serde, redaction } = this.#parts;
    if (serde === undefined) return save(content);
    const dumped = async (): Promise<Content> => {
      if (content.as === "none") return content;
      const value = serde.dump(content.value, "a turn");
      if (content.as === "full") return { as: "full", value: await value };
      return value.then(
        (own): Content => ({ as: "redacted", value: own }),
        (error: unknown) => redaction.failed(redacted, error),
      );
    };
    return serde.inOrder(dumped(), save);
  }

  #redacted(attempt: Attempt, turnType: TurnType, status: TurnStatus | undefined): Redacted {
    const { threadId, name: nodeName, nodeNs, nodeTaskId } = attempt;
    const { taskId, graphId } = this.#parts.namesOf(threadId);
    return { threadId, graphId, taskId, nodeName, nodeNs, nodeTaskId, turnType, status };
  }

  async tokensUsed(caller: ModelCaller, tokens: TokenCounts): Promise<void> {
    const { threadId, nodeTaskId } = caller;
    try {
      await this.#parts.store.addTokens(caller, tokens);
    } catch (error) {
      this.#parts.options.logger.warn({ threadId, nodeTaskId, error: String(error) }, "token usage could not be saved");
    }
  }

  /** With durability "exit" a run's nodes begin although its input was never saved; the first Thought then starts the task. */
  #claim(attempt: Attempt): TaskClaim {
    const names = this.#parts.namesOf(attempt.threadId);
    const { run, threadId } = attempt;
    if (!this.#parts.runs.takeUnsavedInput(threadId, run.runId)) {
      return { ...names, kind: "resume", name: attempt.runId };
    }
    this.#warnOfExitDurability(threadId);
    return { ...names, kind: "begin", name: run.runId };
  }

  #warnOfExitDurability(threadId: string): void {
    if (this.#warnedOfExit) return;
    this.#warnedOfExit = true;
    this.#parts.options.logger.warn(
      { threadId },
      'durability "exit" keeps no checkpoint until the run ends: a crash loses the whole run. Use "async", which costs nothing more here.',
    );
  }

  #saved(row: TurnRow): void {
    this.#parts.events.tell("turn", toPublicTurn(row));
  }

  #failed(attempt: Attempt, turnType: TurnType, error: unknown): void {
    const { threadId, name: nodeName } = attempt;
    reportLostTurn(this.#parts, threadId, { nodeName, turnType, error });
  }
}

/** Whether a node came to something that others build on. */
function isResult(status: TurnStatus): boolean {
  return status === "ok" || status === "handoff";
}

function className(value: unknown): string {
  const { constructor } = Object(value) as { constructor?: { name?: string } };
  const name = constructor?.name ?? "a checkpointer without a class";
  return name === "TurnSaver" ? "another TurnSaver" : name;
}

/** The graph that a node runs in, and its fingerprint there. */
function graphOf({ run, nodeNs }: Attempt): Pick<NewThought, "graph" | "fingerprint"> {
  return { graph: run.graph?.reference, fingerprint: run.graph?.fingerprintAt(nodeNs) };
}

/** A turn that could not be saved: logged and reported, and the graph goes on (S1.9). */
export function reportLostTurn(to: Pick<TurnLogParts, "options" | "events">, threadId: string, lost: LostTurn): void {
  const { nodeName, turnType, error } = lost;
  to.options.logger.error({ threadId, nodeName, turnType, error: String(error) }, "a turn could not be saved");
  to.events.tell("turn_failed", { threadId, ...lost });
}
