import { sha256 } from "../sealing/sealing";

/** What is known of a node: enough to tell later what has changed. */
export interface NodeFingerprint {
  /** Covers the label or the source, and the edges that leave the node. */
  fingerprint: string;
  label?: string;
  source: string;
  /**
   * Like `source`, but all names from outside the functions count as equal, because a minifier renames them. Absent if it is the
   * same.
   */
  unnamed?: string;
  /** Hash of the source that decides at its conditional edges. */
  conditions?: string;
  /** The edges that leave it, in readable form. */
  edges: readonly string[];
  /** Whether a part of its source can't be seen, so that it could change unnoticed. */
  blind?: true;
}

/** The structure of a graph at some time (requirement S3.3). */
export interface GraphDocument {
  digest: string;
  /** By path: `a`, or `sub|a` for a node of the graph inside the node `sub`. */
  nodes: Readonly<Record<string, NodeFingerprint>>;
  /** The state of the outermost graph. */
  channels: Readonly<Record<string, ChannelFingerprint>>;
}

/** Version labels by a node's path, or by its name anywhere in the graph. */
export type Versions = Readonly<Record<string, string>>;

/** One channel of a graph's state: its kind, and a hash of its reducer. */
export interface ChannelFingerprint {
  kind: string;
  hash?: string;
  /** The user's version of the state, which then replaces the hash. */
  label?: string;
}

/** As a text to store; {@link parseDocument} reads it. */
export function documentText({ nodes, channels }: GraphDocument): string {
  return canonical({ nodes, channels });
}

/** @returns undefined unless the text is a valid document with that digest. Anyone who can write the file can also hash */
export function parseDocument(digest: string, text: string): GraphDocument | undefined {
  try {
    const { nodes, channels } = JSON.parse(text) as GraphDocument;
    const isDocument =
      isRecordOf(nodes, isNode) && isRecordOf(channels, (channel) => typeof channel === "object" && channel !== null);
    return isDocument && hashOf({ nodes, channels }) === digest ? { digest, nodes, channels } : undefined;
  } catch {
    return undefined;
  }
}

function isRecordOf(value: unknown, is: (part: unknown) => boolean): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.values(value).every(is);
}

function isNode(value: unknown): boolean {
  const { fingerprint, source, edges } = (value ?? {}) as Partial<NodeFingerprint>;
  return typeof fingerprint === "string" && typeof source === "string" && Array.isArray(edges) && edges.every(isText);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

/** The entry for a node: by its path, or by its name anywhere in the graph. */
export function ofNode<T>(all: Readonly<Record<string, T>>, path: string): T | undefined {
  const name = path.slice(path.lastIndexOf("|") + 1);
  return Object.hasOwn(all, path) ? all[path] : Object.hasOwn(all, name) ? all[name] : undefined;
}

/** 132 bits of a SHA-256 in base64url: drift is no attack, and every turn carries one. */
const LENGTH = 22;

/** The hash of a JSON value, independent of the order of its keys. */
export function hashOf(value: unknown): string {
  return sha256(canonical(value)).slice(0, LENGTH);
}

/** JSON with sorted keys. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    const record = inner as Record<string, unknown>;
    return Object.fromEntries(
      Object.keys(record)
        .sort()
        .map((key) => [key, record[key]]),
    );
  });
}

/**
 * A node's path in its graph: `sub:1|2|a:3` → `sub|a`, the names from the root as in the graph's document. A bare number counts
 * the calls of one graph within a node. A graph with a namespace of its own (`checkpointer: true`) has no task id.
 */
export function nodePathOf(nodeNs: string): string {
  return nodeNs
    .split("|")
    .filter((segment) => !/^\d+$/.test(segment))
    .map((segment) => segment.slice(0, segment.includes(":") ? segment.lastIndexOf(":") : undefined))
    .join("|");
}
