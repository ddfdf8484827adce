import type { TurnStatus, TurnType } from "../store/store";

/** What the option `redact` is asked about: a turn that is about to be saved. */
export interface TurnToRedact {
  threadId: string;
  /** If the run named them. */
  graphId?: string;
  taskId?: string;
  nodeName: string;
  nodeNs: string;
  nodeTaskId: string;
  turnType: TurnType;
  /** Only Actions have one. */
  status?: TurnStatus;
  /**
   * What the node was called with (Thought), what it returned, or its error or interrupts (Action): a copy, which may be changed.
   * Values that the codec cannot save are not in it.
   */
  state: Record<string, unknown>;
}
