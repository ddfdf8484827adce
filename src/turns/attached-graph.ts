import { documentText, fingerprintOf, type GraphDocument, nodePathOf, ofNode, type Versions } from "../guards/fingerprint";
import type { Gate, Gates } from "../guards/gates";
import type { GraphReference } from "../store/store";

interface Configuration {
  versions: Versions | undefined;
  stateVersion: string | undefined;
  gates: Gates | undefined;
}

/** What is known of a graph that the recorder is attached to: what it is made of, and which of its nodes have gates. */
export class AttachedGraph {
  readonly #graph: object;
  #document: GraphDocument;
  #reference: GraphReference;
  #gates: Gates = {};
  #versions: Versions = {};
  #stateVersion: string | undefined;

  constructor(graph: object) {
    this.#graph = graph;
    this.#document = fingerprintOf(graph);
    this.#reference = referenceTo(this.#document);
  }

  get document(): GraphDocument {
    return this.#document;
  }

  /** How a turn refers to it. */
  get reference(): GraphReference {
    return this.#reference;
  }

  /** Takes the place of what was given before; undefined changes nothing. */
  configure({ versions, stateVersion, gates }: Configuration): void {
    if (versions !== undefined || stateVersion !== undefined) {
      this.#versions = versions ?? this.#versions;
      this.#stateVersion = stateVersion ?? this.#stateVersion;
      this.#document = fingerprintOf(this.#graph, this.#versions, this.#stateVersion);
      this.#reference = referenceTo(this.#document);
    }
    if (gates !== undefined) this.#gates = gates;
  }

  /** Which of these names no node of the graph has, as far as the graph shows its nodes: a functional one does not show its tasks. */
  unknown(names: readonly string[]): string[] {
    if (!("builder" in this.#graph)) return [];
    const known = Object.keys(this.#document.nodes);
    return names.filter((name) => !known.some((path) => path === name || path.endsWith(`|${name}`)));
  }

  /** Undefined for what the document does not show: functional tasks, graphs that a node calls by itself. */
  fingerprintAt(nodeNs: string): string | undefined {
    return ofPath(this.#document, nodePathOf(nodeNs))?.fingerprint;
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
