import type { RunnableConfig } from "@langchain/core/runnables";

/** One symbol for all copies of this package: `/import` and the root may be of different builds. */
const IMPORTED_AT: unique symbol = Symbol.for("langgraph-checkpoint-turns.importedAt");

/** The config of a save that brings over what was saved elsewhere, at that time (an ISO text). No recorder is missed there. */
export function importing(configurable: Readonly<Record<string, string | undefined>>, at: string): RunnableConfig {
  return { configurable: { ...configurable, [IMPORTED_AT]: at } };
}

/** When what is saved was first saved, if the save is part of an import. */
export function importedAt(config: RunnableConfig): string | undefined {
  return (config.configurable as { [IMPORTED_AT]?: string } | undefined)?.[IMPORTED_AT];
}
