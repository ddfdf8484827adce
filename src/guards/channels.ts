import { classesOf, field, isProxy } from "./fields";
import { hashOf } from "./hash";
import { shapeOf } from "./shape";

/** LangGraph's own channels, which follow from the edges; `__root__` is the state of a graph without named channels. */
const OWN = /^(__(?!root__)|branch:|join:)/;

/** One channel of a graph's state: what kind it is, and a hash of the function that joins values in it. */
export interface ChannelFingerprint {
  kind: string;
  hash?: string;
  /** The version that the user gave the state; it then stands for the hash. */
  label?: string;
}

/** The channels of a graph's state schema, by name. Values, defaults and types are no part of them. */
export function channelsOf(graph: object, label?: string): Record<string, ChannelFingerprint> {
  const channels = field(graph, "channels");
  if (typeof channels !== "object" || channels === null || isProxy(channels)) return {};
  const found: [string, ChannelFingerprint][] = [];
  for (const name of Object.keys(channels).sort()) {
    const channel = field(channels, name);
    if (!OWN.test(name) && typeof channel === "object" && channel !== null)
      found.push([name, { ...channelOf(channel), ...(label === undefined ? {} : { label }) }]);
  }
  return Object.fromEntries(found);
}

function channelOf(channel: object): ChannelFingerprint {
  if (isProxy(channel)) return { kind: "unknown" };
  const named = field(channel, "lc_graph_name");
  const kind = typeof named === "string" ? named : (classesOf(channel)[0]?.name ?? "unknown");
  const parts = ["operator", "reducer", "unique", "accumulate"].flatMap((key) => {
    const value = field(channel, key);
    return value === undefined ? [] : [[key, shapeOf(value).shape]];
  });
  return parts.length === 0 ? { kind } : { kind, hash: hashOf(parts) };
}
