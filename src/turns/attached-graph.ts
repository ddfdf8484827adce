import type { RunnableConfig } from "@langchain/core/runnables";
import { describe, TurnsError } from "../errors";
import { documentText, type GraphDocument, nodePathOf, ofNode, parseDocument, type Versions } from "../guards/graph-document";
import { nodePathsOf, nodesIn } from "../guards/graph-nodes";
import type { Gate, Gates } from "../guards/gates";
import { corrupted } from "../store/refusals";
import type { GraphReference, GraphRow } from "../store/store";
import { type Untracked, untrackedIn } from "./untracked";

/** What this package needs of a compiled graph. */
export interface PregelLike {
  config?: RunnableConfig;
  checkpointer?: unknown;
  nodes: Record<string, unknown>;
  channels?: Record<string, { fromCheckpoint(saved: unknown): { get(): unknown } }>;
}

/** RemoteGraph also calls itself a Pregel, but has no nodes here. */
export function isPregel(value: unknown): value is PregelLike {
  const graph = value as { lg_is_pregel?: unknown; nodes?: unknown } | null | undefined;
  return graph?.lg_is_pregel === true && typeof graph.nodes === "object" && graph.nodes !== null;
}

/**
 * The Pregel inside what users have: a compiled graph, a functional entrypoint, or an agent that carries one as `.graph`.
 *
 * @throws {TurnsError} INVALID_GRAPH
 */
export function pregelOf(graph: unknown): PregelLike {
  for (const candidate of [graph, (graph as { graph?: unknown } | null | undefined)?.graph]) {
    if (isPregel(candidate)) return candidate;
  }
  throw new TurnsError("INVALID_GRAPH", {
    problem: `The graph is ${graph === undefined ? "missing" : describe(graph)}, not a compiled one.`,
    remedy:
      "Pass a compiled graph, a functional entrypoint, or an agent that carries one as .graph. A RemoteGraph runs elsewhere and can't be attached to.",
  });
}

interface Configuration {
  versions: Versions | undefined;
  stateVersion: string | undefined;
  gates: Gates | undefined;
}

const NONE: Untracked = new Set();

type Fingerprints = typeof import("../guards/fingerprint");

let fingerprints: Fingerprints | undefined;
let loading: Promise<void> | undefined;

/** Loads the code that describes graphs, with its parser. Processes that attach no graph don't need it. */
function loadFingerprints(): Promise<void> {
  loading ??= import("../guards/fingerprint").then(
    (loaded) => {
      fingerprints = loaded;
    },
    (error: unknown) => {
      loading = undefined;
      throw error;
    },
  );
  return loading;
}

/** What is known of an attached graph: its structure, and which of its nodes have gates. */
export class AttachedGraph {
  readonly #graph: object;
  #document: GraphDocument | undefined;
  #reference: GraphReference | undefined;
  #gates: Gates = {};
  #versions: Versions = {};
  #stateVersion: string | undefined;
  /** By the path of a graph's node. */
  #untracked: Map<string, Untracked> | undefined;

  constructor(graph: object) {
    this.#graph = graph;
  }

  /**
   * Describes the graph, so that its turns can refer to it. Does so at once, except for the first graph of a process: for that the
   * code has to be loaded.
   */
  describe(): Promise<void> | undefined {
    if (this.#document !== undefined) return undefined;
    if (fingerprints === undefined) return loadFingerprints().then(() => this.describe());
    this.#document = fingerprints.fingerprintOf(this.#graph, this.#versions, this.#stateVersion);
    this.#reference = referenceTo(this.#document);
    return undefined;
  }

  async document(): Promise<GraphDocument> {
    await this.describe();
    return this.#document as GraphDocument;
  }

  /** How a turn refers to the graph. Undefined before it is described. */
  get reference(): GraphReference | undefined {
    return this.#reference;
  }

  /** Replaces the given settings; undefined changes nothing. */
  configure({ versions, stateVersion, gates }: Configuration): void {
    if (versions !== undefined || stateVersion !== undefined) {
      this.#versions = versions ?? this.#versions;
      this.#stateVersion = stateVersion ?? this.#stateVersion;
      this.#document = undefined;
    }
    if (gates !== undefined) this.#gates = gates;
  }

  /** Which of these names no node of the graph has. A functional graph doesn't show its tasks. */
  unknown(names: readonly string[]): string[] {
    if (names.length === 0 || !("builder" in this.#graph)) return [];
    const known = nodePathsOf(this.#graph);
    return names.filter((name) => !known.some((path) => path === name || path.endsWith(`|${name}`)));
  }

  /** Undefined for nodes that the document doesn't show: functional tasks, and graphs that a node calls by itself. */
  fingerprintAt(nodeNs: string): string | undefined {
    return this.#document && ofPath(this.#document, nodePathOf(nodeNs))?.fingerprint;
  }

  /** The untracked channels of the graph that a node is in. */
  untrackedAt(nodeNs: string): Untracked {
    this.#untracked ??= new Map(
      [...nodesIn(this.#graph)].map(({ path, graph }) => [path, untrackedIn((graph as PregelLike).channels)]),
    );
    return this.#untracked.get(nodePathOf(nodeNs)) ?? NONE;
  }

  gateAt(nodeNs: string): Gate | undefined {
    return ofNode(this.#gates, nodePathOf(nodeNs));
  }
}

function ofPath(document: GraphDocument, path: string): GraphDocument["nodes"][string] | undefined {
  return Object.hasOwn(document.nodes, path) ? document.nodes[path] : undefined;
}

/** The text is made when a thread first needs it. */
function referenceTo(document: GraphDocument): GraphReference {
  let text: string | undefined;
  return { digest: document.digest, document: () => (text ??= documentText(document)) };
}

/** A graph as it was when these turns ran. */
export interface RecordedGraph {
  document: GraphDocument;
  turnIds: readonly string[];
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function recordedGraphsOf(threadId: string, rows: readonly GraphRow[]): RecordedGraph[] {
  return rows.map(({ digest, document: text, turnIds }) => {
    const document = parseDocument(digest, text);
    if (document === undefined) {
      throw corrupted(`graph ${digest} of thread ${JSON.stringify(threadId)}`, "the document of that digest", "another text", {
        threadId,
        digest,
      });
    }
    return { document, turnIds };
  });
}
