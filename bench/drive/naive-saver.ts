import { randomUUID } from "node:crypto";
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointTuple,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import { chunkTag, encode, RECORDER_NAME, sha256 } from "../../src/testing-internal";
import { type Element, elementOf, isStill, NaiveList } from "./naive-list";
import { NO_CHECKSUM, type Runs, type StoredTurn, type Tables, type Turn } from "./naive-tables";

/** The promises that a {@link NaiveSaver} keeps. Each rung keeps those below it too. */
export const RUNGS = {
  /** A Thought is committed before its node runs, an Action with the node's writes; one transaction a boundary. */
  boundaries: 1,
  /** The package's tables and indexes. */
  tables: 2,
  /** A checksum in each row, the SHA-256 of its text as the address of each chunk, a digest of each list. */
  checksums: 3,
  /** The codec's exact text, and a comparison of each message with a private copy. */
  values: 4,
  /** The file and its log are looked at before and after each commit. */
  looks: 5,
  /** A lease on the thread, and a look in each transaction whether others have written. */
  fence: 6,
} as const;
export type Rung = (typeof RUNGS)[keyof typeof RUNGS];

/** Where a naive saver saves. */
export interface NaivePlace {
  readonly tables: Tables;
  has(threadId: string): boolean | Promise<boolean>;
  turnsOf(threadId: string): StoredTurn[] | Promise<StoredTurn[]>;
  /**
   * One transaction with these statements and the thread's row.
   *
   * @param runId the run whose lease it needs
   */
  commit(statements: readonly Runs[], values: readonly unknown[][], runId: string | undefined): void | Promise<void>;
  /** A transaction of its own. */
  takeLease(runId: string, threadId: string): void;
  close(): void | Promise<void>;
}

const IS_STEP = /^graph:step:/;
const HIDDEN_TAG = "langsmith:hidden";

/** Taken at load, as the package does. */
const atEndOfMacrotask = setImmediate;

/**
 * A saver for {@link ChainGraph} and for `Thread` with one message a step, on new threads, one thread at a time, and for nothing else. It does
 * what its rung promises in as few instructions as possible, so that nothing that keeps these promises can be much cheaper.
 */
export class NaiveSaver extends BaseCheckpointSaver {
  readonly handler = new Boundaries(this);
  /** How many transactions it has committed. */
  commits = 0;
  readonly #rung: Rung;
  readonly #place: NaivePlace;
  readonly #tables: Tables;
  readonly #text: (value: unknown) => string;
  /** What the transaction at the end of the macrotask runs. */
  #statements: Runs[] = [];
  #values: unknown[][] = [];
  #isScheduled = false;
  #committed: Promise<void> | undefined;
  #resolve: () => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  #list = new NaiveList();
  #fresh: Element | undefined;
  #step = NaN;
  #awaited: { step: number; comes: () => void; fails: (error: unknown) => void } | undefined;
  #node: { runId: string; turn: Turn } | undefined;
  /** The Action of a node that is done, until its writes come. */
  #action: { turn: Turn; text: string } | undefined;
  #lease: { runId: string; threadId: string } | undefined;

  constructor(place: NaivePlace, rung: Rung) {
    super();
    this.#rung = rung;
    this.#place = place;
    this.#tables = place.tables;
    this.#text = rung < RUNGS.values ? (value) => JSON.stringify(value) : encode;
  }

  /** As `TurnSaver.attach` does it. */
  attach(graph: object): void {
    const attached = graph as { config?: object };
    attached.config = { ...attached.config, callbacks: [this.handler] };
  }

  /** What the bench asks of a saver that records turns. */
  readonly turns = { list: async (threadId: string, _options?: unknown) => this.#place.turnsOf(threadId) };

  /** The newest checkpoint's messages as they are stored: the texts. */
  messagesOf(threadId: string): string[] {
    return this.#tables.messagesOf(threadId);
  }

  close(): void | Promise<void> {
    return this.#place.close();
  }

  /** A run begins. With a lease, that is a transaction of its own. */
  async runStarts(runId: string, threadId: string): Promise<void> {
    if (this.#rung < RUNGS.fence) return;
    this.#lease = { runId, threadId };
    this.#place.takeLease(runId, threadId);
    this.commits += 1;
  }

  /** Resolves when the Thought is committed, with the checkpoint that the node starts from. */
  async nodeStarts(runId: string, step: number, name: string, taskId: string): Promise<void> {
    if (this.#step !== step - 1) await new Promise<void>((comes, fails) => (this.#awaited = { step: step - 1, comes, fails }));
    const turn = { runId, step, name, taskId };
    this.#node = { runId, turn };
    this.#tables.thought(this, turn, newId(), new Date().toISOString());
    return this.#boundary();
  }

  /** Hands the Action in. Its writes follow in the same macrotask. */
  nodeEnds(runId: string, output: unknown): void {
    if (this.#node?.runId !== runId) return;
    const { turn } = this.#node;
    this.#node = undefined;
    const isCommand = (output as { lg_name?: unknown }).lg_name === "Command";
    const update = (isCommand ? (output as { update: unknown }).update : output) as { messages: object[] };
    if (update.messages.length !== 1) throw new Error("a node that doesn't add one message");
    const fresh = this.#element(update.messages[0] as object);
    this.#fresh = fresh;
    const updated = `{"messages":[${chunkTag(fresh.address)}]}`;
    let text = updated;
    if (isCommand && this.#rung < RUNGS.values) {
      text = `{"lg_name":"Command","update":${updated},"goto":${JSON.stringify((output as { goto: unknown }).goto)}}`;
    } else if (isCommand) text = encode(output, { written: { value: update, text: updated } });
    this.#action = { turn, text };
    this.#schedule();
  }

  override async putWrites(_config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    let entries = "";
    for (let at = 0; at < writes.length; at += 1) {
      const [channel, value] = writes[at] as PendingWrite;
      const first = channel === "messages" ? (value as object[])[0] : undefined;
      const text = first === undefined ? this.#text(value) : `[${chunkTag(this.#elementFor(first).address)}]`;
      entries += `${at === 0 ? "" : ","}[${at},${JSON.stringify(channel)},${text}]`;
    }
    this.#tables.writes(this, taskId, taskPath, `[${entries}]`);
    const action = this.#action;
    if (action !== undefined) {
      if (action.turn.taskId !== taskId) throw new Error("writes of a node without its Action");
      this.#action = undefined;
      this.#tables.action(this, action.turn, action.text, newId(), new Date().toISOString());
    }
    return this.#boundary();
  }

  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    _newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const { thread_id: threadId, checkpoint_id: parentId } = config.configurable as { thread_id: string; checkpoint_id?: string };
    const { id, v, ts, versions_seen, channel_values: values, channel_versions: versions } = checkpoint;
    const createdAt = new Date().toISOString();
    if (parentId === undefined) {
      this.#tables.newThread(this, threadId, id, createdAt);
      this.#list = new NaiveList();
    }
    let channels = "";
    for (const channel in versions) {
      channels += `${channels === "" ? "" : ","}"${channel}":${this.#entry(channel, JSON.stringify(versions[channel]), values)}`;
    }
    // In the bench's scripts this one has no version.
    if (values["__pregel_tasks"] !== undefined) channels += `,"__pregel_tasks":${this.#entry("__pregel_tasks", "null", values)}`;
    const body = this.#text({ v, ts, versions_seen });
    this.#tables.checkpoint(this, {
      ...{ id, parentId, body, channels: `{${channels}}`, metadata: this.#text(metadata) },
      ...{ source: metadata.source, step: metadata.step, createdAt: Date.parse(createdAt) },
    });
    this.#step = metadata.step;
    if (this.#awaited?.step === metadata.step) {
      this.#awaited.comes();
      this.#awaited = undefined;
    }
    // Nothing runs from this checkpoint: the run is over, and its lease goes with it.
    if (this.#lease !== undefined && metadata.step > 0 && !("branch:to:step" in values) && !("branch:to:a" in values)) {
      this.#tables.endLease(this, this.#lease.runId);
      this.#lease = undefined;
    }
    await this.#boundary();
    return { configurable: { thread_id: threadId, checkpoint_ns: "", checkpoint_id: id } };
  }

  override async getTuple({ configurable }: RunnableConfig): Promise<CheckpointTuple | undefined> {
    if (await this.#place.has(String(configurable?.["thread_id"]))) throw new Error("this saver runs new threads only");
    return undefined;
  }

  // eslint-disable-next-line require-yield -- as the base class declares it
  override async *list(): AsyncGenerator<CheckpointTuple> {
    return Promise.reject(new Error("this saver lists nothing"));
  }

  override async deleteThread(): Promise<void> {
    return Promise.reject(new Error("this saver deletes nothing"));
  }

  /** Runs with the transaction at the end of the macrotask. */
  later(statement: Runs, values: unknown[]): void {
    this.#statements.push(statement);
    this.#values.push(values);
  }

  /** A channel of a checkpoint in the form of `langgraph_snapshots.channels`. */
  #entry(channel: string, version: string, values: Record<string, unknown>): string {
    const value = values[channel];
    if (value === undefined && !(channel in values)) return version;
    if (channel !== "messages" || (value as unknown[]).length === 0) return `[${version},0,${this.#text(value)}]`;
    const messages = value as object[];
    const list = this.#list;
    const keep = this.#rung < RUNGS.values ? list.length : list.commonPrefix(messages);
    if (keep < list.length || list.length === 0) this.#tables.newList(this, list, keep);
    for (let at = keep; at < messages.length; at += 1) {
      const element = this.#elementFor(messages[at] as object);
      list.append(element, this.#rung >= RUNGS.checksums, this.#rung >= RUNGS.values);
      this.#tables.item(this, list.seq, at, element);
    }
    const digest = this.#rung < RUNGS.checksums ? NO_CHECKSUM : list.digest();
    return `[${version},2,${list.seq},${list.length},"${digest}"]`;
  }

  /** The element of a message that the last node returned, or of another one. */
  #elementFor(message: object): Element {
    const fresh = this.#fresh;
    if (fresh?.value === message && (this.#rung < RUNGS.values || isStill(fresh, message))) return fresh;
    return this.#element(message);
  }

  #element(message: object): Element {
    const text = this.#text(message);
    const address = this.#rung < RUNGS.checksums ? `${randomUUID()}-------` : sha256(text);
    const known = this.#list.find(address);
    if (known !== undefined) return known;
    const element = elementOf(message, text, address, this.#rung >= RUNGS.values);
    this.#tables.chunk(this, element);
    return element;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    atEndOfMacrotask(this.#commitAll);
  }

  #boundary(): Promise<void> {
    this.#schedule();
    return (this.#committed ??= new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    }));
  }

  readonly #commitAll = (): void => {
    const statements = this.#statements;
    const values = this.#values;
    this.#statements = [];
    this.#values = [];
    this.#isScheduled = false;
    this.#committed = undefined;
    const resolve = this.#resolve;
    const done = (): void => {
      this.commits += 1;
      resolve();
    };
    try {
      if (this.#action !== undefined) throw new Error("an Action without its writes");
      const committed = this.#place.commit(statements, values, this.#lease?.runId);
      if (committed === undefined) done();
      else committed.then(done, this.#failed);
    } catch (error) {
      this.#failed(error);
    }
  };

  readonly #failed = (error: unknown): void => {
    this.#reject(error);
    this.#awaited?.fails(error);
  };
}

/** A UUID that begins with the time, so that rows come in the order of their ids. */
function newId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}

/** Tells a saver about runs and nodes. LangGraph waits for it. */
class Boundaries extends BaseCallbackHandler {
  // `NodeRuns` looks for this name.
  name = RECORDER_NAME;
  override readonly awaitHandlers = true;
  override readonly raiseError = true;

  constructor(private readonly saver: NaiveSaver) {
    super();
  }

  override handleChainStart(
    _chain: unknown,
    _inputs: unknown,
    runId: string,
    parentRunId?: string,
    tags?: string[],
    metadata?: Record<string, unknown>,
    _runType?: string,
    runName?: string,
  ): Promise<void> | undefined {
    if (parentRunId === undefined) return this.saver.runStarts(runId, String(metadata?.["thread_id"]));
    const name = metadata?.["langgraph_node"];
    if (tags === undefined || runName !== name || !tags.some((tag) => IS_STEP.test(tag)) || tags.includes(HIDDEN_TAG))
      return undefined;
    const ns = metadata?.["langgraph_checkpoint_ns"] as string;
    return this.saver.nodeStarts(
      runId,
      metadata?.["langgraph_step"] as number,
      name as string,
      ns.slice(ns.lastIndexOf(":") + 1),
    );
  }

  override handleChainEnd(output: unknown, runId: string): void {
    this.saver.nodeEnds(runId, output);
  }
}
