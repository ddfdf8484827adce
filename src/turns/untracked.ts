import { Command, isCommand, type Send } from "@langchain/langgraph";

/** Names of channels that LangGraph doesn't save (`UntrackedValue`). */
export type Untracked = ReadonlySet<string>;

/** The untracked channels of a graph. */
export function untrackedIn(channels: object | undefined): Untracked {
  const names = Object.entries(channels ?? {}).filter(([, channel]) => isUntracked(channel));
  return new Set(names.map(([name]) => name));
}

/**
 * What a node was called with, or returned, as LangGraph saves it: without values of untracked channels. They may be at the top of
 * the value, of a Command's update and of what a Send carries.
 */
export function withoutUntracked(value: unknown, names: Untracked): unknown {
  if (names.size === 0 || typeof value !== "object" || value === null) return value;
  const inside = <T>(each: T): T => withoutUntracked(each, names) as T;
  if (Array.isArray(value)) return value.some(isOrder) ? value.map(inside) : value;
  if (isCommand(value)) {
    const { graph, resume, update, goto } = value;
    const isPairs = Array.isArray(update);
    return new Command({
      graph,
      resume,
      goto: inside(goto),
      update: isPairs ? update.filter(([name]) => !names.has(name)) : inside(update),
    });
  }
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (isSend(value)) return Object.assign(Object.create(prototype) as Send, value, { args: inside<unknown>(value.args) });
  if (prototype !== Object.prototype && prototype !== null) return value;
  // LangChain wraps a list.
  const { output, ...others } = value as { output?: unknown };
  if (Array.isArray(output) && output.some(isOrder) && Object.keys(others).length === 0) return { output: inside(output) };
  return Object.fromEntries(Object.entries(value).filter(([name]) => !names.has(name)));
}

function isOrder(value: unknown): boolean {
  return isCommand(value) || isSend(value);
}

function isSend(value: unknown): value is Send {
  return (value as Partial<Send> | null)?.lg_name === "Send";
}

function isUntracked(channel: unknown): boolean {
  return (channel as { lc_graph_name?: unknown } | null)?.lc_graph_name === "UntrackedValue";
}
