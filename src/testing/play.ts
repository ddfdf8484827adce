import { Command } from "@langchain/langgraph";
import { GraphRunner, type RunnableGraph } from "langgraph-checkpoint-turns";
import { TurnsError } from "../errors";
import type { TurnSaver } from "../saver";
import { pregelOf } from "../turns/pregel";
import { type ChildAnswer, toldError } from "./child-protocol";
import type { GraphModule, GraphWorld } from "./graph-module";
import { beginningAt, stepsOf } from "./script";
import { snapshotOf } from "./snapshot";

type Ended = Extract<ChildAnswer, { kind: "ended" }>;
type Runner = GraphRunner<RunnableGraph>;

interface Interrupt {
  id?: string;
  value?: unknown;
}
interface State {
  values: unknown;
  tasks: readonly { interrupts?: readonly Interrupt[] }[];
}

/** Does what is left to do of a module's script, from wherever the database stands. */
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
  readonly #module: GraphModule;
  readonly #world: GraphWorld;
  readonly #runner: Runner;
  readonly #saver: TurnSaver;
  readonly #options: { threadId: string; durability: string };
  #result: unknown;

  constructor(module: GraphModule, world: GraphWorld, runner: Runner, durability: string) {
    this.#module = module;
    this.#world = world;
    this.#runner = runner;
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
    const { normalise } = this.#module;
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

  /** @returns false if the run waits for an answer that the module does not give */
  async #steps(): Promise<boolean> {
    const { threadId } = this.#options;
    const steps = stepsOf(this.#module, this.#world);
    // A rewind that had begun is ended before anything else.
    await this.#runner.finishRewind({ threadId, allowUncompensated: true });
    const { at, begun } = await beginningAt(this.#saver, threadId, steps);
    this.#result = undefined;
    for (const [index, step] of [...steps.entries()].slice(at)) {
      this.#result = undefined;
      if ("rewindTo" in step) {
        const { rewindTo: toTask, allowUncompensated = false } = step;
        await this.#runner.rewind({ threadId, toTask, allowUncompensated });
      } else if (!(await this.#run(step, begun && index === at))) return false;
    }
    return true;
  }

  async #run({ input, taskId }: { input: unknown; taskId: string }, begun: boolean): Promise<boolean> {
    if (!begun) this.#result = await this.#runner.invoke(input, { ...this.#options, taskId });
    // Without an answer: the question on record may have been answered before the crash. LangGraph takes its id for the body's next one too.
    else this.#result = await this.#runner.resume(this.#options);
    let command;
    while ((command = await this.#answered()) !== undefined) {
      if (command === "none") return false;
      this.#result = await this.#runner.resume({ ...this.#options, command });
    }
    return true;
  }

  /** What answers the interrupts at which the thread waits: undefined if it does not wait, "none" if the module has no answer. */
  async #answered(): Promise<Command | "none" | undefined> {
    const waiting = (await this.#state()).tasks.flatMap(({ interrupts = [] }) => interrupts);
    if (waiting.length === 0) return undefined;
    const { answer } = this.#module;
    if (answer === undefined) return "none";
    const answerTo = async (value: unknown): Promise<unknown> =>
      typeof answer === "function" ? await (answer as (question: unknown) => unknown)(value) : answer;
    // By id: LangGraph stores an answer without one, and after a crash gives it to the next question too.
    const answers: Record<string, unknown> = {};
    for (const { id, value } of waiting) answers[String(id)] = await answerTo(value);
    return new Command({ resume: answers });
  }

  async #state(): Promise<State> {
    const pregel = pregelOf(this.#runner.graph) as unknown as { getState(config: object): Promise<State> };
    return pregel.getState({ configurable: { thread_id: this.#options.threadId } });
  }

  /** Asks the module how each effect in doubt ended. @returns whether it settled any */
  async #settled(): Promise<boolean> {
    const { settle } = this.#module;
    let settled = false;
    if (settle === undefined) return false;
    for await (const { threadId } of this.#saver.listThreads()) {
      for (const effect of await this.#saver.effects.list(threadId, { status: "in-doubt" })) {
        const resolution = await settle(effect, this.#world);
        if (resolution === undefined) continue;
        await this.#saver.effects.resolve(effect.id, resolution);
        settled = true;
      }
    }
    return settled;
  }
}

/** An error, and what lies behind it. */
function causes(error: unknown): unknown[] {
  if (typeof error !== "object" || error === null) return [error];
  const { cause, errors } = error as { cause?: unknown; errors?: unknown };
  return [error, ...(cause === undefined ? [] : causes(cause)), ...(Array.isArray(errors) ? errors.flatMap(causes) : [])];
}
