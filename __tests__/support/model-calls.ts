import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import type { TurnSaver, TurnSaverOptions } from "../../src/index";
import { quiet } from "./s1-tools";
import { openSaver } from "./open-saver";

export type Versions = Record<string, number | string>;

/** A save as LangGraph makes it. */
export interface Save {
  thread?: string;
  ns?: string;
  /** Number of the checkpoint; see {@link idOf}. */
  id: number;
  parent?: number | undefined;
  values: Record<string, unknown>;
  versions: Versions;
  /** The channels that are new; all of them unless told. */
  fresh?: readonly string[];
  source?: "input" | "loop" | "update" | "fork";
  task?: string;
  extra?: unknown;
}

export function openOn(path: string, options: TurnSaverOptions = {}): TurnSaver {
  return openSaver(path, { logger: quiet, synchronous: "normal", ...options });
}

/** Ids of version 6 in the order of their numbers, as LangGraph's are. */
export function idOf(number: number): string {
  return `1f0f0000-0000-6000-8000-${String(number).padStart(12, "0")}`;
}

export function configOf(at: { thread?: string; ns?: string; id?: number | undefined; task?: string | undefined }) {
  return {
    configurable: {
      thread_id: at.thread ?? "thread",
      checkpoint_ns: at.ns ?? "",
      ...(at.id === undefined ? {} : { checkpoint_id: idOf(at.id) }),
      ...(at.task === undefined ? {} : { task_id: at.task }),
    },
  };
}

export async function put(saver: TurnSaver, save: Save): Promise<void> {
  const { id, parent, values, versions, fresh = Object.keys(versions), source = parent === undefined ? "input" : "loop" } = save;
  await saver.put(
    configOf({ ...save, id: parent }),
    { v: 4, id: idOf(id), ts: "2026-11-21T00:00:00.000Z", channel_values: values, channel_versions: versions, versions_seen: {} },
    { source, step: id, parents: {}, ...(save.extra === undefined ? {} : { extra: save.extra }) },
    Object.fromEntries(fresh.map((channel) => [channel, versions[channel]!])),
  );
}

export async function putWrites(
  saver: TurnSaver,
  at: { thread?: string; ns?: string; id: number; task?: string },
  nodeTask: string,
  writes: readonly (readonly [string, unknown])[],
): Promise<void> {
  await saver.putWrites(configOf(at), writes as [string, unknown][], nodeTask);
}

export async function get(
  saver: TurnSaver,
  at: { thread?: string; ns?: string; id?: number | undefined } = {},
): Promise<CheckpointTuple | undefined> {
  return saver.getTuple(configOf(at));
}

/** The channel values of a checkpoint, which must be there. */
export async function valuesIn(
  saver: TurnSaver,
  at: { thread?: string; ns?: string; id?: number | undefined } = {},
): Promise<Record<string, any>> {
  return (await get(saver, at))!.checkpoint.channel_values;
}

export async function listed(
  saver: TurnSaver,
  at: { thread?: string; ns?: string } = {},
  options: { limit?: number; before?: number } = {},
): Promise<CheckpointTuple[]> {
  const { limit, before } = options;
  const found = [];
  const config = { configurable: { thread_id: at.thread ?? "thread", ...(at.ns === undefined ? {} : { checkpoint_ns: at.ns }) } };
  const asked = {
    ...(limit === undefined ? {} : { limit }),
    ...(before === undefined ? {} : { before: configOf({ id: before }) }),
  };
  for await (const tuple of saver.list(config, asked)) found.push(tuple);
  return found;
}
