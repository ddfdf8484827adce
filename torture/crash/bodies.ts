import { getConfig, interrupt } from "@langchain/langgraph";
import { effect, type EffectOptions } from "langgraph-checkpoint-turns";
import type { Ledger } from "./ledger";
import type { BodyPlan, EffectPlan, GraphPlan, StepPlan } from "./plan";

/** What bodies can reach outside the graph, and how they call graphs from their closures. */
export interface World {
  ledger: Ledger;
  /** A place where the process may die. */
  point: (name: string) => void;
}

/** A graph that bodies call, compiled once. */
export type Callee = (seed: number) => Promise<string>;
export type Callees = ReadonlyMap<GraphPlan, Callee>;

export interface BodyParts {
  world: World;
  callees: Callees;
  /** Inside a graph without a checkpointer: nothing of it is durable. */
  unsaved: boolean;
}

/** An error on purpose. */
export class TryAgain extends Error {
  override name = "TryAgain";
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** A number of 5 digits for a text, always the same. */
export function digest(text: string): number {
  let hash = 2166136261;
  for (const character of text) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 16777619) >>> 0;
  return hash % 99_991;
}

/** A visit of a body: where it is in the ledger, and what it was given. */
interface Visit {
  id: string;
  /** Names of the nodes around it and its own, its step, its place in a fan-out and its input: no id that changes from run to run. */
  l: string;
}

function visitOf(name: string, input: string): Visit {
  const { langgraph_checkpoint_ns: ns = "", langgraph_step: step = 0 } = (getConfig()?.metadata ?? {}) as Record<string, never>;
  const segments = String(ns).split("|");
  const path = segments.map((segment) => segment.split(":")[0]).join("|");
  return { id: segments.at(-1)?.split(":").at(-1) ?? "", l: `${path || name}@${step}(${input})` };
}

/** Everything a body does follows from its name and its input, so that every run has the same result. @returns a digest of all results */
export async function bodyWork(parts: BodyParts, name: string, plan: BodyPlan, input: string): Promise<number> {
  const { world, unsaved } = parts;
  const { ledger, point } = world;
  const { id, l } = visitOf(name, input);
  ledger.add({ t: "start", id, l, unsaved });
  point(`start ${name}`);
  const results = await stepsWork(parts, l, plan.steps);
  if (plan.fails !== "no" && !ledger.lines().some((line) => line.t === "failed" && line.l === l)) {
    ledger.add({ t: "failed", l });
    throw new TryAgain(`${l} fails on its first try`);
  }
  ledger.add({ t: "end", id, l, unsaved });
  point(`end ${name}`);
  return digest(`${l} ${results.join(" ")}`);
}

export async function stepsWork(parts: BodyParts, l: string, steps: readonly StepPlan[]): Promise<string[]> {
  const results: string[] = [];
  const ordinals = new Map<string, number>();
  const act = (plan: EffectPlan): Promise<string> => {
    const ordinal = ordinals.get(plan.name) ?? 0;
    ordinals.set(plan.name, ordinal + 1);
    return effectWork(parts.world, `${l} ${plan.name}#${ordinal}`, plan);
  };
  for (const [index, step] of steps.entries()) {
    if (step.do === "effect") results.push(await act(step.effect));
    else if (step.do === "effects") results.push(...(await Promise.all(step.effects.map(act))));
    else if (step.do === "ask") results.push(interrupt<string, string>(`${l} asks ${index}`));
    else if (step.do === "wait") await pause(3);
    else results.push(...(await callsWork(parts, step, l, index)));
  }
  return results;
}

async function callsWork({ callees }: BodyParts, step: StepPlan & { do: "call" }, l: string, index: number): Promise<string[]> {
  const call = callees.get(step.graph);
  if (call === undefined) throw new Error("a graph that was not compiled");
  const results: string[] = [];
  for (let time = 0; time < step.times; time += 1) results.push(await call(digest(`${l} calls ${index} ${time}`)));
  return results;
}

function effectWork({ ledger, point }: World, e: string, plan: EffectPlan): Promise<string> {
  const { name, kind } = plan;
  const value = `${name}${digest(e)}`;
  const deed = async (key: string): Promise<string> => {
    ledger.add({ t: "call", e, key, kind });
    point(`call ${name}`);
    if (plan.slow) await pause(2);
    if (plan.throws && !ledger.lines().some((line) => line.t === "threw" && line.e === e)) {
      ledger.add({ t: "threw", e, key });
      point(`threw ${name}`);
      throw new TryAgain(`${e} throws on its first try`);
    }
    ledger.add({ t: "deed", e, key, value });
    point(`done ${name}`);
    return value;
  };
  const probe = (key: string): string | undefined => {
    const done = ledger.deed(key);
    ledger.add({ t: "probe", e, key, found: done !== undefined });
    point(`probe ${name}`);
    return done;
  };
  const options: EffectOptions<string> = {
    ...(plan.told === "input" ? { input: { e, cents: 5 } } : plan.told === "id" ? { id: `the ${e.slice(-1)} of ${name}` } : {}),
    ...(kind === "probe" ? { probe } : kind === "idempotent" ? { idempotent: true } : {}),
  };
  return effect(name, deed, options);
}
