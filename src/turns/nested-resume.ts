import { isDeepStrictEqual } from "node:util";
import { Runnable, type RunnableConfig } from "@langchain/core/runnables";
import { type CheckpointMetadata, type CheckpointTuple, INTERRUPT, RESUME } from "@langchain/langgraph-checkpoint";
import { AsyncLocalStorageProviderSingleton } from "@langchain/core/singletons";
import { OpenWork } from "./draining";
import { isPregel, type PregelLike } from "./attached-graph";
import { plannedTasks } from "./node-task";
import { askAgain } from "./refused-answers";
import { keepsItsState } from "../visits";

interface PregelNodeLike {
  bound?: Runnable;
  subgraphs?: unknown[];
}

const repaired = new WeakSet<Runnable>();

/**
 * Repairs a resume inside nested graphs by replacing the nodes' runnables. Time travel is left as LangGraph does it.
 *
 * LangGraph before 1.5 tests whether the *key* `checkpoint_id` is present to tell a replay from a resume, and gives every node
 * `checkpoint_id: undefined`. So finished siblings inside a subgraph and finished functional tasks run again (langgraphjs#2667).
 * The repair drops the key when it is undefined.
 */
export function repairNestedResume(graph: PregelLike, seen = new Set<PregelLike>()): void {
  if (seen.has(graph)) return;
  seen.add(graph);
  for (const [name, value] of Object.entries(graph.nodes)) {
    const node = value as PregelNodeLike;
    if (name === "__start__" || typeof node.bound?.invoke !== "function") continue;
    if (!repaired.has(node.bound)) {
      if ((node.subgraphs?.length ?? 0) === 0 && graphIn(node.bound) !== undefined) node.subgraphs = [node.bound];
      node.bound = new WithoutUndefinedCheckpointId(node.bound);
      repaired.add(node.bound);
    }
    for (const subgraph of (node.subgraphs ?? []).map(graphIn)) if (isPregel(subgraph)) repairNestedResume(subgraph, seen);
  }
}

/** The graph that a node is, as LangGraph knows it. */
export function nestedGraph(node: unknown): PregelLike | undefined {
  return ((node as PregelNodeLike | undefined)?.subgraphs ?? []).map(graphIn).find(isPregel);
}

/**
 * The graph that LangGraph finds in a node's runnable (its `findSubgraphPregel`): the runnable itself, or a step of a sequence.
 */
function graphIn(runnable: unknown): unknown {
  const candidates = [runnable as { lg_is_pregel?: unknown; steps?: unknown }];
  for (const candidate of candidates) {
    if (candidate.lg_is_pregel === true) return candidate;
    if (Array.isArray(candidate.steps)) candidates.push(...(candidate.steps as typeof candidates));
  }
  return undefined;
}

/** Lets guards/source.ts see through the wrapper, even one from another copy of this package. */
const ORIGINAL = Symbol.for("langgraph-checkpoint-turns.original");

class WithoutUndefinedCheckpointId extends Runnable {
  lc_namespace = ["langgraph_checkpoint_turns"];
  readonly [ORIGINAL]: Runnable;
  readonly #inner: Runnable;

  constructor(inner: Runnable) {
    super();
    this.#inner = inner;
    this[ORIGINAL] = inner;
  }

  override getName(suffix?: string): string {
    return this.#inner.getName(suffix);
  }

  override async invoke(input: unknown, config?: Partial<RunnableConfig>): Promise<unknown> {
    const own = inAttempt(config);
    const ended = countersOf(config).map((began) => began());
    try {
      return await this.#inner.invoke(input, isTimeTravel(own) ? own : withoutUndefinedCheckpointId(own));
    } catch (error) {
      await askAgain(error, config);
      throw error;
    } finally {
      for (const end of ended) end();
      const shared = scratchpadOf(config);
      // Others ask LangGraph's own scratchpad whether the node has called graphs.
      if (shared?.subgraphCounter !== undefined) shared.subgraphCounter += scratchpadOf(own)?.subgraphCounter ?? 0;
    }
  }
}

/** The counters of running node bodies: one for each recorder that the run carries. */
function countersOf(config: Partial<RunnableConfig> | undefined): (() => () => void)[] {
  const threadId: unknown = config?.configurable?.["thread_id"];
  if (typeof threadId !== "string") return [];
  const handlers: unknown[] = Array.isArray(config?.callbacks) ? config.callbacks : (config?.callbacks?.handlers ?? []);
  return handlers.flatMap((handler) => {
    const { bodies } = (handler ?? {}) as { bodies?: unknown };
    return bodies instanceof OpenWork ? [() => bodies.began(threadId)] : [];
  });
}

/**
 * The runs in which the caller has addressed a nested graph's checkpoint, by the `control` that LangGraph shares within a run.
 */
const addressed = new WeakSet<object>();

/**
 * Whether the nested graphs go back in their history: the root does, or the caller named a checkpoint of this graph or of one
 * around it. LangGraph then knows which checkpoint each graph starts from, and the newest one says nothing.
 */
export function isTimeTravel(config: Partial<RunnableConfig> | undefined): boolean {
  const { configurable } = config ?? {};
  if (configurable?.["__pregel_replay_state"] !== undefined) return true;
  const run = (config as { control?: object } | undefined)?.control;
  if (run !== undefined && addressed.has(run)) return true;
  // LangGraph itself puts the checkpoints of the outer graphs into this map, never a graph's own.
  const checkpoints = (configurable?.["checkpoint_map"] ?? {}) as Record<string, unknown>;
  const ns = String(configurable?.["checkpoint_ns"] ?? "");
  if (!Object.hasOwn(checkpoints, ns) && !Object.hasOwn(checkpoints, withoutTaskIds(ns))) return false;
  if (run !== undefined) addressed.add(run);
  return true;
}

/** Tells the graphs inside a run, or inside a retry, to resume. */
export const RESUMING = "__pregel_resuming";

/** What made a checkpoint of the root, and the one it was made from. */
export interface RootStep {
  source: CheckpointMetadata["source"] | undefined;
  parentId: string | undefined;
}

/**
 * A graph with `checkpointer: true` resumes from its newest checkpoint, even if that belongs to an earlier visit because this one
 * had saved nothing yet. If the earlier visit was complete, the graph would do nothing, and its old state would count as this visit's
 * result. If that visit had stopped with a question, the question would be asked again, and this visit's input would be lost. So the
 * graph isn't told to resume then. It may be a node, or be called by one.
 *
 * @param config of the graph's first read. LangGraph asks it afterwards whether the graph resumes
 * @param newest what it has read
 * @param rootStep reads a checkpoint of the root
 */
export async function beginVisit(
  config: RunnableConfig,
  { checkpoint, metadata }: CheckpointTuple,
  rootStep: (checkpointId: string) => Promise<RootStep | undefined>,
): Promise<void> {
  const { configurable } = config;
  if (configurable?.[RESUMING] !== true || !keepsItsState(String(configurable["checkpoint_ns"])) || isTimeTravel(config)) return;
  const around = configurable["checkpoint_map"] as Record<string, string> | undefined;
  const { parents } = (metadata ?? {}) as { parents?: Record<string, string> };
  if (metadata === undefined || isDeepStrictEqual(parents, around)) return;
  const isEnd = metadata.source !== "input" && plannedTasks("", checkpoint, metadata).length === 0;
  if (isEnd || !(await isSameWork(parents?.[""], around?.[""], rootStep))) configurable[RESUMING] = false;
}

/** LangGraph hands answers down to the graphs inside a run here, by the ids of their questions. */
const ANSWERS = "__pregel_resume_map";
/** How many answers each node task had when a graph first read them in the run that got these answers, and what it asked, by its id. */
const counted = new WeakMap<object, Map<string, { count: number; asked: unknown[] }>>();
/** The answers of the run, for those without some of them. */
const wholes = new WeakMap<object, object>();

/**
 * A graph that resumes inside a retry gets the answers of its run once more. LangGraph would give one that its question has had to the
 * node's next question, too. So an answer isn't handed down any more when its node has got one since the run began.
 *
 * @param config of the graph's first read. LangGraph takes the answers from it afterwards
 * @param newest what it has read
 */
export function leaveOutUsedAnswers({ configurable }: RunnableConfig, { pendingWrites = [] }: CheckpointTuple): void {
  const answers: unknown = configurable?.[ANSWERS];
  if (configurable === undefined || typeof answers !== "object" || answers === null) return;
  const whole = wholes.get(answers) ?? answers;
  const before = counted.get(whole) ?? new Map<string, { count: number; asked: unknown[] }>();
  counted.set(whole, before);
  const used = new Set<string>();
  for (const nodeTaskId of new Set(pendingWrites.map(([id]) => id))) {
    const of = (channel: string, depth: number): unknown[] =>
      pendingWrites.flatMap(([id, name, value]) => (id === nodeTaskId && name === channel ? [value].flat(depth) : []));
    // An answer may itself be a list.
    const count = of(RESUME, 1).length;
    const first = before.get(nodeTaskId);
    // Since then it may have asked its next question.
    if (first !== undefined && count > first.count)
      for (const question of first.asked) used.add(String((question as { id?: unknown } | null)?.id));
    else before.set(nodeTaskId, { count, asked: of(INTERRUPT, 2) });
  }
  if (used.size === 0) return;
  const left = Object.fromEntries(Object.entries(answers).filter(([id]) => !used.has(id)));
  wholes.set(left, whole);
  configurable[ANSWERS] = left;
}

/** Whether the root has done nothing since a checkpoint but get updates from outside: what it waited for then, it still waits for. */
async function isSameWork(
  before: string | undefined,
  now: string | undefined,
  rootStep: (checkpointId: string) => Promise<RootStep | undefined>,
): Promise<boolean> {
  let at = now;
  while (at !== undefined && at !== before) {
    const { source, parentId } = (await rootStep(at)) ?? { source: undefined, parentId: undefined };
    at = source === "update" || source === "fork" ? parentId : undefined;
  }
  return at === before;
}

export function withoutTaskIds(ns: string): string {
  return ns.replaceAll(/:[^|]*/g, "");
}

interface Scratchpad {
  subgraphCounter?: number;
  callCounter?: number;
  interruptCounter?: number;
  /** An answer to the question that comes first. */
  nullResume?: unknown;
}

function scratchpadOf(config: Partial<RunnableConfig> | undefined): Scratchpad | undefined {
  return config?.configurable?.[SCRATCHPAD] as Scratchpad | undefined;
}

/** How `call` of LangGraph's functional API hands a task over. */
type Call = (func: (...args: unknown[]) => unknown, name: unknown, ...rest: unknown[]) => unknown;

/** The tasks that one node called, in all its attempts, by number: those that run, and those that have succeeded. */
type Calls = Map<number, { name: unknown; result: unknown }>;

const SCRATCHPAD = "__pregel_scratchpad";
const CALL = "__pregel_call";
const repairedCalls = new WeakSet<Call>();
const callsOf = new WeakMap<Scratchpad, Calls>();
/** Those of attempts. A node that a body calls by itself, without its graph, counts on with the body's. */
const ownOnes = new WeakSet<Scratchpad>();

/**
 * The config of one attempt of a node task, which counts for itself and from the start. LangGraph numbers the graphs, tasks and questions
 * of a node, and finds checkpoints, results and answers by these numbers. All attempts share its counters. A retry would continue
 * counting and find nothing, and an attempt that timed out may still be counting beside it.
 */
function inAttempt<C extends Partial<RunnableConfig>>(config: C | undefined): C | undefined {
  const shared = scratchpadOf(config);
  if (config === undefined || shared === undefined || ownOnes.has(shared)) return config;
  const own = ownScratchpad(shared);
  ownOnes.add(own);
  const configurable: Record<string, unknown> = { ...config.configurable, [SCRATCHPAD]: own };
  const call = configurable[CALL] as Call | undefined;
  if (typeof call === "function" && !repairedCalls.has(call)) {
    const repairedCall: Call = (func, name, ...rest) =>
      calledOnce(shared, own, name, () => call((...args) => inTask(() => func(...args)), name, ...rest));
    repairedCalls.add(repairedCall);
    configurable[CALL] = repairedCall;
  }
  return { ...config, configurable };
}

/**
 * A scratchpad with counters of its own, and all else shared. Only an answer that LangGraph takes from the shared one must be seen to go;
 * a copy of the rest will do. An object becomes slow, and takes V8 several microseconds, when it is made another's prototype.
 */
function ownScratchpad(shared: Scratchpad): Scratchpad {
  const counters = { subgraphCounter: 0, callCounter: 0, interruptCounter: -1 };
  if (shared.nullResume === undefined) return { ...shared, ...counters };
  return Object.assign(Object.create(shared) as Scratchpad, counters);
}

/** A task that an earlier attempt has called, and that hasn't failed, isn't called again: it may still be running. */
function calledOnce(shared: Scratchpad, own: Scratchpad, name: unknown, call: () => unknown): unknown {
  const number = own.callCounter ?? 0;
  own.callCounter = number + 1;
  const calls = callsOf.get(shared) ?? (new Map() as Calls);
  callsOf.set(shared, calls);
  const earlier = calls.get(number);
  if (earlier !== undefined && earlier.name === name) return earlier.result;
  // `call` takes it from here.
  shared.callCounter = number;
  const called = call();
  // Given to the node, so that an error that it doesn't handle is still unhandled.
  const result =
    called instanceof Promise
      ? called.catch((error: unknown) => {
          calls.delete(number);
          throw error;
        })
      : called;
  calls.set(number, { name, result });
  return result;
}

function inTask(work: () => unknown): unknown {
  const config = AsyncLocalStorageProviderSingleton.getRunnableConfig() as RunnableConfig | undefined;
  // The attempt's own config, from which `call` and `interrupt` take it.
  if (config !== undefined) Object.assign(config, inAttempt(config));
  const result = work();
  if (!(result instanceof Promise)) return result;
  return result.catch(async (error: unknown) => {
    await askAgain(error, config);
    throw error;
  });
}

function withoutUndefinedCheckpointId<C extends Partial<RunnableConfig>>(config: C | undefined): C | undefined {
  const configurable = config?.configurable;
  if (config === undefined || configurable === undefined) return config;
  if (!("checkpoint_id" in configurable) || configurable["checkpoint_id"] !== undefined) return config;
  // Not by `delete`: that makes an object slow, and LangGraph copies this one many times.
  const { checkpoint_id: _, ...rest } = configurable;
  return { ...config, configurable: rest };
}
