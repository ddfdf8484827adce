import { Command } from "@langchain/langgraph";
import { GraphRunner, type RunnableGraph } from "langgraph-checkpoint-turns";
import { TurnsError } from "../errors";
import type { TurnSaver } from "../saver";
import { pregelOf } from "../turns/attached-graph";
import { type ChildAnswer, type KnownEffect, type Snapshot, toldError } from "./child-protocol";
import type { GraphModule, GraphWorld, Step } from "./graph-module";

type Ended = Extract<ChildAnswer, { kind: "ended" }>;
type Runner = GraphRunner<RunnableGraph>;

interface State {
  values: unknown;
  tasks: readonly { interrupts?: readonly { id?: string; value?: unknown }[] }[];
}

/** Runs what is left of a module's script, from the database's current state. */
export async function play(module: GraphModule, world: GraphWorld, durability: string): Promise<ChildAnswer> {
  let runner: Runner;
  try {
    const made: unknown = await module.graph(world);
    runner = isRunner(made) ? made : new GraphRunner(made as never, module.runner);
  } catch (error) {
    return {
      kind: "invalid",
      expected: "a `graph` that returns a graph compiled with a TurnSaver, or a GraphRunner",
      found: String(error),
      error: toldError(error),
    };
  }
  try {
    return await new Player(module, world, runner, durability).play();
  } finally {
    runner.saver.close();
  }
}

function isRunner(value: unknown): value is Runner {
  const { invoke, resume, rewind, saver } = (value ?? {}) as Record<string, unknown>;
  return [invoke, resume, rewind].every((method) => typeof method === "function") && typeof saver === "object";
}

class Player {
  readonly #saver: TurnSaver;
  readonly #options: { threadId: string; durability: string };
  #result: unknown;

  constructor(
    private readonly module: GraphModule,
    private readonly world: GraphWorld,
    private readonly runner: Runner,
    durability: string,
  ) {
    this.#saver = runner.saver;
    this.#options = { threadId: world.threadId, durability };
  }

  async play(): Promise<Ended> {
    const before = await snapshotOf(this.#saver);
    const ended = await this.#toTheEnd();
    const { outcome, error } = ended;
    const after = await snapshotOf(this.#saver);
    const state = outcome === "finished" || outcome === "waiting" ? await this.#state() : undefined;
    const final = state && { result: this.#result, values: state.values };
    const { normalise } = this.module;
    const compared = final === undefined || normalise === undefined ? final : normalise(final);
    return { kind: "ended", outcome, result: this.#result, final: compared, error, before, after };
  }

  async #toTheEnd(): Promise<Pick<Ended, "outcome" | "error">> {
    for (;;) {
      try {
        return { outcome: (await this.#steps()) ? "finished" : "waiting", error: undefined };
      } catch (error) {
        const isInDoubt = causes(error).some((cause) => TurnsError.is(cause, "EFFECT_IN_DOUBT"));
        if (isInDoubt && (await this.#settled())) continue;
        return { outcome: isInDoubt ? "in-doubt" : "failed", error: toldError(error) };
      }
    }
  }

  /** @returns false if the run waits for an answer that the module doesn't give */
  async #steps(): Promise<boolean> {
    const { threadId } = this.#options;
    const steps = stepsOf(this.module, this.world);
    // An unfinished rewind is finished before anything else.
    await this.runner.finishRewind({ threadId, allowUncompensated: true });
    const { at, begun } = await beginningAt(this.#saver, threadId, steps);
    this.#result = undefined;
    for (const [index, step] of [...steps.entries()].slice(at)) {
      this.#result = undefined;
      if ("rewindTo" in step) {
        const { rewindTo: toTask, allowUncompensated = false } = step;
        await this.runner.rewind({ threadId, toTask, allowUncompensated });
      } else if (!(await this.#run(step, begun && index === at))) return false;
    }
    return true;
  }

  async #run({ input, taskId }: { input: unknown; taskId: string }, begun: boolean): Promise<boolean> {
    if (!begun) this.#result = await this.runner.invoke(input, { ...this.#options, taskId });
    // Without an answer: the question on record may have been answered before the crash. LangGraph uses its id for the body's
    // next question too.
    else this.#result = await this.runner.resume(this.#options);
    let command;
    while ((command = await this.#answered()) !== undefined) {
      if (command === "none") return false;
      this.#result = await this.runner.resume({ ...this.#options, command });
    }
    return true;
  }

  /** The answer to the interrupts at which the thread waits. Undefined if it doesn't wait; "none" if the module has no answer. */
  async #answered(): Promise<Command | "none" | undefined> {
    const waiting = (await this.#state()).tasks.flatMap(({ interrupts = [] }) => interrupts);
    if (waiting.length === 0) return undefined;
    const { answer } = this.module;
    if (answer === undefined) return "none";
    const answerTo = async (value: unknown): Promise<unknown> =>
      typeof answer === "function" ? await (answer as (question: unknown) => unknown)(value) : answer;
    // By id: LangGraph stores an answer without one, and after a crash gives it to the next question too.
    const answers: Record<string, unknown> = {};
    for (const { id, value } of waiting) answers[String(id)] = await answerTo(value);
    return new Command({ resume: answers });
  }

  async #state(): Promise<State> {
    const pregel = pregelOf(this.runner.graph) as unknown as { getState(config: object): Promise<State> };
    return pregel.getState({ configurable: { thread_id: this.#options.threadId } });
  }

  /** Asks the module what happened to each effect in doubt. @returns whether it settled any */
  async #settled(): Promise<boolean> {
    const { settle } = this.module;
    let settled = false;
    if (settle === undefined) return false;
    for (const { threadId } of await this.#saver.listThreads()) {
      for (const effect of await this.#saver.effects.list(threadId, { status: "in-doubt" })) {
        const resolution = await settle(effect, this.world);
        if (resolution === undefined) continue;
        await this.#saver.effects.resolve(effect.id, resolution);
        settled = true;
      }
    }
    return settled;
  }
}

function causes(error: unknown): unknown[] {
  if (typeof error !== "object" || error === null) return [error];
  const { cause, errors } = error as { cause?: unknown; errors?: unknown };
  return [error, ...(cause === undefined ? [] : causes(cause)), ...(Array.isArray(errors) ? errors.flatMap(causes) : [])];
}

type NamedStep = { input: unknown; taskId: string } | Extract<Step, { rewindTo: string }>;

/** A module's steps, each input with the task that it starts. */
function stepsOf({ input, steps }: GraphModule, world: GraphWorld): NamedStep[] {
  const called = (value: unknown): unknown =>
    typeof value === "function" ? (value as (world: GraphWorld) => unknown)(world) : value;
  const given = steps === undefined ? [{ input: called(input) }] : (called(steps) as readonly Step[]);
  return given.map((step, index) => ("rewindTo" in step ? step : { taskId: `step-${index + 1}`, ...step }));
}

/**
 * Where to continue, according to the database: after the last completed rewind, at the last input whose task was begun.
 * Everything before it has finished, since inputs are refused while anything is unfinished.
 *
 * @returns the index of the step, and whether its input has been taken
 */
async function beginningAt(
  saver: TurnSaver,
  threadId: string,
  steps: readonly NamedStep[],
): Promise<{ at: number; begun: boolean }> {
  const rewinds = steps.flatMap((step, index) => ("rewindTo" in step ? [index] : []));
  const done = (await saver.rewinds.list(threadId)).filter(
    ({ status, reason }) => status === "done" && reason === undefined,
  ).length;
  const at = done === 0 ? 0 : (rewinds[done - 1] ?? steps.length - 1) + 1;
  const tasks = new Set(await threadTasks(saver, threadId));
  const begun = steps.findLastIndex((step, index) => index >= at && "taskId" in step && tasks.has(step.taskId));
  return begun === -1 ? { at, begun: false } : { at: begun, begun: true };
}

async function threadTasks(saver: TurnSaver, threadId: string): Promise<string[]> {
  for (const thread of await saver.listThreads()) {
    if (thread.threadId === threadId) return (await saver.turns.tasks(threadId)).map(({ taskId }) => taskId);
  }
  return [];
}

/** What the journals of a file say. A node may run graphs on threads of their own, so all threads are read. */
async function snapshotOf(saver: TurnSaver): Promise<Snapshot> {
  const thoughts: Snapshot["thoughts"][number][] = [];
  const durable: Snapshot["durable"][number][] = [];
  const effects: KnownEffect[] = [];
  let rewinds = 0;
  for (const { threadId } of await saver.listThreads()) {
    for (const turn of await saver.turns.list(threadId)) {
      const { nodeTaskId, nodeName: node } = turn;
      if (turn.turnType === "Thought") thoughts.push({ nodeTaskId, node });
      else if (turn.durable) durable.push({ nodeTaskId, node });
    }
    effects.push(...(await saver.effects.list(threadId)));
    rewinds += (await saver.rewinds.list(threadId)).filter(({ status }) => status === "done").length;
  }
  return { thoughts, durable, effects, rewinds };
}

type Invalid = Extract<ChildAnswer, { kind: "invalid" }>;

/** Loads a graph's module, ESM or CommonJS, and checks its exports. */
export async function loadedModule(url: string): Promise<{ module: GraphModule } | Invalid> {
  let namespace: Record<string, unknown>;
  try {
    namespace = (await import(url)) as Record<string, unknown>;
  } catch (error) {
    return { kind: "invalid", expected: "a module that can be loaded", found: String(error), error: toldError(error) };
  }
  // CommonJS exports that are assigned in a loop, for example, are visible only on the default export.
  const fallback = namespace["default"];
  const exported = (
    typeof namespace["graph"] !== "function" && typeof fallback === "object" && fallback !== null ? fallback : namespace
  ) as Record<string, unknown>;
  const wrong = wrongIn(exported);
  if (wrong !== undefined) return { kind: "invalid", ...wrong, error: undefined };
  return { module: exported as unknown as GraphModule };
}

function wrongIn(exported: Record<string, unknown>): { expected: string; found: string } | undefined {
  const { graph, input, steps, settle, normalise } = exported;
  if (typeof graph !== "function") {
    const names = Object.keys(exported).join(", ");
    return { expected: "an export `graph` that is a function", found: names === "" ? "no exports" : `the exports ${names}` };
  }
  if ((input === undefined) === (steps === undefined)) {
    return { expected: "either an export `input` or an export `steps`", found: input === undefined ? "neither" : "both" };
  }
  for (const [name, value] of Object.entries({ settle, normalise })) {
    if (value !== undefined && typeof value !== "function") {
      return { expected: `an export \`${name}\` that is a function`, found: `a ${typeof value}` };
    }
  }
  return undefined;
}
