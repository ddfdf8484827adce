import { AIMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { entrypoint, task } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { effect, type EffectOptions, type TurnSaver } from "langgraph-checkpoint-turns";
import { z } from "zod";
import { type Deeds, line, type NodeBody, thread } from "../support/eff-world";

/** Where a process can die around an effect. */
export const POINTS = [
  "before intent",
  "after intent",
  "before deed",
  "after deed",
  "before outcome",
  "after outcome",
  "before putWrites",
] as const;
export type Point = (typeof POINTS)[number];

/** Where an effect can be. */
export const SHAPES = [
  "plain",
  "parallel",
  "subgraph",
  "closure",
  "no checkpointer",
  "other thread",
  "functional",
  "tool",
  "retried",
] as const;
export type Shape = (typeof SHAPES)[number];

export interface Crash {
  saver: TurnSaver;
  deeds: Deeds;
  /** Dies there. */
  at: (point: Point) => void;
  options: EffectOptions<string>;
}

/** Runs a graph that does the effects "first" and, in the given surroundings, "act". */
export function runner(shape: Shape, { saver, deeds, at, options }: Crash): (input: unknown, config: object) => Promise<unknown> {
  const act = async (): Promise<string> => {
    at("before intent");
    const result = await effect(
      "act",
      (key) => {
        at("before deed");
        deeds.do("act");
        deeds.do(`key ${key}`);
        at("after deed");
        return "acted";
      },
      { input: { cents: 5 }, ...options },
    );
    at("before putWrites");
    return result;
  };
  if (shape === "functional") {
    const [one, two] = [task("first", async () => effect("first", () => deeds.do("first"))), task("n", async () => act())];
    const flow = entrypoint({ name: "flow", checkpointer: saver }, async (_: unknown) => {
      await one();
      return [await two()];
    });
    saver.attach(flow);
    return (input, config) => flow.invoke(input, config);
  }
  const small = (name: string) => async () => {
    await effect(name, () => deeds.do(name), { probe: () => (deeds.count(name) > 0 ? true : undefined) });
    return {};
  };
  const retryPolicy = { maxAttempts: 2, initialInterval: 1, jitter: false, retryOn: () => true, logWarning: false };
  const builder = line(
    { first: small("first"), n: bodyOf(shape, saver, act) },
    { n: shape === "retried" ? { retryPolicy } : {} },
  );
  if (shape === "parallel") {
    builder.addNode("side", small("side"));
    builder.addEdge("first", "side");
  }
  const graph = saver.attach(builder.compile({ checkpointer: saver }));
  return (input, config) => graph.invoke(input as never, config);
}

const empty = { log: [] as string[] };

function bodyOf(shape: Shape, saver: TurnSaver, act: () => Promise<string>): NodeBody {
  const body = async () => ({ log: [await act()] });
  const inner = () => line({ before: () => ({}), s: body });
  if (shape === "subgraph") return inner().compile() as unknown as NodeBody;
  if (shape === "closure" || shape === "no checkpointer") {
    const sub = inner().compile(shape === "closure" ? {} : { checkpointer: false });
    return async () => sub.invoke(empty);
  }
  if (shape === "other thread") {
    const sub = inner().compile({ checkpointer: saver });
    return async () => sub.invoke(empty, thread("other"));
  }
  if (shape === "tool") {
    const pay = tool(act, { name: "pay", description: "pays", schema: z.object({}) });
    const call = { id: "c", name: "pay", args: {}, type: "tool_call" as const };
    return async (_, config) => {
      const messages = [new AIMessage({ content: "", tool_calls: [call] })];
      const result = (await new ToolNode([pay]).invoke({ messages }, config)) as { messages: { content: unknown }[] };
      return { log: result.messages.map(({ content }) => String(content)) };
    };
  }
  let attempts = 0;
  if (shape === "retried") {
    return async () => {
      if (++attempts === 1) throw new Error("first attempt");
      return body();
    };
  }
  return body;
}
