import { Command } from "@langchain/langgraph";
import Database from "better-sqlite3";
import { GraphRunner, TurnsError, TurnSaver } from "langgraph-checkpoint-turns";
import { pause, TryAgain, type World } from "./bodies";
import { buildFlow } from "./build-flow";
import { buildGraph } from "./build-graph";
import type { Ledger } from "./ledger";
import type { Plan } from "./plan";

/** All that can be seen of a finished thread and is the same in every run. */
export interface Finish {
  values: unknown;
  history: unknown;
  tasks: unknown;
  next: unknown;
  inFlight: string[];
  /** The finished nodes, by their paths. */
  ended: string[];
  effects: string[];
  problems: unknown[];
  integrity: string;
}

const THREAD = "t";
const ROUNDS_MAX = 100;
/** An aborted graph never reports its end, and counts as over after two seconds of silence. */
const PATIENCE_MS = 20_000;
const here = { configurable: { thread_id: THREAD } };
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** A plan's program on a file, run as a supervisor would run it: start it, continue it, answer it, settle what is in doubt. */
export class Drive {
  readonly #saver: TurnSaver;
  readonly #runner: GraphRunner<any>;
  readonly #options;
  /** A run was interrupted: the recorded question may have been answered since. LangGraph uses its id for the body's next one too. */
  #isBrokenOff = false;

  constructor(
    readonly db: string,
    readonly ledger: Ledger,
    plan: Plan,
    point: (name: string) => void,
  ) {
    this.#saver = TurnSaver.fromPath(db, { logger: quiet });
    const world: World = { ledger, point };
    const { program } = plan;
    const graph =
      "graph" in program ? buildGraph(this.#saver, world, program.graph) : buildFlow(this.#saver, world, program.flow);
    this.#runner = new GraphRunner(graph, { drift: "refuse", onCorrupted: "refuse" });
    this.#options = { threadId: THREAD, durability: plan.durability, recursionLimit: 300 };
  }

  /** Notes in the ledger what the last process left, before anything continues. */
  async wake(): Promise<void> {
    this.#isBrokenOff = true;
    const effects = await this.#saver.effects.list(THREAD);
    this.ledger.add({
      t: "woke",
      durable: await this.#durable(),
      effects: Object.fromEntries(effects.map(({ key, status }) => [key, status])),
    });
  }

  async finish(): Promise<Finish> {
    let last: unknown;
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      if (round > 0) this.ledger.add({ t: "round", durable: await this.#durable() });
      try {
        const result = (await this.#goOn()) as { __interrupt__?: unknown };
        if (result.__interrupt__ === undefined) return await this.#seen();
        last = "an interrupt";
      } catch (error) {
        last = error;
        this.#isBrokenOff = true;
        await this.#dealtWith(error);
      }
    }
    throw new Error(`it still fails or asks after ${ROUNDS_MAX} rounds`, { cause: last });
  }

  close(): void {
    this.#saver.close();
  }

  /** Nodes that LangGraph aborted beside a failed one keep running, and the run isn't over before they have finished. */
  async #goOn(): Promise<unknown> {
    for (const since = performance.now(); ;) {
      try {
        return await this.#goOnOnce();
      } catch (error) {
        if (!TurnsError.is(error, "THREAD_RUNNING") || performance.now() - since > PATIENCE_MS) throw error;
        await pause(25);
      }
    }
  }

  async #goOnOnce(): Promise<unknown> {
    const state = await this.#runner.graph.getState(here);
    const listed: { id: string; value: unknown }[] = state.tasks.flatMap(({ interrupts }: any) => interrupts);
    // A task that has finished still carries the question it asked before; an answer to that one is refused.
    const finished = new Set(
      state.tasks
        .filter(({ result }: any) => result !== undefined)
        .flatMap(({ interrupts }: any) => interrupts.map(({ id }: any) => id)),
    );
    const asked = listed.filter(({ id }) => !finished.has(id));
    // By their ids: LangGraph gives an answer without one to the next question, perhaps of a node that hasn't asked yet.
    const replies = Object.fromEntries(asked.map(({ id, value }) => [id, `re ${String(value)}`]));
    const command = asked.length > 0 && !this.#isBrokenOff ? { command: new Command({ resume: replies }) } : {};
    this.#isBrokenOff = false;
    try {
      return await this.#runner.resume({ ...this.#options, ...command });
    } catch (error) {
      if (!TurnsError.is(error, "NOTHING_TO_RESUME")) throw error;
      return this.#runner.invoke({ seed: 7 }, { ...this.#options, taskId: "T" });
    }
  }

  /** @throws unexpected errors */
  async #dealtWith(error: unknown): Promise<void> {
    // LangGraph aborts what runs beside a failed node, and may report that as the run's error.
    if (error instanceof TryAgain || (error instanceof Error && error.name === "AbortError")) return;
    // Of several nodes that failed in one superstep.
    if (error instanceof AggregateError) {
      for (const each of error.errors) await this.#dealtWith(each);
      return;
    }
    if (!TurnsError.is(error, "EFFECT_IN_DOUBT")) throw error;
    const { id, key, status } = await this.#saver.effects.get(String(error.data["effectId"]));
    if (status !== "in-doubt") throw error;
    const result = this.ledger.deed(key);
    const outcome = result === undefined ? "not-done" : "done";
    await this.#saver.effects.resolve(id, outcome === "done" ? { outcome, result } : { outcome });
    this.ledger.add({ t: "settled", key, outcome });
  }

  async #durable(): Promise<string[]> {
    return (await this.#ended()).map(({ nodeTaskId }) => nodeTaskId);
  }

  async #ended() {
    const turns = await this.#saver.turns.list(THREAD);
    return turns.filter(({ turnType, durable, status }) => turnType === "Action" && durable && status === "ok");
  }

  async #seen(): Promise<Finish> {
    const state = await this.#runner.graph.getState(here);
    const history: unknown[] = [];
    for await (const one of this.#runner.graph.getStateHistory(here)) history.push(shapeOf(one));
    const { problems } = await this.#saver.verify();
    const other = new Database(this.db, { readonly: true });
    const integrity = String(other.pragma("integrity_check", { simple: true }));
    other.close();
    return {
      values: state.values,
      history,
      tasks: (await this.#saver.turns.tasks(THREAD)).map(({ taskId }) => taskId),
      next: [...state.next].sort(),
      inFlight: (await this.#saver.turns.inFlight(THREAD)).map(({ nodeName }) => nodeName),
      ended: (await this.#ended()).map(({ nodeNs }) => pathOf(nodeNs)).sort(),
      effects: (await this.#saver.effects.list(THREAD))
        .map(({ nodeNs, name, label, status }) => `${pathOf(nodeNs)} ${name} ${label} ${status}`)
        .sort(),
      problems: [...problems],
      integrity,
    };
  }
}

const pathOf = (ns: string): string =>
  ns
    .split("|")
    .map((segment) => segment.split(":")[0])
    .join("|");

/** A checkpoint of the history without ids and times. Whether a task failed before it finished depends on the crash. */
function shapeOf({ values, next, metadata, tasks }: any): unknown {
  const asked = tasks.map(({ name, interrupts }: any) => [name, interrupts.map(({ value }: any) => value)]);
  return { step: metadata.step, source: metadata.source, next: [...next].sort(), values, asked };
}
