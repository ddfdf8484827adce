import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import type { AttachedGraph } from "./attached-graph";
import { JOURNAL } from "./journal-key";
import { type Elsewhere, RECORDER_NAME, type TurnRecorder } from "./recorder";
import { unprinted } from "./unprinted";

type Handled<K extends keyof TurnRecorder> = TurnRecorder[K] extends (...args: infer A) => unknown ? A : never;

/**
 * The face that a saver's one recorder has for one graph: callbacks do not say which graph runs, so the handler does. Where several see
 * the same run (a graph inside another, both attached; the same one twice), the recorder takes it from the first that reports it; which
 * graph a run belongs to is decided by the outermost run.
 */
export class RecorderFace extends BaseCallbackHandler {
  readonly name = RECORDER_NAME;
  override readonly awaitHandlers = true;
  override readonly raiseError = true;
  /** LangChain makes promises for each kind of event that isn't ignored. */
  override readonly ignoreRetriever = true;
  override readonly ignoreCustomEvent = true;
  readonly recorder: TurnRecorder;
  readonly graph: AttachedGraph;
  readonly #elsewhere: Elsewhere | undefined;

  /** @param elsewhere given for runs that don't use the recorder's saver */
  constructor(recorder: TurnRecorder, graph: AttachedGraph, elsewhere?: Elsewhere) {
    super();
    this.recorder = recorder;
    this.graph = graph;
    this.#elsewhere = elsewhere;
  }

  /** @returns the face for a run of the same graph that uses this checkpointer, or none */
  without(checkpointer: unknown): RecorderFace {
    return new RecorderFace(this.recorder, this.graph, { checkpointer });
  }

  /** What `effect()` looks for. */
  get [JOURNAL](): unknown {
    return this.recorder[JOURNAL];
  }

  /** Where the nodes of the graph count their bodies; none if another checkpointer keeps the run. */
  get bodies(): unknown {
    return this.isElsewhere ? undefined : this.recorder.bodies;
  }

  /** Whether another checkpointer than the recorder's own keeps the run. */
  get isElsewhere(): boolean {
    return this.#elsewhere !== undefined;
  }

  /** The declared type has another order; core calls with the run's type before its name. */
  override handleChainStart(
    ...[, inputs, runId, parentRunId, tags, metadata, , runName]: Handled<"handleChainStart">
  ): Promise<void> {
    return passedOn(() =>
      this.recorder.chainStarts(this.graph, inputs, { runId, parentRunId, tags, metadata, runName, elsewhere: this.#elsewhere }),
    );
  }

  override handleChainEnd(...args: Handled<"handleChainEnd">): Promise<void> {
    return passedOn(() => this.recorder.handleChainEnd(...args));
  }

  override handleChainError(...args: Handled<"handleChainError">): Promise<void> {
    return passedOn(() => this.recorder.handleChainError(...args));
  }

  override handleToolStart(...args: Handled<"handleToolStart">): void {
    this.recorder.handleToolStart(...args);
  }

  override handleToolEnd(...args: Handled<"handleToolEnd">): void {
    this.recorder.handleToolEnd(...args);
  }

  override handleToolError(...args: Handled<"handleToolError">): void {
    this.recorder.handleToolError(...args);
  }

  override handleChatModelStart(...args: Handled<"handleChatModelStart">): void {
    this.recorder.handleChatModelStart(...args);
  }

  override handleLLMStart(...args: Handled<"handleLLMStart">): void {
    this.recorder.handleLLMStart(...args);
  }

  override handleLLMNewToken(...args: Handled<"handleLLMNewToken">): Promise<void> {
    return passedOn(() => this.recorder.handleLLMNewToken(...args));
  }

  override handleLLMEnd(...args: Handled<"handleLLMEnd">): Promise<void> {
    return passedOn(() => this.recorder.handleLLMEnd(...args));
  }

  override handleLLMError(...args: Handled<"handleLLMError">): void {
    this.recorder.handleLLMError(...args);
  }
}

export function isRecorderOf(handler: unknown, recorder: TurnRecorder): handler is RecorderFace {
  return handler instanceof RecorderFace && handler.recorder === recorder;
}

/** @throws what the recorder throws, so that LangChain prints nothing */
async function passedOn(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    throw unprinted(error);
  }
}
