import { randomUUID } from "node:crypto";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { BaseCheckpointSaver, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { timed } from "../measure/clock";
import type { Contender } from "./contenders";
import { NodeRuns } from "./node-runs";
import type { Script, Step } from "./script";

/** From a call to the end of its promise. The calls of a step overlap, so its whole time is less than their sum. */
export interface StepTimes {
  put: number;
  putWrites: number;
  thought: number;
  action: number;
  /** From the first call to the end of the last. */
  step: number;
}

/** A running node: what it will write, and the run by which its recorder knows it. */
interface Running {
  step: Step;
  run: string | undefined;
}

/**
 * One thread of one saver, driven boundary by boundary as LangGraph drives it with durability "async": the end of a node, its writes, the next
 * checkpoint and the start of the next node are handed in together. LangGraph waits only for the start; a step waits for all of them, so
 * that its time has all of their work. Between two steps a node is running.
 */
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
  #running: Running | undefined;
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

  /** Instead of {@link begin}: continues a thread that another process has begun. */
  async goOn(): Promise<void> {
    this.#isResumed = true;
    await this.#runs?.graphStarts(false);
  }

  async step(): Promise<StepTimes> {
    return this.save(this.script.next());
  }

  async end(): Promise<void> {
    await this.finish();
    await this.#runs?.graphEnds();
    if (this.#runs !== undefined && !this.#isResumed) await this.#checkTurns();
  }

  /** A step that recorded nothing would be a fast one. */
  async #checkTurns(): Promise<void> {
    const [thought, action] = await (this.saver as TurnSaver).turns.list(this.id, { limit: 2 });
    const found = thought?.turnType === "Thought" && thought.checkpointId === this.#firstId;
    if (!found || action?.turnType !== "Action" || !action.durable) throw new Error(`${this.contender.name} recorded no turns`);
  }

  /** The boundary before a step: ends the node that runs, saves the step's checkpoint and starts its node. */
  async save(step: Step): Promise<StepTimes> {
    const begun = performance.now();
    const running = this.#running;
    this.#running = undefined;
    this.#last = step;
    const runs = step.metadata.source === "input" ? undefined : this.#runs;
    if (runs !== undefined) this.#firstId ??= step.checkpoint.id;
    let run: string | undefined;
    const action = await this.#nodeEnds(running);
    const [putWrites, put, thought] = await Promise.all([
      this.#putWrites(running),
      timed(() => this.saver.put(this.config(step.parentId), step.checkpoint, step.metadata, step.newVersions)),
      runs === undefined ? 0 : timed(async () => (run = await runs.nodeStarts(step))),
    ]);
    this.#running = { step, run };
    return { put, putWrites, thought, action, step: performance.now() - begun };
  }

  /** Ends the node that runs, with nothing behind it. */
  async finish(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    await this.#nodeEnds(running);
    await this.#putWrites(running);
  }

  async #nodeEnds(running: Running | undefined): Promise<number> {
    const [runs, run] = [this.#runs, running?.run];
    return running === undefined || runs === undefined || run === undefined ? 0 : timed(() => runs.nodeEnds(run, running.step));
  }

  async #putWrites(running: Running | undefined): Promise<number> {
    if (running === undefined) return 0;
    const { checkpoint, writes, task } = running.step;
    // Older savers take three arguments: their types don't know of the task path.
    const saver: Pick<TurnSaver, "putWrites"> = this.saver;
    return timed(() => saver.putWrites(this.config(checkpoint.id), writes, task.id, `~__pregel_pull, ${task.name}`));
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
