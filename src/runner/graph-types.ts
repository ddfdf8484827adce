import type {
  CommandInstance,
  CompiledStateGraph,
  InferWriterType,
  Pregel,
  StreamMode,
  StreamOutputMap,
} from "@langchain/langgraph";

/** What a GraphRunner runs: a compiled graph, a functional entrypoint, or an agent that carries its graph as `.graph`. */
export interface RunnableGraph {
  invoke(input: never, config?: never): Promise<unknown>;
  stream(input: never, config?: never): Promise<unknown>;
}

/** What the graph takes as input: its own input type, a Command, or null. */
export type GraphInput<G extends RunnableGraph> = G["invoke"] extends (input: infer Input, ...rest: never) => unknown
  ? [Input] extends [never]
    ? unknown
    : Input
  : never;

/** What the graph's `invoke` returns. */
export type Result<G extends RunnableGraph> = Awaited<ReturnType<G["invoke"]>>;

type ConfigOf<Call> = Call extends (input: never, config?: infer Config) => unknown
  ? [Config] extends [undefined]
    ? object
    : NonNullable<Config>
  : object;

/** All config that the graph's own `invoke` and `stream` take. */
export type LangGraphConfig<G extends RunnableGraph> = ConfigOf<G["invoke"]> & ConfigOf<G["stream"]>;

/** A Command that answers a question of the run. */
export type Answer = CommandInstance<unknown, Record<string, unknown>, string>;

interface StreamTypes {
  updates: unknown;
  values: unknown;
  nodes: PropertyKey;
  returns: unknown;
  custom: unknown;
}

/**
 * The type parameters of LangGraph's `StreamOutputMap` for a graph. A compiled state graph declares its types; a functional
 * entrypoint is a plain Pregel; an agent's are those of its graph.
 */
type StreamTypesOf<G> =
  G extends CompiledStateGraph<infer _S, infer _U, infer N, infer _I, infer _O, infer _C, infer R, infer _Q, infer W, infer _T>
    ? { updates: G["~InputType"]; values: G["~OutputType"]; nodes: N | "__start__"; returns: R; custom: InferWriterType<W> }
    : G extends Pregel<infer N, infer _C, infer _X, infer _I, infer _O, infer U, infer V, infer R, infer _K, infer S, infer _T>
      ? { updates: U; values: V; nodes: keyof N; returns: R; custom: S }
      : G extends { graph: infer Inner }
        ? StreamTypesOf<Inner>
        : never;

/** A chunk of the graph's stream, typed as LangGraph does for the mode or modes, with or without subgraphs. */
export type StreamChunk<
  G extends RunnableGraph,
  Mode extends StreamMode | StreamMode[] | undefined,
  Subgraphs extends boolean,
  Encoding extends "text/event-stream" | undefined,
> = [StreamTypesOf<G>] extends [infer T extends StreamTypes]
  ? [T] extends [never]
    ? unknown
    : StreamOutputMap<Mode, Subgraphs, T["updates"], T["values"], T["nodes"], T["returns"], T["custom"], Encoding>
  : unknown;
