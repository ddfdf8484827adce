import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import type { Serialized } from "@langchain/core/load/serializable";
import type { LLMResult } from "@langchain/core/outputs";
import type { ChainValues } from "@langchain/core/utils/types";
import type { SawDeletion, TurnStatus } from "../store/store";
import { type NodeTaskInfo, nodeTaskIdOf } from "./node-task";

export const RECORDER_NAME = "langgraph_checkpoint_turns_recorder";

const STEP_TAG = /^graph:step:/;
const HIDDEN_TAG = "langsmith:hidden";

/** A node task as it runs: one attempt. */
export interface Attempt extends NodeTaskInfo {
  threadId: string;
  runId: string;
  /** The outermost run that this is a part of. */
  run: OuterRun;
}

export interface OuterRun {
  runId: string;
  sawDeletion: SawDeletion;
}

/** Where the recorder's observations go. Only `nodeStarts` may throw: it stops the node before its work. */
export interface TurnSink {
  /** What a run finds that begins now. */
  deletionOf(threadId: string): Promise<SawDeletion>;
  graphStarts(threadId: string, runId: string, bringsInput: boolean): Promise<void>;
  graphEnds(threadId: string, runId: string): Promise<void>;
  /** `input` is what the node was called with; `hasOwnInput` says that it cannot be the state of a checkpoint. */
  nodeStarts(attempt: Attempt, input: ChainValues, hasOwnInput: boolean): Promise<void>;
  nodeEnds(attempt: Attempt, status: TurnStatus, outcome: unknown): Promise<void>;
  tokensUsed(threadId: string, nodeTaskId: string, input: number, output: number): Promise<void>;
}

/**
 * Sees each node execution from the inside of LangGraph's callback system (internals, section 4). LangGraph awaits
 * `handleChainStart` before a node's body because of `awaitHandlers`, and stops the node if it throws because of `raiseError`. A throw
 * from an end handler would fail a node after its work is done, so the sink's end methods never throw.
 */
export class TurnRecorder extends BaseCallbackHandler {
  readonly name = RECORDER_NAME;
  override readonly awaitHandlers = true;
  override readonly raiseError = true;

  readonly #sink: TurnSink;
  readonly #attempts = new Map<string, Attempt>();
  readonly #graphRuns = new Map<string, string>();
  readonly #lineage = new Lineage();
  readonly #modelRuns = new Map<string, { threadId: string; nodeTaskId: string }>();

  constructor(sink: TurnSink) {
    super();
    this.#sink = sink;
  }

  override async handleChainStart(
    _chain: Serialized,
    inputs: ChainValues,
    runId: string,
    parentRunId?: string,
    tags?: string[],
    metadata?: Record<string, unknown>,
    // The declared type has another order; core calls with the run's type before its name.
    _runType?: string,
    runName?: string,
  ): Promise<void> {
    // The same handler bound to a graph and passed at invoke is called twice for one run.
    if (this.#lineage.has(runId)) return;
    const threadId = metadata?.["thread_id"];
    if (typeof threadId !== "string") return;
    const run = this.#lineage.enter(runId, parentRunId);
    const task = nodeTask(tags, metadata ?? {}, runName);
    const isGraph = task === undefined && metadata?.["langgraph_node"] === undefined;
    if (isGraph) this.#graphRuns.set(runId, threadId);
    if (run.runId === runId) run.sawDeletion = await this.#sink.deletionOf(threadId);
    if (task !== undefined) {
      const attempt = { ...task, threadId, runId, run };
      this.#attempts.set(runId, attempt);
      // A throw passes through: this is the one place where a node can still be stopped.
      try {
        await this.#sink.nodeStarts(attempt, inputs, hasOwnInput(task));
      } catch (error) {
        this.#attempts.delete(runId);
        this.#lineage.leave(runId);
        throw error;
      }
      return;
    }
    if (isGraph) await this.#sink.graphStarts(threadId, runId, bringsInput(inputs));
  }

  override async handleChainEnd(outputs: ChainValues, runId: string): Promise<void> {
    await this.#ended(runId, "ok", outputs);
  }

  override async handleChainError(error: unknown, runId: string): Promise<void> {
    await this.#ended(runId, statusOfError(error), outcomeOfError(error));
  }

  /** A tool may call a graph. */
  override handleToolStart(_tool: Serialized, _input: string, runId: string, parentRunId?: string): void {
    if (parentRunId !== undefined && this.#lineage.has(parentRunId)) this.#lineage.enter(runId, parentRunId);
  }

  override handleToolEnd(_output: unknown, runId: string): void {
    this.#lineage.leave(runId);
  }

  override handleToolError(_error: unknown, runId: string): void {
    this.#lineage.leave(runId);
  }

  override handleChatModelStart(
    _llm: Serialized,
    _messages: unknown,
    runId: string,
    _parentRunId?: string,
    _extra?: Record<string, unknown>,
    _tags?: string[],
    metadata?: Record<string, unknown>,
  ): void {
    this.#modelStarted(runId, metadata);
  }

  override handleLLMStart(
    _llm: Serialized,
    _prompts: string[],
    runId: string,
    _parentRunId?: string,
    _extra?: Record<string, unknown>,
    _tags?: string[],
    metadata?: Record<string, unknown>,
  ): void {
    this.#modelStarted(runId, metadata);
  }

  override async handleLLMEnd(output: LLMResult, runId: string): Promise<void> {
    const run = this.#modelRuns.get(runId);
    this.#modelRuns.delete(runId);
    if (run === undefined) return;
    const { input, output: written } = usageOf(output);
    if (input + written > 0) await this.#sink.tokensUsed(run.threadId, run.nodeTaskId, input, written);
  }

  override handleLLMError(_error: unknown, runId: string): void {
    this.#modelRuns.delete(runId);
  }

  #modelStarted(runId: string, metadata: Record<string, unknown> | undefined): void {
    const nodeNs = metadata?.["langgraph_checkpoint_ns"];
    const threadId = metadata?.["thread_id"];
    if (typeof nodeNs !== "string" || typeof threadId !== "string") return;
    this.#modelRuns.set(runId, { threadId, nodeTaskId: nodeTaskIdOf(nodeNs) });
  }

  async #ended(runId: string, status: TurnStatus, outcome: unknown): Promise<void> {
    this.#lineage.leave(runId);
    const attempt = this.#attempts.get(runId);
    this.#attempts.delete(runId);
    if (attempt !== undefined) return this.#sink.nodeEnds(attempt, status, outcome);
    const threadId = this.#graphRuns.get(runId);
    this.#graphRuns.delete(runId);
    if (threadId !== undefined) await this.#sink.graphEnds(threadId, runId);
  }
}

/** Which outermost run each run is a part of: a graph inside a node began when the run around it did. */
class Lineage {
  readonly #outer = new Map<string, OuterRun>();
  readonly #inner = new Map<OuterRun, Set<string>>();

  has(runId: string): boolean {
    return this.#outer.has(runId);
  }

  enter(runId: string, parentRunId: string | undefined): OuterRun {
    const known = parentRunId === undefined ? undefined : this.#outer.get(parentRunId);
    const run = known ?? { runId, sawDeletion: undefined };
    this.#outer.set(runId, run);
    if (known === undefined) this.#inner.set(run, new Set());
    else this.#inner.get(run)?.add(runId);
    return run;
  }

  /** With the outermost run all goes that was a part of it: a stream that was broken off never reports its end. */
  leave(runId: string): void {
    const run = this.#outer.get(runId);
    this.#outer.delete(runId);
    if (run === undefined) return;
    if (run.runId !== runId) return void this.#inner.get(run)?.delete(runId);
    for (const inner of this.#inner.get(run) ?? []) this.#outer.delete(inner);
    this.#inner.delete(run);
  }
}

/** The node task a run is, or undefined for all that runs around and inside of nodes. */
function nodeTask(
  tags: string[] | undefined,
  metadata: Record<string, unknown>,
  runName: string | undefined,
): NodeTaskInfo | undefined {
  if (tags === undefined || !tags.some((tag) => STEP_TAG.test(tag)) || tags.includes(HIDDEN_TAG)) return undefined;
  const { langgraph_node: name, langgraph_checkpoint_ns: nodeNs, langgraph_step: step } = metadata;
  if (typeof name !== "string" || typeof nodeNs !== "string" || typeof step !== "number") return undefined;
  // A raw Pregel node without writers is no sequence, and its tag reaches what it is made of.
  if (runName !== undefined && runName !== name) return undefined;
  const triggers = Array.isArray(metadata["langgraph_triggers"]) ? (metadata["langgraph_triggers"] as unknown[]) : [];
  const path = Array.isArray(metadata["langgraph_path"]) ? (metadata["langgraph_path"] as unknown[]) : [];
  return { name, step, triggers, path, nodeNs, nodeTaskId: nodeTaskIdOf(nodeNs) };
}

/** Sends, functional tasks and functional entrypoints are called with something else than the state. */
function hasOwnInput(task: NodeTaskInfo): boolean {
  return task.path[0] === "__pregel_push" || task.triggers.includes("__start__");
}

/** `null` resumes and a Command steers; all else is new input. */
function bringsInput(inputs: ChainValues): boolean {
  const wrapped: unknown = "input" in inputs && Object.keys(inputs).length === 1 ? inputs["input"] : inputs;
  if (wrapped === null || wrapped === undefined) return false;
  return (wrapped as { lg_name?: unknown }).lg_name !== "Command";
}

function statusOfError(error: unknown): TurnStatus {
  const name = (error as { name?: unknown } | null)?.name;
  if (name === "ParentCommand") return "handoff";
  return name === "GraphInterrupt" || name === "NodeInterrupt" || name === "GraphBubbleUp" ? "interrupted" : "error";
}

function outcomeOfError(error: unknown): unknown {
  const { name, message, interrupts } = (error ?? {}) as { name?: unknown; message?: unknown; interrupts?: unknown };
  if (Array.isArray(interrupts)) return { interrupts: interrupts as unknown[] };
  return {
    error: { name: typeof name === "string" ? name : "Error", message: typeof message === "string" ? message : String(error) },
  };
}

function usageOf(result: LLMResult): { input: number; output: number } {
  let input = 0;
  let output = 0;
  for (const generation of result.generations.flat()) {
    const message = (generation as { message?: { usage_metadata?: { input_tokens?: number; output_tokens?: number } } }).message;
    input += message?.usage_metadata?.input_tokens ?? 0;
    output += message?.usage_metadata?.output_tokens ?? 0;
  }
  if (input + output > 0) return { input, output };
  const reported = result.llmOutput?.["tokenUsage"] as { promptTokens?: number; completionTokens?: number } | undefined;
  return { input: reported?.promptTokens ?? 0, output: reported?.completionTokens ?? 0 };
}
