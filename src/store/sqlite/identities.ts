import type { Identity } from "../../sealing";

/*
 * What each kind of row is sealed as, beside its thread. A row's seq never comes twice, so that not even an older version of the same
 * row opens in its place. A chunk needs none: its address is a keyed hash of its contents, and proves them when it is read.
 */
export const CHUNK_IDENTITY: Identity = ["chunk"];

export function metadataIdentity(row: { seq: number; ns: string; checkpointId: string }): Identity {
  return ["metadata", row.ns, row.checkpointId, row.seq];
}

export function writesIdentity(row: {
  seq: number;
  ns: string;
  checkpointId: string;
  nodeTaskId: string;
  idx: number;
}): Identity {
  return ["writes", row.ns, row.checkpointId, row.nodeTaskId, row.idx, row.seq];
}

export function turnIdentity(id: string): Identity {
  return ["turn", id];
}

export function effectIdentity(id: string): Identity {
  return ["effect", id];
}
