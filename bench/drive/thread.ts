import { randomUUID } from "node:crypto";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { BaseCheckpointSaver, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { timed } from "../measure/clock";
import type { Contender } from "./contenders";
import { NodeRuns } from "./node-runs";
import type { Script, Step } from "./script";

export interface StepTimes {
  put: number;
  putWrites: number;
  thought: number;
  action: number;
  /** All of it. */
  step: number;
}

/** One thread of one saver, driven step by step as LangGraph would drive it. */
export class Thread {
  readonly id: string;
  readonly contender: Contender;
  readonly saver: BaseCheckpointSaver;
  readonly path: string;
  readonly script: Script;
  readonly #runs: NodeRuns | undefined;
  /** The first checkpoint a node started from. */
  #firstId: string | undefined;
  #last: Step | undefined;
  #isResumed = false;

  constructor(parts: { contender: Contender; saver: BaseCheckpointSaver; path: string; script: Script; id?: string }) {
    this.id = parts.id ?? `bench-${randomUUID()}`;
    this.contender = parts.contender;
    this.saver = parts.saver;
    this.path = parts.path;
    this.script = parts.script;
    this.#runs = parts.contender.records ? new NodeRuns(parts.saver as TurnSaver, this.id) : undefined;
  }

  async begin(): Promise<void> {
    await this.#runs?.graphStarts(true);
    await this.save(this.script.begin());
  }

  /** Instead of {@link begin}: goes on with a thread that another process has begun. */
  async goOn(): Promise<void> {
    this.#isResumed = true;
    await this.#runs?.graphStarts(false);
  }

  async step(): Promise<StepTimes> {
    return this.save(this.script.next());
  }

  async end(): Promise<void> {
    await this.#runs?.graphEnds();
    if (this.#runs !== undefined && !this.#isResumed) await this.#checkTurns();
  }

  /** A step that recorded nothing would be a fast one. */
  async #checkTurns(): Promise<void> {
    const [thought, action] = await (this.saver as TurnSaver).listTurns(this.id, { limit: 2 });
    const found = thought?.turnType === "Thought" && thought.checkpointId === this.#firstId;
    if (!found || action?.turnType !== "Action" || !action.durable) throw new Error(`${this.contender.name} recorded no turns`);
  }

  async save(step: Step): Promise<StepTimes> {
    this.#last = step;
    const runs = step.metadata.source === "input" ? undefined : this.#runs;
    if (runs !== undefined) this.#firstId ??= step.checkpoint.id;
    let run = "";
    const put = await timed(() => this.saver.put(this.config(step.parentId), step.checkpoint, step.metadata, step.newVersions));
    const thought = runs === undefined ? 0 : await timed(async () => (run = await runs.nodeStarts(step)));
    const action = runs === undefined ? 0 : await timed(() => runs.nodeEnds(run, step));
    const putWrites = await timed(() => this.saver.putWrites(this.config(step.checkpoint.id), step.writes, step.task.id));
    return { put, putWrites, thought, action, step: put + thought + action + putWrites };
  }

  async getTuple(checkpointId?: string): Promise<CheckpointTuple> {
    const tuple = await this.saver.getTuple(this.config(checkpointId));
    if (tuple === undefined) throw new Error(`${this.contender.name} lost the thread`);
    return tuple;
  }

  async list(limit?: number): Promise<number> {
    let count = 0;
    const options = limit === undefined ? {} : { limit };
    for await (const _ of this.saver.list({ configurable: { thread_id: this.id, checkpoint_ns: "" } }, options)) count += 1;
    return count;
  }

  /** What a new process does first: opens the store, loads the head, and has the first node's Thought recorded. */
  async resume(): Promise<{ cold: number; resume: number }> {
    const last = this.#last;
    if (last === undefined) throw new Error("nothing to resume");
    const begun = performance.now();
    const saver = await this.contender.open(this.path);
    const tuple = await saver.getTuple(this.config());
    const cold = performance.now() - begun;
    if (tuple?.checkpoint.id !== last.checkpoint.id) throw new Error(`${this.contender.name} resumes elsewhere`);
    const runs = this.contender.records ? new NodeRuns(saver as TurnSaver, this.id) : undefined;
    await runs?.graphStarts(false);
    await runs?.nodeStarts({ task: last.task, input: tuple.checkpoint.channel_values });
    const resume = performance.now() - begun;
    await runs?.graphEnds();
    await this.contender.close(saver);
    return { cold, resume };
  }

  config(checkpointId?: string): RunnableConfig {
    const callbacks = this.#runs === undefined ? {} : { callbacks: [this.#runs.handler] };
    return { ...callbacks, configurable: { thread_id: this.id, checkpoint_ns: "", checkpoint_id: checkpointId } };
  }
}
